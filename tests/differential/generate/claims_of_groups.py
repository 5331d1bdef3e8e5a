"""Devices for cases of pod groups: claims of each pod's own, and claims that the pods of a group share.

Shared claims come last among the claims of a pod. If one comes before a claim without devices, kube-scheduler 1.37
gives the devices of each to the other one: Reserve takes them by their order, and Filter has put those of shared claims
last.
"""

from __future__ import annotations

import json

from tests.differential.generate.dice import Dice, Object

API = "resource.k8s.io/v1"
CLASSES = ("gpu", "nic", "net")
"""Of `net`, all nodes reach the devices; the others are on nodes."""


def give_devices(dice: Dice, steps: list[list[Object]]) -> list[list[Object]]:
    """The steps with devices on their nodes, and claims for pods of groups that wait."""
    shared: dict[str, str | None] = {}
    made: set[str] = set()
    found = []
    for number, step in enumerate(steps):
        objects: list[Object] = [] if number else [*map(_class, CLASSES), _everywhere(dice)]
        later: list[Object] = []
        for change in json.loads(json.dumps(step)):
            document = change.get("put", {})
            if document.get("kind") == "Node":
                objects += _on_node(dice, document["metadata"]["name"])
            elif document.get("kind") == "Pod" and "nodeName" not in document["spec"]:
                for name, of in _claims(dice, document, shared):
                    document["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": name})
                    if name not in made:
                        made.add(name)
                        objects.append({"put": _claim(name, of)})
            later.append(change)
        found.append([*objects, *later])
    return found


def _claims(dice: Dice, pod: Object, shared: dict[str, str | None]) -> list[tuple[str, str]]:
    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    if group is None:
        return []
    if group not in shared:
        shared[group] = dice.one(None, "gpu", "nic", "net", "net")
    name = pod["metadata"]["name"]
    own = [(f"{name}-{of}", of) for of in dice.one((), (), ("gpu",), ("gpu",), ("nic",), ("gpu", "nic"))]
    of = shared[group]
    return [*own, *([] if of is None else [(f"of-{group}", of)])]


def _class(name: str) -> Object:
    selectors = [{"cel": {"expression": f"device.driver == '{name}.test'"}}]
    meta = {"name": name, "uid": f"class-{name}"}
    return {"put": {"apiVersion": API, "kind": "DeviceClass", "metadata": meta, "spec": {"selectors": selectors}}}


def _claim(name: str, of: str) -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": of, "allocationMode": "ExactCount", "count": 1}}
    meta = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": {"requests": [request]}}}


def _on_node(dice: Dice, node: str) -> list[Object]:
    counts = {"gpu": dice.one(0, 1, 2, 4), "nic": dice.one(0, 1, 2)}
    return [_slice(f"{node}-{of}", of, count, nodeName=node) for of, count in counts.items() if count]


def _everywhere(dice: Dice) -> Object:
    return _slice("net", "net", dice.one(1, 2), allNodes=True)


def _slice(pool: str, of: str, count: int, **where: object) -> Object:
    spec = {
        "driver": f"{of}.test",
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{i}"} for i in range(count)],
        **where,
    }
    return {
        "put": {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": pool, "uid": f"s-{pool}"},
            "spec": spec,
        }
    }
