"""The grammar of names, labels and qualified names, with the API's own sentences about them.

Upstream: k8s.io/apimachinery pkg/util/validation/validation.go, pkg/api/validate/content.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

Rule = Callable[[str], tuple[str, ...]]
"""Returns the errors in a text; an empty tuple if there are none."""

DNS_LABEL = re.compile(_LABEL)
DNS_SUBDOMAIN = re.compile(_SUBDOMAIN)
QUALIFIED_NAME = re.compile(_QUALIFIED)
LABEL_VALUE = re.compile(rf"({_QUALIFIED})?")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _errors(text: str, limit: int, pattern: re.Pattern[str], otherwise: str) -> tuple[str, ...]:
    """Return what is wrong with a text that may have so many bytes and has to match a pattern."""
    too_long = (_too_long(limit),) if len(text) > limit else ()
    return too_long if pattern.fullmatch(text) else (*too_long, otherwise)


@lru_cache(maxsize=4096)
def dns_label_errors(name: str) -> tuple[str, ...]:
    """Return what is wrong with a name as an RFC 1123 label."""
    return ("must not contain dots",) if "." in name else _errors(name, 63, DNS_LABEL, _LABEL_TEXT)


def subdomain_errors(name: str) -> tuple[str, ...]:
    """Return what is wrong with a name as an RFC 1123 subdomain."""
    return _errors(name, 253, DNS_SUBDOMAIN, _SUBDOMAIN_TEXT)


node_name_errors = subdomain_errors


def path_segment_errors(name: str) -> tuple[str, ...]:
    """Return what is wrong with a name that only has to fit into a path (rbac, CSI)."""
    if name in {".", ".."}:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{part}'" for part in ("/", "%") if part in name)


@lru_cache(maxsize=4096)
def qualified_name_errors(name: str) -> tuple[str, ...]:
    """Return what is wrong with `name` or `prefix/name`."""
    errors = []
    prefix, slash, part = name.rpartition("/")
    if "/" in prefix:
        return (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')",
        )
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {text}" for text in subdomain_errors(prefix))
    if not part:
        errors.append("name part must be non-empty")
    elif len(part) > 63:
        errors.append("name part " + _too_long(63))
    if not QUALIFIED_NAME.fullmatch(part):
        errors.append(_NAME_PART_TEXT)
    return tuple(errors)


@lru_cache(maxsize=16384)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Return what is wrong with a label's value."""
    return _errors(value, 63, LABEL_VALUE, _LABEL_VALUE_TEXT)
