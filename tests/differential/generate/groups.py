"""Pod groups from a seed: gangs and basic groups, whole and in part, their pods in any order, and what happens to them.

A case is {"id", "config", "steps"}; a step is a list of changes, {"put": object} or {"drop": object}. Nodes are called
n0, n1, … and are ranked by that number (the score plugin ByName), so that each pod has one best node.
"""

from __future__ import annotations

import json
from typing import Any

from tests.differential.generate.claims_of_groups import give_devices
from tests.differential.generate.dice import HOST, REQUIRED, Dice, Object

Step = list[Object]
RACK = "rack"
PROFILES = ("default-scheduler", "second")
FAMILIES = ("gangs", "mixed", "preempting", "evicting", "extended", "topology", "devices")
OPTIONS = {"topology": ("-topology",)}
"""With which gate of an alpha feature a family is asked: TopologyAwareWorkloadScheduling."""


def configuration(family: str) -> str:
    """Two profiles with all filters, and one score. Placements are tried by name, and no two have the same score.

    With the weights of upstream's scores above the highest number of a node, ByName only decides between equals.
    """
    plugins: Object = {
        "preScore": {"disabled": [{"name": "*"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ByName", "weight": 1}]},
    }
    if family in OPTIONS:
        scores = [{"name": "NodeResourcesFit", "weight": 20}, {"name": "PodGroupPodsCount", "weight": 20}]
        plugins["placementGenerate"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "SortedPlacements"}]}
        plugins["placementScore"] = {"disabled": [{"name": "*"}], "enabled": [*scores, {"name": "ByName", "weight": 1}]}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": name, "plugins": plugins} for name in PROFILES],
        }
    )


def put(document: Object) -> Object:
    """A change that adds or updates an object."""
    return {"put": document}


def node(dice: Dice, number: int) -> Object:
    """A small node in a rack."""
    name = f"n{number}"
    amounts = {"cpu": f"{dice.one(500, 1000, 1500, 2000, 4000)}m", "memory": "8Gi", "pods": dice.one("2", "5", "110")}
    made: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {HOST: name, "disk": dice.one("ssd", "hdd")}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    if dice.maybe(0.85):
        made["metadata"]["labels"][RACK] = f"r{dice.randrange(3)}"
    if dice.maybe(0.08):
        made["spec"]["unschedulable"] = True
    if dice.maybe(0.1):
        made["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    return made


class Case:
    """One case in the making."""

    def __init__(self, family: str, seed: int, number: int) -> None:
        self.family = family
        self.preempts = family in ("preempting", "evicting", "extended")
        self.dice = Dice(f"groups-{family}-{seed}-{number}")
        self.id = f"{family}-{seed}-{number}"
        self.nodes = self.dice.randint(1, 7)
        self.groups: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self._count = 0

    def made(self) -> Object:
        """The case."""
        steps = [self._first(), *(self._later() for _ in range(self.dice.one(0, 0, 1, 1, 2, 3)))]
        if self.family == "devices":
            steps = give_devices(self.dice, steps)
        return {"id": self.id, "config": configuration(self.family), "steps": [step for step in steps if step]}

    def _first(self) -> Step:
        dice = self.dice
        nodes = [put(node(dice, i)) for i in range(self.nodes)]
        objects: Step = []
        for name in ("g", "h", "k")[: dice.one(1, 1, 2, 3)]:
            objects += self._group(name)
        for _ in range(dice.one(0, 0, 1, 3)):
            objects.append(put(self._pod(None)))
        if dice.maybe(0.3):
            dice.shuffle(objects)
        return [*objects, *nodes] if dice.maybe(0.3) else [*nodes, *self._running(), *objects]

    def _running(self) -> Step:
        """Pods that are on nodes already: of nobody's group, or of a group that is to come."""
        dice = self.dice
        found = []
        for _ in range(dice.one(0, 0, 1, 2, 4)):
            of = dice.one(None, None, "g") if not self.preempts else None
            pod = self._pod(of, of_group=self.groups.get(of or ""))
            pod["spec"]["nodeName"] = f"n{dice.randrange(self.nodes)}"
            pod["spec"].pop("schedulingGates", None)
            if self.preempts:
                pod["spec"]["priority"] = dice.one(-10, -5, 0)
            pod["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{self._count:02}Z"}
            found.append(put(pod))
        return found

    def _group(self, name: str) -> Step:
        dice = self.dice
        gang = dice.maybe(0.8)
        needed = dice.randint(1, 5)
        spec: Object = {
            "schedulingPolicy": {"gang": {"minCount": needed}} if gang else {"basic": {}},
            "priority": dice.one(0, 0, 0, 5),
            "disruptionMode": {"single": {}},
        }
        if self.family in OPTIONS and dice.maybe(0.8):
            spec["schedulingConstraints"] = {"topology": [{"key": dice.one(RACK, RACK, HOST, "missing")}]}
        group = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
            "spec": spec,
        }
        self.groups[name] = group
        members = max(1, needed + dice.one(-1, 0, 0, 0, 1, 2))
        alike = self._wants() if dice.maybe(0.6) else None
        pods = [put(self._pod(name, alike, of_group=group)) for _ in range(members)]
        if dice.maybe(0.15):
            return [*pods, put(group)]
        if dice.maybe(0.05):
            return pods  # nobody makes it, or later
        return [put(group), *pods]

    def _wants(self) -> Object:
        """What a pod asks for."""
        dice = self.dice
        spec: Object = {"cpu": f"{dice.one(100, 250, 500, 600, 1000, 1600)}m"}
        if dice.maybe(0.15):
            spec["nodeSelector"] = {"disk": dice.one("ssd", "hdd")}
        if dice.maybe(0.1):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if dice.maybe(0.15):
            term = {"labelSelector": {"matchLabels": {"app": "m"}}, "topologyKey": dice.one(HOST, RACK)}
            side = dice.one("podAntiAffinity", "podAntiAffinity", "podAffinity")
            spec["affinity"] = {side: {REQUIRED: [term]}}
        if dice.maybe(0.05):
            spec["schedulingGates"] = [{"name": "wait.example.com/x"}]
        return spec

    def _pod(self, group: str | None, wants: Object | None = None, of_group: Object | None = None) -> Object:
        dice = self.dice
        name = f"p{self._count}"
        self._count += 1
        wants = dict(wants or self._wants())
        cpu = wants.pop("cpu")
        priority = of_group["spec"]["priority"] if of_group is not None else dice.one(0, 0, 5)
        scheduler = PROFILES[0]
        if self.family != "gangs" and group is not None and dice.maybe(0.03):
            priority += 1
        if self.family != "gangs" and dice.maybe(0.03):
            scheduler = PROFILES[1]
        spec: Object = {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [
                {"name": "c", "image": "i:1", "imagePullPolicy": "Never", "resources": {"requests": {"cpu": cpu}}}
            ],
            **wants,
        }
        if not self.preempts or dice.maybe(0.03):
            spec["preemptionPolicy"] = "Never"
        if self.preempts and group is None and "podAntiAffinity" in spec.get("affinity", {}):
            del spec["affinity"]  # kube-scheduler forgets it while it spares victims (decision 26)
        if group is not None:
            spec["schedulingGroup"] = {"podGroupName": group}
        made: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": {"app": "m"} if group is not None else {"app": "other"},
                "creationTimestamp": f"2026-01-01T00:00:{self._count % 60:02}Z",
            },
            "spec": spec,
        }
        self.pods[name] = made
        return made

    def _later(self) -> Step:
        """Something happens."""
        dice = self.dice
        what = dice.randrange(6)
        named = dice.one(*self.groups)
        group = self.groups[named]
        policy: Any = group["spec"]["schedulingPolicy"]
        if what == 0:
            self.nodes += 1
            return [put(node(dice, self.nodes - 1))]
        if what == 1:
            return [put(self._pod(named, of_group=group)) for _ in range(dice.randint(1, 2))]
        if what == 2 and "gang" in policy:
            changed = json.loads(json.dumps(group))
            changed["spec"]["schedulingPolicy"]["gang"]["minCount"] = dice.randint(1, 5)
            changed["metadata"]["generation"] += 1
            self.groups[named] = changed
            return [put(changed)]
        if what == 3 and self.family == "devices":
            return []  # kube-scheduler leaves the devices of a pod that goes with nobody, and no controller runs here
        if what == 3:
            # Not one with a gate: kube-scheduler does not look at its group again then, and the others stay for ever.
            free = [name for name, pod in self.pods.items() if "schedulingGates" not in pod["spec"]]
            return [{"drop": self.pods.pop(dice.one(*free))}] if len(free) > 1 else []
        if what == 4:
            return [put(group)]
        return [put(self._pod(None))]


def case(family: str, seed: int, number: int) -> Object:
    """The case of this name."""
    from tests.differential.generate.evicting import EvictingCase, ExtendedCase  # which derive from Case

    if family == "extended":
        return ExtendedCase(seed, number).made()
    return (EvictingCase(seed, number) if family == "evicting" else Case(family, seed, number)).made()
