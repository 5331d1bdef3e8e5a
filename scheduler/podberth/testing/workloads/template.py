"""API objects with places to fill in: `$(run)`, `$(pool)`, and whole-number arithmetic such as `$(50 + i % 3000)`.

Text stays text, but a text that is `$int(8000 + i)` and nothing else becomes a number.

A template is encoded once and cut at its places, so that the five thousandth pod costs as little as the second.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_PLACE = re.compile(r"\$\(([^()]*)\)")
_NUMBER = re.compile(r'"\$int(\([^()]*\))"')
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
WORDS = ("run", "pool")
"""Names that stand for text: what all names of the run begin with, and what those of its nodes do."""
NUMBERS = ("i", "count", "nodes")
"""Names that arithmetic may use: the object's index, how many the step makes, how many nodes the workload has."""


class TemplateError(ValueError):
    """A place that can't be filled in: the text says which and what was expected."""


def check(document: Any) -> None:
    """Raises TemplateError when a place of this document can't be filled in."""
    made = Template(document, dict.fromkeys(WORDS, ""), dict.fromkeys(NUMBERS, 1)).render(0)
    try:
        msgspec.json.decode(made)
    except msgspec.DecodeError:
        raise TemplateError(f"$int(): expected arithmetic in it, not {' or '.join(WORDS)}") from None


class Template:
    """One object, to be rendered by index. `words`, `numbers`: values of `WORDS` and `NUMBERS`."""

    def __init__(self, document: Any, words: Mapping[str, str], numbers: Mapping[str, int]) -> None:
        """Raises TemplateError."""
        pieces = _PLACE.split(_NUMBER.sub(r"$\1", msgspec.json.encode(document).decode()))
        self._numbers = numbers
        self._pieces: list[str | ast.expr] = [pieces[0]]
        for i in range(1, len(pieces), 2):
            asked = pieces[i].strip()
            self._pieces += [words[asked] if asked in words else _parse(asked), pieces[i + 1]]

    def render(self, index: int) -> bytes:
        """The JSON of the object with this index."""
        known = {**self._numbers, "i": index}
        return "".join(
            piece if isinstance(piece, str) else str(_value(piece, known)) for piece in self._pieces
        ).encode()


def _parse(text: str) -> ast.expr:
    expected = f"expected {', '.join(WORDS)}, or arithmetic of whole numbers with {', '.join(NUMBERS)}, + - * // and %"
    try:
        found = ast.parse(text, mode="eval").body
        _value(found, dict.fromkeys(NUMBERS, 1))
    except (SyntaxError, TemplateError):
        raise TemplateError(f"$({text}): {expected}") from None
    except ZeroDivisionError:
        raise TemplateError(f"$({text}): division by zero") from None
    return found


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left, how, right) if type(how) in _OPERATORS:
            return _OPERATORS[type(how)](_value(left, known), _value(right, known))
    raise TemplateError(ast.unparse(node))


def merged(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`under` with the fields of `over`: objects are merged field by field, anything else is replaced."""
    return under | {
        key: merged(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
        for key, value in over.items()
    }
