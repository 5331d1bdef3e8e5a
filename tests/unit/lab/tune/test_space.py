"""What may vary, and the configurations that come of it."""

from __future__ import annotations

import random

import msgspec
import pytest

from podberth.explain.lint.checks import lint
from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import decode
from podberth.framework.profiles import build, build_profile
from podberth.lab.tune.space import Space, Value, packed, space
from podberth.plugins.registry import registry
from tests.builders import configuration, node, pod, profile
from tests.unit.lab.worlds import world

EVERYTHING = [
    node("a", taints=["soft:PreferNoSchedule"], images={"i": 100}, others={"example.test/gpu": "4"}),
    pod("x", "1", "1Gi", prefer=[(1, "zone in a")], near=["app=web"], others={"example.test/gpu": "1"}),
    {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}},
]


def all_of() -> Space:
    """Return a space in which all that may vary does."""
    return space(decode(configuration(profile())), "berth", world(EVERYTHING))


def drawn(there: Space, chance: random.Random) -> dict[str, Value]:
    """Return any values of a space."""
    return {
        each.name: chance.choice(each.choices) if each.choices else chance.randint(each.low, each.high)
        for each in there.settings
    }


def test_what_a_world_varies() -> None:
    """A plugin that finds nothing to score in the world is left alone; resources are those that pods ask for."""
    bare = space(decode(configuration(profile())), "berth", world([node("a"), pod("x", "1", "1Gi")]))
    assert [each.name for each in bare.settings] == [
        "weight.NodeResourcesFit",
        "NodeResourcesFit.strategy",
        "NodeResourcesFit.shape.0",
        "NodeResourcesFit.shape.50",
        "NodeResourcesFit.shape.100",
        "NodeResourcesFit.resource.cpu",
        "NodeResourcesFit.resource.memory",
        "weight.NodeResourcesBalancedAllocation",
    ]
    assert "weight.InterPodAffinity" in bare.idle
    names = {each.name for each in all_of().settings}
    assert {"NodeResourcesFit.resource.example.test/gpu", "InterPodAffinity.hardPodAffinityWeight"} < names
    assert {"PodTopologySpread.defaultConstraints", "NodeResourcesBalancedAllocation.resources"} < names
    assert set(all_of().idle) == {"weight.DynamicResources", "weight.VolumeBinding"}


def test_a_plugin_is_idle_where_nothing_is_scored_by_it() -> None:
    """A profile may add preferences to those of pods; a pod that must keep apart prefers nothing."""
    preference = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    added = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    things = [node("a"), pod("x", "1", apart=["app=web"])]
    there = space(decode(configuration(profile(NodeAffinity=added))), "berth", world(things))
    assert "weight.NodeAffinity" in there.begin()
    assert "weight.InterPodAffinity" in there.idle


def test_a_setting_is_told_with_values_that_a_configuration_takes() -> None:
    told = [str(each) for each in all_of().settings]
    assert "NodeResourcesFit.strategy LeastAllocated|MostAllocated|RequestedToCapacityRatio" in told
    assert "InterPodAffinity.ignorePreferredTermsOfExistingPods false|true" in told
    assert "NodeResourcesFit.shape.50 0..10" in told


def test_narrowed() -> None:
    """Patterns choose settings; one that names none is refused."""
    found = all_of().narrowed(["weight.Node*", "*.strategy"])
    assert [each.name for each in found.settings] == [
        "weight.NodeAffinity",
        "weight.NodeResourcesFit",
        "NodeResourcesFit.strategy",
        "weight.NodeResourcesBalancedAllocation",
    ]
    with pytest.raises(ObjectError, match=r'--vary: "backoff": expected one or more of weight.TaintToleration, '):
        all_of().narrowed(["backoff"])


def test_a_shape_is_not_varied_where_the_strategy_reads_none() -> None:
    """Every trial would be the base."""
    says = "NodeResourcesFit.shape.0: the strategy LeastAllocated reads no shape: vary NodeResourcesFit.strategy, too"
    with pytest.raises(ObjectError, match=says):
        all_of().narrowed(["weight.*", "*.shape.*"])
    assert all_of().narrowed(["NodeResourcesFit.*"])
    assert all_of().changed({"NodeResourcesFit.shape.0": 5}) == {}
    assert shaped(*STEEP).narrowed(["*.shape.*"]).changed({"NodeResourcesFit.shape.0": 5})


def test_the_base_is_itself() -> None:
    """The values that a search begins with change nothing."""
    there = all_of()
    assert there.configuration(there.begin()) == there.base
    assert there.changed(there.begin()) == {}


def test_values_are_put_in() -> None:
    """Weights at score, the strategy with its shape, arguments; a plugin whose weight is 0 does not score."""
    there = all_of()
    values = {
        **there.begin(),
        "weight.NodeResourcesFit": 6,
        "weight.ImageLocality": 0,
        "NodeResourcesFit.strategy": "RequestedToCapacityRatio",
        "NodeResourcesFit.shape.50": 9,
        "NodeResourcesFit.resource.memory": 0,
        "NodeResourcesFit.resource.example.test/gpu": 3,
        "PodTopologySpread.defaultConstraints": "zone",
        "InterPodAffinity.hardPodAffinityWeight": 40,
    }
    made = decode(msgspec.json.decode(packed(there.configuration(values))))
    built = build_profile(made.profiles[0], registry(), "profiles[0]")
    assert built.weights["NodeResourcesFit"] == 6
    assert "ImageLocality" not in [plugin.name for plugin in built.plugins("score")]
    args = {each.name: each.args for each in made.profiles[0].plugin_config}
    assert args["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 1}, {"name": "example.test/gpu", "weight": 3}],
        "requestedToCapacityRatio": {
            "shape": [
                {"utilization": 0, "score": 0},
                {"utilization": 50, "score": 9},
                {"utilization": 100, "score": 10},
            ]
        },
    }
    assert args["InterPodAffinity"] == {"hardPodAffinityWeight": 40}
    assert args["PodTopologySpread"]["defaultingType"] == "List"
    assert there.changed(values)["weight.NodeResourcesFit"] == (1, 6)


def test_what_has_no_effect_is_not_written() -> None:
    """Arguments of a plugin that does not score, and a shape that the strategy does not read, are as in the base."""
    there = all_of()
    off = {**there.begin(), "weight.NodeResourcesFit": 0, "NodeResourcesFit.strategy": "MostAllocated"}
    assert there.changed(off) == {"weight.NodeResourcesFit": (1, 0)}
    assert there.configuration(off).profiles[0].plugin_config == []
    assert there.changed({**there.begin(), "NodeResourcesFit.shape.0": 5}) == {}


def test_all_configurations_are_valid() -> None:
    """Whatever is drawn is built, reads the same from JSON, and has no argument without an effect."""
    there, chance = all_of(), random.Random(1)
    for _ in range(40):
        made = there.configuration(drawn(there, chance))
        assert decode(msgspec.json.decode(packed(made))) == made
        build(made, registry())
        assert not [each for each in lint(made, registry()) if each.code == "args-without-effect"]


def test_a_base_with_its_own_lists() -> None:
    """Weights and arguments of the file are where the search begins, and all else of it stays."""
    text = configuration(
        profile(
            plugins={
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 20}]},
            },
            NodeResourcesFit={"ignoredResources": ["example.test/fpga"], "scoringStrategy": {"type": "MostAllocated"}},
        )
    )
    there = space(decode(text), "berth", world(EVERYTHING))
    begin = there.begin()
    assert (begin["weight.NodeResourcesFit"], begin["NodeResourcesFit.strategy"]) == (20, "MostAllocated")
    assert "weight.InterPodAffinity" not in begin
    made = there.configuration({**begin, "weight.NodeResourcesFit": 0}).profiles[0]
    assert (made.plugins.score.enabled, [each.name for each in made.plugins.score.disabled]) == ([], ["*"])
    args = there.configuration({**begin, "NodeResourcesFit.resource.cpu": 4}).profiles[0].plugin_config[0].args
    assert args["ignoredResources"] == ["example.test/fpga"]


def shaped(*shape: dict[str, int]) -> Space:
    """Return the space of a profile whose NodeResourcesFit scores by such a shape."""
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": list(shape)}}
    config = configuration(profile(NodeResourcesFit={"scoringStrategy": strategy}))
    return space(decode(config), "berth", world(EVERYTHING))


def test_a_point_of_a_shape_is_at_0_where_it_says_nothing() -> None:
    begin = shaped({"utilization": 0}, {"score": 10, "utilization": 100}).begin()
    assert [begin[f"NodeResourcesFit.shape.{at}"] for at in (0, 50, 100)] == [0, 5, 10]


def points(there: Space, **new: Value) -> list[tuple[int, int]]:
    """Return the shape with values of NodeResourcesFit put in, as (utilization, score)."""
    values = {**there.begin(), **{f"NodeResourcesFit.{name}": value for name, value in new.items()}}
    (args,) = [each.args for each in there.configuration(values).profiles[0].plugin_config]
    shape = args["scoringStrategy"]["requestedToCapacityRatio"]["shape"]
    return [(point["utilization"], point["score"]) for point in shape]


STEEP = ({"utilization": 0, "score": 0}, {"utilization": 40, "score": 10}, {"utilization": 100, "score": 10})


def test_what_is_not_varied_of_a_shape_stays() -> None:
    """Its own points, also where another value of the plugin is new; a point that it lacks begins at its score."""
    there = shaped(*STEEP)
    assert there.begin()["NodeResourcesFit.shape.50"] == 10
    assert points(there, **{"resource.cpu": 2}) == [(0, 0), (40, 10), (100, 10)]
    assert points(there, **{"shape.50": 3}) == [(0, 0), (40, 10), (50, 3), (100, 10)]
    straight = shaped({"utilization": 0, "score": 0}, {"utilization": 100, "score": 10})
    assert points(straight, **{"shape.100": 0}) == [(0, 0), (50, 5), (100, 0)]


def test_one_point_of_a_shape_may_be_varied_alone() -> None:
    there = shaped(*STEEP).narrowed(["NodeResourcesFit.shape.0"])
    assert points(there, **{"shape.0": 7}) == [(0, 7), (40, 10), (100, 10)]
