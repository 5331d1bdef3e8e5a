"""Generated questions to queueing hints: a waiting pod, the plugin that rejected it, and something that happens."""

from __future__ import annotations

import copy
from collections.abc import Callable

from tests.differential.generate import nodes, pods, storage
from tests.differential.generate.configs import comparing
from tests.differential.generate.dice import NODE_LABELS, POD_LABELS, Dice, Object

Question = dict[str, object]
Change = tuple[Object | None, Object | None]


def question(plugin: str, seed: int, number: int) -> Question:
    """The question of that name: the same for the same three, on any machine."""
    dice = Dice(f"hint-{plugin}-{seed}-{number}")
    dice.comparing = plugin in ("TaintToleration", "PodTopologySpread") and dice.maybe(0.4)
    pod = _waiting(dice)
    if dice.comparing:
        pod["spec"]["tolerations"] = nodes.tolerations(dice)
    objects = nodes.namespaces(dice)
    old, new = dice.one(*CHANGES[plugin])(dice, pod)
    if new is not None and new["metadata"].get("uid") == pod["metadata"]["uid"]:
        pod = old or pod
    made: Question = {"id": f"{plugin}-{seed}-{number}", "plugin": plugin, "objects": objects, "pod": pod}
    made |= {"config": comparing()} if dice.comparing else {}
    return made | ({"old": old} if old is not None else {}) | ({"new": new} if new is not None else {})


def _waiting(dice: Dice) -> Object:
    """A pod with something for every plugin to reject."""
    pod = pods.pod(dice, "p", rich=dice.maybe(0.3))
    pod["metadata"].update(namespace="default", uid="uid-default-p")
    givers: list[Callable[[], object]] = [
        lambda: pods.node_affinity(dice, pod, 4),
        lambda: pods.pod_affinity(dice, pod, 0.6),
        lambda: pods.spread(dice, pod, hard=0.8),
        lambda: pods.ports(dice, pod),
        lambda: storage.use(dice, pod, 3),
        lambda: pod["spec"].update(tolerations=nodes.tolerations(dice)),
    ]
    for give in dice.some(givers, 2):
        give()
    return pod


def _node_came(dice: Dice, pod: Object) -> Change:
    return None, nodes.node(dice, 1, taints=0.6)


def _node_changed(dice: Dice, pod: Object) -> Change:
    old = nodes.node(dice, 1, taints=0.6)
    new = copy.deepcopy(old)
    other = nodes.node(dice, 1, taints=0.6)
    for part in dice.some(("labels", "taints", "unschedulable", "allocatable"), 1, 2):
        if part == "labels":
            key = dice.one(*NODE_LABELS)
            new["metadata"]["labels"].pop(key, None)
            if key in other["metadata"]["labels"]:
                new["metadata"]["labels"][key] = other["metadata"]["labels"][key]
        elif part == "allocatable":
            name = dice.one(*other["status"]["allocatable"])
            amounts = {**new["status"]["allocatable"], name: other["status"]["allocatable"][name]}
            new["status"] = {**new["status"], "allocatable": amounts, "capacity": amounts}
        else:
            new["spec"].pop(part, None)
            if part in other["spec"]:
                new["spec"][part] = other["spec"][part]
    return old, new


def _other(dice: Dice) -> Object:
    pod = pods.pod(dice, "e", "node-1")
    for give in (pods.ports, pods.pod_affinity):
        if dice.maybe(0.5):
            give(dice, pod)
    if pod["metadata"]["namespace"] == "default" and dice.maybe(0.5):
        storage.use(dice, pod, 3)
    return pod


def _pod_came(dice: Dice, pod: Object) -> Change:
    return None, _other(dice)


def _pod_left(dice: Dice, pod: Object) -> Change:
    return _other(dice), None


def _pod_changed(dice: Dice, pod: Object) -> Change:
    old = _other(dice)
    new = copy.deepcopy(old)
    if dice.maybe(0.6):
        new["metadata"]["labels"] = dice.labels(POD_LABELS, 0.6)
    if dice.maybe(0.6):
        requests = new["spec"]["containers"][0].get("resources", {}).get("requests", {})
        requests.update({name: dice.one("0", "1", "100m") for name in requests if name == "cpu"})
    return old, new


def _itself_changed(dice: Dice, pod: Object) -> Change:
    new = copy.deepcopy(pod)
    if dice.maybe(0.6):
        new["metadata"]["labels"] = dice.labels(POD_LABELS, 0.6)
    if dice.maybe(0.6):
        new["spec"]["tolerations"] = [*new["spec"].get("tolerations", ()), *nodes.tolerations(dice)]
    return pod, new


def _storage_came(dice: Dice, pod: Object) -> Change:
    return None, _storage_object(dice)


def _storage_changed(dice: Dice, pod: Object) -> Change:
    old = _storage_object(dice)
    for _ in range(200):
        new = _storage_object(dice)
        if (new["kind"], new["metadata"]["name"]) == (old["kind"], old["metadata"]["name"]):
            return old, new
    return None, old


def _attachment_gone(dice: Dice, pod: Object) -> Change:
    volumes = [one for one in storage.claims(dice, 3, 3) if one["kind"] == "PersistentVolume"]
    attached = storage.attachments(dice, volumes, 3)
    return (attached[0], None) if attached else _attachment_gone(dice, pod)


def _storage_object(dice: Dice) -> Object:
    return dice.one(*storage.cluster(dice, 2), *storage.claims(dice, 3, 3))


NODE = (_node_came, _node_changed, _node_changed)
POD = (_pod_came, _pod_left, _pod_left, _pod_changed)
STORAGE = (_storage_came, _storage_changed, _storage_changed)
CHANGES: dict[str, tuple[Callable[[Dice, Object], Change], ...]] = {
    "NodeName": (*NODE, *POD),
    "NodeUnschedulable": (*NODE, *POD, _itself_changed),
    "TaintToleration": (*NODE, *POD, _itself_changed),
    "NodeAffinity": (*NODE, *POD, _itself_changed),
    "NodePorts": (*NODE, *POD),
    "NodeResourcesFit": (*NODE, *POD),
    "VolumeRestrictions": (*NODE, *POD, *STORAGE),
    "NodeVolumeLimits": (*NODE, *POD, *STORAGE, _attachment_gone),
    "VolumeBinding": (*NODE, *POD, *STORAGE, *STORAGE),
    "VolumeZone": (*NODE, *POD, *STORAGE, *STORAGE),
    "PodTopologySpread": (*NODE, *POD, _itself_changed),
    "InterPodAffinity": (*NODE, *POD, *POD, _itself_changed),
}
