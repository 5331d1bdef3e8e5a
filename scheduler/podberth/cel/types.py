"""Types of expressions, functions by their overloads, and which type may be where another is expected.

`declarations.txt` is made from the environment itself (`cel -functions` in tests/differential), which a test repeats.
Its columns are function, overload, f for a function or m for a member, arguments, result. Overloads are tried in its
order.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

_SIMPLE = "simple"
PARAMETER = "parameter"
LIST, MAP, OPAQUE, TYPE, STRUCT = "list", "map", "opaque", "type", "struct"


class Type(NamedTuple):
    """`kind` is simple, list, map, opaque, type, struct or parameter; `name` is what it is called at run time."""

    kind: str
    name: str
    args: tuple["Type", ...] = ()


DYN = Type(_SIMPLE, "dyn")
ANY = Type(_SIMPLE, "google.protobuf.Any")
ERROR = Type(_SIMPLE, "error")
NULL = Type(_SIMPLE, "null_type")
BOOL = Type(_SIMPLE, "bool")
BYTES = Type(_SIMPLE, "bytes")
DOUBLE = Type(_SIMPLE, "double")
INT = Type(_SIMPLE, "int")
STRING = Type(_SIMPLE, "string")
UINT = Type(_SIMPLE, "uint")
DEVICE = Type(STRUCT, "kubernetes.DRADevice")
QUANTITY = Type(STRUCT, "kubernetes.Quantity")

_SHOWN = {ANY: "any", ERROR: "!error!", NULL: "null"}
_NAMED = {shown: known for known, shown in _SHOWN.items()} | {
    known.name: known for known in (DYN, BOOL, BYTES, DOUBLE, INT, STRING, UINT)
}


def list_of(element: Type) -> Type:
    """Return the type list(element)."""
    return Type(LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type map(key, value)."""
    return Type(MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type optional_type(value)."""
    return Type(OPAQUE, "optional_type", (value,))


def type_of(named: Type) -> Type:
    """Return the type type(named)."""
    return Type(TYPE, "type", (named,))


def is_dyn(known: Type) -> bool:
    """Return whether the type is dyn, which any type fits."""
    return known in (DYN, ANY)


def unwrapped(known: Type) -> tuple[Type, bool]:
    """Return the type within an optional type, and whether it is one."""
    wrapped = known.kind == OPAQUE and known.name == "optional_type"
    return known.args[0] if wrapped else known, wrapped


def shown(known: Type) -> str:
    """Return the name in messages of the checker."""
    special = _SHOWN.get(known)
    if special is not None:
        return special
    if not known.args:
        return known.name
    return f"{known.name}({', '.join(map(shown, known.args))})"


def spelled(known: Type) -> str:
    """Return the name in messages about the type of the whole expression."""
    if known.kind == PARAMETER:
        return f"<{known.name}>"
    if not known.args:
        return known.name
    return f"{known.name}({', '.join(map(spelled, known.args))})"


@lru_cache(maxsize=1024)
def parse(text: str) -> Type:
    """Return the type of a declaration: `map(K, list(int))`; single capital letters are parameters."""
    return _parsed(_parts(text))


def _parts(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        if character in "(),":
            if word.strip():
                yield word.strip()
            word = ""
            yield character
        else:
            word += character
    if word.strip():
        yield word.strip()


def _parsed(parts: Iterator[str]) -> Type:
    stack: list[tuple[str, list[Type]]] = [("", [])]
    for part in parts:
        if part == "(":
            name = stack[-1][1].pop().name
            stack.append((name, []))
        elif part == ")":
            name, args = stack.pop()
            kind = name if name in (LIST, MAP, TYPE) else OPAQUE
            stack[-1][1].append(Type(kind, name, tuple(args)))
        elif part != ",":
            stack[-1][1].append(_named(part))
    return stack[0][1][0]


def _named(name: str) -> Type:
    known = _NAMED.get(name)
    if known is not None:
        return known
    if len(name) == 1:
        return Type(PARAMETER, name)
    return Type(OPAQUE if name.startswith("net.") else STRUCT, name)


_GENERIC = (OPAQUE, LIST, MAP)


class Substitutions:
    """The types that type parameters stand for. A failed attempt leaves it as it was."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a type parameter that stands for nothing yet."""
        name = f"_var{self._fresh}"
        self._fresh += 1
        return Type(PARAMETER, name)

    def assignable(self, pairs: "list[tuple[Type, Type]]") -> bool:
        """Return whether the first type of each pair fits the second; the parameters that were bound stay so if all
        do.
        """
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
        """Return the type with parameters replaced; in the end, those that stand for nothing are dyn."""
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
    return known.kind in (OPAQUE, STRUCT) or known in (ANY, NULL)


def most_general(one: Type, other: Type) -> Type:
    """Return the one of two assignable types that allows more."""
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


class Overload(NamedTuple):
    """One way to call a function. `parameters` are the type parameters in its types."""

    name: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    parameters: tuple[str, ...]


@cache
def functions() -> dict[str, tuple[Overload, ...]]:
    """Return all functions by name."""
    found: dict[str, list[Overload]] = {}
    text = files("podberth.cel").joinpath("declarations.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        head, _, result = line.rpartition(" -> ")
        function, overload, style, args = head.split(" ", 3)
        taken = tuple(map(parse, _split(args[1:-1])))
        gives = parse(result)
        parameters = tuple(sorted({name for known in (*taken, gives) for name in _parameters(known)}))
        found.setdefault(function, []).append(Overload(overload, style == "m", taken, gives, parameters))
    return {function: tuple(overloads) for function, overloads in found.items()}


def _split(args: str) -> list[str]:
    """Return the arguments between commas that are in no parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(args):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(args[start:index].strip())
            start = index + 1
    last = args[start:].strip()
    return [*parts, last] if last else parts


def _parameters(known: Type) -> set[str]:
    if known.kind == PARAMETER:
        return {known.name}
    return {name for arg in known.args for name in _parameters(arg)}


_TYPES = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "string": STRING,
    "type": Type(TYPE, "type"),
    "uint": UINT,
    "optional_type": optional_of(Type(PARAMETER, "V")),
    "net.IP": parse("net.IP"),
    "net.CIDR": parse("net.CIDR"),
    "kubernetes.DRADevice": DEVICE,
}


def type_named(name: str) -> Type | None:
    """Return the type that an identifier names."""
    return _TYPES.get(name)


FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
"""The fields of `device`. An attribute may be anything, lists too where that feature is on, so its type is dyn."""
