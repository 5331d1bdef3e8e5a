"""The cluster that hostile objects come to: nodes, placed pods of many tenants, and what selects them, as JSON.

Ten pods a node. Four of five belong to Deployments, 2,000 apps in 100 namespaces; the fifth is a StatefulSet's, whose
pods have a label of their own each. Of ten apps, one spreads over zones, one keeps its own pods apart, and one would
rather have them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bench.crowd import HOST, ZONE

SCHEDULER = "berth"
GANGS = "gangs"
"""Another profile of it, which arranges gangs: by levels of topology, with room that is kept for them."""
NAMESPACES = 100
APPS = 2_000
A_NODE = 10
"""Placed pods for each node."""
ZONES = 10
NODE_KEYS = (
    HOST,
    ZONE,
    "topology.kubernetes.io/region",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "example.com/rack",
    "example.com/pool",
)
"""The labels of every node."""
TENANT = "mallory"
"""The namespace of the tenant who does the worst."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Object = dict[str, Any]


def encoded(document: Object) -> bytes:
    """As a watch would bring it."""
    return msgspec.json.encode(document)


def node(i: int) -> Object:
    """32 CPU, 64Gi and 250 pods, in one of ten zones."""
    room = {"cpu": "32", "memory": "64Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    name = f"node-{i}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": name,
            "labels": dict(zip(NODE_KEYS, (name, f"zone-{i % ZONES}", *_well_known(i)), strict=True)),
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "images": [{"names": [f"registry.example/app-{(i + k) % APPS}:1"], "sizeBytes": 1 << 28} for k in range(8)],
        },
    }


def _well_known(i: int) -> tuple[str, ...]:
    return "region-1", "linux", "amd64", f"type-{i % 4}", f"rack-{i // 20}", f"pool-{i % 7}"


def namespace(name: str, **labels: str) -> Object:
    """With the label that the API server gives each."""
    found = {"kubernetes.io/metadata.name": name, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": f"ns-{name}", "labels": found}}


def pod(name: str, namespace: str, labels: dict[str, str], spec: Object | None = None, **requests: str) -> Object:
    """One container; `spec` is put over it."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi", **requests}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        },
        "spec": {"schedulerName": SCHEDULER, "priority": 0, "containers": [container], **(spec or {})},
    }


def of_app(app: int, name: str, more: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod of an app, as its Deployment or StatefulSet would make it."""
    own = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}}
    match app % 10:
        case 0:
            constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", **own}
            spec["topologySpreadConstraints"] = [constraint]
        case 1:
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, **own}]}}
        case 2:
            term = {"weight": 100, "podAffinityTerm": {"topologyKey": ZONE, **own}}
            spec["affinity"] = {"podAntiAffinity": {PREFERRED: [term]}}
    labels = {"app": f"app-{app}", "team": f"team-{app % 50}", **(more or {})}
    return pod(name, f"tenant-{app % NAMESPACES}", labels, spec)


def nodes(count: int) -> Iterator[bytes]:
    """All nodes."""
    return (encoded(node(i)) for i in range(count))


def namespaces() -> Iterator[bytes]:
    """Those of the tenants, the hostile one's with them."""
    yield encoded(namespace(TENANT, tier="small"))
    for i in range(NAMESPACES):
        yield encoded(namespace(f"tenant-{i}", tier="small" if i % 2 else "large"))


def storage(count: int) -> Iterator[tuple[str, bytes]]:
    """A class that provisions where the pod goes, one of local volumes, and 500 of those on the first nodes."""
    for name, provisioner in (("wait", "csi.example"), ("local", "kubernetes.io/no-provisioner")):
        yield (
            "StorageClass",
            encoded(
                {
                    "metadata": {"name": name, "uid": name},
                    "provisioner": provisioner,
                    "volumeBindingMode": "WaitForFirstConsumer",
                }
            ),
        )
    for i in range(500):
        here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"node-{i % count}"]}]}
        spec = {
            "storageClassName": "local",
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/disks/{i}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        }
        metadata = {"name": f"local-{i}", "uid": f"local-{i}"}
        yield "PersistentVolume", encoded({"metadata": metadata, "spec": spec, "status": {"phase": "Available"}})
    for i in range(count):
        driver = {"name": "csi.example", "nodeID": f"node-{i}", "allocatable": {"count": 100}}
        yield "CSINode", encoded({"metadata": {"name": f"node-{i}", "uid": f"csi-{i}"}, "spec": {"drivers": [driver]}})


def services() -> Iterator[bytes]:
    """One in each tenant's namespace."""
    for i in range(NAMESPACES):
        metadata = {"name": "web", "namespace": f"tenant-{i}", "uid": f"service-{i}"}
        spec = {"selector": {"app": f"app-{i}"}}
        yield encoded({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def placed(count: int) -> Iterator[bytes]:
    """The pods on `count` nodes, in the order of their nodes."""
    for i in range(A_NODE * count):
        # A step that no number of apps or nodes divides, so that an app's pods are on nodes far apart.
        app = i * 7_919 % APPS
        name, where = f"app-{app}-{i}", {"nodeName": f"node-{i % count}"}
        own = {"statefulset.kubernetes.io/pod-name": name} if i % 5 == 4 else None
        yield encoded(of_app(app, name, own, **where))


def ordinary(i: int) -> Object:
    """A pod of another tenant that wants to be bound: each fourth has a label that nobody had before."""
    app = 3 * i % APPS
    name = f"ordinary-{i}"
    return of_app(app, name, {"statefulset.kubernetes.io/pod-name": name} if i % 4 == 3 else None)


def objects(count: int) -> Iterator[tuple[str, bytes]]:
    """All that is there before anybody does harm, as (kind, JSON)."""
    yield from (("Node", raw) for raw in nodes(count))
    yield from (("Namespace", raw) for raw in namespaces())
    yield from (("Service", raw) for raw in services())
    yield from storage(count)
    yield from (("Pod", raw) for raw in placed(count))
