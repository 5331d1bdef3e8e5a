"""Arguments at the bounds of what kube-scheduler accepts (apis/config/validation/validation_pluginargs.go)."""

import pytest

from podberth.framework.config import convert
from podberth.plugins.dynamic_resources.plugin import DynamicResourcesArgs
from podberth.plugins.registry import IN_TREE
from tests.builders import Object


def by_default(*constraints: Object, kind: str = "List") -> Object:
    """PodTopologySpread with these constraints, of which only what matters is given."""
    plain = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"defaultingType": kind, "defaultConstraints": [plain | one for one in constraints]}


def shaped(*points: tuple[int, int]) -> Object:
    """VolumeBinding with a utilization shape."""
    return {"shape": [{"utilization": utilization, "score": score} for utilization, score in points]}


def at_least(percentage: int, absolute: int) -> Object:
    """DefaultPreemption with so many candidates."""
    return {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}


SOFT = {"whenUnsatisfiable": "ScheduleAnyway"}
SOFT_HOST = SOFT | {"topologyKey": "host"}
AT: list[tuple[str, Object, list[str]]] = [
    ("InterPodAffinity", {"hardPodAffinityWeight": -1}, ["hardPodAffinityWeight"]),
    ("InterPodAffinity", {"hardPodAffinityWeight": 0}, []),
    ("InterPodAffinity", {"hardPodAffinityWeight": 100}, []),
    ("InterPodAffinity", {"hardPodAffinityWeight": 101}, ["hardPodAffinityWeight"]),
    ("DefaultPreemption", at_least(-1, 5), ["minCandidateNodesPercentage"]),
    ("DefaultPreemption", at_least(0, 1), []),
    ("DefaultPreemption", at_least(1, 0), []),
    ("DefaultPreemption", at_least(100, 1), []),
    ("DefaultPreemption", at_least(101, 1), ["minCandidateNodesPercentage"]),
    ("DefaultPreemption", at_least(5, -1), ["minCandidateNodesAbsolute"]),
    ("VolumeBinding", {"bindTimeoutSeconds": -1}, ["bindTimeoutSeconds"]),
    ("VolumeBinding", {"bindTimeoutSeconds": 0}, []),
    ("VolumeBinding", shaped((0, 0), (1, 10), (100, 1)), []),
    ("VolumeBinding", shaped((-1, 0), (101, 0)), ["shape[0].utilization", "shape[1].utilization"]),
    ("VolumeBinding", shaped((0, -1), (1, 11)), ["shape[0].score", "shape[1].score"]),
    ("VolumeBinding", shaped((5, 0), (5, 1), (4, 2)), ["shape[1].utilization"]),
    ("VolumeBinding", shaped((1, 0), (6, 1), (5, 2)), ["shape[2].utilization"]),
    ("PodTopologySpread", by_default({}, SOFT, SOFT_HOST), []),
    ("PodTopologySpread", by_default(SOFT, SOFT), ["defaultConstraints[1]"]),
    ("PodTopologySpread", by_default({"maxSkew": 0}), ["defaultConstraints[0].maxSkew"]),
    ("PodTopologySpread", by_default({}, {"topologyKey": ""}), ["defaultConstraints[1].topologyKey"]),
    ("PodTopologySpread", by_default({"whenUnsatisfiable": "No"}), ["defaultConstraints[0].whenUnsatisfiable"]),
    ("PodTopologySpread", by_default({"labelSelector": {}}), ["defaultConstraints[0].labelSelector"]),
    ("PodTopologySpread", by_default(kind="System"), []),
    ("PodTopologySpread", by_default({}, kind="System"), ["defaultingType"]),
    ("PodTopologySpread", by_default(kind="Other"), ["defaultingType"]),
    ("DynamicResources", {"furtherSearchSteps": -1}, ["furtherSearchSteps"]),
    ("DynamicResources", {"furtherSearchSteps": 0}, []),
    ("DynamicResources", {"furtherSearchSteps": 1_000_000}, []),
    ("DynamicResources", {"furtherSearchSteps": 1_000_001}, ["furtherSearchSteps"]),
    ("DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1s"}, []),
    ("DynamicResources", {"filterTimeout": "-1ms", "bindingTimeout": "999ms"}, ["filterTimeout", "bindingTimeout"]),
    ("DynamicResources", {"filterTimeout": "soon", "bindingTimeout": "2"}, ["filterTimeout", "bindingTimeout"]),
    ("NodeResourcesFit", {"ignoredResources": ["a/b"], "ignoredResourceGroups": ["a"]}, []),
    ("NodeResourcesFit", {"ignoredResourceGroups": ["a", "b c"]}, ["ignoredResourceGroups[1]"]),
]


@pytest.mark.parametrize(("name", "given", "wrong"), AT, ids=lambda value: str(value)[:60])
def test_bounds(name: str, given: Object, wrong: list[str]) -> None:
    """A line for each field that is wrong, none for one at its bound."""
    args = IN_TREE[name].Args
    found = IN_TREE[name].check(convert(given, args, "args"), "args")
    assert [error.removeprefix("args.").split(": ")[0] for error in found] == wrong


@pytest.mark.parametrize(("given", "shown"), [(None, ("10s", "10m0s")), ("30s", ("30s", "30s"))])
def test_times_of_devices(given: str | None, shown: tuple[str, str]) -> None:
    """kube-scheduler's own where none are given."""
    args = DynamicResourcesArgs(given, given).defaulted()
    assert (args.filter_timeout, args.binding_timeout) == shown
    assert args.binding_seconds == (600.0 if given is None else 30.0)
