"""Patterns, matched by RE2: the syntax is that of Go's regexp, and so are the errors.

RE2 takes time in proportion to the instructions of a pattern and the bytes of a text. That product is charged before
a search, since nothing can end one.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

from podberth.cel.errors import METER, EvaluationError
from podberth.cel.library.operators import no_overload, refused
from podberth.cel.values import Value

LARGEST: Final = 10_000
"""The most instructions of a pattern. Go allows hundreds of times as many; no useful pattern needs them."""
_SEARCH: Final = 10
"""The steps of any search."""
_CLASS: Final = 240
"""The steps to parse a class of Unicode: `\\p{L}` has 650 ranges."""

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = 1 << 19  # of the program, both ways, and the states that searches make
_OPTIONS.never_capture = True  # 3,000 groups cost 3,000 times as much
_OPTIONS.log_errors = False

_GO_TEXTS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""What RE2 says of a pattern → Go's words, where they differ."""
_QUOTED_OR_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\[^C]", re.DOTALL)


class PatternError(ValueError):
    """A pattern that can't be compiled; the text is that of Go's regexp."""

    def __init__(self, text: str) -> None:
        super().__init__(f"error parsing regexp: {text}")


class Pattern:
    """A compiled pattern. Texts are searched as UTF-8."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        try:
            self._known = re2.compile(text.encode("utf-8", "surrogatepass"), _OPTIONS)
        except re2.error as error:
            raise _in_gos_words(error.args[0].decode("utf-8", "replace"), text) from None
        finally:
            re2.purge()  # its own cache would keep 128 of them
        if "\\C" in text and "\\C" in _QUOTED_OR_ESCAPED.sub("", text):  # any byte, to RE2 alone
            raise PatternError("invalid escape sequence: `\\C`")
        self.instructions: int = self._known.programsize
        """The size of its program, which is charged to whoever compiles it."""
        if self.instructions > LARGEST:
            raise PatternError("expression too large")
        self._price = self.instructions * (1 + self._known.groups)

    def _spend(self, length: int) -> None:
        """Charge a search through so many bytes, of which each may cost 10 ns for each instruction."""
        METER.afford(_SEARCH + (self._price * length >> 5))

    def matches(self, text: str) -> bool:
        """Return whether it matches anywhere in the text."""
        data = text.encode("utf-8", "surrogatepass")
        self._spend(len(data))
        return self._known.search(data) is not None

    def find_all(self, text: str, count: int = -1) -> list[Value]:
        """Return all matches that don't overlap, at most `count` unless that is negative.

        An empty match right after another match is none, nor is one within a character.
        """
        data = text.encode("utf-8", "surrogatepass")
        result: list[Value] = []
        at, last = 0, -1
        while at <= len(data) and (count < 0 or len(result) < count):
            self._spend(len(data) - at)
            found = self._known.search(data, at)
            if found is None:
                break
            start, end = found.span()
            if end > start or (start != last and not _within_character(data, start)):
                result.append(data[start:end].decode("utf-8", "surrogatepass"))
            last = end
            at = end if end > start else end + 1
            while _within_character(data, at):
                at += 1
        return result

    def find(self, text: str) -> str:
        """Return the leftmost match; of several there, the one that the pattern prefers. "" if there is none."""
        found = self.find_all(text, 1)
        return found[0] if found else ""


def _within_character(data: bytes, at: int) -> bool:
    return at < len(data) and data[at] & 0xC0 == 0x80


def _in_gos_words(said: str, pattern: str) -> PatternError:
    what, colon, part = said.partition(": ")
    if what == "pattern too large - compile failed":
        return PatternError("expression too large")
    if what == "invalid repetition size":
        part = part.rstrip("?")
    elif part in ("(?<=", "(?<!"):
        what, part = "invalid named capture", pattern[pattern.index(part) :]
        part = part[: part.find(">") + 1] or part
    elif what == "invalid UTF-8" and "\\x" in pattern:  # an escape that the end cuts off
        what, part = "invalid escape sequence", pattern[pattern.rindex("\\x") :]
    elif not colon and what != "trailing \\":
        return PatternError(what)
    return PatternError(f"{_GO_TEXTS.get(what, what)}: `{part}`")


_known = lru_cache(maxsize=16)(Pattern)


def compiled(pattern: str) -> Pattern:
    """Return the compiled pattern, which costs its steps even if it is still known. Raises PatternError."""
    METER.afford(_CLASS * (pattern.count("\\p") + pattern.count("\\P")))
    known = _known(pattern)
    METER.spend(known.instructions)
    return known


def searching(function: str, known: Pattern) -> Callable[..., Value]:
    """Return the code for a constant pattern."""

    def run(text: Value, _: Value, count: Value = -1) -> Value:
        if type(text) is not str or type(count) is not int:
            raise no_overload()
        if function == "matches":
            return known.matches(text)
        return known.find_all(text, count) if function == "findAll" else known.find(text)

    return run


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise refused(text, "matches")
    if type(pattern) is not str:
        raise no_overload()
    try:
        return compiled(pattern).matches(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _searched(pattern: str) -> Pattern:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


SINGLE: dict[str, Callable[..., Value]] = {"matches": _matches}
OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_find_string": lambda text, pattern: _searched(pattern).find(text),
    "string_find_all_string": lambda text, pattern: _searched(pattern).find_all(text),
    "string_find_all_string_int": lambda text, pattern, count: _searched(pattern).find_all(text, count),
}
