"""Families of cases: each looks at one part of a decision, `mixed` at all of them together."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.generate import claiming, extremes, pods, storage
from tests.differential.generate import nodes as node_maker
from tests.differential.generate.configs import comparing, config
from tests.differential.generate.dice import HOST, POD_LABELS, ZONE, Dice, Object, label_selector
from tests.differential.generate.scene import Case, Scene


def nodeaffinity(dice: Dice) -> Scene:
    """Labels, selectors, numbers, names of nodes."""
    scene = Scene(dice)
    scene.place(0, 3)
    pods.node_affinity(dice, scene.comes(), len(scene.nodes))
    if dice.maybe(0.2):
        scene.config = config(dice, len(scene.nodes))
    return scene


def taints(dice: Dice) -> Scene:
    """Taints, tolerations, unschedulable nodes."""
    dice.comparing = dice.maybe(0.4)
    scene = Scene(dice, taints=0.8)
    scene.place(0, 3)
    if dice.maybe(0.8):
        scene.comes()["spec"]["tolerations"] = node_maker.tolerations(dice)
    else:
        scene.comes()
    if dice.comparing:
        scene.config = comparing()
    return scene


def resources(dice: Dice) -> Scene:
    """Every way to ask for something, and every way to score it."""
    scene = Scene(dice)
    scene.place(0, 20, rich=True)
    scene.comes(rich=True)
    if dice.maybe(0.4):
        scene.config = config(dice, len(scene.nodes))
    return scene


def resized(dice: Dice) -> Scene:
    """Pods that are being resized in place: what the kubelet says counts as well."""
    scene = Scene(dice, room="small")
    for one in scene.place(1, 12, rich=True):
        if dice.maybe(0.7):
            pods.resized(dice, one)
    scene.comes(rich=True)
    return scene


def ports(dice: Dice) -> Scene:
    """Host ports, protocols, addresses."""
    scene = Scene(dice, 2, 5)
    for one in (*scene.place(1, 10), scene.comes()):
        pods.ports(dice, one)
    return scene


def images(dice: Dice) -> Scene:
    """Images that are here and there."""
    scene = Scene(dice, images=0.9)
    scene.place(0, 4)
    scene.comes(rich=True)
    return scene


def podaffinity(dice: Dice) -> Scene:
    """Required affinity and anti-affinity, both ways."""
    scene = Scene(dice, 2, 9)
    for one in scene.place(1, 12):
        if dice.maybe(0.5):
            pods.pod_affinity(dice, one, 0.4, preferred=False)
    pods.pod_affinity(dice, scene.comes(), 0.6, preferred=False)
    return scene


def podaffinityscore(dice: Dice) -> Scene:
    """Preferred affinity and anti-affinity, both ways, and what required terms of others add."""
    scene = Scene(dice, 2, 9)
    for one in scene.place(1, 12):
        if dice.maybe(0.6):
            pods.pod_affinity(dice, one, 0.5, required=dice.maybe(0.3))
    pods.pod_affinity(dice, scene.comes(), 0.7, required=False)
    if dice.maybe(0.25):
        scene.config = config(dice, len(scene.nodes))
    return scene


def spread(dice: Dice) -> Scene:
    """DoNotSchedule."""
    dice.comparing = dice.maybe(0.25)
    scene = Scene(dice, 3, 10, taints=0.6 if dice.comparing else 0.3)
    scene.place(0, 16)
    pods.spread(dice, scene.comes(), hard=0.8)
    if dice.comparing:
        scene.pod["spec"]["tolerations"] = node_maker.tolerations(dice)
        scene.pod["spec"]["topologySpreadConstraints"] = [_honoring(dice)]
        scene.config = comparing()
    if dice.maybe(0.3):
        pods.node_affinity(dice, scene.pod, len(scene.nodes))
    return scene


def spreadscore(dice: Dice) -> Scene:
    """ScheduleAnyway, and the constraints that a profile gives to pods without any."""
    scene = Scene(dice, 3, 10, taints=0.3)
    scene.place(0, 16)
    scene.comes()
    scene.objects += _selecting(dice)
    if dice.maybe(0.6):
        pods.spread(dice, scene.pod, hard=0.1)
    if dice.maybe(0.3):
        scene.config = config(dice, len(scene.nodes))
    return scene


def volumes(dice: Dice) -> Scene:
    """Claims bound and unbound, disks that nodes may not share, limits, zones."""
    scene = Scene(dice, 2, 6, taints=0.1)
    count, many = dice.randint(1, 5), len(scene.nodes)
    scene.objects += storage.cluster(dice, many) + storage.claims(dice, count, many)
    scene.comes()["metadata"].update(namespace="default", uid="uid-default-p")
    for one in (*scene.place(0, 6), scene.pod):
        if one["metadata"]["namespace"] == "default":
            scene.objects += storage.use(dice, one, count)
    if not scene.pod["spec"].get("volumes"):
        scene.pod["spec"]["volumes"] = [{"name": "d0", "persistentVolumeClaim": {"claimName": "v0"}}]
    scene.objects += storage.attachments(dice, scene.objects, many)
    return scene


def preemption(dice: Dice) -> Scene:
    """Full nodes, priorities, budgets; victims that other filters look at as well."""
    scene = Scene(dice, 1, 6, taints=0.1, room="small")
    placed = scene.place(4, 24, heavy=True)
    for one in placed:
        pods.priority(dice, one)
    pod = scene.comes(heavy=True)
    pod["spec"]["priority"] = dice.one(10, 100, 1000, 1000, 1000000)
    if dice.maybe(0.08):
        pod["spec"]["preemptionPolicy"] = "Never"
    for constrain in dice.some((_with_affinity, _with_spread, _with_ports, _with_nodes), 0, 2):
        constrain(dice, pod, placed, len(scene.nodes))
    if dice.maybe(0.2):
        _with_volumes(scene, placed)
    scene.objects += _budgets(dice)
    if dice.maybe(0.15):
        pod["status"] = {"nominatedNodeName": f"node-{dice.randint(0, len(scene.nodes))}"}
    return scene


def nominated(dice: Dice) -> Scene:
    """Nodes that are kept for pods of equal or higher priority."""
    scene = Scene(dice, 2, 6, taints=0.1, room="small")
    others = scene.place(1, 8, heavy=True)
    for one in others:
        pods.priority(dice, one)
    pods.priority(dice, scene.comes())
    for number in range(dice.randint(1, 4)):
        one = pods.pod(dice, f"nom{number}", heavy=dice.maybe(0.5))
        one["status"] = {"nominatedNodeName": f"node-{dice.randint(0, len(scene.nodes))}"}
        pods.priority(dice, one)
        if dice.maybe(0.5):
            pods.pod_affinity(dice, one, 0.3)
        if dice.maybe(0.3):
            pods.ports(dice, one)
        scene.objects.append(one)
        others.append(one)
    if dice.maybe(0.4):
        pods.spread(dice, scene.pod)
    if dice.maybe(0.4):
        pods.pod_affinity(dice, scene.pod, 0.3)
    if dice.maybe(0.3):
        pods.ports(dice, scene.pod)
    if dice.maybe(0.15):
        _with_volumes(scene, others)
    scene.nominees = dice.one("", "queued")
    return scene


def devicepreemption(dice: Dice) -> Scene:
    """Full nodes and pods of lower priority, for a pod that claims devices which some nodes have."""
    scene = preemption(dice)
    claiming.add_claims(scene)
    return scene


def profiles(dice: Dice) -> Scene:
    """Configurations, on pods that have something of everything."""
    scene = mixed(dice, most=8)
    scene.config = config(dice, len(scene.nodes))
    if dice.maybe(0.2):
        scene.pod["spec"]["schedulerName"] = dice.one("other", "default-scheduler")
    return scene


def mixed(dice: Dice, most: int = 20) -> Scene:
    """Something of everything."""
    scene = Scene(dice, 3, most)
    placed = scene.place(most // 2, 3 * most, rich=dice.maybe(0.3))
    for one in placed:
        if dice.maybe(0.3):
            pods.pod_affinity(dice, one, 0.3)
        if dice.maybe(0.2):
            pods.ports(dice, one)
        pods.priority(dice, one)
    pods.unshare(placed)
    pod = scene.comes(rich=dice.maybe(0.5))
    pods.priority(dice, pod)
    if dice.maybe(0.4):
        pods.node_affinity(dice, pod, len(scene.nodes))
    if dice.maybe(0.5):
        pods.pod_affinity(dice, pod, 0.3)
    if dice.maybe(0.5):
        pods.spread(dice, pod)
    if dice.maybe(0.2):
        pods.ports(dice, pod)
    scene.objects += _selecting(dice) + _budgets(dice)
    if dice.maybe(0.2):
        _with_volumes(scene, placed)
    if dice.maybe(0.2):
        scene.config = config(dice, len(scene.nodes))
    return scene


FAMILIES: dict[str, Callable[[Dice], Scene]] = {
    make.__name__: make
    for make in (
        *(nodeaffinity, taints, resources, resized, ports, images, podaffinity, podaffinityscore, spread, spreadscore),
        *(volumes, preemption, nominated, profiles, mixed),
        *(claiming.devices, claiming.alternatives, claiming.partitions, claiming.shares, claiming.held),
        *(claiming.extended, claiming.features, claiming.limits, devicepreemption),
        *(extremes.preferences, extremes.amounts),
    )
}


def case(family: str, seed: int, number: int) -> Case:
    """The case of that name: the same for the same three, on any machine."""
    name = f"{family}-{seed}-{number}"
    return FAMILIES[family](Dice(name)).case(name)


def _honoring(dice: Dice) -> Object:
    """A constraint that counts many pods, on nodes whose taints are tolerated."""
    return {
        "maxSkew": 1,
        "topologyKey": dice.one(HOST, ZONE),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "nodeTaintsPolicy": "Honor",
    }


def _with_affinity(dice: Dice, pod: Object, placed: list[Object], nodes: int) -> None:
    pods.pod_affinity(dice, pod, 0.5, preferred=False)
    for one in placed:
        if dice.maybe(0.2):
            pods.pod_affinity(dice, one, 0.4, preferred=False)


def _with_spread(dice: Dice, pod: Object, placed: list[Object], nodes: int) -> None:
    pods.spread(dice, pod, hard=0.9)


def _with_ports(dice: Dice, pod: Object, placed: list[Object], nodes: int) -> None:
    for one in (pod, *placed):
        pods.ports(dice, one)
    pods.unshare(placed)


def _with_nodes(dice: Dice, pod: Object, placed: list[Object], nodes: int) -> None:
    pods.node_affinity(dice, pod, nodes)


def _with_volumes(scene: Scene, others: list[Object]) -> None:
    """Three claims, used by the incoming pod and by others of its namespace."""
    dice, many = scene.dice, len(scene.nodes)
    scene.pod["metadata"].update(namespace="default", uid="uid-default-p")
    scene.objects += storage.cluster(dice, many) + storage.claims(dice, 3, many)
    for one in (scene.pod, *(one for one in others if one["metadata"]["namespace"] == "default")):
        scene.objects += storage.use(dice, one, 3)


def _budgets(dice: Dice) -> list[Object]:
    made = []
    for number in range(dice.one(0, 0, 1, 2, 3)):
        spec: Object = {"minAvailable": 1}
        selector = label_selector(dice)
        if selector is not None:
            spec["selector"] = selector
        status: Object = {"disruptionsAllowed": dice.one(0, 0, 1, 2)}
        status |= {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        if dice.maybe(0.2):
            status["disruptedPods"] = {f"e{dice.randint(0, 5)}": "2026-01-01T00:00:00Z"}
        metadata = {"name": f"pdb-{number}", "namespace": dice.one("default", "default", "team-a")}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        made.append(kind | {"metadata": metadata, "spec": spec, "status": status})
    return made


def _selecting(dice: Dice) -> list[Object]:
    """Services and workloads that select pods."""
    made = []
    for number in range(dice.randint(0, 3)):
        kind = dice.one("Service", "Service", "ReplicationController", "ReplicaSet", "StatefulSet")
        metadata = {"name": f"s{number}", "namespace": dice.one("default", "default", "team-a")}
        labels = dice.labels(POD_LABELS, 0.4)
        selector: Object = labels if kind in ("Service", "ReplicationController") else {"matchLabels": labels}
        if kind == "Service" and not labels and dice.maybe(0.5):
            selector = {}
        group = "v1" if kind in ("Service", "ReplicationController") else "apps/v1"
        one: Object = {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": {"selector": selector}}
        made.append(one)
    return made
