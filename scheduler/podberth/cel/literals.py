"""The values of literals: numbers within their ranges, strings and bytes with their escapes."""

import re

from podberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:([xX])(..)|u(....)|U(........)|([0-3][0-7][0-7])|(.))", re.DOTALL)


class LiteralError(ValueError):
    """A literal that is no value; the text says why."""


def int_of(text: str, negative: bool) -> int:
    """The value of a decimal or hexadecimal literal."""
    number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    number = -number if negative else number
    if not INT_MIN <= number <= INT_MAX:
        raise LiteralError("invalid int literal")
    return number


def uint_of(text: str) -> Uint:
    """The value of a literal that ends with u."""
    text = text[:-1]
    number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    if number > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(number)


def _decimal(text: str) -> int:
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) < 40 else UINT_MAX + 1  # a long one would be slow, and refused


def float_of(text: str, negative: bool) -> float:
    """The value of a literal with a point or an exponent."""
    number = float(text)
    if number == float("inf"):
        raise LiteralError("invalid double literal")
    return -number if negative else number


def string_of(text: str) -> str:
    """Return what is between the quotes, with escapes replaced."""
    raw, body = _body(text)
    return body if raw else _ESCAPE.sub(_character, body)


def bytes_of(text: str) -> bytes:
    """As a string, but \\x and octal escapes are bytes."""
    raw, body = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    out = bytearray()
    end = 0
    for found in _ESCAPE.finditer(body):
        out += body[end : found.start()].encode()
        _, hexadecimal, short, long, octal, simple = found.groups()
        if short is not None or long is not None:
            raise LiteralError("unable to unescape string")
        if simple is not None:
            out += _SIMPLE.get(simple, simple).encode()
        else:
            out.append(int(hexadecimal, 16) if hexadecimal is not None else int(octal, 8))
        end = found.end()
    return bytes(out + body[end:].encode())


def _body(text: str) -> tuple[bool, str]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ('"""', "'''"):
        return raw, text[3:-3]
    return raw, text[1:-1]


def _character(found: "re.Match[str]") -> str:
    _, hexadecimal, short, long, octal, simple = found.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    number = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(number)
