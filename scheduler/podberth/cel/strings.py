"""Functions of strings. Positions count code points."""

from collections.abc import Callable

from podberth.cel.effort import METER, over_limit
from podberth.cel.errors import EvaluationError
from podberth.cel.goquote import ESCAPES
from podberth.cel.gotext import shown
from podberth.cel.operators import no_overload
from podberth.cel.template import formatted
from podberth.cel.values import Value

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
LONGEST = 1 << 22
"""No function makes a longer string: upstream would, and the memory is no part of its price."""


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
    if length > LONGEST:
        raise over_limit()
    METER.spend(length >> 6)
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
        if length > LONGEST:
            raise over_limit()
    return separator.join(values)


def _tested(test: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def run(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_overload()
        return test(text, part)

    return run


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
    "string_trim": lambda text: text.strip(_SPACE),
    "string_format": formatted,
    "strings_quote": lambda text: f'"{text.translate(ESCAPES)}"',
    "list_join": _join,
    "list_join_string": _join,
}
SINGLE: dict[str, Callable[..., Value]] = {
    "contains": _tested(lambda text, part: part in text),
    "startsWith": _tested(str.startswith),
    "endsWith": _tested(str.endswith),
}
