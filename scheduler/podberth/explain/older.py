"""Objects of older API versions, as the API server would show them in the versions that are read.

Upstream: pkg/apis/resource/v1beta1/conversion.go, pkg/apis/policy/v1beta1/conversion.go. What is not here has the same
fields in each version.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Object = dict[str, Any]
_IN_REQUESTS = ("name", "firstAvailable")
_malformed = (msgspec.MsgspecError, AttributeError, RecursionError, TypeError, ValueError)


def upgraded(kind: str, raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """The object in the version that is read. One that is malformed stays: its decoder says why."""
    change = _OLDER.get(kind)
    if change is None or not any(sign in bytes(raw) for sign in _SIGNS[kind]):
        return raw
    try:
        found = msgspec.json.decode(raw)
        change(found)
        return msgspec.json.encode(found)
    except _malformed:
        return raw


def _slice(found: Object) -> None:
    """A device had its fields in `basic`, and an amount was no object (v1alpha3)."""
    found["apiVersion"] = "resource.k8s.io/v1"
    for device in found["spec"].get("devices") or ():
        device.update(device.pop("basic", None) or {})
        amounts = device.get("capacity") or {}
        amounts.update(
            {name: amount if isinstance(amount, dict) else {"value": amount} for name, amount in amounts.items()}
        )


def _claim(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"])


def _template(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"]["spec"])


def _of_requests(spec: Object) -> None:
    """A request had its fields beside its name; now it has them in `exactly`, unless it names alternatives."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = {name: request.pop(name) for name in [*request] if name not in (*_IN_REQUESTS, "exactly")}
        if asked and not request.get("firstAvailable"):
            request.setdefault("exactly", asked)


def _budget(found: Object) -> None:
    """An empty selector selected nothing, which in v1 is no selector."""
    if found.get("apiVersion") == "policy/v1beta1":
        found["apiVersion"] = "policy/v1"
        spec = found["spec"]
        if not any((spec.get("selector") or {}).values()):
            spec.pop("selector", None)


_OLDER: Mapping[str, Callable[[Object], None]] = {
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "PodDisruptionBudget": _budget,
}
_OF_DEVICES = (b"resource.k8s.io/v1beta1", b"resource.k8s.io/v1alpha3")
_SIGNS = {
    "ResourceSlice": (*_OF_DEVICES, b'"basic"'),
    "ResourceClaim": (*_OF_DEVICES, b'"deviceClassName"'),
    "ResourceClaimTemplate": (*_OF_DEVICES, b'"deviceClassName"'),
    "PodDisruptionBudget": (b"policy/v1beta1",),
}
"""Kind → what is in the text of an object that may be older: items of a list need not name their version."""
