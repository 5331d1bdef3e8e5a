"""Go's text/template, as far as manifests of scheduler_perf use it, with an index that is not known yet.

What depends on `.Index` becomes a place such as `$(i % 12)`, which `objects.Template` fills in for each object. So a
manifest is read once, and not once for each of thousands of objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TAG = re.compile(r"(\s*)\{\{(-\s)?(.*?)(\s-)?\}\}(\s*)", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:\\.|[^"\\])*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)|(?P<field>\.[A-Za-z_]\w*)|(?P<dot>\.)"""
    r"|(?P<variable>\$\w*(?:\.\w+)*)|(?P<word>[A-Za-z_]\w*)|(?P<sign>:=|[()|,]))"
)
_SUM, _PRODUCT, _ATOM = range(3)
"""How tightly the outermost operator of an expression binds."""


class GoTemplateError(ValueError):
    """A template that can't be carried out here: the text says which part, and what is known."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Whole-number arithmetic on the index. Its text is what stands in a place."""

    text: str
    binds: int = _ATOM

    def __str__(self) -> str:
        return f"$({self.text})"


INDEX = Expression("i")


def render(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template whose data are these values by name.

    Raises GoTemplateError.
    """
    parts = _parts(text)
    nodes, ended_by = _block(parts)
    if ended_by is not None:
        raise GoTemplateError(f"{{{{{ended_by}}}}}: nothing is open there")
    return "".join(_run(nodes, dict(values), {"$": dict(values)}))


# --- Blocks -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Action:
    """`{{word …}}`; for `if` and `range` with what is between it and its end."""

    word: str
    tokens: list[tuple[str, str]]
    body: list[_Node]
    otherwise: list[_Node]


_Node = str | _Action


def _parts(text: str) -> Iterator[str | list[tuple[str, str]]]:
    """Yield plain text, and the tokens of each tag."""
    at = 0
    while found := _TAG.search(text, at):
        before, trims, inside, trims_after, after = found.groups()
        yield text[at : found.start()] + ("" if trims else before)
        if not inside.startswith("/*"):
            yield list(_tokens(inside))
        at = found.end() - (0 if trims_after else len(after))
    yield text[at:]


def _tokens(inside: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(inside.rstrip())
    while at < end:
        found = _TOKEN.match(inside, at)
        if found is None:
            raise GoTemplateError(f"{{{{{inside.strip()}}}}}: not understood")
        assert found.lastgroup is not None
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _block(parts: Iterator[str | list[tuple[str, str]]]) -> tuple[list[_Node], str | None]:
    """Return what comes up to the next `end` or `else`, and that word (with what follows it); None at the end."""
    nodes: list[_Node] = []
    for part in parts:
        if isinstance(part, str):
            nodes.append(part)
            continue
        word = part[0][1] if part and part[0][0] == "word" else ""
        if word in ("end", "else"):
            if len(part) > 1:
                raise GoTemplateError("{{else if}}: expected if in a block of its own")
            return nodes, word
        if word in ("if", "range"):
            body, ended_by = _block(parts)
            otherwise: list[_Node] = []
            if ended_by == "else":
                otherwise, ended_by = _block(parts)
            if ended_by != "end":
                raise GoTemplateError(f"{{{{{word}}}}}: no {{{{end}}}}")
            nodes.append(_Action(word, part[1:], body, otherwise))
        else:
            nodes.append(_Action("", part, [], []))
    return nodes, None


def _run(nodes: list[_Node], dot: Any, variables: dict[str, Any]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
            continue
        name, tokens = _assigned(node.tokens)
        value = _Pipeline(tokens, dot, variables).value()
        match node.word:
            case "range":
                items = _items(value)
                for item in items:
                    yield from _run(node.body, item, {**variables, name: item})
                if not items:
                    yield from _run(node.otherwise, dot, dict(variables))
            case "if":
                yield from _run(node.body if _truth(value) else node.otherwise, dot, dict(variables))
            case _ if name:
                variables[name] = value
            case _:
                yield _printed(value)


def _assigned(tokens: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Return the variable that gets the value, or an empty text, and what comes after `:=`."""
    if len(tokens) > 1 and tokens[0][0] == "variable" and tokens[1] == ("sign", ":="):
        return tokens[0][1], tokens[2:]
    return "", tokens


def _items(value: Any) -> list[Any]:
    if isinstance(value, int) and not isinstance(value, bool):
        return list(range(value))
    if value is None or isinstance(value, list):
        return value or []
    raise GoTemplateError(f"range over {_printed(value)}: expected a number or a list")


def _truth(value: Any) -> bool:
    if isinstance(value, Expression):
        raise GoTemplateError(f"a condition on {value.text}: expected one that is the same for all objects")
    return bool(value)


def _printed(value: Any) -> str:
    match value:
        case None:
            return "<no value>"
        case bool():
            return str(value).lower()
        case float() if value == int(value):
            return str(int(value))
    return str(value)


# --- Pipelines --------------------------------------------------------------------------------------------------------


class _Pipeline:
    """The value of `command | command`, where each command gets the last one's value as its last argument."""

    def __init__(self, tokens: list[tuple[str, str]], dot: Any, variables: Mapping[str, Any]) -> None:
        self._tokens = tokens
        self._at = 0
        self._dot = dot
        self._variables = variables

    def value(self) -> Any:
        """Return it; all tokens have to be used. Raises GoTemplateError."""
        found = self._pipeline()
        if self._at < len(self._tokens):
            raise GoTemplateError(f"{self._tokens[self._at][1]}: not expected there")
        return found

    def _pipeline(self) -> Any:
        found = self._command([])
        while self._at < len(self._tokens) and self._tokens[self._at] == ("sign", "|"):
            self._at += 1
            found = self._command([found])
        return found

    def _command(self, last: list[Any]) -> Any:
        if self._at >= len(self._tokens):
            raise GoTemplateError("{{}}: expected a value")
        kind, word = self._tokens[self._at]
        if kind != "word" or word in _CONSTANTS:
            if last:
                raise GoTemplateError(f"{word}: expected a function after |")
            return self._operand()
        self._at += 1
        arguments = []
        while self._at < len(self._tokens) and self._tokens[self._at] not in (("sign", ")"), ("sign", "|")):
            arguments.append(self._operand())
        if word not in _FUNCTIONS:
            raise GoTemplateError(f"{word}: expected one of {', '.join(_FUNCTIONS)}")
        try:
            return _FUNCTIONS[word](*arguments, *last)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, GoTemplateError):
                raise
            given = " ".join(_printed(each) for each in [*arguments, *last])
            raise GoTemplateError(f"{word} {given}: {error}") from None

    def _operand(self) -> Any:
        kind, word = self._tokens[self._at]
        self._at += 1
        match kind:
            case "text":
                return word[1:-1] if word.startswith("`") else _unquoted(word)
            case "number":
                return float(word) if "." in word else int(word)
            case "field" if isinstance(self._dot, Mapping):
                return self._dot.get(word[1:])
            case "dot":
                return self._dot
            case "variable" if word.partition(".")[0] in self._variables:
                name, *fields = word.split(".")
                found = self._variables[name]
                for field in fields:
                    found = found.get(field) if isinstance(found, Mapping) else None
                return found
            case "word" if word in _CONSTANTS:
                return _CONSTANTS[word]
            case "sign" if word == "(":
                found = self._pipeline()
                if self._at < len(self._tokens) and self._tokens[self._at] == ("sign", ")"):
                    self._at += 1
                    return found
        raise GoTemplateError(f"{word}: not expected there")


def _unquoted(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise GoTemplateError(f"{text}: expected a text that JSON could have") from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise GoTemplateError(f"{_printed(value)}: expected a number")
    return float(value)


def _int(value: Any) -> Any:
    return value if isinstance(value, Expression) else int(_number(value))


def _arithmetic(sign: str, binds: int, plain: Callable[[float, float], float]) -> Callable[..., Any]:
    """Return a function of two numbers or more, of which some may depend on the index."""

    def operand(value: Any, least: int) -> str:
        if not isinstance(value, Expression):
            return str(_int(value))
        if value.binds >= least:
            return value.text
        if "(" in value.text:
            raise GoTemplateError(f"({value.text}): expected arithmetic of the index with fewer brackets")
        return f"({value.text})"

    def two(left: Any, right: Any) -> Any:
        if isinstance(left, Expression) or isinstance(right, Expression):
            return Expression(f"{operand(left, binds)} {sign} {operand(right, binds + 1)}", binds)
        return int(plain(_number(left), _number(right)))

    def several(first: Any, *others: Any) -> Any:
        found = _int(first)
        for other in others:
            found = two(found, other)
        return found

    return several


def _or(*values: Any) -> Any:
    return next((value for value in values if _truth(value)), values[-1])


def _and(*values: Any) -> Any:
    return next((value for value in values if not _truth(value)), values[-1])


def _compared(how: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        for value in (left, right):
            if isinstance(value, Expression):
                _truth(value)
        return how(left, right)

    return compare


def _json(value: Any) -> str:
    if isinstance(value, Expression):
        return str(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_CONSTANTS = {"nil": None, "true": True, "false": False}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "AddInt": _arithmetic("+", _SUM, lambda left, right: left + right),
    "SubtractInt": _arithmetic("-", _SUM, lambda left, right: left - right),
    "MultiplyInt": _arithmetic("*", _PRODUCT, lambda left, right: left * right),
    "DivideInt": _arithmetic("//", _PRODUCT, lambda left, right: left / right),
    "Mod": _arithmetic("%", _PRODUCT, lambda left, right: int(left) % int(right)),
    "AddFloat": lambda *numbers: sum(map(_number, numbers)),
    "SubtractFloat": lambda left, right: _number(left) - _number(right),
    "MultiplyFloat": lambda left, right: _number(left) * _number(right),
    "DivideFloat": lambda left, right: _number(left) / _number(right),
    "Int": _int,
    "JSON": _json,
    "or": _or,
    "and": _and,
    "not": lambda value: not _truth(value),
    "eq": _compared(lambda left, right: bool(left == right)),
    "ne": _compared(lambda left, right: bool(left != right)),
    "lt": _compared(lambda left, right: bool(left < right)),
    "le": _compared(lambda left, right: bool(left <= right)),
    "gt": _compared(lambda left, right: bool(left > right)),
    "ge": _compared(lambda left, right: bool(left >= right)),
}
"""scheduler_perf's own (getTemplateFuncs in operations.go), and those of text/template that manifests use."""
