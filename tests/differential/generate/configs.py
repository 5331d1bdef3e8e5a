"""Generated KubeSchedulerConfigurations, as JSON text."""

from __future__ import annotations

import json

from tests.differential.generate.dice import HOST, REGION, ZONE, Dice, Object, node_term
from tests.differential.generate.nodes import EXTENDED

SCORERS = (
    *("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"),
    *("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"),
)
FILTERS = ("NodeUnschedulable", "TaintToleration", "NodePorts", "NodeResourcesFit", "NodeAffinity", "VolumeZone")


def config(dice: Dice, nodes: int) -> str:
    """One of the ways to change a profile."""
    profile: Object = {"schedulerName": "default-scheduler"}
    if dice.maybe(0.7):
        made = [make(dice, nodes) for make in dice.some((_fit, _balanced, _pods, _spread, _affinity), 1, 2)]
        profile["pluginConfig"] = made
    if dice.maybe(0.5) or "pluginConfig" not in profile:
        profile["plugins"] = _plugins(dice)
    profiles = [profile]
    if dice.maybe(0.2):
        other = {"schedulerName": "other", "plugins": {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}}
        profiles.insert(dice.randint(0, 1), other)
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps(kind | {"profiles": profiles})


def fitting(dice: Dice) -> str:
    """Another way to score room.

    NodeResourcesBalancedAllocation is left as it is: kube-scheduler 1.37 crashes where it is to count a resource that
    devices serve.
    """
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [_fit(dice, 0)]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps(kind | {"profiles": [profile]})


def comparing() -> str:
    """Tolerations with Gt and Lt count."""
    return gated("TaintTolerationComparisonOperators", "TaintToleration", "PodTopologySpread")


def gated(gate: str, *plugins: str) -> str:
    """A feature gate, switched on for the plugins that it is about."""
    arguments = [_args(name, featureGates={gate: True}) for name in plugins]
    profile = {"schedulerName": "default-scheduler", "pluginConfig": arguments}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps(kind | {"profiles": [profile]})


def _plugins(dice: Dice) -> Object:
    made: Object = {}
    kind = dice.random()
    if kind < 0.4:  # other weights
        chosen = dice.some(SCORERS, 1, 4)
        enabled = [{"name": name, "weight": dice.one(1, 2, 5, 10)} for name in chosen]
        made["multiPoint"] = {"enabled": enabled, "disabled": [{"name": name} for name in chosen]}
    elif kind < 0.6:  # less scorers
        made["score"] = {"disabled": [{"name": name} for name in dice.some(SCORERS, 1)]}
    elif kind < 0.75:  # these scorers alone
        enabled = [{"name": name, "weight": dice.one(1, 3)} for name in dice.some(SCORERS, 1, 3)]
        made["score"] = {"enabled": enabled, "disabled": [{"name": "*"}]}
    elif kind < 0.9:  # less filters, or in another order
        made["filter"] = {"disabled": [{"name": name} for name in dice.some(FILTERS, 1, 3)]}
    else:
        enabled = [{"name": name} for name in dice.some(FILTERS, 1, 3)]
        made["filter"] = {"enabled": enabled}
    if dice.maybe(0.1):
        made["postFilter"] = {"disabled": [{"name": dice.one("DefaultPreemption", "*")}]}
    return made


def _args(name: str, **fields: object) -> Object:
    return {"name": name, "args": fields}


def _resources(dice: Dice) -> list[Object]:
    names = dice.some(("cpu", "memory", "ephemeral-storage", EXTENDED), 1)
    return [{"name": name, "weight": dice.one(1, 1, 3, 5)} for name in names]


def _fit(dice: Dice, nodes: int) -> Object:
    kind = dice.one("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
    strategy: Object = {"type": kind, "resources": _resources(dice)}
    if kind == "RequestedToCapacityRatio":
        points = sorted(dice.some((0, 20, 30, 70, 100), 1))
        shape = [{"utilization": point, "score": dice.randint(0, 10)} for point in points]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    fields: Object = {"scoringStrategy": strategy}
    if dice.maybe(0.3):
        fields["ignoredResources"] = ["example.com/foo"]
    if dice.maybe(0.2):
        fields["ignoredResourceGroups"] = ["example.com"]
    return _args("NodeResourcesFit", **fields)


def _balanced(dice: Dice, nodes: int) -> Object:
    resources = [{"name": one["name"], "weight": 1} for one in _resources(dice)]
    return _args("NodeResourcesBalancedAllocation", resources=resources)


def _pods(dice: Dice, nodes: int) -> Object:
    ignore = dice.maybe(0.5)
    weight = dice.one(0, 1, 50, 100)
    return _args("InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=ignore)


def _spread(dice: Dice, nodes: int) -> Object:
    constraints = [
        {"maxSkew": dice.one(1, 2, 5), "topologyKey": key, "whenUnsatisfiable": dice.one("DoNotSchedule", when)}
        for key, when in dice.some([(HOST, "ScheduleAnyway"), (ZONE, "ScheduleAnyway"), (REGION, "ScheduleAnyway")])
    ]
    return _args("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)


def _affinity(dice: Dice, nodes: int) -> Object:
    added: Object = {}
    if dice.maybe(0.7):
        added["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [node_term(dice, nodes)]}
    if dice.maybe(0.6) or not added:
        preferred = [{"weight": dice.one(1, 7, 100), "preference": node_term(dice, nodes)}]
        added["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return _args("NodeAffinity", addedAffinity=added)
