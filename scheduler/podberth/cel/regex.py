"""Matching in time linear in pattern and text, as RE2 does: all ways to match are followed at once.

Python's `re` may take exponential time for a pattern that a tenant wrote, so it isn't used.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from podberth.cel.effort import METER, PER_INSTRUCTION
from podberth.cel.errors import EvaluationError
from podberth.cel.operators import no_overload, refused
from podberth.cel.pattern import Assert, Chars, Choice, PatternError, Repeat, Sequence, Tree, parse
from podberth.cel.values import Value

_LARGEST: Final = 10_000
"""Instructions of a program. Go allows a hundred times as many; no pattern that means something needs them."""
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

_CHAR, _SPLIT, _ASSERT, _MATCH = range(4)
_Test = Callable[[str], bool]
_Instruction = tuple[int, int, int, _Test | str | None]
"""What, where to go on, where else, and what is tested."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        compiler = _Compiler()
        self._start = compiler.emit(parse(text), compiler.add((_MATCH, -1, -1, None)))
        self._program = compiler.program

    def matches(self, text: str) -> bool:
        """Return whether it matches anywhere in the text."""
        return self.find(text, 0, shortest=True) is not None

    def find(self, text: str, begin: int, shortest: bool = False) -> tuple[int, int] | None:
        """The leftmost match from a position on, of those the one that the pattern prefers."""
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        program = self._program
        for at in range(begin, len(text) + 1):
            if found is None:
                threads = [*threads, (self._start, at)]
            if not threads:
                break
            ready = self._followed(threads, text, at)
            METER.spend(len(ready) + 1)
            threads = []
            character = text[at : at + 1]
            for state, start in ready:
                what, onward, _, test = program[state]
                if what == _MATCH:
                    found = (start, at)
                    if shortest:
                        return found
                    break
                if character and test(character):  # type: ignore[operator,misc]
                    threads.append((onward, start))
        return found

    def _followed(self, threads: list[tuple[int, int]], text: str, at: int) -> list[tuple[int, int]]:
        """All that can be reached without a character, the preferred ways first."""
        seen: set[int] = set()
        ready: list[tuple[int, int]] = []
        program = self._program
        for state, start in threads:
            waiting = [state]
            while waiting:
                state = waiting.pop()
                if state in seen:
                    continue
                seen.add(state)
                what, onward, other, test = program[state]
                if what == _SPLIT:
                    waiting.append(other)
                    waiting.append(onward)
                elif what == _ASSERT:
                    if _holds(str(test), text, at):
                        waiting.append(onward)
                else:
                    ready.append((state, start))
        METER.spend(len(seen))
        return ready

    def find_all(self, text: str, count: int) -> list[Value]:
        """All matches that don't overlap, at most so many unless that is negative."""
        result: list[Value] = []
        at, last = 0, -1
        while at <= len(text) and (count < 0 or len(result) < count):
            found = self.find(text, at)
            if found is None:
                break
            start, end = found
            if end > start or start != last:
                result.append(text[start:end])
            last = end
            at = end if end > start else end + 1
            if end == start and end > len(text):
                break
        return result


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "begin":
        return at == 0
    if kind == "end":
        return at == len(text)
    if kind == "line-begin":
        return at == 0 or text[at - 1] == "\n"
    if kind == "line-end":
        return at == len(text) or text[at] == "\n"
    before = at > 0 and text[at - 1] in _WORDS
    after = at < len(text) and text[at] in _WORDS
    return (before != after) == (kind == "word")


class _Compiler:
    def __init__(self) -> None:
        self.program: list[_Instruction] = []

    def add(self, instruction: _Instruction) -> int:
        """Append an instruction; returns where it is."""
        if len(self.program) >= _LARGEST:
            raise PatternError("expression too large")
        METER.spend(PER_INSTRUCTION)
        self.program.append(instruction)
        return len(self.program) - 1

    def emit(self, tree: Tree, onward: int) -> int:
        """Instructions for the tree, after which it goes on; returns where they begin."""
        if isinstance(tree, Chars):
            return self.add((_CHAR, onward, -1, tested(tree)))
        if isinstance(tree, Assert):
            return self.add((_ASSERT, onward, -1, tree.kind))
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                onward = self.emit(part, onward)
            return onward
        if isinstance(tree, Choice):
            starts = [self.emit(part, onward) for part in tree.parts]
            begin = starts[-1]
            for start in reversed(starts[:-1]):
                begin = self.add((_SPLIT, start, begin, None))
            return begin
        return self._repeat(tree, onward)

    def _repeat(self, tree: Repeat, onward: int) -> int:
        begin = onward
        if tree.high < 0:
            loop = self.add((_SPLIT, -1, -1, None))
            body = self.emit(tree.part, loop)
            self.program[loop] = (_SPLIT, onward, body, None) if tree.lazy else (_SPLIT, body, onward, None)
            begin = loop
        else:
            for _ in range(tree.high - tree.low):
                body = self.emit(tree.part, begin)
                begin = self.add((_SPLIT, onward, body, None) if tree.lazy else (_SPLIT, body, onward, None))
        for _ in range(tree.low):
            begin = self.emit(tree.part, begin)
        return begin


@lru_cache(maxsize=512)
def tested(chars: Chars) -> _Test:
    """The test of one character."""
    if chars.fold:
        plain = tested(Chars(chars.ranges, False, False, chars.category, chars.more))
        if chars.negated:
            return lambda one: not any(map(plain, _folded(one)))
        return lambda one: any(map(plain, _folded(one)))
    ranges, negated, category = chars.ranges, chars.negated, chars.category
    more = tuple(map(tested, chars.more))
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not more and category is None:
        character = chr(ranges[0][0])
        return (lambda one: one != character) if negated else (lambda one: one == character)

    def inside(one: str) -> bool:
        code = ord(one)
        for low, high in ranges:
            if low <= code <= high:
                return not negated
        for test in more:
            if test(one):
                return not negated
        if category is not None and category(one):
            return not negated
        return negated

    return inside


def _folded(one: str) -> tuple[str, ...]:
    """The character in all its cases."""
    variants = {one}
    for other in (one.lower(), one.upper()):
        if len(other) == 1:
            variants |= {other, *(text for text in (other.lower(), other.upper()) if len(text) == 1)}
    variants |= _ALSO.get(one.lower(), set())
    return tuple(variants)


_ALSO: Final = {"k": {"\u212a"}, "s": {"\u017f"}, "å": {"\u212b"}}


@lru_cache(maxsize=32)
def compiled(pattern: str) -> Pattern:
    """The compiled pattern. Raises PatternError."""
    return Pattern(pattern)


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise refused(text, "matches")
    if type(pattern) is not str:
        raise no_overload()
    try:
        return compiled(pattern).matches(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def searching(function: str, pattern: str) -> Callable[..., Value]:
    """The code for a constant pattern. Raises PatternError."""
    known = Pattern(pattern)

    def run(text: Value, _: Value, count: Value = -1) -> Value:
        if type(text) is not str or type(count) is not int:
            raise no_overload()
        if function == "matches":
            return known.matches(text)
        if function == "findAll":
            return known.find_all(text, count)
        found = known.find(text, 0)
        return "" if found is None else text[found[0] : found[1]]

    return run


def _searched(pattern: str) -> Pattern:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _searched(pattern).find(text, 0)
    return "" if found is None else text[found[0] : found[1]]


def _find_all(text: str, pattern: str, count: int = -1) -> list[Value]:
    return _searched(pattern).find_all(text, count)


SINGLE: dict[str, Callable[..., Value]] = {"matches": _matches}
OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
