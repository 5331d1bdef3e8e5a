"""Whether a value of one type may be where another is expected, and what type parameters stand for by then."""

from podberth.cel.types import (
    ANY,
    DURATION,
    DYN,
    ERROR,
    LIST,
    MAP,
    NULL,
    OPAQUE,
    PARAMETER,
    STRUCT,
    TIMESTAMP,
    TYPE,
    Type,
    is_dyn,
)

_NULLABLE = (ANY, DURATION, TIMESTAMP)
_GENERIC = (OPAQUE, LIST, MAP)


class Substitutions:
    """What each type parameter stands for. A failed attempt leaves it as it was."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """A type parameter that stands for nothing yet."""
        name = f"_var{self._fresh}"
        self._fresh += 1
        return Type(PARAMETER, name)

    def assignable(self, pairs: "list[tuple[Type, Type]]") -> bool:
        """Return whether the first of each pair fits the second; what was learnt on the way is kept if all do."""
        self._trail.clear()
        for left, right in pairs:
            if not self._fits(left, right):
                while self._trail:
                    name, before = self._trail.pop()
                    if before is None:
                        del self._known[name]
                    else:
                        self._known[name] = before
                return False
        return True

    def resolved(self, known: Type, final: bool = False) -> Type:
        """The type with parameters replaced; in the end, those that stand for nothing are dyn."""
        while known.kind == PARAMETER:
            found = self._known.get(known.name)
            if found is None:
                return DYN if final else known
            known = found
        if known.args:
            return Type(known.kind, known.name, tuple(self.resolved(arg, final) for arg in known.args))
        return known

    def _learn(self, parameter: Type, known: Type) -> None:
        self._trail.append((parameter.name, self._known.get(parameter.name)))
        self._known[parameter.name] = known

    def _fits(self, left: Type, right: Type) -> bool:
        if right.kind == PARAMETER:
            valid, had = self._substitutes(left, right)
            if valid:
                return True
            if had:
                return False
        if left.kind == PARAMETER:
            return self._substitutes(right, left)[0]
        if is_dyn(left) or is_dyn(right) or left == ERROR or right == ERROR:
            return True
        if left == NULL:
            return _nullable(right)
        if right == NULL:
            return _nullable(left)
        if left.kind == TYPE:
            return right.kind == TYPE
        if left.kind in _GENERIC:
            return (
                left.kind == right.kind
                and left.name == right.name
                and len(left.args) == len(right.args)
                and all(map(self._fits, left.args, right.args))
            )
        return left == right

    def _substitutes(self, known: Type, parameter: Type) -> tuple[bool, bool]:
        """Return whether the parameter can stand for the type, and whether it stood for something before."""
        if known == parameter:
            return True, True
        before = self._known.get(parameter.name)
        if before is not None:
            if known == before:
                return True, True
            if self._fits(known, before):
                general = most_general(known, before)
                if self._independent(parameter, general):
                    self._learn(parameter, general)
                return True, True
            return False, True
        if self._independent(parameter, known):
            self._learn(parameter, known)
            return True, False
        return False, False

    def _independent(self, parameter: Type, within: Type) -> bool:
        """Return whether the parameter is not part of the type."""
        if parameter == within:
            return False
        if within.kind == PARAMETER:
            found = self._known.get(within.name)
            return found is None or self._independent(parameter, found)
        return all(self._independent(parameter, arg) for arg in within.args)


def _nullable(known: Type) -> bool:
    return known.kind in (OPAQUE, STRUCT) or known in _NULLABLE or known == NULL


def most_general(one: Type, other: Type) -> Type:
    """The one of two assignable types that allows more."""
    return one if _no_more_specific(one, other) else other


def _no_more_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == PARAMETER:
        return True
    if is_dyn(other) or other.kind == PARAMETER or one.kind != other.kind:
        return False
    if one.kind in _GENERIC:
        return (
            one.name == other.name
            and len(one.args) == len(other.args)
            and all(map(_no_more_specific, one.args, other.args))
        )
    return True if one.kind == TYPE else one == other


def equivalent(one: Type, other: Type) -> bool:
    """Return whether two types are the same, whatever their type parameters are called."""
    return (
        one.kind == other.kind
        and len(one.args) == len(other.args)
        and (one.kind == PARAMETER or one.name == other.name)
        and all(map(equivalent, one.args, other.args))
    )
