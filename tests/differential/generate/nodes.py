"""Generated nodes and namespaces."""

from __future__ import annotations

from typing import Any

from tests.differential.generate.dice import HOST, NAMESPACES, NODE_LABELS, OLD_ZONE, ZONE, ZONES, Dice, Object

IMAGES = {
    "reg.test/small:5": 12 << 20,
    "reg.test/cache:3": 40 << 20,
    "reg.test/web:1": 300 << 20,
    "reg.test/db:2": 900 << 20,
    "reg.test/huge:4": 2000 << 20,
    "busybox:latest": 23 << 20,
    "odd": 0,
}
TAINT_KEYS = ("dedicated", "spot", "gpu", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NUMBERS = ("0", "5", "6", "6", "10", "007", "9223372036854775807", "9223372036854775808")
"""Values of taints; two of them are no numbers to a toleration."""
EXTENDED = "example.com/gpu"
ROOM = {
    "any": (
        ("1", "2", "4", "8", "3920m", "1500m"),
        ("2Gi", "4Gi", "8Gi", "16G", "7935Mi", "4000000Ki"),
        ("2", "3", "5", "10", "110", "110"),
    ),
    "small": (("1", "2"), ("2Gi", "4Gi"), ("2", "3", "5", "10", "110", "110")),
    "ample": (("16", "32", "15900m"), ("32Gi", "64G"), ("110",)),
}
"""CPU, memory and pods."""


def node(dice: Dice, number: int, *, taints: float = 0.2, images: float = 0.2, room: str = "any") -> Object:
    """One node. Its room is `any`, `small` for a few pods only, or `ample`."""
    name = f"node-{number}"
    labels = dice.labels(NODE_LABELS, 0.5)
    if dice.maybe(0.5):
        labels[ZONE] = dice.one(*ZONES)
    if dice.maybe(0.95):
        labels[HOST] = name
    if dice.maybe(0.05):
        labels[OLD_ZONE] = dice.one(*ZONES)
    cpu, memory, count = ROOM[room]
    amounts = {"cpu": dice.one(*cpu), "memory": dice.one(*memory), "pods": dice.one(*count)}
    if dice.maybe(0.9):
        amounts["ephemeral-storage"] = dice.one("10Gi", "100Gi", "1500M")
    if dice.maybe(0.3):
        amounts[EXTENDED] = dice.one("0", "1", "2", "4")
    if dice.maybe(0.1):
        amounts["example.com/foo"] = dice.one("1", "3")
    if dice.maybe(0.1):
        amounts["hugepages-2Mi"] = dice.one("0", "64Mi", "128Mi")
    spec: Object = {}
    if dice.maybe(taints / 3):
        spec["unschedulable"] = True
    if dice.maybe(taints):
        spec["taints"] = _taints(dice)
    status: Object = {"capacity": amounts, "allocatable": amounts}
    if dice.maybe(images):
        status["images"] = [
            {"names": [name, *([f"{name.partition(':')[0]}@sha256:{'0' * 63}{i}"] if dice.maybe(0.5) else [])]}
            | {"sizeBytes": size}
            for i, (name, size) in enumerate(dice.some(list(IMAGES.items()), 1))
        ]
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def nodes(dice: Dice, least: int, most: int, **how: Any) -> list[Object]:
    """Several nodes."""
    return [node(dice, i, **how) for i in range(dice.randint(least, most))]


def namespaces(dice: Dice) -> list[Object]:
    """The namespaces that pods are in; one may be unknown, as to a watch that lags."""
    made = []
    for name in NAMESPACES:
        if dice.maybe(0.03):
            continue
        labels = {"kubernetes.io/metadata.name": name}
        if dice.maybe(0.8) and name.startswith("team-"):
            labels["team"] = name[-1]
        made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return made


def tolerations(dice: Dice) -> list[Object]:
    """Tolerations that match some of the taints here."""
    made = []
    for _ in range(dice.randint(1, 4)):
        one: Object = {"operator": dice.one("Equal", "Exists", *(("Gt", "Lt") * 3 if dice.comparing else ()))}
        if one["operator"] != "Exists" or dice.maybe(0.9):
            one["key"] = dice.one(*_keys(dice))
        if one["operator"] == "Equal":
            one["value"] = dice.one("", "a", "b")
        elif one["operator"] != "Exists":
            one["value"] = dice.one("-7", "0", "5", "6", "10", "9223372036854775807")
        if dice.maybe(0.3 if dice.comparing else 0.7):
            one["effect"] = dice.one(*EFFECTS)
        if one.get("effect") == "NoExecute" and dice.maybe(0.4):
            one["tolerationSeconds"] = dice.one(0, 300)
        made.append(one)
    return made


def _keys(dice: Dice) -> tuple[str, ...]:
    """One, where numbers are what decides."""
    return TAINT_KEYS[:1] if dice.comparing else TAINT_KEYS


def _taints(dice: Dice) -> list[Object]:
    found = {}
    for _ in range(dice.randint(1, 1 if dice.comparing else 3)):
        one: Object = {"key": dice.one(*_keys(dice)), "effect": dice.one(*EFFECTS)}
        if dice.maybe(0.6):
            one["value"] = dice.one("a", "b", *(NUMBERS if dice.comparing else ()))
        found[one["key"], one["effect"]] = one
    return list(found.values())
