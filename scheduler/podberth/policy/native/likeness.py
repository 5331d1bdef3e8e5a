"""Comparison of an object of `admissionregistration.k8s.io/v1` on the API server with the one that we want.

The API server fills in defaults, and others may add to lists that are merged by name. So two objects are compared
without what is a default, and otherwise have to be equal.
"""

from typing import Any

_DEFAULTS: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "scope": "*",
}


def same(found: Any, wanted: Any) -> bool:
    """Return whether two specs mean the same."""
    return bool(_plain(found) == _plain(wanted))


def _plain(value: Any) -> Any:
    """A value without what is a default, or empty."""
    if isinstance(value, dict):
        held = {key: _plain(one) for key, one in value.items() if key not in _DEFAULTS or one != _DEFAULTS[key]}
        return {key: one for key, one in held.items() if one not in (None, [], {})}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
