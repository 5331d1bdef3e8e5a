"""Pieces of CEL: texts and maps as the API server's admission policies spell them."""

from collections.abc import Iterable
from typing import Literal

Field = Literal["labels", "annotations"]

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text(value: str) -> str:
    """Return a string literal."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'


def texts(values: Iterable[str]) -> str:
    """Return a list of string literals, sorted."""
    return "[" + ", ".join(map(text, sorted(values))) + "]"


def held(whose: str, field: Field) -> str:
    """Return labels or annotations of `object` or `oldObject` as a map, which is empty when there are none."""
    return f"(has({whose}.metadata.{field}) ? {whose}.metadata.{field} : {{}})"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
