"""Families of cases in which a pod claims devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.generate import claims, pods
from tests.differential.generate import devices as maker
from tests.differential.generate.configs import fitting
from tests.differential.generate.devices import GPU, MODELS, NIC, Pools
from tests.differential.generate.dice import Dice, Object
from tests.differential.generate.nodes import EXTENDED
from tests.differential.generate.scene import Scene

NAMESPACE = "default"
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions")
MakeDevice = Callable[[Dice, int, str], Object]


def devices(dice: Dice) -> Scene:
    """Counts, All, constraints, selectors, taints, pools of every kind."""
    return _scene(dice)


def alternatives(dice: Dice) -> Scene:
    """The first of several that is available, in several claims."""
    return _scene(dice, alternatives=0.8)


def partitions(dice: Dice) -> Scene:
    """Devices that use counters of their pool."""
    scene = _begin(dice)
    pools = _pools(scene, _partition, counters=True)
    _claims(scene, pools, constraints=0.2)
    return scene


def limits(dice: Dice) -> Scene:
    """About as many devices as a claim may have, in requests that need nearly all of them or few."""
    scene = _begin(dice)
    pools = Pools(dice, len(scene.nodes))
    for number in range(len(scene.nodes)):
        models = [dice.one(*MODELS) for _ in range(dice.one(7, 46, 46))]
        found = [{"name": f"dev-{i}", "attributes": {"model": {"string": one}}} for i, one in enumerate(models)]
        pools.add_local(GPU, f"node-{number}", found)
    scene.objects += pools.slices
    uses = []
    for number in range(dice.one(1, 1, 2)):
        claim = claims.claim(dice, f"claim-{number}", NAMESPACE)
        claim["spec"] = claims.of_limits(dice, large=number == 0)
        uses.append({"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]})
        scene.objects.append(claim)
    scene.pod["spec"]["resourceClaims"] = uses
    if dice.maybe(0.4):
        _hold(scene, pools)
    return scene


def shares(dice: Dice) -> Scene:
    """Devices that several claims have a part of, by policies of what may be asked for."""
    scene = _begin(dice)
    pools = _pools(scene, _shared, counters=dice.maybe(0.2))
    _claims(scene, pools, sharing=True, constraints=0.2)
    return scene


def held(dice: Dice) -> Scene:
    """Claims that have something already, are being given it, are in use, on their way out, or not the pod's."""
    return _scene(dice, held=0.7)


def extended(dice: Dice) -> Scene:
    """Extended resources that classes serve, where a node has none of its own."""
    scene = _begin(dice)
    classes = [one for one in scene.objects if one["kind"] == "DeviceClass"]
    maker.serve(dice, classes)
    pools = _pools(scene, maker.device)
    pod = scene.pod
    if dice.maybe(0.4):
        pod["spec"]["initContainers"] = [{"name": f"i{i}", "image": "busybox"} for i in range(dice.randint(1, 2))]
        for one in pod["spec"]["initContainers"]:
            if dice.maybe(0.4):
                one["restartPolicy"] = "Always"
    names = [EXTENDED, EXTENDED, "example.com/nic", "deviceclass.resource.kubernetes.io/gpu"]
    names += ["example.com/foo"] if dice.rarely(0.5) else []
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        for name in dice.some(names, 0, 2):
            amounts = container.setdefault("resources", {})
            amount = dice.one("1", "1", "2", "3", "0")
            for kind in ("requests", "limits"):
                amounts.setdefault(kind, {})[name] = amount
    if dice.maybe(0.3):
        _claims(scene, pools, most=1)
    else:
        _hold(scene, pools)
    if dice.maybe(0.05):
        scene.objects.append(_left_over(dice, pod))
    if dice.maybe(0.4):
        scene.config = fitting(dice)
    return scene


def features(dice: Dice) -> Scene:
    """What a pod needs of a kubelet, and what kubelets declare."""
    scene = Scene(dice, 2, 5)
    for node in scene.nodes:
        if declared := dice.some(FEATURES):
            node["status"]["declaredFeatures"] = sorted(declared)
    pod = scene.comes()
    if dice.maybe(0.4):
        pod["spec"].pop("hostNetwork", None)
        pod["spec"]["hostUsers"] = dice.maybe(0.3)
    if dice.maybe(0.5):
        rule = {"action": dice.one("Restart", "RestartAllContainers"), "exitCodes": {"operator": "In", "values": [42]}}
        dice.one(*pod["spec"]["containers"]).update(restartPolicy="Never", restartPolicyRules=[rule])
    return scene


def add_claims(scene: Scene) -> None:
    """Give the pod claims, and the nodes devices."""
    scene.dice.rough = scene.dice.maybe(0.2)
    scene.objects += maker.classes(scene.dice)
    scene.pod["metadata"].update(namespace=NAMESPACE, uid="uid-default-p")
    _claims(scene, _pools(scene, maker.device), most=1)


def _scene(dice: Dice, *, held: float = 0.15, **how: Any) -> Scene:
    scene = _begin(dice)
    pools = _pools(scene, maker.device)
    _claims(scene, pools, held=held, **how)
    return scene


def _begin(dice: Dice) -> Scene:
    """Few nodes with room, and classes."""
    dice.rough = dice.maybe(0.4)
    scene = Scene(dice, 1, 4, **({} if dice.maybe(0.1) else {"room": "ample", "taints": 0.03}))
    scene.objects += maker.classes(dice)
    pod = scene.comes()
    pod["metadata"].update(namespace=NAMESPACE, uid="uid-default-p")
    if dice.maybe(0.1):
        pods.node_affinity(dice, pod, len(scene.nodes))
    return scene


def _pools(scene: Scene, make: MakeDevice, *, counters: bool = False) -> Pools:
    dice, many = scene.dice, len(scene.nodes)
    pools = Pools(dice, many)
    sets = _counter_sets(dice) if counters else []
    for number in range(many):
        for driver in (GPU, NIC):
            if dice.maybe(0.9 if driver == GPU else 0.4):
                found = [make(dice, i, driver) for i in range(dice.randint(1, 6))]
                pools.add_local(driver, f"node-{number}", found, sets if driver == GPU else ())
                if driver != GPU:
                    for one in found:
                        one.pop("consumesCounters", None)
    for number in range(dice.one(0, 0, 1, 2)):
        found = [make(dice, i, GPU) for i in range(dice.randint(1, 3))]
        pools.add_shared(GPU, f"net-{number}", found, sets)
    if dice.maybe(0.2):
        pools.add_scattered(GPU, "rack", [make(dice, i, GPU) for i in range(dice.randint(2, 6))], sets)
    scene.objects += pools.slices + maker.taint_rules(dice, many)
    return pools


def _counter_sets(dice: Dice) -> list[Object]:
    made = []
    for number in range(dice.one(2, 2, 2, 3) if not dice.rarely(0.1) else 1):
        amounts = {"slices": {"value": dice.one("4", "7", "8")}, "memory": {"value": dice.one("40Gi", "80Gi")}}
        made.append({"name": f"set-{number}", "counters": amounts})
    return made


def _partition(dice: Dice, number: int, driver: str) -> Object:
    """A device that uses counters; of a set or a counter that is not there now and then."""
    made = maker.device(dice, number, driver, plain=0.85)
    if dice.maybe(0.9):
        amounts = {"slices": {"value": dice.one("1", "2", "4")}}
        if dice.maybe(0.6):
            amounts["memory"] = {"value": dice.one("5Gi", "20Gi", "40Gi")}
        if dice.rarely(0.02):
            amounts["missing"] = {"value": "1"}
        name = "set-2" if dice.rarely(0.03) else "set-0"
        made["consumesCounters"] = [{"counterSet": name, "counters": amounts}]
        if dice.maybe(0.2):
            of_other = {"slices": {"value": dice.one("1", "1", "3")}}
            made["consumesCounters"].insert(dice.randint(0, 1), {"counterSet": "set-1", "counters": of_other})
    return made


def _shared(dice: Dice, number: int, driver: str) -> Object:
    """A device that may be given to several claims."""
    made = _partition(dice, number, driver) if dice.maybe(0.2) else maker.device(dice, number, driver, plain=0.85)
    made.pop("consumesCounters", None)
    if not dice.maybe(0.85):
        return made
    made["allowMultipleAllocations"] = True
    memory: Object = {"value": dice.one("10Gi", "40Gi")}
    policy = dice.one(
        None,
        {"default": "1Gi"},
        {"default": "2Gi", "validRange": {"min": "2Gi"}},
        {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
        {"default": "4Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}},
        {"default": "4Gi", "validRange": {"min": "4Gi", "step": "3Gi"}},
        {"default": "5Gi", "validValues": ["1Gi", "5Gi", "10Gi"]},
    )
    if policy is not None:
        memory["requestPolicy"] = policy
    made["capacity"] = {"memory": memory}
    if dice.maybe(0.4):
        made["capacity"]["lanes"] = {"value": dice.one("4", "16")}
        if dice.maybe(0.5):
            span = {"min": "500m", "step": "500m"}
            made["capacity"]["lanes"]["requestPolicy"] = {"default": "1", "validRange": span}
    if dice.maybe(0.1):
        made["capacity"]["net.test/rate"] = {"value": dice.one("1e3", "2500m", "9223372036854775807", "10E")}
        if dice.maybe(0.6):
            span = dice.one(
                {"min": "0", "step": "500m"}, {"min": "1", "step": "250m"}, {"min": "1"}, {"min": "0", "step": "1"}
            )
            made["capacity"]["net.test/rate"]["requestPolicy"] = {"default": "1", "validRange": span}
    return made


def _claims(scene: Scene, pools: Pools, *, held: float = 0.15, most: int = 3, **how: Any) -> None:
    """The pod's claims, by name or made from a template, and those of others."""
    dice, pod = scene.dice, scene.pod
    uses, made = [], []
    for number in range(dice.one(1, 1, 1, 2, 2, 3)):
        claim = claims.claim(dice, f"claim-{number}", NAMESPACE, most=most, **how)
        use: Object = {"name": f"c{number}"}
        if dice.maybe(0.2):
            use["resourceClaimTemplateName"] = "template"
            owner = pod["metadata"]["uid"] if not dice.rarely(0.1) else "uid-other"
            reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
            claim["metadata"]["ownerReferences"] = [reference]
            if not dice.rarely(0.1):
                status: Object = {"name": use["name"]}
                if not dice.maybe(0.05):
                    status["resourceClaimName"] = claim["metadata"]["name"]
                pod.setdefault("status", {}).setdefault("resourceClaimStatuses", []).append(status)
        else:
            use["resourceClaimName"] = claim["metadata"]["name"]
        uses.append(use)
        if dice.maybe(held) and pools.offered:
            _of_others(scene, claim, pools)
        if dice.rarely(0.05):
            claim["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["test/held"]}
        if any(one["metadata"]["name"] == claim["metadata"]["name"] for one in scene.pending) or not dice.rarely(0.05):
            made.append(claim)
    pod["spec"]["resourceClaims"] = uses
    scene.objects += made
    _hold(scene, pools)


def _of_others(scene: Scene, claim: Object, pools: Pools) -> None:
    """The claim has something: nobody uses it, this pod, others, or as many as may; or it is just being given it."""
    dice = scene.dice
    reserved = dice.one(
        [],
        [],
        [claims.consumer("p", "uid-default-p")],
        [claims.consumer("other-0")],
        [claims.consumer("other-0"), claims.consumer("other-1")],
        [claims.consumer(f"other-{i}") for i in range(256)],
    )
    if dice.maybe(0.1):
        pending = {**claim, "metadata": dict(claim["metadata"])}
        claims.give(dice, pending, pools, [], shares=True)
        scene.pending.append(pending)
    else:
        claims.give(dice, claim, pools, reserved, shares=True)


def _hold(scene: Scene, pools: Pools) -> None:
    """Claims of others, with devices that they hold, or are about to."""
    dice = scene.dice
    for number in range(dice.one(0, 0, 1, 2, 4) if pools.offered else 0):
        claim = claims.claim(dice, f"held-{number}", dice.one(NAMESPACE, "team-a"), most=1)
        if dice.maybe(0.1):
            pending = {**claim, "metadata": dict(claim["metadata"])}
            claims.give(dice, pending, pools, [])
            scene.pending.append(pending)
        else:
            claims.give(dice, claim, pools, [claims.consumer(f"holder-{number}")])
        scene.objects.append(claim)


def _left_over(dice: Dice, pod: Object) -> Object:
    """A claim that was made for the pod in an earlier cycle."""
    made = claims.claim(dice, "p-extended-resources-left", NAMESPACE, most=1, constraints=0)
    uid = pod["metadata"]["uid"]
    made["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}],
    }
    return made
