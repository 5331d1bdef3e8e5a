"""From configured plugins to those that run, in their order and with their weights."""

from typing import Any

import pytest
from msgspec import Struct

from podberth.framework.config import ConfigError, decode
from podberth.framework.interface import Plugin, Profile
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, node_selector, profile

FILTERS = ["NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"]
SCORERS = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
]
ALL = [{"name": "*"}]


def built(plugins: Object | None = None, **args: Any) -> Profile:
    return build(decode(configuration(profile("a", plugins, **args))), IN_TREE)["a"].profile


def names(found: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in found.points[point]]


def refs(*given: str) -> list[Object]:
    """`Name` or `Name=weight`."""
    made: list[Object] = []
    for text in given:
        name, _, weight = text.partition("=")
        made.append({"name": name} | ({"weight": int(weight)} if weight else {}))
    return made


def test_the_default_profile() -> None:
    """kube-scheduler's plugins in its order, with its weights."""
    found = built()
    assert names(found, "filter")[:6] == FILTERS
    assert names(found, "score") == SCORERS
    assert names(found, "queue_sort") == ["PrioritySort"]
    assert names(found, "bind") == ["DefaultBinder"]
    assert names(found, "post_filter") == ["DynamicResources", "DefaultPreemption"]
    assert names(found, "pre_enqueue") == ["SchedulingGates", "DynamicResources", "GangScheduling"]
    assert [found.weights[name] for name in SCORERS] == [3, 2, 1, 1, 2, 2, 2, 1, 1]


SCORE_CASES: list[tuple[str, Object, list[str], dict[str, int]]] = [
    (
        "disabled",
        {"score": {"disabled": refs("ImageLocality", "NodeAffinity")}},
        ["TaintToleration", *SCORERS[2:8]],
        {},
    ),
    ("all disabled", {"score": {"disabled": ALL}}, [], {}),
    (
        "enabled beats disabled",
        {"score": {"disabled": ALL, "enabled": refs("ImageLocality=5", "NodeAffinity")}},
        ["ImageLocality", "NodeAffinity"],
        {"ImageLocality": 5, "NodeAffinity": 1},
    ),
    (
        "overrides come first, in their own order",
        {"score": {"enabled": refs("ImageLocality", "NodeAffinity=9")}},
        ["ImageLocality", "NodeAffinity", "TaintToleration", *SCORERS[2:8]],
        {"NodeAffinity": 9, "TaintToleration": 3},
    ),
    (
        "a reconfigured default stays in its place",
        {"multiPoint": {"enabled": refs("NodeAffinity=7")}},
        SCORERS,
        {"NodeAffinity": 7},
    ),
    (
        "the point's weight beats multiPoint's",
        {"multiPoint": {"enabled": refs("NodeAffinity=7")}, "score": {"enabled": refs("NodeAffinity=8")}},
        ["NodeAffinity", "TaintToleration", *SCORERS[2:]],
        {"NodeAffinity": 8},
    ),
    (
        "disabled and enabled again in multiPoint goes to the end",
        {"multiPoint": {"disabled": refs("TaintToleration"), "enabled": refs("TaintToleration=4")}},
        [*SCORERS[1:], "TaintToleration"],
        {"TaintToleration": 4},
    ),
    (
        "a weight of zero stands for one",
        {"score": {"enabled": refs("TaintToleration=0")}},
        SCORERS,
        {"TaintToleration": 1},
    ),
    (
        "a disabled override counts as the point's own",
        {"score": {"enabled": refs("ImageLocality"), "disabled": refs("ImageLocality")}},
        SCORERS,
        {},
    ),
]


@pytest.mark.parametrize(("plugins", "order", "weights"), [c[1:] for c in SCORE_CASES], ids=[c[0] for c in SCORE_CASES])
def test_expansion(plugins: Object, order: list[str], weights: dict[str, int]) -> None:
    """expandMultiPointPlugins, mergePluginSet and getValidScoreWeights."""
    found = built(plugins)
    assert names(found, "score") == order
    assert {name: found.weights[name] for name in weights} == weights


def test_multi_point_alone_starts_from_nothing() -> None:
    """`*` disables every default."""
    enabled = refs("PrioritySort", "DefaultBinder", "NodeName")
    found = built({"multiPoint": {"disabled": ALL, "enabled": enabled}})
    assert names(found, "filter") == ["NodeName"]
    assert names(found, "score") == []


def test_points_that_ours_fold_into_another_may_be_named() -> None:
    """A kube-scheduler's own file works: its plugins have a preFilter where ours need none."""
    found = built(
        {
            "preEnqueue": {"enabled": refs("DefaultPreemption")},
            "preFilter": {"enabled": refs("NodePorts", "NodeResourcesFit")},
            "preScore": {"enabled": refs("TaintToleration"), "disabled": ALL},
            "permit": {"enabled": refs("GangScheduling")},
        }
    )
    assert names(found, "filter")[:6] == FILTERS


AT = "profiles[0].plugins"
REFUSED: list[tuple[Object, str]] = [
    (
        {"filter": {"enabled": refs("nodename")}},
        'filter.enabled[0].name: Invalid value: "nodename": no plugin of this name (did you mean NodeName?)',
    ),
    ({"multiPoint": {"enabled": refs("Nope")}}, 'multiPoint.enabled[0].name: Invalid value: "Nope": no plugin of this'),
    (
        {"score": {"enabled": refs("NodeName")}},
        'score.enabled[0].name: Invalid value: "NodeName": does not implement score',
    ),
    (
        {"preScore": {"enabled": refs("ImageLocality")}},
        'preScore.enabled[0].name: Invalid value: "ImageLocality": does not implement preScore',
    ),
    (
        {"score": {"enabled": refs("ImageLocality", "ImageLocality")}},
        'score.enabled[1].name: Duplicate value: "ImageLocality"',
    ),
    (
        {"score": {"enabled": refs("ImageLocality=-1")}},
        "score.enabled[0].weight: Invalid value: -1: not in valid range",
    ),
    ({"queueSort": {"disabled": ALL}}, "queueSort: Invalid value: one queueSort plugin is needed"),
    ({"bind": {"disabled": ALL}}, "bind: Invalid value: at least one bind plugin is needed"),
]


@pytest.mark.parametrize(("plugins", "error"), REFUSED, ids=[error[:40] for _, error in REFUSED])
def test_refuses_plugins(plugins: Object, error: str) -> None:
    """One line with the path, and what was probably meant."""
    with pytest.raises(ConfigError) as caught:
        built(plugins)
    assert str(caught.value).startswith(f"{AT}.{error}")


ADDED = {"requiredDuringSchedulingIgnoredDuringExecution": node_selector("k > x")}
ZERO = "Invalid value: 0: cannot be zero at the same time as"
TYPES = '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
ARGS: list[tuple[Object, list[str]]] = [
    ({"NodeName": {"x": 1}}, ["x: Unknown field"]),
    (
        {"InterPodAffinity": {"hardPodAffinityWeight": "1"}},
        ['hardPodAffinityWeight: Invalid value: "1": expected a whole number'],
    ),
    (
        {"InterPodAffinity": {"hardPodAffinityWeight": 101}},
        ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
    ),
    (
        {"DefaultPreemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}},
        [
            f"minCandidateNodesPercentage: {ZERO} minCandidateNodesAbsolute",
            f"minCandidateNodesAbsolute: {ZERO} minCandidateNodesPercentage",
        ],
    ),
    (
        {"DefaultPreemption": {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1}},
        [
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ],
    ),
    (
        {"NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]}},
        ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
    ),
    (
        {"NodeResourcesFit": {"scoringStrategy": {"type": "Best", "resources": [{"name": "cpu", "weight": 101}]}}},
        [
            f'scoringStrategy.type: Unsupported value: "Best": supported values: {TYPES}',
            "scoringStrategy.resources[0].weight: Invalid value: 101: "
            "resource weight of cpu not in valid range (0, 100]",
        ],
    ),
    (
        {"NodeResourcesFit": {"scoringStrategy": {}}},
        [f'scoringStrategy.type: Unsupported value: "": supported values: {TYPES}'],
    ),
    (
        {"NodeResourcesFit": {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}},
        [
            "scoringStrategy.requestedToCapacityRatio: Required value: "
            "must be specified when type is RequestedToCapacityRatio"
        ],
    ),
    (
        {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {}}}},
        ["scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
    ),
    (
        {"NodeResourcesFit": {"ignoredResources": ["a/b/c"], "ignoredResourceGroups": ["example.com/gpu"]}},
        [
            'ignoredResources[0]: Invalid value: "a/b/c": not a qualified name',
            "ignoredResourceGroups[0]: Invalid value: \"example.com/gpu\": resource group name can't contain '/'",
        ],
    ),
    (
        {"NodeAffinity": {"addedAffinity": ADDED}},
        [
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
            'matchExpressions[0].values[0]: Invalid value: "x"'
        ],
    ),
]


def refused(**args: Object) -> list[str]:
    """The errors of a profile with these plugin arguments, below `pluginConfig[0].args`."""
    try:
        built(None, **args)
    except ConfigError as error:
        return [line.removeprefix("profiles[0].pluginConfig[0].args.") for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(("args", "errors"), ARGS, ids=[errors[0][:50] for _, errors in ARGS])
def test_refuses_arguments(args: Object, errors: list[str]) -> None:
    """A line for each thing that is wrong, in the words of kube-scheduler's own validation."""
    assert [line[: len(error)] for line, error in zip(refused(**args), errors, strict=True)] == errors


RANGE = "not in valid range"
SHAPES = [
    ([(0, 0), (100, 10)], []),
    ([(50, 1)], []),
    ([], [": Required value: at least one point must be specified"]),
    ([(10, 0), (10, 1), (5, 2)], ["[1].utilization: Invalid value: 10: values must be sorted in increasing order"]),
    (
        [(-1, 0), (101, 0)],
        [
            f"[0].utilization: Invalid value: -1: {RANGE} [0, 100]",
            f"[1].utilization: Invalid value: 101: {RANGE} [0, 100]",
        ],
    ),
    (
        [(0, -1), (1, 11)],
        [f"[0].score: Invalid value: -1: {RANGE} [0, 10]", f"[1].score: Invalid value: 11: {RANGE} [0, 10]"],
    ),
]


@pytest.mark.parametrize(("points", "errors"), SHAPES)
def test_utilization_shapes(points: list[tuple[int, int]], errors: list[str]) -> None:
    """validateFunctionShape."""
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    found = refused(NodeResourcesFit={"scoringStrategy": strategy})
    assert found == [f"scoringStrategy.requestedToCapacityRatio.shape{error}" for error in errors]


def test_arguments_of_an_unknown_plugin_are_refused() -> None:
    """They would have no effect, which nobody means."""
    with pytest.raises(ConfigError, match=r'pluginConfig\[0\]\.name: Invalid value: "Nope"'):
        built(Nope={})


def test_args_may_carry_their_kind() -> None:
    """As kube-scheduler's own files do."""
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
    assert names(built(InterPodAffinity=args), "score") == SCORERS


def test_errors_of_all_profiles_are_named() -> None:
    """Each with its index."""
    bad = {"InterPodAffinity": {"hardPodAffinityWeight": -1}}
    with pytest.raises(ConfigError) as caught:
        build(decode(configuration(profile("a", **bad), profile("b", **bad))), IN_TREE)
    assert [line.split(".")[0] for line in str(caught.value).splitlines()] == ["profiles[0]", "profiles[1]"]


class ByName(Plugin):
    """A QueueSort plugin with arguments."""

    class Args(Struct, frozen=True):
        reverse: bool = False

    name = "ByName"

    def queue_sort(self, pod: Pod, queued_at: float) -> tuple[str]:
        return (pod.name,)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (
            {},
            {},
            'profiles[1].plugins.queueSort: Invalid value: "ByName": must be the same for all profiles: the first ',
        ),
        ({"ByName": {}}, {"ByName": {"reverse": True}}, "must be the same for all profiles: its arguments, too"),
        ({"ByName": {"reverse": False}}, {"ByName": {"reverse": False}}, ""),
    ],
)
def test_all_profiles_sort_alike(first: Object, second: Object, says: str) -> None:
    """Also where the plugin comes from multiPoint: their pods are in one queue."""
    sorting = {"multiPoint": {"enabled": refs("ByName"), "disabled": refs("PrioritySort")}}
    profiles = profile("a", sorting if first else None, **first), profile("b", sorting, **second)
    config, registry = decode(configuration(*profiles)), {**IN_TREE, "ByName": ByName}
    if says:
        with pytest.raises(ConfigError) as error:
            build(config, registry)
        assert says in str(error.value)
    else:
        assert [*build(config, registry)] == ["a", "b"]
