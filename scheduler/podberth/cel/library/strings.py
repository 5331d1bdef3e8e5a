"""Functions of strings. Positions count code points.

`"%s".format([x])` has clauses: what each takes, and the errors for what it doesn't.
"""

from collections.abc import Callable
from math import isinf, isnan

from podberth.cel.errors import ESCAPES, METER, EvaluationError, over_limit, quoted
from podberth.cel.gotext import shown
from podberth.cel.library.conversions import string_of
from podberth.cel.library.operators import no_overload
from podberth.cel.values import LISTS, MAPS, Duration, Timestamp, TypeValue, Uint, Value, type_name

_PRECISION = 6
_ENDS = "unexpected end of string"
_FLOATS = ("NaN", "Infinity", "-Infinity")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_DIGITS = 1000
"""The largest precision of a number; upstream has no limit."""


def formatted(template: str, args: list[Value]) -> str:
    """Return the template with each clause replaced."""
    return run(template, len(args), lambda index, clause, precision: _clause(clause, args[index], precision))


Clause = Callable[[int, str, int | None], str]


def run(template: str, count: int, clause: Clause, *, compiling: bool = False) -> str:
    """Write the template clause by clause. Raises EvaluationError where it is wrong.

    `compiling`: nothing is evaluated yet, and a template that ends too early is noticed before a missing argument.
    """
    out: list[str] = []
    at = taken = 0
    while at < len(template):
        character = template[at]
        if character != "%":
            out.append(character)
            at += 1
            continue
        if template[at + 1 : at + 2] == "%":
            out.append("%")
            at += 2
            continue
        if compiling and at + 1 >= len(template):
            raise EvaluationError(_ENDS)
        if taken >= count:
            raise EvaluationError(f"index {taken} out of range")
        if at + 1 >= len(template):
            raise EvaluationError(_ENDS)
        at, precision = _precision(template, at + 1)
        letter = template[at]
        if letter not in "sdfebxXo":
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{chr(letter.encode()[0])}"'
            )
        try:
            out.append(clause(taken, letter, precision))
        except FormatError as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        at += 1
        taken += 1
    return "".join(out)


class FormatError(ValueError):
    """A value that a clause doesn't take."""


def _precision(template: str, at: int) -> tuple[int, int | None]:
    if template[at] != ".":
        return at, None
    start = at = at + 1
    where = "could not parse formatting clause: error while parsing precision:"
    while at < len(template) and template[at] in "0123456789":
        at += 1
    if at >= len(template):
        raise EvaluationError(f"{where} could not find end of precision specifier")
    digits = template[start:at]
    if not digits or len(digits) > 18:
        reason = "invalid syntax" if not digits else "value out of range"
        text = f'strconv.Atoi: parsing "{digits}": {reason}'
        raise EvaluationError(f"{where} error while converting precision to integer: {text}")
    return at, min(int(digits), _MOST_DIGITS)


TAKES = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given ",
    "d": "decimal clause can only be used on integers, was given ",
    "f": "fixed-point clause can only be used on doubles, was given ",
    "e": "scientific clause can only be used on doubles, was given ",
    "b": "only integers and bools can be formatted as binary, was given ",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "o": "octal clause can only be used on integers, was given ",
}
TAKES["X"] = TAKES["x"]


def refused(letter: str, name: str) -> FormatError:
    """Return the error for a type that a clause doesn't take."""
    return FormatError(TAKES[letter] + name)


def _clause(letter: str, value: Value, precision: int | None) -> str:
    kind = type(value)
    if letter == "s":
        return _string(value)
    if letter == "d" and kind in (int, Uint):
        return str(int(value))
    if letter in "fe" and (kind is float or (kind is str and value in _FLOATS)):
        number = float(value) + 0.0  # zero has no sign
        chosen = _PRECISION if precision is None else precision
        return _scientific(number).rjust(chosen) if letter == "e" else _fixed_point(number, chosen)
    if letter in "xX" and kind in (str, bytes):
        text: str = (value.encode() if kind is str else value).hex()
        return text.upper() if letter == "X" else text
    if letter == "b" and kind is bool:
        return "1" if value else "0"
    if letter in "bxXo" and kind in (int, Uint):
        return format(int(value), letter)
    raise refused(letter, type_name(value))


def _fixed_point(value: float, precision: int) -> str:
    return _no_number(value) or f"{value:,.{precision}f}"


def _scientific(value: float) -> str:
    """Return the number with six digits: cel-go takes the clause's precision for the width."""
    if text := _no_number(value):
        return text
    mantissa, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
    raised = str(abs(int(exponent))).rjust(2, "0").translate(_RAISED)
    return f"{mantissa}×10{'⁻' if exponent[0] == '-' else ''}{raised}"


def _no_number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "∞" if value > 0 else "-∞"
    return ""


def _string(value: Value) -> str:
    kind = type(value)
    if kind in LISTS:
        METER.spend(len(value))
        return "[" + ", ".join(map(_inner, value)) + "]"
    if kind in MAPS:
        return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(map(_pair, value.pairs()))) + "}"
    if value is None:
        return "null"
    if kind in (int, Uint, float, bool, str, bytes, Timestamp, Duration, TypeValue):
        return _text(value)
    raise refused("s", type_name(value))


def _text(value: Value) -> str:
    try:
        return string_of(value)
    except EvaluationError as error:
        raise FormatError(f"could not convert argument {quoted(str(error))} to string") from None


def _pair(pair: tuple[Value, Value]) -> tuple[str, str]:
    key, item = pair
    if type(key) not in (str, bool, int, Uint):
        raise FormatError(f"no formatting function for map key of type {type_name(key)}")
    return _inner(key), _inner(item)


def _inner(value: Value) -> str:
    """Return the text of a value within a list or a map."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is bytes:
        return "b" + quoted(_text(value))
    if kind is Timestamp or kind is Duration:
        return f"{'timestamp' if kind is Timestamp else 'duration'}({quoted(string_of(value))})"
    if kind is float:
        if isnan(value) or isinf(value):
            return '"NaN"' if isnan(value) else ('"+Inf"' if value > 0 else '"-Inf"')
        return f"{value:.6f}"
    if kind in LISTS or kind in MAPS or kind in (int, Uint, bool, type(None), TypeValue):
        return _string(value)
    raise FormatError(f"no formatting function for {type_name(value)}")


_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
LONGEST = 1 << 22
"""The most characters of a string that a function makes. Upstream has no limit, as memory is no part of the price."""


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
