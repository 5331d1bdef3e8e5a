"""Parses the text of an expression to a tree, by the grammar of the language, and expands macros on the way.

The longest token wins. The parser stops at the first token that doesn't fit. The API server stores no selector that
can't be parsed, so errors are said in our own words.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from podberth.cel.errors import quoted
from podberth.cel.tree import (
    Call,
    Fold,
    ListLiteral,
    Literal,
    MapLiteral,
    Name,
    Node,
    Select,
)
from podberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint


@dataclass(frozen=True, slots=True)
class Issue:
    """A mistake at a position, in code points."""

    position: int
    message: str

    def shown(self, text: str) -> str:
        """Return the message with line and column, both from 1, and that line with a mark, as the API server shows it
        (common/error.go of cel-go).
        """
        begins = text.rfind("\n", 0, self.position) + 1
        column = self.position - begins
        line = text[begins:].partition("\n")[0].replace("\t", " ")
        marks = "".join("．" if character > "\x7f" else "." for character in line[:column])
        mark = "＾" if line[column : column + 1] > "\x7f" else "^"
        number = text.count("\n", 0, self.position) + 1
        return f"ERROR: <input>:{number}:{column + 1}: {self.message}\n | {line}\n | {marks}{mark}"


class SyntaxIssueError(Exception):
    """The expression can't be parsed."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(position, message)


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


def tokens_of(text: str) -> list[Token]:
    """Return the tokens, ended by one of kind <EOF>. Raises SyntaxIssueError where no token begins."""
    tokens: list[Token] = []
    position, match = 0, _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            raise SyntaxIssueError(position, f"no token begins with {quoted(text[position])}")
        kind, token = found.lastgroup or "", found.group()
        if kind == "operator" or (kind == "name" and token in KEYWORDS):
            kind = token
        if kind != "space":
            tokens.append(Token(kind, token, position))
        position = found.end()
    tokens.append(Token(END, END, len(text)))
    return tokens


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


ACCUMULATOR = "@result"
_UNUSED = "#unused"
_OTHER_ACCUMULATOR = "__result__"
_NO_NAME = "argument must be a simple name"


_Macro = Callable[[int, Node, list[Node]], Node | None]


def expand(position: int, function: str, args: list[Node], target: Node | None) -> Node | None:
    """Return the expansion of a call, or None when it is an ordinary call. Raises SyntaxIssueError."""
    if target is None:
        if function == "has" and len(args) == 1:
            return _has(position, args[0])
        return None
    macro = _MACROS.get((function, len(args)))
    return None if macro is None else macro(position, target, args)


def _has(position: int, arg: Node) -> Node:
    if type(arg) is not Select:
        raise SyntaxIssueError(arg.position, "invalid argument to has() macro")
    return Select(position, arg.operand, arg.field, test=True)


def _variable(arg: Node, complaint: str) -> str:
    if type(arg) is not Name:
        raise SyntaxIssueError(arg.position, complaint)
    if arg.name in (ACCUMULATOR, _OTHER_ACCUMULATOR):
        raise SyntaxIssueError(arg.position, "iteration variable overwrites accumulator variable")
    return arg.name


def _one(args: list[Node], complaint: str) -> tuple[str, str]:
    return _variable(args[0], complaint), ""


def _two(args: list[Node]) -> tuple[str, str]:
    first, second = args[:2]
    if type(first) is not Name or type(second) is not Name:
        raise SyntaxIssueError((second if type(first) is Name else first).position, _NO_NAME)
    if first.name == second.name:
        raise SyntaxIssueError(second.position, f"duplicate variable name: {first.name}")
    return _variable(first, _NO_NAME), _variable(second, _NO_NAME)


def _accumulated(at: int) -> Name:
    return Name(at, ACCUMULATOR)


def _every(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    condition = Call(at, "@not_strictly_false", [_accumulated(at)])
    step = Call(at, "_&&_", [_accumulated(at), test])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, True), (condition, step, _accumulated(at)))


def _any(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    condition = Call(at, "@not_strictly_false", [Call(at, "!_", [_accumulated(at)])])
    step = Call(at, "_||_", [_accumulated(at), test])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, False), (condition, step, _accumulated(at)))


def _exactly_one(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    more = Call(at, "_+_", [_accumulated(at), Literal(at, 1)])
    step = Call(at, "_?_:_", [test, more, _accumulated(at)])
    result = Call(at, "_==_", [_accumulated(at), Literal(at, 1)])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, 0), (Literal(at, True), step, result))


def _collect(at: int, over: Node, names: tuple[str, str], initial: Node, filtered: Node | None, step: Node) -> Node:
    if filtered is not None:
        step = Call(at, "_?_:_", [filtered, step, _accumulated(at)])
    return Fold(at, over, names, ACCUMULATOR, initial, (Literal(at, True), step, _accumulated(at)))


def _to_list(at: int, over: Node, names: tuple[str, str], args: list[Node]) -> Node:
    step = Call(at, "_+_", [_accumulated(at), ListLiteral(at, [args[-1]])])
    return _collect(at, over, names, ListLiteral(at, []), args[0] if len(args) == 2 else None, step)


def _map(at: int, target: Node, args: list[Node]) -> Node:
    return _to_list(at, target, _one(args, "argument is not an identifier"), args[1:])


def _filter(at: int, target: Node, args: list[Node]) -> Node:
    names = _one(args, "argument is not an identifier")
    return _to_list(at, target, names, [args[1], args[0]])


def _transform_list(at: int, target: Node, args: list[Node]) -> Node:
    return _to_list(at, target, _two(args), args[2:])


def _transform_map(at: int, target: Node, args: list[Node]) -> Node:
    names = _two(args)
    step = Call(at, "cel.@mapInsert", [_accumulated(at), Name(at, names[0]), args[-1]])
    return _collect(at, target, names, MapLiteral(at, []), args[2] if len(args) == 4 else None, step)


def _transform_entry(at: int, target: Node, args: list[Node]) -> Node:
    names = _two(args)
    step = Call(at, "cel.@mapInsert", [_accumulated(at), args[-1]])
    return _collect(at, target, names, MapLiteral(at, []), args[2] if len(args) == 4 else None, step)


def _bound(at: int, name: str, value: Node, result: Node) -> Fold:
    """Return a loop over nothing, of which only the initial value and the result matter."""
    return Fold(at, ListLiteral(at, []), (_UNUSED, ""), name, value, (Literal(at, False), Name(at, name), result))


def _bind(at: int, target: Node, args: list[Node]) -> Node | None:
    if type(target) is not Name or target.name != "cel":
        return None
    if type(args[0]) is not Name:
        raise SyntaxIssueError(args[0].position, "cel.bind() variable names must be simple identifiers")
    return _bound(at, args[0].name, args[1], args[2])


def _opt_map(at: int, target: Node, args: list[Node]) -> Node:
    return _opt_flat_map(at, target, [args[0], _optional_call(at, "of", [args[1]])], "optMap")


def _opt_flat_map(at: int, target: Node, args: list[Node], function: str = "optFlatMap") -> Node:
    if type(args[0]) is not Name:
        raise SyntaxIssueError(args[0].position, f"{function}() variable name must be a simple identifier")
    name = "@optional"
    mapped = _bound(at, args[0].name, Call(at, "value", [], Name(at, name)), args[1])
    there = Call(at, "hasValue", [], Name(at, name))
    return _bound(at, name, target, Call(at, "_?_:_", [there, mapped, _optional_call(at, "none", [])]))


def _optional_call(at: int, name: str, args: list[Node]) -> Node:
    return Call(at, f"optional.{name}", args)


def _sort_by(at: int, target: Node, args: list[Node]) -> Node:
    if type(target) not in (ListLiteral, Select, Name, Fold, Call):
        complaint = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise SyntaxIssueError(target.position, complaint)
    name = "@__sortBy_input__"
    keys = _map(at, Name(at, name), args)
    return _bound(at, name, target, Call(at, "@sortByAssociatedKeys", [keys], Name(at, name)))


_MACROS: dict[tuple[str, int], _Macro] = {
    ("all", 2): lambda at, target, args: _every(at, target, _one(args, _NO_NAME), args[1]),
    ("exists", 2): lambda at, target, args: _any(at, target, _one(args, _NO_NAME), args[1]),
    ("exists_one", 2): lambda at, target, args: _exactly_one(at, target, _one(args, _NO_NAME), args[1]),
    ("all", 3): lambda at, target, args: _every(at, target, _two(args), args[2]),
    ("exists", 3): lambda at, target, args: _any(at, target, _two(args), args[2]),
    ("exists_one", 3): lambda at, target, args: _exactly_one(at, target, _two(args), args[2]),
    ("existsOne", 3): lambda at, target, args: _exactly_one(at, target, _two(args), args[2]),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("bind", 3): _bind,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}


_DEPTH = 250
_NESTING = 100
"""The largest number of nested expressions. cel-go allows 250, for which Python's stack is too small."""
_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3}
_PRECEDENCE |= {"+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_OPERATOR = {"in": "@in"} | {text: f"_{text}_" for text in _PRECEDENCE if text != "in"}
_LOGICAL = frozenset({"_||_", "_&&_"})
_WORDS = "as break const continue else for function if import let loop package namespace return var void while"
_RESERVED = frozenset(_WORDS.split())


def parsed(text: str) -> Node:
    """Return the tree of an expression. Raises SyntaxIssueError."""
    parser = _Parser(tokens_of(text))
    root = parser.expression()
    parser.close(END)
    return root


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nesting = 0
        self._members = 0
        self._closed: set[int] = set()
        """Nodes in parentheses, to which no terms are added."""

    def expression(self) -> Node:
        """Parse `a || b`, or `a ? b : c`."""
        self._nesting += 1
        self._bound(self._nesting, _NESTING)
        result = self._binary()
        token = self._tokens[self._at]
        if token.kind == "?":
            self._at += 1
            then = self._binary()
            self.close(":")
            otherwise = self.expression()
            result = Call(token.position, "_?_:_", [result, then, otherwise])
        self._nesting -= 1
        return result

    def _binary(self) -> Node:
        """Parse operands and binary operators, all left to right; `&&` and `||` take all their terms at once."""
        operands = [self._operand()]
        operators: list[Token] = []
        chained = 1
        while True:
            token = self._tokens[self._at]
            level = _PRECEDENCE.get(token.kind, 0)
            while operators and _PRECEDENCE[operators[-1].kind] >= level:
                self._reduce(operands, operators.pop())
            if level == 0:
                return operands[0]
            chained = chained + 1 if level > 2 else 1
            self._bound(chained + self._nesting - 1)
            operators.append(token)
            self._at += 1
            operands.append(self._operand())

    def _reduce(self, operands: list[Node], token: Token) -> None:
        right = operands.pop()
        left = operands.pop()
        function = _OPERATOR[token.kind]
        if function in _LOGICAL and type(left) is Call and left.function == function and id(left) not in self._closed:
            left.args.append(right)
            operands.append(left)
        else:
            operands.append(Call(token.position, function, [left, right]))

    def _operand(self) -> Node:
        """Parse signs, a primary, and the selections, calls and lookups on it."""
        token = self._tokens[self._at]
        sign = token
        repeated = 0
        if token.kind in ("!", "-"):
            while self._tokens[self._at].kind == token.kind:
                repeated += 1
                self._at += 1
        following = self._tokens[self._at]
        negative = token.kind == "-" and repeated == 1 and following.kind in ("int", "float")
        if negative:
            repeated = 0
        entered = self._members
        self._members += 1
        self._bound(self._members)
        result = self._negative(sign, following) if negative else self._primary()
        while True:
            token = self._tokens[self._at]
            if token.kind == ".":
                result = self._member(token, result)
            elif token.kind == "[":
                self._at += 1
                optional = self._skip("?")
                index = self.expression()
                self.close("]")
                result = Call(token.position, "_[?_]" if optional else "_[_]", [result, index])
            else:
                break
            self._members += 1
            self._bound(self._members)
        self._members = entered
        if repeated % 2:
            result = Call(sign.position, "!_" if sign.kind == "!" else "-_", [result])
        return result

    def _negative(self, sign: Token, token: Token) -> Node:
        self._at += 1
        try:
            if token.kind == "int":
                return Literal(sign.position, int_of(token.text, True))
            return Literal(sign.position, float_of(token.text, True))
        except LiteralError as error:
            raise SyntaxIssueError(sign.position, str(error)) from None

    def _member(self, dot: Token, operand: Node) -> Node:
        following = self._tokens[self._at + 1]
        if following.kind == "?":
            self._at += 2
            token = self._field()
            return Call(dot.position, "_?._", [operand, Literal(token.position, _unquoted(token))])
        self._at += 1
        token = self._field()
        opening = self._tokens[self._at]
        if opening.kind == "(" and token.kind == "name":
            self._at += 1
            args = self._arguments()
            return self._called(opening.position, token.text, args, operand)
        return Select(dot.position, operand, _unquoted(token))

    def _field(self) -> Token:
        token = self._tokens[self._at]
        if token.kind not in ("name", "quoted"):
            raise _unexpected(token, "a name")
        self._at += 1
        return token

    def _called(self, position: int, function: str, args: list[Node], target: Node | None) -> Node:
        expanded = expand(position, function, args, target)
        return Call(position, function, args, target) if expanded is None else expanded

    def _primary(self) -> Node:
        token = self._tokens[self._at]
        kind = token.kind
        if kind in _CONSTANT:
            self._at += 1
            return Literal(token.position, _CONSTANT[kind])
        if kind in ("int", "uint", "float", "string", "bytes"):
            self._at += 1
            return self._literal(token)
        if kind == "(":
            self._at += 1
            inner = self.expression()
            self.close(")")
            self._closed.add(id(inner))
            return inner
        if kind == "[":
            return self._list(token)
        if kind == "{":
            self._at += 1
            return self._map(token)
        if kind == "name" or (kind == "." and self._tokens[self._at + 1].kind == "name"):
            return self._name(token)
        raise _unexpected(token, "an operand")

    def _literal(self, token: Token) -> Node:
        try:
            return Literal(token.position, _LITERALS[token.kind](token.text))
        except LiteralError as error:
            raise SyntaxIssueError(token.position, str(error)) from None

    def _name(self, token: Token) -> Node:
        prefix = ""
        start = token.position
        if token.kind == ".":
            prefix = "."
            self._at += 1
            token = self._tokens[self._at]
        if token.text in _RESERVED:
            raise SyntaxIssueError(start, f"reserved identifier: {token.text}")
        self._at += 1
        opening = self._tokens[self._at]
        if opening.kind == "(":
            self._at += 1
            args = self._arguments()
            return self._called(opening.position, prefix + token.text, args, None)
        return Name(token.position, prefix + token.text)

    def _arguments(self) -> list[Node]:
        args: list[Node] = []
        if self._skip(")"):
            return args
        args.append(self.expression())
        while self._skip(","):
            args.append(self.expression())
        self.close(")")
        return args

    def _list(self, opening: Token) -> Node:
        self._at += 1
        elements: list[Node] = []
        optional: set[int] = set()
        while self._tokens[self._at].kind not in ("]", ","):
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if not self._more("]"):
                break
        self._close_all("]")
        return ListLiteral(opening.position, elements, frozenset(optional))

    def _map(self, opening: Token) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while self._tokens[self._at].kind not in ("}", ","):
            optional = self._skip("?")
            key = self.expression()
            self.close(":")
            value = self.expression()
            entries.append((key, value, optional))
            if not self._more("}"):
                break
        self._close_all("}")
        return MapLiteral(opening.position, entries)

    def _more(self, closing: str) -> bool:
        """Go over a comma after which another element follows."""
        if self._tokens[self._at].kind == "," and self._tokens[self._at + 1].kind not in (closing, ","):
            self._at += 1
            return True
        return False

    def _skip(self, kind: str) -> bool:
        if self._tokens[self._at].kind != kind:
            return False
        self._at += 1
        return True

    def _close_all(self, kind: str) -> None:
        """Go over the end of a list or a map, before which a comma may be."""
        self._skip(",")
        self.close(kind)

    def close(self, kind: str) -> None:
        """Go over a token that must be there."""
        if not self._skip(kind):
            raise _unexpected(self._tokens[self._at], f"'{kind}'")

    @staticmethod
    def _bound(depth: int, most: int = _DEPTH) -> None:
        if depth > most:
            raise SyntaxIssueError(0, f"expression recursion limit exceeded: {most}")


def _unquoted(token: Token) -> str:
    return token.text[1:-1] if token.kind == "quoted" else token.text


def _unexpected(token: Token, expected: str) -> SyntaxIssueError:
    return SyntaxIssueError(token.position, f"syntax error: expected {expected}, found '{token.text}'")


_CONSTANT = {"true": True, "false": False, "null": None}
_LITERALS = {
    "int": lambda text: int_of(text, False),
    "uint": uint_of,
    "float": lambda text: float_of(text, False),
    "string": string_of,
    "bytes": bytes_of,
}
