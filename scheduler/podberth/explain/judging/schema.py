"""Types of the API as data, and what in a value does not fit one.

A type is a few characters: `string`, `int32`, `quantity`, `[T]` a list, `{T}` a mapping with free keys,
`&core.v1.PodSpec` a mapping with known fields, `=A|B` one of these texts. `any` is anything.
"""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from podberth.model.mistakes import as_json, kind_of
from podberth.model.quantity import QuantityError, parse_nano

_RANGES = {"int32": 31, "int64": 63}
_SHOWN = 60
_LOOSE = "status"
"""The part that the API server writes: its types are checked, but no field of it is required."""


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
    """Return the file, read once."""
    return msgspec.json.decode((files(__package__) / "schemas.json").read_bytes(), type=Schemas)


class Misfit(NamedTuple):
    """A place where a value does not fit its type, and the complaint about it. `unknown`: there is no such field."""

    path: str
    text: str
    unknown: bool = False


def type_of(kind: str) -> str:
    """Return the type of a kind in the version that is read; empty for one that is not known."""
    known = schemas().kinds
    return next((f"&{known[each]}" for each in known if each.partition(" ")[2] == kind), "")


def fitting(value: Any, wanted: str, found: list[Misfit], path: str = "", *, strict: bool = True) -> Any:
    """Return the parts of a value that fit a type, and add those that do not to `found`. An absent value fits.

    What does not fit is left out, or is empty in a list, where the others keep their places.
    """
    if value is None or wanted == "any":
        return value
    match wanted[0]:
        case "&":
            return _fields(value, schemas().types[wanted[1:]], found, path, strict)
        case "[":
            if not isinstance(value, list):
                return _misfit(found, path, said(path, value, "expected a list"))
            inner = wanted[1:-1]
            empty: Any = {} if inner[0] in "&{" else ""
            parts = []
            for i, each in enumerate(value):
                here = f"{path}[{i}]"
                if each is None and inner[0] in "&{[":  # of texts it is an empty one, as for the API server
                    _misfit(found, here, said(here, None, "expected a value"))
                part = fitting(each, inner, found, here, strict=strict)
                parts.append(empty if part is None else part)
            return parts
        case "{":
            if not isinstance(value, dict):
                return _misfit(found, path, said(path, value, "expected a mapping"))
            kept = {}
            for key, each in value.items():
                here = f"{path}[{key}]"
                if each is None and not strict:
                    _misfit(found, here, said(here, None, "expected a value"))
                kept[key] = fitting(each, wanted[1:-1], found, here, strict=strict)
            return {key: each for key, each in kept.items() if each is not None}
        case "=":
            allowed = wanted[1:].split("|")
            if not isinstance(value, str):
                return _misfit(found, path, said(path, value, "expected text"))
            if strict and value not in allowed and value:
                return _misfit(found, path, said(path, value, f"expected {_one_of(allowed)}{meant(value, allowed)}"))
            return value
        case _:
            wrong = _scalar(value, wanted)
            return _misfit(found, path, said(path, value, wrong)) if wrong else value


def _misfit(found: list[Misfit], path: str, text: str) -> None:
    found.append(Misfit(path, text))


def said(path: str, value: Any, expected: str) -> str:
    """Return one complaint about a value."""
    return f"{path}: {shown(value)}: {expected}" if path else f"{shown(value)}: {expected}"


def shown(value: Any) -> str:
    """Return a value as JSON, shortened; a mapping or a list by its type."""
    if isinstance(value, dict | list):
        return kind_of(value)
    return as_json(value, _SHOWN)


def meant(word: str, known: Any) -> str:
    """Return `; did you mean …?` where a known word is close."""
    lowered = {each.lower(): each for each in known}
    found = [lowered[close] for close in get_close_matches(word.lower(), lowered, n=1)]
    return f"; did you mean {found[0]}?" if found else ""


def _fields(value: Any, kind: Type, found: list[Misfit], path: str, strict: bool) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        _misfit(found, path, said(path, value, "expected a mapping"))
        return None
    below = f"{path}." if path else ""
    kept: dict[str, Any] = {}
    for name, each in value.items():
        wanted = kind.fields.get(name)
        if wanted is None:
            text = f"{below}{name}: unknown field{meant(name, kind.fields)}"
            found.append(Misfit(f"{below}{name}", text, unknown=True))
            continue
        fits = fitting(each, wanted, found, f"{below}{name}", strict=strict and name != _LOOSE)
        if fits is not None:
            kept[name] = fits
    for name in kind.required if strict else ():
        if value.get(name) is None:
            _misfit(found, f"{below}{name}", f"{below}{name}: Required value")
    return kept


def _scalar(value: Any, wanted: str) -> str:
    """Return the type that was expected instead; empty: the value fits."""
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
