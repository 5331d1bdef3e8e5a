"""Types of expressions, their names in messages, and how they are read from a declaration."""

from collections.abc import Iterator
from functools import lru_cache
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
DURATION = Type(_SIMPLE, "google.protobuf.Duration")
TIMESTAMP = Type(_SIMPLE, "google.protobuf.Timestamp")
DEVICE = Type(STRUCT, "kubernetes.DRADevice")
QUANTITY = Type(STRUCT, "kubernetes.Quantity")

_SHOWN = {ANY: "any", DURATION: "duration", ERROR: "!error!", NULL: "null", TIMESTAMP: "timestamp"}
_NAMED = {shown: known for known, shown in _SHOWN.items()} | {
    known.name: known for known in (DYN, BOOL, BYTES, DOUBLE, INT, STRING, UINT)
}


def list_of(element: Type) -> Type:
    """list(element)."""
    return Type(LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """map(key, value)."""
    return Type(MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """optional_type(value)."""
    return Type(OPAQUE, "optional_type", (value,))


def type_of(named: Type) -> Type:
    """type(named)."""
    return Type(TYPE, "type", (named,))


def is_dyn(known: Type) -> bool:
    """Return whether anything may be in its place."""
    return known in (DYN, ANY)


def unwrapped(known: Type) -> tuple[Type, bool]:
    """Return what is in an optional type, and whether it is one."""
    wrapped = known.kind == OPAQUE and known.name == "optional_type"
    return known.args[0] if wrapped else known, wrapped


def shown(known: Type) -> str:
    """The name in messages of the checker."""
    special = _SHOWN.get(known)
    if special is not None:
        return special
    if not known.args:
        return known.name
    return f"{known.name}({', '.join(map(shown, known.args))})"


def spelled(known: Type) -> str:
    """The name in messages about the type of the whole expression."""
    if known.kind == PARAMETER:
        return f"<{known.name}>"
    if not known.args:
        return known.name
    return f"{known.name}({', '.join(map(spelled, known.args))})"


@lru_cache(maxsize=1024)
def parse(text: str) -> Type:
    """The type of a declaration: `map(K, list(int))`; single capital letters are parameters."""
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
