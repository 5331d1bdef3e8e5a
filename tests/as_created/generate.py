"""Clusters and files by seed.

A case is a cluster (namespaces with their limits and quotas, nodes), files that are created one after the other, and
what differs from a cluster where anything may happen, so that what becomes of the pods is determined:

- The objects of a file are in the order of their pods' priority, as the queue would take them.
- A controller makes a preempted pod again, which a simulation does not. So pods of controllers are preempted by nobody:
  who comes after them has no higher priority, or preempts nobody.
- Where victims end in their own time, who is next finds them there still. So who may preempt is one pod.
- A quota that lets some of a DaemonSet's pods be created does not say of which nodes. So there is no DaemonSet.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.differential.generate.dice import HOST, PREFERRED, REQUIRED, ZONE, Dice, Object

PRIORITIES: list[Object] = [
    {"metadata": {"name": "low"}, "value": -10, "preemptionPolicy": "PreemptLowerPriority"},
    {"metadata": {"name": "mid"}, "value": 100},
    {"metadata": {"name": "patient"}, "value": 500, "preemptionPolicy": "Never"},
    {"metadata": {"name": "high"}, "value": 1000},
]
VALUES: dict[str | None, int] = {each["metadata"]["name"]: each["value"] for each in PRIORITIES}
USUAL = 50
RUNTIMES: list[Object] = [
    {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        "scheduling": {
            "nodeSelector": {"runtime": "kata"},
            "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
    {"metadata": {"name": "gvisor"}, "handler": "runsc", "overhead": {"podFixed": {"cpu": "100m"}}},
    {"metadata": {"name": "wasm"}, "handler": "wasm", "scheduling": {"nodeSelector": {"disk": "ssd"}}},
]
ZONES = ("z0", "z1", "z2")
APPS, TIERS = ("web", "db", "cache"), ("gold", "silver")
KINDS = ("Deployment", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Job", "CronJob", "Pod")
_CPU = ("50m", "100m", "250m", "0.5", "1", "1500m", "2")
_MEMORY = ("32Mi", "64Mi", "200M", "0.5Gi", "1Gi", "1500Mi")


class Case(NamedTuple):
    """`inside`: what is in its namespaces; `files`: each a list of what makes pods, created one after the other."""

    namespaces: list[Object]
    usual: Object | None
    """A PriorityClass for pods that name none."""
    inside: list[Object]
    nodes: list[Object]
    files: list[list[Object]]


def case(seed: int) -> Case:
    """The case of a seed."""
    return _Maker(seed).case()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Dice(f"as created {seed}")
        self.spaces = [f"c{seed}", f"c{seed}-b"][: self.dice.one(1, 1, 1, 2)]
        self.preempting = self.dice.maybe(0.2)
        self.classes = self.dice.maybe(0.6)
        self.daemons = True

    def case(self) -> Case:
        dice = self.dice
        nodes = [self.node(number) for number in range(dice.randint(2, 6))]
        inside = [*self.limits(), *self.quotas()]
        usual = dice.maybe(0.15)
        names = self.names()
        first = [self.workload(next(names), running=True) for _ in range(dice.randint(0, 3))]
        second = [self.workload(next(names), running=False) for _ in range(dice.randint(1, 3))]
        more = [self.scaled(each) for each in first if each["kind"] in _SCALED and dice.maybe(0.6)]
        files = [_in_order(each, USUAL if usual else 0) for each in (first, [*second, *more]) if each]
        made = {"metadata": {"name": f"usual-{self.seed}"}, "value": USUAL, "globalDefault": True}
        spaces = [{"metadata": {"name": name, "labels": {"team": name[-1]}}} for name in self.spaces]
        return Case(spaces, made if usual else None, inside, nodes, files)

    def names(self) -> Iterator[str]:
        """Names of workloads."""
        for number in range(100):
            yield f"{self.dice.one(*APPS)}{number}"

    # The cluster

    def node(self, number: int) -> Object:
        dice, name = self.dice, f"s{self.seed}-n{number}"
        labels = {HOST: name, "kubernetes.io/os": "linux"}
        if dice.maybe(0.85):
            labels[ZONE] = dice.one(*ZONES)
        if dice.maybe(0.6):
            labels["disk"] = dice.one("ssd", "hdd")
        if dice.maybe(0.5):
            labels["runtime"] = "kata"
        amounts = {"cpu": dice.one("1", "2", "4", "3920m"), "memory": dice.one("2Gi", "4Gi", "8G")}
        amounts |= {"pods": dice.one("4", "8", "20", "110"), "ephemeral-storage": "20Gi"}
        spec: Object = {}
        if dice.maybe(0.1):
            spec["unschedulable"] = True
        taints = []
        if dice.maybe(0.2):
            taints.append(
                {"key": "dedicated", "value": dice.one("a", "b"), "effect": dice.one("NoSchedule", "NoExecute")}
            )
        if dice.maybe(0.15):
            taints.append({"key": "kata", "effect": "NoSchedule"})
        if dice.maybe(0.15):
            taints.append({"key": "spot", "effect": "PreferNoSchedule"})
        if taints:
            spec["taints"] = taints
        status = {"capacity": amounts, "allocatable": amounts}
        return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def limits(self) -> Iterator[Object]:
        """A LimitRange, or none."""
        dice = self.dice
        if not dice.maybe(0.4):
            return
        limit: Object = {"type": "Container"}
        if dice.maybe(0.7):
            limit["default"] = {"cpu": dice.one("500m", "1"), "memory": dice.one("256Mi", "512Mi")}
        if dice.maybe(0.7):
            limit["defaultRequest"] = {"cpu": dice.one("100m", "0.25")}
        if dice.maybe(0.3):
            limit["max"] = {dice.one("cpu", "memory"): "1536Mi"}
            if "cpu" in limit["max"]:
                limit["max"] = {"cpu": dice.one("1", "2")}
        if dice.maybe(0.2):
            limit["min"] = {"memory": "33554432"}
        if dice.maybe(0.15):
            limit["maxLimitRequestRatio"] = {"cpu": dice.one("2", "10")}
        found = [limit]
        if dice.maybe(0.25):
            found.append({"type": "Pod", "max": {"cpu": dice.one("2", "3")}})
        yield self.inside("LimitRange", "limits", {"limits": found})

    def quotas(self) -> Iterator[Object]:
        """ResourceQuotas, or none."""
        dice = self.dice
        if not dice.maybe(0.35):
            return
        self.daemons = False
        for number in range(dice.one(1, 1, 2)):
            hard: Object = {}
            if dice.maybe(0.6):
                hard[dice.one("pods", "count/pods")] = str(dice.randint(2, 10))
            if dice.maybe(0.4):
                hard[dice.one("requests.cpu", "cpu")] = dice.one("1500m", "3", "6")
            if dice.maybe(0.2):
                hard["limits.memory"] = dice.one("1Gi", "4Gi")
            spec: Object = {"hard": hard or {"pods": "3"}}
            scope = dice.random()
            if scope < 0.15:
                spec["scopes"] = ["NotBestEffort"]
            elif scope < 0.3:
                spec = {"hard": {"pods": str(dice.randint(0, 3))}, "scopes": ["BestEffort"]}
            elif scope < 0.45:
                of_class = {"scopeName": "PriorityClass", "operator": "In", "values": dice.some(["mid", "patient"], 1)}
                spec["scopeSelector"] = {"matchExpressions": [of_class]}
            elif scope < 0.5:
                spec["scopes"] = ["NotTerminating"]
            yield self.inside("ResourceQuota", f"quota{number}", spec)

    def inside(self, kind: str, name: str, spec: Object) -> Object:
        """An object in the first namespace."""
        version = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1"}
        version |= {"Job": "batch/v1", "CronJob": "batch/v1"}
        metadata = {"name": name, "namespace": self.spaces[0]}
        return {"apiVersion": version.get(kind, "v1"), "kind": kind, "metadata": metadata, "spec": spec}

    # What makes pods

    def workload(self, name: str, *, running: bool) -> Object:
        """One. `running`: others come after it."""
        dice = self.dice
        kind = dice.one(*KINDS)
        while kind == "DaemonSet" and not self.daemons:
            kind = dice.one(*KINDS)
        if self.preempting:
            kind = "Pod" if running or dice.maybe(0.5) else dice.one("Deployment", "ReplicaSet", "Job", "Pod")
        labels = {"app": dice.one(*APPS)} | ({"tier": dice.one(*TIERS)} if dice.maybe(0.6) else {})
        own = {"own": name}
        template: Object = {"metadata": {"labels": labels | own}, "spec": self.pod(kind, name)}
        if dice.maybe(0.1):
            template["metadata"]["annotations"] = {"example.com/note": "x"}
        self._priority(template["spec"], running=running)
        alone = self.preempting and not running and template["spec"].get("priorityClassName") != "patient"
        replicas = 1 if alone else dice.one(0, 1, 2, 3, 4, 6)
        made = self._of_kind(kind, name, template, own, replicas)
        made["metadata"]["namespace"] = dice.one(*self.spaces)
        return made

    def _of_kind(self, kind: str, name: str, template: Object, own: Object, replicas: int) -> Object:
        dice = self.dice
        spec: Object = {"replicas": replicas, "selector": {"matchLabels": own}, "template": template}
        if kind == "Pod":
            return self.inside("Pod", name, {}) | {
                "metadata": {"name": name, **template["metadata"]},
                "spec": template["spec"],
            }
        if kind == "Deployment" and dice.maybe(0.05):
            spec["paused"] = True
        if kind == "DaemonSet":
            del spec["replicas"]
        if kind == "StatefulSet":
            spec["serviceName"] = name
            if dice.maybe(0.6):
                spec["podManagementPolicy"] = "Parallel"
            if dice.maybe(0.3):
                spec["ordinals"] = {"start": dice.randint(1, 7)}
        if kind in ("Job", "CronJob"):
            template["spec"]["restartPolicy"] = "Never"
            job: Object = {"parallelism": replicas, "template": template}
            if dice.maybe(0.6):
                job["completions"] = max(1, replicas + dice.one(-1, 0, 2))
                if dice.maybe(0.6):
                    job["completionMode"] = "Indexed"
            if dice.maybe(0.1):
                job["suspend"] = True
            if dice.maybe(0.1):
                job["activeDeadlineSeconds"] = 3000
            if dice.maybe(0.05):
                job["managedBy"] = "example.com/jobs"
            if kind == "Job":
                return self.inside(kind, name, job)
            spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
        return self.inside(kind, name, spec)

    def scaled(self, before: Object) -> Object:
        """A workload with more pods than it has, or with as many."""
        made = copy.deepcopy(before)
        field = "parallelism" if made["kind"] == "Job" else "replicas"
        made["spec"][field] += self.dice.one(0, 1, 3)
        return made

    def _priority(self, spec: Object, *, running: bool) -> None:
        if self.preempting:
            choice = ("low", None) if running else ("mid", "high", "patient", None)
        elif self.classes:
            choice = ("high",) if running else ("low", "mid", "patient", "high", None, None)
        else:
            choice = (None,) if running else ("low", "patient", None)
        name = self.dice.one(*choice)
        if name is not None:
            spec["priorityClassName"] = name

    # What pods ask for

    def pod(self, kind: str, name: str) -> Object:
        dice = self.dice
        spec: Object = {"containers": [self.container(f"c{i}") for i in range(dice.one(1, 1, 1, 2))]}
        if dice.maybe(0.15):
            spec["initContainers"] = [self.container("i0")]
            if dice.maybe(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if dice.maybe(0.12):
            spec["resources"] = self.pod_level()
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container["resources"] = dice.one({}, {"requests": {"cpu": "50m"}}, {"limits": {"memory": "32Mi"}})
        if dice.maybe(0.15):
            spec["runtimeClassName"] = dice.one("kata", "gvisor", "wasm")
        if dice.maybe(0.4):
            spec["tolerations"] = [self.toleration() for _ in range(dice.one(1, 1, 2))]
        if dice.maybe(0.2):
            spec["nodeSelector"] = dice.one({"disk": "ssd"}, {ZONE: dice.one(*ZONES)}, {"kubernetes.io/os": "linux"})
        affinity: Object = {}
        if dice.maybe(0.2):
            affinity["nodeAffinity"] = self.node_affinity()
        for side, chance in (("podAffinity", 0.12), ("podAntiAffinity", 0.2)):
            if dice.maybe(chance):
                affinity[side] = self.pod_terms(kind, name)
        if affinity:
            spec["affinity"] = affinity
        if dice.maybe(0.3):
            spec["topologySpreadConstraints"] = self.spread(kind, name)
        if dice.maybe(0.08):
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": dice.one(80, 8080)}]
        if dice.maybe(0.05):
            spec["hostNetwork"] = True
            spec["containers"][0]["ports"] = [{"containerPort": 8081}]
        if dice.maybe(0.03):
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        return spec

    def container(self, name: str) -> Object:
        dice = self.dice
        requests: Object = {}
        limits: Object = {}
        for resource, amounts in (("cpu", _CPU), ("memory", _MEMORY)):
            kind = dice.random()
            at = dice.randrange(len(amounts))
            if kind < 0.55:
                requests[resource] = amounts[at]
            if 0.35 < kind < 0.7:
                limits[resource] = amounts[min(at + dice.one(0, 1, 2), len(amounts) - 1)]
        if dice.maybe(0.1):
            limits["ephemeral-storage"] = dice.one("1Gi", "5G")
        resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
        return {"name": name, "image": f"registry.test/{name}:1"} | ({"resources": resources} if resources else {})

    def pod_level(self) -> Object:
        dice = self.dice
        return dice.one(
            {"requests": {"cpu": dice.one("500m", "1")}},
            {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            {"requests": {"cpu": "200m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        )

    def toleration(self) -> Object:
        return self.dice.one(
            {"operator": "Exists"},
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
            {"key": "kata", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        )

    def node_affinity(self) -> Object:
        dice = self.dice
        term = {
            "matchExpressions": [
                dice.one(
                    {"key": "disk", "operator": dice.one("In", "NotIn"), "values": ["ssd"]},
                    {"key": ZONE, "operator": "In", "values": dice.some(ZONES, 1, 2)},
                    {"key": "runtime", "operator": dice.one("Exists", "DoesNotExist")},
                )
            ]
        }
        if dice.maybe(0.5):
            return {REQUIRED: {"nodeSelectorTerms": [term]}}
        return {PREFERRED: [{"weight": dice.one(1, 50), "preference": term}]}

    def pod_terms(self, kind: str, name: str) -> Object:
        dice = self.dice
        selector = dice.one({"matchLabels": {"own": name}}, {"matchLabels": {"app": dice.one(*APPS)}})
        term: Object = {"topologyKey": dice.one(HOST, ZONE), "labelSelector": selector}
        if dice.maybe(0.3):
            term[dice.one("matchLabelKeys", "matchLabelKeys", "mismatchLabelKeys")] = [self.key_of(kind)]
        elif dice.maybe(0.2):
            term["namespaceSelector"] = dice.one({}, {"matchLabels": {"team": "b"}})
        if dice.maybe(0.6):
            return {REQUIRED: [term]}
        return {PREFERRED: [{"weight": dice.one(1, 100), "podAffinityTerm": term}]}

    def spread(self, kind: str, name: str) -> list[Object]:
        dice = self.dice
        found = []
        for key in dice.some((HOST, ZONE), 1):
            one: Object = {"maxSkew": dice.one(1, 1, 2), "topologyKey": key}
            one["whenUnsatisfiable"] = dice.one("DoNotSchedule", "ScheduleAnyway")
            one["labelSelector"] = {"matchLabels": {"own": name}}
            if dice.maybe(0.4):
                one["matchLabelKeys"] = [self.key_of(kind)]
            if one["whenUnsatisfiable"] == "DoNotSchedule" and dice.maybe(0.2):
                one["minDomains"] = dice.one(2, 3)
            if dice.maybe(0.3):
                one["nodeTaintsPolicy"] = dice.one("Honor", "Ignore")
            found.append(one)
        return found

    def key_of(self, kind: str) -> str:
        """A label's key, best one that the controller sets."""
        own: dict[str, tuple[str, ...]] = {
            "Deployment": ("pod-template-hash",),
            "StatefulSet": ("controller-revision-hash", "apps.kubernetes.io/pod-index"),
            "DaemonSet": ("controller-revision-hash",),
            "Job": ("batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-completion-index"),
        }
        return self.dice.one("tier", *own.get(kind, ()))


_SCALED = ("Deployment", "ReplicaSet", "StatefulSet", "Job")


def template_of(made: Object) -> Any:
    """The pod of an object, as it is written."""
    if made["kind"] == "Pod":
        return made
    spec = made["spec"]
    return spec["jobTemplate"]["spec"]["template"] if made["kind"] == "CronJob" else spec["template"]


def _in_order(file: list[Object], usual: int) -> list[Object]:
    """The highest priority first."""

    def priority(made: Object) -> int:
        name = template_of(made)["spec"].get("priorityClassName")
        return usual if name is None else VALUES[name]

    return sorted(file, key=priority, reverse=True)
