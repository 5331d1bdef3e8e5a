"""Where the objects of a JSON text begin and end that can't be read as a whole, so that each is read by itself.

Brackets outside of strings say it. Where they don't match, the layout does: a bracket that begins a line closes what
was opened on a line of the same indentation, an object ends before the next one that begins a line where it began
itself, and a string ends with its line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

_TOKEN = re.compile(rb'\n[ \t]*+|"(?:[^"\\\n]|\\[^\n])*+"?|[\[\]{}]')
_NEXT_LINE = re.compile(rb"[ \t\r]*+\n([ \t]*+)")
_OPENS = {b"}": b"{", b"]": b"["}
_ITEM = 2
"""The level of what stands in the `items` of an object."""
_LOOKED_AT = 100
"""Open brackets among which the one that is closed is looked for."""


class Span(NamedTuple):
    """Where an object is, and where what stands before it begins; None: right behind another that does not end."""

    before: int | None
    start: int
    stop: int


class Outline(NamedTuple):
    """An object that stands by itself: its items, and where these begin and end; None: it is no list."""

    span: Span
    items: list[Span]
    inside: tuple[int, int] | None


class _Open(NamedTuple):
    bracket: bytes
    indent: int
    begins: bool
    """Whether it is the first of its line."""
    inner: int | None
    """How the next line is indented; None: it has more on its own."""


class _Bracket(NamedTuple):
    at: int
    opens: bool
    level: int
    of_items: bool


def outlines(text: bytes) -> list[Outline]:
    """The objects of a text that stand one after the other."""
    brackets = list(_brackets(text))
    return [Outline(span, *_items(brackets, span)) for span in _spans(brackets, 0, 0, len(text))]


def _items(brackets: Sequence[_Bracket], outer: Span) -> tuple[list[Span], tuple[int, int] | None]:
    within = _between(brackets, outer.start, outer.stop)
    for i, one in enumerate(within):
        if one.of_items:
            stop = next((after.at for after in within[i + 1 :] if after.level < _ITEM), outer.stop)
            return _spans(within, _ITEM, one.at + 1, stop), (one.at + 1, stop)
    return [], None


def _spans(brackets: Sequence[_Bracket], level: int, begin: int, end: int) -> list[Span]:
    found: list[Span] = []
    start: int | None = None
    before: int | None = begin
    for one in _between(brackets, begin, end):
        if one.level != level:
            continue
        if start is not None:
            found.append(Span(before, start, one.at if one.opens else one.at + 1))
            before = None if one.opens else one.at + 1
        start = one.at if one.opens else None
    return found if start is None else [*found, Span(before, start, end)]


def _between(brackets: Sequence[_Bracket], begin: int, end: int) -> Sequence[_Bracket]:
    at = itemgetter(0)
    return brackets[bisect_left(brackets, begin, key=at) : bisect_left(brackets, end, key=at)]


def _brackets(text: bytes) -> Iterator[_Bracket]:
    """The brackets of objects, of `items`, and of what is in those; a pair has one level."""
    stack: list[_Open] = []
    after_items = False
    indent, line = 0, len(text) - len(text.lstrip())
    for token in _TOKEN.finditer(text):
        said, at = token[0], token.start()
        if said[:1] == b"\n":
            indent, line = len(said) - 1, token.end()
            continue
        of_items, after_items = after_items and said == b"[", said == b'"items"' and len(stack) == 1
        if said[:1] == b'"':
            continue
        begins = at == line
        if said in _OPENS:
            level = _closed(stack, _OPENS[said], indent if begins else None)
            if level is None:
                continue
            del stack[level:]
        else:
            if begins and said == b"{":
                del stack[_ended(stack, indent) :]
            level = len(stack)
            stack.append(_Open(said, indent, begins, _inner(text, token.end())))
        if level <= _ITEM:
            yield _Bracket(at, said not in _OPENS, level, of_items and level == 1)


def _closed(stack: Sequence[_Open], bracket: bytes, indent: int | None) -> int | None:
    """Return which open bracket a closing one belongs to; None: to none."""
    top = len(stack) - 1
    innermost: int | None = None
    for level in range(top, max(top - _LOOKED_AT, -1), -1):
        one = stack[level]
        if one.bracket == bracket:
            if indent is not None and one.indent == indent:
                return level
            innermost = level if innermost is None else innermost
            if indent is None:
                break
    if innermost is None or innermost == top or (bracket == b"[" and stack[innermost].inner is None):
        return innermost
    return None


def _ended(stack: Sequence[_Open], indent: int) -> int:
    """Return how many brackets are still open where an object begins a line."""
    for level in (0, _ITEM):
        if level < len(stack):
            one = stack[level]
            deeper = one.inner is None or one.inner > indent
            if one.bracket == b"{" and one.begins and deeper and one.indent == indent:
                return level
    return len(stack)


def _inner(text: bytes, end: int) -> int | None:
    found = _NEXT_LINE.match(text, end)
    return None if found is None else len(found[1])
