"""Which functions there are: names, overloads and their types, in the order in which they are tried.

`declarations.txt` is made from the environment itself (`cel -functions` in tests/differential), which a test repeats.
Its columns are function, overload, f for a function or m for a member, arguments, result.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from podberth.cel import types
from podberth.cel.types import PARAMETER, Type


class Overload(NamedTuple):
    """One way to call a function. `parameters` are the type parameters in its types."""

    name: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    parameters: tuple[str, ...]


@cache
def functions() -> dict[str, tuple[Overload, ...]]:
    """All functions by name."""
    found: dict[str, list[Overload]] = {}
    text = files("podberth.cel").joinpath("declarations.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        head, _, result = line.rpartition(" -> ")
        function, overload, style, args = head.split(" ", 3)
        taken = tuple(map(types.parse, _split(args[1:-1])))
        gives = types.parse(result)
        parameters = tuple(sorted({name for known in (*taken, gives) for name in _parameters(known)}))
        found.setdefault(function, []).append(Overload(overload, style == "m", taken, gives, parameters))
    return {function: tuple(overloads) for function, overloads in found.items()}


def _split(args: str) -> list[str]:
    """The arguments between commas that are in no parentheses."""
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
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": types.list_of(types.DYN),
    "map": types.map_of(types.DYN, types.DYN),
    "null_type": types.NULL,
    "string": types.STRING,
    "type": Type(types.TYPE, "type"),
    "uint": types.UINT,
    "optional_type": types.optional_of(Type(PARAMETER, "V")),
    "net.IP": types.parse("net.IP"),
    "net.CIDR": types.parse("net.CIDR"),
    "kubernetes.DRADevice": types.DEVICE,
}


def type_named(name: str) -> Type | None:
    """The type that an identifier names."""
    return _TYPES.get(name)


FIELDS = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.DYN)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
}
"""The fields of `device`. An attribute may be anything, lists too where that feature is on, so its type is dyn."""
