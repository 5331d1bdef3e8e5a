"""Builders of plain API dicts: nodes in ten zones, and pods of the shapes that the tests schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.controlplane.api import Object

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NODES = "/api/v1/nodes"


def node(name: str, zone: str = "zone-0", *, labels: Mapping[str, str] | None = None, **room: str) -> Object:
    """A node with 4 CPU, 32Gi and 110 pods, or with the room given."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **room}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, **(labels or {})}},
        "status": {"capacity": room, "allocatable": room},
    }


def nodes(count: int, prefix: str, *, zones: int = 10, **room: Any) -> list[Object]:
    """That many equal nodes, evenly over the zones."""
    return [node(f"{prefix}-{i}", f"zone-{i % zones}", **room) for i in range(count)]


def pods_path(namespace: str) -> str:
    """The collection."""
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(
    name: str,
    scheduler: str,
    *,
    cpu: str = "100m",
    memory: str = "500Mi",
    labels: Mapping[str, str] | None = None,
    affinity: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod of one container."""
    container = {
        "name": "main",
        "image": "registry.example/app",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    body: Object = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    if affinity:
        body["affinity"] = affinity
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": body}


def near(labels: Mapping[str, str], topology: str) -> Object:
    """Required affinity to pods with these labels."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(labels, topology)]}}


def apart(labels: Mapping[str, str], topology: str) -> Object:
    """Required anti-affinity to pods with these labels."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(labels, topology)]}}


def rather_apart(labels: Mapping[str, str], topology: str) -> Object:
    """Preferred anti-affinity to pods with these labels."""
    term = {"weight": 100, "podAffinityTerm": _term(labels, topology)}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def on(key: str, values: Sequence[str]) -> Object:
    """Required node affinity: the label is one of these."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _term(labels: Mapping[str, str], topology: str) -> Object:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": topology}


# The shapes of the issue: `count` pods of one of them.


def plain(count: int, scheduler: str) -> list[Object]:
    """Nothing but 100m and 500Mi."""
    return [pod(f"plain-{i}", scheduler) for i in range(count)]


def affinity(count: int, scheduler: str) -> list[Object]:
    """Each must be in a zone where one of its kind is; the first may choose."""
    labels = {"app": "blue"}
    return [pod(f"affinity-{i}", scheduler, labels=labels, affinity=near(labels, ZONE)) for i in range(count)]


def anti_affinity(count: int, scheduler: str) -> list[Object]:
    """No two on one node."""
    labels = {"app": "green"}
    return [pod(f"anti-{i}", scheduler, labels=labels, affinity=apart(labels, HOSTNAME)) for i in range(count)]


def node_affinity(count: int, scheduler: str) -> list[Object]:
    """Only in two of the zones."""
    wanted = on(ZONE, ["zone-0", "zone-1"])
    return [pod(f"zonal-{i}", scheduler, affinity=wanted) for i in range(count)]


def hetero(count: int, scheduler: str) -> list[Object]:
    """Every pod of another size, of 97 apps whose pods would rather not share a node."""
    made = []
    for i in range(count):
        labels = {"app": f"app-{i % 97}"}
        size = {"cpu": f"{50 + i}m", "memory": f"{100 + 3 * i}Mi"}
        made.append(pod(f"hetero-{i}", scheduler, labels=labels, affinity=rather_apart(labels, HOSTNAME), **size))
    return made


SHAPES = {
    "plain": plain,
    "affinity": affinity,
    "antiaffinity": anti_affinity,
    "nodeaffinity": node_affinity,
    "hetero": hetero,
}
