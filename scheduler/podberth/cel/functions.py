"""The functions of expressions: their overloads, the code of each, and how one is chosen when a call runs.

`declarations.txt` is made from the environment itself (`cel -functions` in tests/differential), which a test repeats.
Its columns are function, overload, f for a function or m for a member, arguments, result. Overloads are tried in its
order.
"""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from podberth.cel.errors import EvaluationError
from podberth.cel.library import conversions, lists, network, operators, quantities, strings
from podberth.cel.values import LISTS, MAPS, Value, type_name


class Type(NamedTuple):
    """A type by its name at run time, and the types of its items: `map(string, int)`. `dyn` is any."""

    name: str
    args: tuple["Type", ...] = ()

    def takes(self, value: Value) -> bool:
        """Return whether the value is of the type; of a list or a map, only the first item is looked at."""
        if self.name == "dyn":
            return True
        if self.name != type_name(value):
            return False
        if type(value) in LISTS and len(value):
            return self.args[0].takes(value[0])
        if type(value) in MAPS and len(value):
            key, item = next(value.pairs())
            return self.args[0].takes(key) and self.args[1].takes(item)
        return True


class Overload(NamedTuple):
    """One way to call a function."""

    name: str
    member: bool
    args: tuple[Type, ...]

    @property
    def is_plain(self) -> bool:
        """Return whether the names of its types say all about its arguments."""
        return all(known.name != "dyn" and not known.args for known in self.args)

    def takes(self, values: tuple[Value, ...]) -> bool:
        """Return whether the arguments are of its types."""
        return all(known.takes(value) for known, value in zip(self.args, values, strict=True))


@cache
def functions() -> dict[str, tuple[Overload, ...]]:
    """Return all functions by name."""
    found: dict[str, list[Overload]] = {}
    for line in files("podberth.cel").joinpath("declarations.txt").read_text(encoding="utf-8").splitlines():
        head, _, _ = line.rpartition(" -> ")
        function, overload, style, args = head.split(" ", 3)
        taken = tuple(map(_parsed, _split(args[1:-1])))
        found.setdefault(function, []).append(Overload(overload, style == "m", taken))
    return {function: tuple(overloads) for function, overloads in found.items()}


def _parsed(text: str) -> Type:
    """Return the type of a declaration: `map(K, list(int))`; single capital letters stand for any type."""
    name, _, inner = text.partition("(")
    args = tuple(map(_parsed, _split(inner[:-1])))
    return Type("dyn" if len(name) == 1 else _AT_RUN_TIME.get(name, name), args)


_AT_RUN_TIME = {"any": "dyn", "null": "null_type"}


def _split(args: str) -> list[str]:
    """Return the arguments between commas that are in no parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(args):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(args[start:index].strip())
            start = index + 1
    last = args[start:].strip()
    return [*parts, last] if last else parts


Implementation = Callable[..., Value]

_OVERLOADS: dict[str, Implementation] = {
    **conversions.OVERLOADS,
    **lists.OVERLOADS,
    **network.OVERLOADS,
    **lists.OPTIONALS,
    **quantities.OVERLOADS,
    **strings.OVERLOADS,
}
"""Overload → its code; the types of its arguments are looked at before."""
_SINGLE: dict[str, Implementation] = {
    **operators.BINARY,
    **operators.UNARY,
    **conversions.SINGLE,
    **lists.SINGLE,
    **strings.SINGLE,
}
"""Function → one code for all overloads, which looks at its arguments itself."""


def implementation_of(function: str, *, member: bool, count: int) -> Implementation:
    """Return the code of a call to a function with so many arguments. `member`: the first stands before the dot."""
    single = _SINGLE.get(function)
    if single is not None:
        return single
    overloads = [
        (overload, _OVERLOADS[overload.name])
        for overload in functions()[function]
        if overload.member == member and len(overload.args) == count and overload.name in _OVERLOADS
    ]
    plain = {tuple(known.name for known in one.args): code for one, code in overloads if one.is_plain}

    def run(*values: Value) -> Value:
        names = tuple(map(type_name, values))
        code = plain.get(names)
        if code is not None:
            return code(*values)
        for overload, code in overloads:
            if overload.takes(values):
                return code(*values)
        raise EvaluationError(f"no such overload: {function}({', '.join(names)})")

    return run
