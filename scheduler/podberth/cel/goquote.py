"""Strings in quotes, as Go's strconv writes them."""

from typing import Final

ESCAPES: Final = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 34: '\\"', 92: "\\\\"}


def quoted(text: str) -> str:
    """`%q` of a string."""
    return '"' + "".join(_quoted(character) for character in text) + '"'


def _quoted(character: str) -> str:
    code = ord(character)
    if code in ESCAPES:
        return ESCAPES[code]
    if code < 32 or code == 127:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text, as Python's surrogateescape has it
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
