"""Kinds and their API groups, and objects of older API versions as the API server would show them today.

Kinds of other projects that Berth reads are told apart by group: `Node` of longhorn.io is another kind.
Upstream of the conversions: pkg/apis/resource/v1beta1/conversion.go. Kinds that are not in the table have the same
fields in each version that a supported API server serves.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from podberth.explain.judging.schema import schemas

_PODLESS_GROUPS = frozenset(
    (
        *("cert-manager.io", "cilium.io", "crd.projectcalico.org", "gateway.networking.k8s.io", "karpenter.sh"),
        *("karpenter.k8s.aws", "kueue.x-k8s.io", "longhorn.io", "management.cattle.io", "metrics.k8s.io"),
        *("monitoring.coreos.com", "networking.istio.io", "scheduling.volcano.sh", "security.istio.io"),
        *("snapshot.storage.k8s.io", "cluster.x-k8s.io", "autoscaling.k8s.io", "keda.sh"),
    )
)
"""API groups of well-known projects whose kinds make no pods, or only describe those of others."""
_OF_PODS = frozenset(
    (
        *("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController"),
        "StatefulSet",
    )
)
_GROUPS_OF_PODS = ("", "apps", "batch", "extensions")
_BESIDES = ("extensions", "podberth.dev", "scheduling.x-k8s.io")
"""Groups that the newest API server does not have, and whose kinds are read all the same."""


@cache
def _groups() -> frozenset[str]:
    """Return the API groups of Kubernetes."""
    return frozenset((*map(group_of, schemas().served), *_BESIDES))


@cache
def _kinds() -> frozenset[str]:
    """Return the kinds of Kubernetes, but for those of groups in which nothing is read."""
    kinds = (each.partition(" ")[2] for each in schemas().kinds)
    return frozenset((*kinds, "CompositePodGroup", "PodGroup", "Workload"))


def group_of(api_version: Any) -> str:
    """Return `apps` of `apps/v1`; empty for the core group, and where no version is said."""
    return api_version.rpartition("/")[0] if isinstance(api_version, str) else ""


def called(kind: str, api_version: Any) -> str:
    """Return the kind of an object, with its API group if that is another project's and Kubernetes has a kind of that
    name.

    A group of Kubernetes that has no such kind is a slip of the pen, which those who judge files tell.
    """
    group = group_of(api_version)
    return f"{kind}.{group}" if kind in _kinds() and group not in _groups() else kind


def makes_no_pods(kind: str, api_version: Any = None) -> bool:
    """Return whether objects of this kind are known to make no pods."""
    group = group_of(api_version)
    known = kind in _kinds() or (group in _groups() and group not in _GROUPS_OF_PODS)
    return (known and kind not in _OF_PODS) or group in _PODLESS_GROUPS


Object = dict[str, Any]
_IN_REQUESTS = ("name", "firstAvailable")
_malformed = (msgspec.MsgspecError, AttributeError, RecursionError, TypeError, ValueError)


def upgraded(kind: str, raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """Return the object in the version that is read. One that is malformed stays: its decoder says why."""
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
    """Move the fields of devices out of `basic`."""
    found["apiVersion"] = "resource.k8s.io/v1"
    for device in found["spec"].get("devices") or ():
        device.update(device.pop("basic", None) or {})


def _claim(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"])


def _template(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"]["spec"])


def _of_requests(spec: Object) -> None:
    """Move the fields of requests into `exactly`, unless they name alternatives."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = {name: request.pop(name) for name in [*request] if name not in (*_IN_REQUESTS, "exactly")}
        if asked and not request.get("firstAvailable"):
            request.setdefault("exactly", asked)


_OLDER: Mapping[str, Callable[[Object], None]] = {
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
}
_BETA = b"resource.k8s.io/v1beta1"
_SIGNS = {
    "ResourceSlice": (_BETA, b'"basic"'),
    "ResourceClaim": (_BETA, b'"deviceClassName"'),
    "ResourceClaimTemplate": (_BETA, b'"deviceClassName"'),
}
"""Kind → what is in the text of an object that may be older: items of a list need not name their version."""
