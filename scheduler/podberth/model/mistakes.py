"""Mistakes in a document, in words that its author knows: no names of Python's types and exceptions.

Fields that no type knows, with the name that was probably meant; and values that do not fit.
"""

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import Struct, inspect

SHOWN = 80
"""Characters of a value that a message shows."""
WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
"""The decoder's names of types."""
_TEXT = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `([^`]*)`")
_FIELDS = {"missing required": "missing the field", "contains unknown": "unknown field"}
_CHOICE = re.compile(r"Invalid enum value (?:'(.*)'|(.*))", re.DOTALL)
_DEEP = "it is nested too deeply"


def unknown_fields(document: Any, expected: type, path: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield (path, the near name that is known, or None) of each key for which `expected`, a Struct, has no field."""
    yield from _unknown(document, _type_info(expected), path)


def types_within(struct: type[Struct]) -> set[type[Struct]]:
    """Return a struct and all those of its fields, and of theirs."""
    found: set[type[Struct]] = set()
    waiting: list[Any] = [_type_info(struct)]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls=cls, fields=fields) if cls not in found:
                found.add(cls)
                waiting += [each.type for each in fields]
            case inspect.UnionType(types=kinds):
                waiting += kinds
            case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner):
                waiting.append(inner)
    return found


@cache
def _type_info(expected: type) -> inspect.Type:
    return inspect.type_info(expected)


def nearest(name: str, known: list[str]) -> str | None:
    """Return the known name that was probably meant: the same but for case, or close to it."""
    lowered = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.75)
    return lowered[close[0]] if close else None


def _unknown(value: Any, kind: inspect.Type, path: str) -> Iterator[tuple[str, str | None]]:
    match kind:
        case inspect.Metadata(type=inner):
            yield from _unknown(value, inner, path)
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


def kind_of(value: object) -> str:
    """Return what a value of a JSON or YAML document is: `a list`, `text`, …"""
    if value is None:
        return "nothing"
    for kind, word in ((bool, "true or false"), (int | float, "a number"), (str, "text"), (dict, "a mapping")):
        if isinstance(value, kind):
            return word
    return "a list" if isinstance(value, list | tuple) else "a date"


def as_json(value: object, most: int = SHOWN) -> str:
    """Return a value as its author may have written it: as JSON, in one line, cut after `most` characters."""
    if isinstance(value, str) and len(value) > most:
        value = f"{value[: most - 1]}…"
    text = json.dumps(value, ensure_ascii=False, default=str)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text if isinstance(value, str) or len(text) <= most else f"{text[: most - 1]}…"


def misfit(error: Exception, where: str = "") -> str:
    """Return the decoder's complaint about a document as `path: expected …, got …`, below the path `where`."""
    if isinstance(error, RecursionError):
        return f"{where}: {_DEEP}" if where else _DEEP
    if isinstance(error, UnicodeError):
        return f"{where}: it is not UTF-8" if where else "it is not UTF-8"
    found = _TEXT.fullmatch(" ".join(str(error).split()))
    assert found is not None
    what = in_words(found["what"])
    path = (where + (found["path"] or "")).removeprefix(".")
    return f"{path}: {what}" if path else what


def in_words(complaint: str) -> str:
    """Return what the decoder complains of, with its types in words."""
    what = _FIELD.sub(lambda found: f"{_FIELDS[found[1]]} {found[2]}", complaint)
    what = _CHOICE.sub(lambda found: f"{as_json(found[1] or found[2])}: not one of the values that it may have", what)
    what = re.sub(r"`([^`]*)`", _word, what)
    return f"{what[:1].lower()}{what[1:]}" if what.startswith(("Expected", "Object", "Invalid")) else what


def _word(match: re.Match[str]) -> str:
    words = [word.strip() for word in match[1].split("|")]
    return " or ".join(WORDS.get(word, f"`{word}`") for word in words if word != "null" or len(words) == 1)
