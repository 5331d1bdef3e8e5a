"""Label and field selectors, as they stand in query strings and in objects.

Upstream: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules.status import JsonObject, StatusError, bad_request

Labels = Mapping[str, str]
Matches = Callable[[Labels], bool]

_TOKEN = re.compile(r"\s*(?:(?P<op>==|!=|=|!|\(|\)|,|>|<)|(?P<word>[^\s!=(),<>]+))")
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
_FIELD_TERM = re.compile(r"([^!=]*)(!=|==|=)(.*)", re.DOTALL)


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"unable to parse requirement: found '{text[at:]}'")
        tokens.append(match["op"] or match["word"])
        at = match.end()
    return tokens


def _number(text: str | None) -> int | None:
    """Return a label value as Go's ParseInt(value, 10, 64) reads it; None: it is no such number."""
    if text is None or not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def requirement(key: str, operator: str, values: frozenset[str]) -> Matches:
    """Return one requirement as a predicate over labels."""
    if operator == "in":
        return lambda labels: labels.get(key) in values
    if operator == "notin":
        return lambda labels: key not in labels or labels[key] not in values
    if operator == "exists":
        return lambda labels: key in labels
    if operator == "absent":
        return lambda labels: key not in labels
    bound = _number(next(iter(values)))
    if bound is None:
        raise ValueError(f"for 'Gt', 'Lt' operators, the value must be an integer, got '{next(iter(values))}'")

    def compares(labels: Labels) -> bool:
        value = _number(labels.get(key))
        return value is not None and (value > bound if operator == "gt" else value < bound)

    return compares


class _Parser:
    """A recursive reader of `a=b, c in (d,e), !f`."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def word(self) -> str:
        token = self.take()
        if not token or token in {"==", "!=", "=", "!", "(", ")", ",", ">", "<"}:
            raise ValueError(f"unable to parse requirement: found '{token}', expected: identifier")
        return token

    def values(self) -> frozenset[str]:
        opening = self.take()
        if opening != "(":
            raise ValueError(f"unable to parse requirement: found '{opening}' expected: '('")
        values = set()
        while True:
            values.add("" if self.peek() in {",", ")"} else self.word())
            closing = self.take()
            if closing == ")":
                return frozenset(values)
            if closing != ",":
                raise ValueError(f"unable to parse requirement: found '{closing}', expected: ',' or ')'")

    def requirement(self) -> Matches:
        if self.peek() == "!":
            self.take()
            return requirement(self.word(), "absent", frozenset())
        key = self.word()
        operator = self.peek()
        if operator in {"", ","}:
            return requirement(key, "exists", frozenset())
        self.take()
        if operator in {"in", "notin"}:
            return requirement(key, operator, self.values())
        if operator not in {"=", "==", "!=", ">", "<"}:
            raise ValueError(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        value = "" if self.peek() in {"", ","} else self.word()
        name = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}[operator]
        return requirement(key, name, frozenset({value}))

    def selector(self) -> Matches:
        parts = []
        while self.peek():
            parts.append(self.requirement())
            if self.peek() and self.take() != ",":
                raise ValueError(f"found '{self.tokens[self.at - 1]}', expected: ',' or 'end of string'")
        if len(parts) == 1:
            return parts[0]
        return lambda labels: all(matches(labels) for matches in parts)


def parse_labels(text: str) -> Matches | None:
    """Return the predicate of a labelSelector parameter; None selects everything."""
    if not text.strip():
        return None
    try:
        return _Parser(text).selector()
    except ValueError as error:
        raise bad_request(str(error)) from error


def label_selector(selector: JsonObject | None) -> Matches:
    """Return the predicate of a LabelSelector object: absent selects nothing, empty selects all."""
    if selector is None:
        return lambda _: False
    parts = [requirement(key, "in", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise ValueError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        parts.append(requirement(expression["key"], operator, frozenset(expression.get("values") or [])))
    return lambda labels: all(matches(labels) for matches in parts)


def _field_terms(text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        match = _FIELD_TERM.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        value = re.sub(r"\\([\\,=])", r"\1", match[3])
        terms.append((match[1].strip(), match[2] != "!=", value))
    return terms


def field_text(value: Any) -> str:
    """Return a field's value as field selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def field_value(obj: JsonObject, path: tuple[str, ...]) -> str:
    """Return the text at a path; absent is empty, and a bool that Go would leave out is `false`."""
    value: Any = obj
    try:
        for part in path:
            value = value[part]
    except (KeyError, TypeError):
        value = None
    if value is None:
        return "false" if path[-1] in {"unschedulable", "hostNetwork"} else ""
    return field_text(value)


class Selection:
    """The objects that a list or watch selects."""

    def __init__(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> None:
        self._prefix = f"{namespace}/" if namespace else ""
        self._labels = parse_labels(labels)
        self._fields: list[tuple[tuple[str, ...], bool, str]] = []
        for label, equal, value in _field_terms(fields):
            path = resource.selectable.get(label)
            if path is None:
                raise unsupported_field(resource, label)
            self._fields.append((path, equal, value))

    @property
    def is_everything(self) -> bool:
        """Return whether only the namespace narrows the selection."""
        return self._labels is None and not self._fields

    def accepts(self, key: str, obj: JsonObject) -> bool:
        """Return whether one object is selected."""
        if self._prefix and not key.startswith(self._prefix):
            return False
        for path, equal, value in self._fields:
            if (field_value(obj, path) == value) is not equal:
                return False
        return self._labels is None or self._labels(obj["metadata"].get("labels") or {})


def unsupported_field(resource: Resource, label: str) -> StatusError:
    """Return the 400 for a field label that the resource can't be selected by."""
    if resource.custom or resource.fields:
        return bad_request(f"field label not supported: {label}")
    return bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
