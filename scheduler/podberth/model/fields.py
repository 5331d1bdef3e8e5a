"""Which fields of a document no type knows, and what was probably meant."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import inspect


def unknown_fields(document: Any, expected: type, path: str = "") -> Iterator[tuple[str, str | None]]:
    """(path, the near name that is known, or None) of every key that `expected`, a msgspec Struct, has no field for."""
    yield from _unknown(document, _type_info(expected), path)


@cache
def _type_info(expected: type) -> inspect.Type:
    return inspect.type_info(expected)


def nearest(name: str, known: list[str]) -> str | None:
    """The known name that was probably meant: the same but for case, or close to it."""
    lowered = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.75)
    return lowered[close[0]] if close else None


def _unknown(value: Any, kind: inspect.Type, path: str) -> Iterator[tuple[str, str | None]]:
    match kind:
        case inspect.UnionType(types=kinds):
            for each in kinds:
                yield from _unknown(value, each, path)
        case inspect.ListType(item_type=item) if isinstance(value, list):
            for i, each in enumerate(value):
                yield from _unknown(each, item, f"{path}[{i}]")
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            known = {each.encode_name: each.type for each in fields}
            for key, each in value.items():
                where = f"{path}.{key}" if path else str(key)
                if key in known:
                    yield from _unknown(each, known[key], where)
                else:
                    yield where, nearest(str(key), list(known))
