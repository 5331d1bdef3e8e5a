"""What must hold of a cluster after scheduling, worked out from API objects alone, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.objects import NODES, ZONE, pods_path

BOUND = 120.0
"""Seconds that binding may take; how fast it is, is for the benchmarks to say."""
_SUFFIXES: dict[str, Fraction | int] = {
    "m": Fraction(1, 1000),
    "k": 1000,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def amount(quantity: str) -> Fraction:
    """A quantity's exact value."""
    digits = quantity.rstrip("mkKMGTi")
    return Fraction(digits) * _SUFFIXES.get(quantity[len(digits) :], 1)


def node_of(pod: Object) -> str:
    """Where a pod is bound, or nothing."""
    name: str = pod["spec"].get("nodeName", "")
    return name


def wait_bound(api: Api, namespace: str, count: int, timeout: float = BOUND) -> list[Object]:
    """Wait until the namespace has that many bound pods; all its pods."""
    path = pods_path(namespace)

    def bound() -> list[Object]:
        return api.list(path, fieldSelector="spec.nodeName!=")

    wait_for(f"{count} bound pods in {namespace}", lambda: len(bound()) >= count, timeout, 0.2)
    return api.list(path)


def condition(pod: Object, kind: str = "PodScheduled") -> Object:
    """A pod's condition of this type, {} without."""
    found = (c for c in pod.get("status", {}).get("conditions", []) if c["type"] == kind)
    return next(found, {})


def wait_condition(api: Api, namespace: str, name: str, message: str = "", timeout: float = BOUND) -> Object:
    """Wait until PodScheduled=False says this (or anything); the pod."""

    def said() -> Object | None:
        pod = api.get(f"{pods_path(namespace)}/{name}")
        found = condition(pod)
        return pod if found.get("status") == "False" and message in found.get("message", "") else None

    return wait_for(f"PodScheduled=False on {name} with {message!r}", said, timeout)


def overfull(api: Api) -> list[str]:
    """Nodes whose pods ask for more than is allocatable."""
    used: dict[str, Counter[str]] = {}
    for pod in api.list("/api/v1/pods"):
        if node_of(pod) and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            on_node = used.setdefault(node_of(pod), Counter())
            on_node["pods"] += 1
            for container in pod["spec"]["containers"]:
                for name, asked in container["resources"].get("requests", {}).items():
                    on_node[name] += amount(asked)  # type: ignore[assignment]
    found = []
    for node in api.list(NODES):
        name, room = node["metadata"]["name"], node["status"]["allocatable"]
        found += [
            f"{name}: {resource} {float(taken):g} of {room.get(resource, '0')}"
            for resource, taken in used.get(name, {}).items()
            if taken > amount(room.get(resource, "0"))
        ]
    return found


def events(api: Api, namespace: str, reason: str = "") -> list[Object]:
    """The events.k8s.io events of a namespace, or those with this reason."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    return [event for event in api.list(path) if reason in ("", event["reason"])]


def wait_events(api: Api, namespace: str, reason: str, count: int, timeout: float = BOUND) -> list[Object]:
    """Wait until there are that many events with this reason; all of them, which may be more."""
    what = f"{count} events {reason} in {namespace}"
    return wait_for(
        what, lambda: found if len(found := events(api, namespace, reason)) >= count else None, timeout, 0.2
    )


def scheduled_once_each(api: Api, namespace: str, pods: Iterable[Object], controller: str) -> None:
    """Every pod has exactly one Scheduled event, as kube-scheduler writes it."""
    pods = {pod["metadata"]["uid"]: pod for pod in pods}
    found = wait_events(api, namespace, "Scheduled", len(pods))
    assert Counter(event["regarding"]["uid"] for event in found) == Counter(list(pods))
    for event in found:
        pod = pods[event["regarding"]["uid"]]
        name = pod["metadata"]["name"]
        said = {word: event[word] for word in ("type", "reason", "action", "note", "reportingController")}
        assert said == {
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": f"Successfully assigned {namespace}/{name} to {node_of(pod)}",
            "reportingController": controller,
        }
        assert event["reportingInstance"]
        regarding = {word: event["regarding"][word] for word in ("kind", "namespace", "name", "apiVersion")}
        assert regarding == {"kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "v1"}


def bindings(cluster: ControlPlane, namespace: str) -> list[Object]:
    """The audit's record of every Binding asked for in a namespace."""
    return [
        entry
        for entry in cluster.audit_events("/binding", namespace)
        if entry.get("objectRef", {}).get("subresource") == "binding" and entry["objectRef"]["namespace"] == namespace
    ]


def bound_once_each(cluster: ControlPlane, namespace: str, pods: Iterable[Object], unrecorded: int = 0) -> list[Object]:
    """Every pod was bound by exactly one Binding, which named its UID and the node that it is on; all asked for.

    `unrecorded`: how many Bindings may be missing in the audit log, because SIGKILL met the API server between storing
    one and writing its line. A line too many is never in order.
    """
    targets = {pod["metadata"]["uid"]: node_of(pod) for pod in pods}

    def recorded() -> tuple[list[Object], list[Object]] | None:
        """A pod is seen bound a moment before the line of its Binding is written."""
        asked = bindings(cluster, namespace)
        granted = [entry for entry in asked if entry["responseStatus"]["code"] == 201]
        return (asked, granted) if len(granted) >= len(targets) - unrecorded else None

    asked, granted = wait_for("the audit of the Bindings", recorded, BOUND, 0.2)
    times = Counter(entry["requestObject"]["metadata"]["uid"] for entry in granted)
    assert {uid: count for uid, count in times.items() if count > 1 or uid not in targets} == {}
    missing = targets.keys() - times.keys()
    assert len(missing) <= unrecorded, missing
    for entry in granted:
        body = entry["requestObject"]
        assert body["target"] == {"kind": "Node", "name": targets[body["metadata"]["uid"]]}
    return asked


def zones(api: Api) -> dict[str, str]:
    """Node → its zone."""
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "") for node in api.list(NODES)}


def constraint_holds(shape: str, pods: Iterable[Object], zone_of: Mapping[str, str]) -> None:
    """What a shape of `objects.SHAPES` asks for is so."""
    pods = list(pods)
    hosts = Counter(node_of(pod) for pod in pods)
    used_zones = {zone_of[name] for name in hosts}
    match shape:
        case "plain":
            assert max(hosts.values()) <= 40
        case "affinity":
            assert len(used_zones) == 1, used_zones
        case "antiaffinity":
            assert max(hosts.values()) == 1, hosts.most_common(3)
        case "nodeaffinity":
            assert used_zones == {"zone-0", "zone-1"}
        case "hetero":
            sizes = {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods}
            assert len(sizes) == len(pods)
            shared = Counter((node_of(pod), pod["metadata"]["labels"]["app"]) for pod in pods)
            assert max(shared.values()) == 1, shared.most_common(3)
        case _:
            raise AssertionError(f"no such shape: {shape}")
