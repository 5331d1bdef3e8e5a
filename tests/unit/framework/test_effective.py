"""The effective configuration: complete, and the same again when it is read."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.framework.config import ConfigError, decode
from podberth.framework.interface import POINTS
from podberth.framework.profiles import build, effective
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, profile

PACK = profile(
    "pack",
    {
        "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}], "disabled": [{"name": "NodeAffinity"}]},
        "multiPoint": {
            "enabled": [{"name": "TaintToleration", "weight": 0}, {"name": "ServiceAffinity", "weight": 4}],
            "disabled": [{"name": "ImageLocality"}],
        },
    },
    NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated"}},
    ServiceAffinity={"affinityLabels": ["rack"]},
    ImageLocality={},
)
DOCUMENTS: list[tuple[str, Object]] = [
    ("the defaults", configuration()),
    ("one without a name", configuration({})),
    ("two profiles", configuration(profile("a"), PACK)),
    (
        "the rest",
        configuration(
            profile("a", InterPodAffinity={"hardPodAffinityWeight": 7}) | {"percentageOfNodesToScore": 3},
            percentageOfNodesToScore=40,
            extenders=[
                {
                    "urlPrefix": "https://x",
                    "filterVerb": "f",
                    "enableHTTPS": True,
                    "tlsConfig": {"caFile": "ca"},
                    "managedResources": [{"name": "a.b/c", "ignoredByScheduler": True}],
                }
            ],
            leaderElection={"leaderElect": False},
        ),
    ),
    (
        "arguments with structure",
        configuration(
            profile(
                "a",
                PodTopologySpread={
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
                    ],
                },
                NodeAffinity={
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                        }
                    }
                },
                NodeResourcesFit={
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 1}]},
                    }
                },
            )
        ),
    ),
]


@pytest.mark.parametrize("document", [each[1] for each in DOCUMENTS], ids=[each[0] for each in DOCUMENTS])
def test_read_again_it_is_the_same(document: Object) -> None:
    """The same plugins in the same order with the same weights, and nothing more to fill in."""
    config = decode(document)
    once = effective(config, IN_TREE)
    again = decode(once)
    assert effective(again, IN_TREE) == once
    before, after = build(config, IN_TREE), build(again, IN_TREE)
    assert list(before) == list(after)
    for name, framework in before.items():
        assert points(framework) == points(after[name])


def points(framework: Any) -> Any:
    """(plugin, weight) by point, weights where they count."""
    made = framework.profile
    return {
        point: [(p.name, made.weights.get(p.name, 1) if point == "score" else 0) for p in made.plugins(point)]
        for point in POINTS
    }


def test_a_profile_of_its_own() -> None:
    """Points in order, weights where nodes are scored, arguments with their defaults; unused ones are kept."""
    (found,) = effective(decode(configuration(PACK)), IN_TREE)["profiles"]
    assert found["plugins"]["score"]["enabled"][:3] == [
        {"name": "NodeResourcesFit", "weight": 5},
        {"name": "TaintToleration", "weight": 1},
        {"name": "VolumeBinding", "weight": 1},
    ]
    assert found["plugins"]["score"]["enabled"][-1] == {"name": "ServiceAffinity", "weight": 4}
    assert found["plugins"]["permit"] == {"disabled": [{"name": "*"}]}
    names = [each["name"] for each in found["pluginConfig"]]
    assert names == sorted(names)
    assert {"InterPodAffinity", "NodeResourcesFit", "ServiceAffinity", "VolumeBinding"} <= set(names)
    assert not {"ImageLocality", "NodeName"} & set(names)  # they take no arguments
    assert found["pluginConfig"][names.index("NodeResourcesFit")]["args"]["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    }


def test_a_weight_of_0_is_written_as_the_1_that_it_stands_for() -> None:
    """By both plugins that take weights of resources."""
    zero: list[Object] = [{"name": "cpu", "weight": 0}, {"name": "memory"}]
    fit: Object = {"scoringStrategy": {"type": "LeastAllocated", "resources": zero}}
    made = profile("a", NodeResourcesFit=fit, NodeResourcesBalancedAllocation={"resources": zero})
    (found,) = effective(decode(configuration(made)), IN_TREE)["profiles"]
    args = {each["name"]: each["args"] for each in found["pluginConfig"]}
    ones = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    assert args["NodeResourcesFit"]["scoringStrategy"]["resources"] == ones
    assert args["NodeResourcesBalancedAllocation"]["resources"] == ones


def test_arguments_of_a_plugin_that_is_disabled_where_it_would_run() -> None:
    """It is still at multiPoint, so they are written, as kube-scheduler does; of one that is disabled there they go."""
    name = "NodeResourcesBalancedAllocation"
    for point, written in (("score", True), ("multiPoint", False)):
        config = decode(configuration(profile("a", {point: {"disabled": [{"name": name}]}})))
        (found,) = effective(config, IN_TREE)["profiles"]
        assert (name in [each["name"] for each in found["pluginConfig"]]) is written
        assert name not in [each["name"] for each in found["plugins"]["score"]["enabled"]]


def test_what_can_not_be_built() -> None:
    """Is refused as `berth run` refuses it."""
    bad = configuration(profile("a", InterPodAffinity={"hardPodAffinityWeight": 101}))
    with pytest.raises(ConfigError, match=r"args\.hardPodAffinityWeight: Invalid value: 101"):
        effective(decode(bad), IN_TREE)
