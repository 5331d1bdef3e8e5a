"""Text to tokens, by the lexer rules of the language; the longest match wins."""

import re
from typing import NamedTuple

from podberth.cel.source import Issue

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
    """`kind` is the operator or keyword itself, or bytes, string, float, uint, int, name, quoted, <EOF>."""

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
    """Return where text that begins no token ends: after the first character with which no token could go on."""
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
