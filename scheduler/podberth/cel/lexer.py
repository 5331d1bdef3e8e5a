"""Reads the tokens of an expression's text by the lexer rules of the language; the longest match wins.

An issue with the text is shown with its position, its message, the line, and a mark below it.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from podberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_MAX_SNIPPET = 16384
_MAX_ISSUES = 100


@dataclass(frozen=True, slots=True)
class Issue:
    """A mistake at a position (in code points; -1: at no certain position)."""

    position: int
    message: str


class SyntaxIssueError(Exception):
    """The expression can't be parsed, for these issues."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(issues[0].message)
        self.issues = issues


class Source:
    """The text of an expression, split into lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0] + [index + 1 for index, character in enumerate(text) if character == "\n"]

    def location(self, position: int) -> tuple[int, int]:
        """Return the line from 1 and the column from 0; before every line if the issue has no position."""
        if position < 0:
            return -1, -1
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1]

    def shown(self, issues: list[Issue]) -> str:
        """Return all issues in order of their positions, as the compiler shows them."""
        ordered = sorted(issues[:_MAX_ISSUES], key=lambda issue: self.location(issue.position))
        lines = [self._shown(issue) for issue in ordered]
        if len(issues) > _MAX_ISSUES:
            lines.append(f"{len(issues) - _MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)

    def _shown(self, issue: Issue) -> str:
        line, column = self.location(issue.position)
        head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
        if line < 1 or not self.text:
            return head
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        snippet = self.text[start:end]
        if len(snippet.encode()) > _MAX_SNIPPET:
            return head
        snippet = snippet.replace("\t", " ")
        marks = "".join("．" if character > "\x7f" else "." for character in snippet[:column])  # full-width dots
        mark = "＾" if column < len(snippet) and snippet[column] > "\x7f" else "^"
        return f"{head}\n | {snippet}\n | {marks}{mark}"


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = rf"""
    [rR](?:\"{{3}}[\s\S]*?\"{{3}} | '{{3}}[\s\S]*?'{{3}} | \"[^\"\n\r]*\" | '[^'\n\r]*')
  | \"{{3}}(?:{_ESCAPE}|[^\\])*?\"{{3}}
  | '{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}
  | \"(?:{_ESCAPE}|[^\\\"\n\r])*\"
  | '(?:{_ESCAPE}|[^\\'\n\r])*'
"""
_TOKEN = re.compile(
    rf"""
    (?P<space> [\t \r\n\f]+ | //[^\n]* )
  | (?P<bytes> [bB](?:{_STRING}) )
  | (?P<string> {_STRING} )
  | (?P<float> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
  | (?P<uint> 0x[0-9a-fA-F]+[uU] | [0-9]+[uU] )
  | (?P<int> 0x[0-9a-fA-F]+ | [0-9]+ )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<quoted> `[A-Za-z0-9_.\-/\ ]+` )
  | (?P<operator> == | != | <= | >= | && | \|\| | [<>\[\]{{}}().,\-!?:+*/%] )
    """,
    re.VERBOSE | re.ASCII,
)
KEYWORDS = frozenset({"in", "true", "false", "null"})
END = "<EOF>"


class Token(NamedTuple):
    """A token. `kind` is the operator or keyword itself, or bytes, string, float, uint, int, name, quoted, <EOF>."""

    kind: str
    text: str
    position: int


def tokens_of(text: str) -> tuple[list[Token], list[Issue]]:
    """Return the tokens, ended by one of kind <EOF>, and an issue for each place where no token begins."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, match = 0, _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            end = _wrong(text, position)
            issues.append(Issue(position, f"Syntax error: token recognition error at: '{_shown(text[position:end])}'"))
            position = end
            continue
        kind, token = found.lastgroup or "", found.group()
        if kind == "operator" or (kind == "name" and token in KEYWORDS):
            kind = token
        if kind != "space":
            tokens.append(Token(kind, token, position))
        position = found.end()
    tokens.append(Token(END, END, len(text)))
    return tokens, issues


def _wrong(text: str, position: int) -> int:
    """Return the end of a text that begins no token: after the first character with which none could go on."""
    opening = _OPENING.match(text, position)
    if opening is not None:
        quote = opening[1]
        raw = opening[0][:-1].lower().endswith("r")
        body = re.compile(rf"[^{quote}\n\r]*" if raw else rf"(?:{_ESCAPE}|[^\\{quote}\n\r])*").match(
            text, opening.end()
        )
        end = opening.end() if body is None else body.end()
        if text[end : end + 1] == "\\":
            begun = _BEGUN.match(text, end)
            end = end + 1 if begun is None else begun.end()
    elif text[position] == "`":
        named = _NAMED.match(text, position + 1)
        end = position + 1 if named is None else named.end()
    elif text[position] in "&|=":
        end = position + 1
    else:
        end = position
    return min(end + 1, len(text))


_OPENING = re.compile(r"[bB]?[rR]?(['\"])")
_BEGUN = re.compile(r"\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})")
_NAMED = re.compile(r"[A-Za-z0-9_.\-/ ]*", re.ASCII)


def _shown(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(?:([xX])(..)|u(....)|U(........)|([0-3][0-7][0-7])|(.))", re.DOTALL)


class LiteralError(ValueError):
    """A literal that has no value; the text says why."""


def int_of(text: str, negative: bool) -> int:
    """Return the value of a decimal or hexadecimal literal."""
    number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    number = -number if negative else number
    if not INT_MIN <= number <= INT_MAX:
        raise LiteralError("invalid int literal")
    return number


def uint_of(text: str) -> Uint:
    """Return the value of a literal that ends with u."""
    text = text[:-1]
    number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    if number > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(number)


def _decimal(text: str) -> int:
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) < 40 else UINT_MAX + 1  # a long one would be slow, and refused


def float_of(text: str, negative: bool) -> float:
    """Return the value of a literal with a point or an exponent."""
    number = float(text)
    if number == float("inf"):
        raise LiteralError("invalid double literal")
    return -number if negative else number


def string_of(text: str) -> str:
    """Return the text between the quotes, with escapes replaced."""
    raw, body = _body(text)
    return body if raw else _ESCAPED.sub(_character, body)


def bytes_of(text: str) -> bytes:
    """As a string, but \\x and octal escapes are bytes."""
    raw, body = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    out = bytearray()
    end = 0
    for found in _ESCAPED.finditer(body):
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
