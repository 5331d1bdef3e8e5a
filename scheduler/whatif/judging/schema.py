"""Types of the API as data, and what in a value does not fit one.

A type is a few characters: `string`, `int32`, `quantity`, `[T]` a list, `{T}` a mapping with free keys,
`&core.v1.PodSpec` a mapping with known fields, `=A|B` one of these texts. `any` is anything.
"""

import json
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from scheduler.model.mistakes import kind_of
from scheduler.model.quantity import QuantityError, parse_nano

_RANGES = {"int32": 31, "int64": 63}
_SHOWN = 60
_LOOSE = "status"
"""A part that the API server writes: its types are judged, but nothing is required of it."""


class Type(msgspec.Struct):
    """A mapping with known fields."""

    fields: dict[str, str]
    required: tuple[str, ...] = ()


class Schemas(msgspec.Struct):
    """`kinds`: `apps/v1 Deployment` → the name of its type; `served`: every `group/version` that there is."""

    versions: tuple[str, ...]
    served: frozenset[str]
    kinds: dict[str, str]
    types: dict[str, Type]


@cache
def schemas() -> Schemas:
    """The file, read once."""
    return msgspec.json.decode((files(__package__) / "schemas.json").read_bytes(), type=Schemas)


def misfits(value: Any, wanted: str, path: str = "", *, strict: bool = True) -> Iterator[str]:
    """`path: value: expected …` for every place where a value does not fit a type. An absent value fits."""
    if value is None or wanted == "any":
        return
    match wanted[0]:
        case "&":
            yield from _fields(value, schemas().types[wanted[1:]], path, strict)
        case "[":
            if not isinstance(value, list):
                yield said(path, value, "expected a list")
                return
            for i, each in enumerate(value):
                yield from misfits(each, wanted[1:-1], f"{path}[{i}]", strict=strict)
        case "{":
            if not isinstance(value, dict):
                yield said(path, value, "expected a mapping")
                return
            for key, each in value.items():
                yield from misfits(each, wanted[1:-1], f"{path}[{key}]", strict=strict)
        case "=":
            allowed = wanted[1:].split("|")
            if not isinstance(value, str):
                yield said(path, value, "expected text")
            elif strict and value not in allowed and value:
                yield said(path, value, f"expected {_one_of(allowed)}{meant(value, allowed)}")
        case _:
            wrong = _scalar(value, wanted)
            if wrong:
                yield said(path, value, wrong)


def said(path: str, value: Any, expected: str) -> str:
    """One complaint."""
    return f"{path}: {shown(value)}: {expected}" if path else f"{shown(value)}: {expected}"


def shown(value: Any) -> str:
    """A value as JSON, shortened; of a mapping or list what it is."""
    if isinstance(value, dict | list):
        return kind_of(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def meant(word: str, known: Any) -> str:
    """`; did you mean …?` where a known word is close."""
    lowered = {each.lower(): each for each in known}
    found = [lowered[close] for close in get_close_matches(word.lower(), lowered, n=1)]
    return f"; did you mean {found[0]}?" if found else ""


def _fields(value: Any, kind: Type, path: str, strict: bool) -> Iterator[str]:
    if not isinstance(value, dict):
        yield said(path, value, "expected a mapping")
        return
    below = f"{path}." if path else ""
    for name, each in value.items():
        wanted = kind.fields.get(name)
        if wanted is None:
            yield f"{below}{name}: unknown field{meant(name, kind.fields)}"
        else:
            yield from misfits(each, wanted, f"{below}{name}", strict=strict and name != _LOOSE)
    if strict:
        yield from (f"{below}{name}: Required value" for name in kind.required if value.get(name) is None)


def _scalar(value: Any, wanted: str) -> str:
    """What was expected instead; empty when the value will do."""
    bits = _RANGES.get(wanted)
    if bits is not None:
        if not isinstance(value, int) or isinstance(value, bool):
            return "expected a whole number"
        return "" if -(1 << bits) <= value < 1 << bits else f"expected a whole number of at most {(1 << bits) - 1}"
    match wanted:
        case "quantity":
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                return "expected a quantity such as 500m or 2Gi"
            try:
                parse_nano(value)
            except QuantityError:
                return "expected a quantity such as 500m or 2Gi"
            return ""
        case "int-or-string":
            fits = isinstance(value, str | int) and not isinstance(value, bool)
            return "" if fits else "expected a whole number, or text such as 25%"
        case "string":
            quote = ": put it in quotes" if isinstance(value, bool | int | float) else ""
            return "" if isinstance(value, str) else f"expected text{quote}"
        case "boolean":
            return "" if isinstance(value, bool) else "expected true or false"
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else "expected a number"


def _one_of(allowed: list[str]) -> str:
    return allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"
