"""Functions of strings. Positions count code points.

Patterns are matched by RE2: the syntax is that of Go's regexp. RE2 takes time in proportion to the instructions of a
pattern and the bytes of a text. That product is charged before a search, since nothing can end one.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

from podberth.cel.errors import ESCAPES, METER, EvaluationError
from podberth.cel.library.conversions import shown
from podberth.cel.library.operators import no_overload, refused
from podberth.cel.values import Value

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.find(part, start)


def _last_index_from(text: str, part: str, start: int) -> int:
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    many = text.count(old) if count < 0 else min(count, text.count(old))
    length = len(text) + many * (len(new) - len(old))
    METER.afford(length >> 6)
    return text.replace(old, new, count if count >= 0 else -1)


def _split(text: str, separator: str, count: int = -1) -> list[Value]:
    if count == 0:
        return []
    if not separator:
        parts = list(text)
        if 0 < count < len(parts):
            return [*parts[: count - 1], "".join(parts[count - 1 :])]
        return parts
    return list(text.split(separator, count - 1 if count > 0 else -1))


def _join(values: list[Value], separator: str = "") -> str:
    length = len(separator) * len(values)
    for value in values:
        if type(value) is not str:
            raise EvaluationError(f"join: invalid input: {shown(value)}")
        length += len(value)
    METER.afford(length >> 6)
    return separator.join(values)


def _tested(test: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def run(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_overload()
        return test(text, part)

    return run


# --- patterns ---------------------------------------------------------------------------------------------------------

LARGEST: Final = 10_000
"""The most instructions of a pattern. Go allows hundreds of times as many; no useful pattern needs them."""
_SEARCH: Final = 10
"""The steps of any search."""
_CLASS: Final = 240
"""The steps to parse a class of Unicode: `\\p{L}` has 650 ranges."""
_MOST_CLASSES: Final = 64
"""The most of them in a pattern. 3,300 would take 0.3 s."""

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = 1 << 19  # of the program, both ways, and the states that searches make
_OPTIONS.never_capture = True  # 3,000 groups cost 3,000 times as much
_OPTIONS.log_errors = False


class PatternError(ValueError):
    """A pattern that can't be compiled; the text is RE2's."""

    def __init__(self, text: str) -> None:
        super().__init__(f"error parsing regexp: {text}")


class Pattern:
    """A compiled pattern. Texts are searched as UTF-8."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        try:
            self._known = re2.compile(text.encode("utf-8", "surrogatepass"), _OPTIONS)
        except re2.error as error:
            raise PatternError(error.args[0].decode("utf-8", "replace")) from None
        finally:
            re2.purge()  # its own cache would keep 128 of them
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


_known = lru_cache(maxsize=16)(Pattern)


def compiled(pattern: str) -> Pattern:
    """Return the compiled pattern, which costs its steps even if it is still known. Raises PatternError."""
    classes = pattern.count("\\p") + pattern.count("\\P")
    if classes > _MOST_CLASSES:
        raise PatternError("expression too large")
    METER.afford(_CLASS * classes)
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


OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": str.rfind,
    "string_last_index_of_string_int": _last_index_from,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring_range,
    "string_find_string": lambda text, pattern: _searched(pattern).find(text),
    "string_find_all_string": lambda text, pattern: _searched(pattern).find_all(text),
    "string_find_all_string_int": lambda text, pattern, count: _searched(pattern).find_all(text, count),
    "string_trim": lambda text: text.strip(_SPACE),
    "strings_quote": lambda text: f'"{text.translate(ESCAPES)}"',
    "list_join": _join,
    "list_join_string": _join,
}
SINGLE: dict[str, Callable[..., Value]] = {
    "contains": _tested(lambda text, part: part in text),
    "startsWith": _tested(str.startswith),
    "endsWith": _tested(str.endswith),
    "matches": _matches,
}
