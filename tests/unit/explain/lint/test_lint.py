"""`berth config lint` has the findings of a table of configurations, and each remedy about weights holds."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.explain.lint.checks import lint
from podberth.explain.lint.finding import Finding
from podberth.explain.lint.settings import between_files
from podberth.explain.objects.world import World
from podberth.framework.config import ConfigError, decode
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, pod, profile

ALL = [{"name": "*"}]
MOST = {"scoringStrategy": {"type": "MostAllocated"}}
LIST = {"defaultingType": "List"}


def found(document: Object) -> list[Finding]:
    return lint(decode(document), IN_TREE)


def on(*names: str) -> Object:
    return {"enabled": [{"name": name} for name in names]}


def off(*names: str) -> Object:
    return {"disabled": [{"name": name} for name in names]}


def weighted(name: str, weight: int) -> Object:
    return {"enabled": [{"name": name, "weight": weight}]}


def one(plugins: Object | None = None, **args: Any) -> Object:
    return configuration(profile("a", plugins, **args))


def extender(**fields: Any) -> Object:
    return configuration(extenders=[{"urlPrefix": "https://x", "filterVerb": "f"} | fields])


FINE: list[tuple[str, Object]] = [
    ("the defaults", configuration()),
    ("two profiles", configuration(profile("a"), profile("b"))),
    ("every usual weight, as kube-scheduler writes it",
     one({"multiPoint": {"enabled": [{"name": "NodeName", "weight": 0}, {"name": "VolumeBinding", "weight": 0},
                                     {"name": "DynamicResources", "weight": 2}, {"name": "NodeAffinity", "weight": 2}]},
          "score": weighted("NodeAffinity", 5)})),
    ("a weight of its own", one({"score": weighted("NodeAffinity", 5) | off("NodeAffinity")})),
    ("spreading rather than packing", one(NodeResourcesFit={"scoringStrategy": {"type": "LeastAllocated"}})),
    ("an extender", extender(weight=0, managedResources=[{"name": "a.b/c"}])),
    ("no scores of images", one({"score": off("ImageLocality")})),
    ("Service plugins that are told what to do",
     one({"multiPoint": on("ServiceAffinity")}, ServiceAffinity={"affinityLabels": ["rack"]})),
    ("affinity by annotation", one({"multiPoint": on("AnnotationAffinity")})),
    ("another lease", configuration(leaderElection={"resourceName": "kube-scheduler", "resourceNamespace": "mine"})),
]  # fmt: skip


@pytest.mark.parametrize("document", [each[1] for each in FINE], ids=[each[0] for each in FINE])
def test_nothing_to_say(document: Object) -> None:
    """A configuration that is as it should be is left alone."""
    assert found(document) == []


P = "profiles[0].plugins."
C = "profiles[0].pluginConfig[0]"
FOUND: list[tuple[str, Object, str, str]] = [
    ("unknown-plugin", one({"filter": on("NodeAffinty")}), P + "filter.enabled[0].name", "Did you mean NodeAffinity?"),
    ("unknown-plugin", one({"queueSort": on("Zeb") | {"disabled": ALL}}), P + "queueSort.enabled[0].name", "podberth"),
    ("unknown-plugin", one({"multiPoint": on("Zebra")}), P + "multiPoint.enabled[0].name", "podberth.plugins"),
    ("unknown-plugin", one(nodeResourcesFit={}), C + ".name", "Did you mean NodeResourcesFit?"),
    ("plugin-not-installed", one({"multiPoint": on("Coscheduling")}), P + "multiPoint.enabled[0].name", "podberth"),
    ("retired-plugin", one({"score": on("NodeResourcesMostAllocated")}), P + "score.enabled[0].name",
     "NodeResourcesFit with scoringStrategy.type MostAllocated"),
    ("disables-unknown-plugin", one({"score": off("Imagelocality")}), P + "score.disabled[0].name", "ImageLocality?"),
    ("disables-nothing", one({"score": off("NodeName")}), P + "score.disabled[0].name", "where it runs: preFilter, "),
    ("disables-nothing", one({"multiPoint": off("ServiceAffinity")}), P + "multiPoint.disabled[0].name", "Remove"),
    ("weight-without-score", one({"multiPoint": weighted("NodePorts", 3)}), P + "multiPoint.enabled[0].weight",
     "Remove the weight"),
    ("weight-outside-score", one({"filter": weighted("NodeAffinity", 9)}), P + "filter.enabled[0].weight",
     "Move it to profiles[0].plugins.score.enabled"),
    ("weight-zero", one({"score": weighted("ImageLocality", 0)}), P + "score.enabled[0].weight",
     "plugins.score.disabled"),
    ("weight-overridden", one({"multiPoint": weighted("NodeAffinity", 4), "score": weighted("NodeAffinity", 5)}),
     P + "multiPoint.enabled[0].weight", "Give it once"),
    ("profile-of-kube-scheduler", configuration(profile("default-scheduler")), "profiles[0].schedulerName",
     "name of its own"),
    ("profile-name-unusable", configuration(profile("my scheduler")), "profiles[0].schedulerName", "letters"),
    ("profile-names-alike", configuration(profile("gpu-pack"), profile("gpu.Pack")), "profiles[1].schedulerName",
     "can't be taken for each other"),
    ("gates-missing", one({"preEnqueue": off("SchedulingGates")}), P + "preEnqueue", "Enable SchedulingGates"),
    ("preemption-missing", one({"postFilter": off("*")}), P + "postFilter", "Enable DefaultPreemption"),
    ("filters-missing", one({"filter": off("NodePorts")}), P + "filter", "Enable them at filter"),
    ("scores-missing", one({"score": off("*")}), P + "score", "NodeResourcesFit"),
    ("args-without-plugin", one({"multiPoint": off("ImageLocality")}, ImageLocality={}), C, "multiPoint"),
    ("args-without-effect", one({"score": off("NodeResourcesFit")}, NodeResourcesFit=MOST), C + ".args.scoringStrategy",
     "Enable NodeResourcesFit at score"),
    ("args-without-effect", one({"score": off("InterPodAffinity")}, InterPodAffinity={"hardPodAffinityWeight": 9}),
     C + ".args", "Enable InterPodAffinity at score"),
    ("args-without-effect",
     one({"score": off("PodTopologySpread")}, PodTopologySpread=LIST | {"defaultConstraints": [
         {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}),
     C + ".args.defaultConstraints[0]", "Enable PodTopologySpread at profiles[0].plugins.score"),
    ("shape-flat",
     one(NodeResourcesFit={"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {
         "shape": [{"utilization": 0, "score": 5}, {"utilization": 100, "score": 5}]}}}),
     C + ".args.scoringStrategy.requestedToCapacityRatio.shape", "rise with utilization"),
    ("resource-name-unknown",
     one(NodeResourcesFit={"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "gpu"}]}}),
     C + ".args.scoringStrategy.resources[0].name", "nvidia.com/gpu"),
    ("ignored-resource-counts", one(NodeResourcesFit={"ignoredResources": ["memory"]}), C + ".args.ignoredResources[0]",
     "Remove"),
    ("balance-of-one", one(NodeResourcesBalancedAllocation={"resources": [{"name": "cpu"}]}), C + ".args.resources",
     "two resources"),
    ("plugin-without-args", one({"multiPoint": on("ServiceAntiAffinity")}), "profiles[0].pluginConfig",
     "antiAffinityLabelsPreference"),
    ("annotation-half-honoured", one({"multiPoint": on("AnnotationAffinity"), "filter": off("InterPodAffinity")}),
     P + "filter", "Enable InterPodAffinity"),
    ("gate-half-on", one(TaintToleration={"featureGates": {"TaintTolerationComparisonOperators": True}}),
     "profiles[0].pluginConfig", "in the args of PodTopologySpread"),
    ("lease-of-kube-scheduler", configuration(leaderElection={"resourceName": "kube-scheduler"}),
     "leaderElection.resourceName", "another name"),
    ("field-without-effect", configuration(parallelism=32), "parallelism", "Remove"),
    ("field-without-effect", configuration(delayCacheUntilActive=True), "delayCacheUntilActive", "Remove"),
    ("extender-never-asked", extender(filterVerb=""), "extenders[0]", "verbs"),
    ("extender-address", extender(urlPrefix="extender:80"), "extenders[0].urlPrefix", "whole address"),
    ("extender-setting-unused", extender(urlPrefix="http://x", tlsConfig={}), "extenders[0].tlsConfig", "https"),
    ("extender-setting-unused", extender(weight=3), "extenders[0].weight", "prioritizeVerb"),
    ("extender-setting-unused", extender(filterVerb="", preemptVerb="p", nodeCacheCapable=True),
     "extenders[0].nodeCacheCapable", "filterVerb or prioritizeVerb"),
    ("packing-sampled", one(None, NodeResourcesFit=MOST, PodTopologySpread=LIST) | {"percentageOfNodesToScore": 10},
     "profiles[0].percentageOfNodesToScore", "Leave percentageOfNodesToScore out"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "document", "path", "remedy"), FOUND)
def test_what_is_found(code: str, document: Object, path: str, remedy: str) -> None:
    """Each finding has its code and field, says what is there and why it matters, and what to do."""
    (finding,) = [each for each in found(document) if each.code == code]
    assert finding.path == path
    assert remedy in finding.remedy
    assert all(text.endswith((".", "?")) for text in (finding.why, finding.remedy))
    assert not finding.what.endswith(".")


def test_unknown_plugins_do_not_hide_the_rest() -> None:
    """The profile is looked at without them; and what is not valid is refused, and says nothing of them."""
    codes = [each.code for each in found(one({"multiPoint": on("Zebra"), "score": off("NodeName")}, Zebra={"a": 1}))]
    assert codes == ["unknown-plugin", "unknown-plugin", "disables-nothing"]
    with pytest.raises(ConfigError) as refused:
        found(one({"multiPoint": on("Zebra")}, InterPodAffinity={"hardPodAffinityWeight": 101}))
    assert str(refused.value).startswith("profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101")


@pytest.mark.parametrize(
    ("code", "document"),
    [
        ("packing-sampled", one(None, NodeResourcesFit=MOST) | {"percentageOfNodesToScore": 50}),
        ("weight-zero", one({"multiPoint": weighted("NodeAffinity", 0)})),
    ],
)
def test_what_is_set_elsewhere_counts(code: str, document: Object) -> None:
    """A profile's own percentage, also 0, is not the one of all; a weight at score is not that at multiPoint."""
    assert code in [each.code for each in found(document)]
    (own,) = document["profiles"]
    plugins = {**own.get("plugins", {}), "score": weighted("NodeAffinity", 20)}
    set_there = {**document, "profiles": [{**own, "plugins": plugins, "percentageOfNodesToScore": 0}]}
    assert code not in [each.code for each in found(set_there)]


RISING = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
FALLING = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]


def ratio(shape: list[Object]) -> Object:
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}}


def outvoted(document: Object) -> Finding | None:
    return next((each for each in found(document) if each.code == "packing-outvoted"), None)


def test_what_is_set_is_not_advised() -> None:
    """A list of constraints for pods without their own is named as what outvotes packing."""
    every = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]
    spread = {**LIST, "defaultConstraints": every}
    advice = outvoted(one(NodeResourcesFit=MOST, PodTopologySpread=spread))
    assert advice is not None
    assert advice.remedy.endswith(" or take profiles[0].pluginConfig[1].args.defaultConstraints out.")
    assert outvoted(one(NodeResourcesFit=MOST, PodTopologySpread=LIST)) is None


@pytest.mark.parametrize(
    ("document", "against"),
    [
        (one(NodeResourcesFit=MOST), "PodTopologySpread 2 × 100 = 200"),
        (one(NodeResourcesFit=ratio(RISING)), "PodTopologySpread 2 × 100 = 200"),
        (
            one({"score": weighted("NodeResourcesBalancedAllocation", 20)}, NodeResourcesFit=MOST),
            "NodeResourcesBalancedAllocation 20 × 100 + PodTopologySpread 2 × 100 = 2200",
        ),
        (
            one(
                {"score": weighted("NodeResourcesBalancedAllocation", 20)},
                NodeResourcesFit=MOST,
                PodTopologySpread=LIST,
            ),
            "NodeResourcesBalancedAllocation 20 × 100 = 2000",
        ),
    ],
)
def test_packing_that_is_outvoted(document: Object, against: str) -> None:
    """Told with what each can give at most, and with two nodes whose totals say so; the weight it names is enough."""
    finding = outvoted(document)
    assert finding is not None and finding.example is not None
    assert against in finding.why
    intended, chosen = finding.example.nodes
    assert (intended.node, chosen.node) == (finding.example.intended, finding.example.chosen)
    assert intended.total < chosen.total
    assert intended.scores["NodeResourcesFit"] > chosen.scores["NodeResourcesFit"]
    assert all(node.total == sum(node.scores.values()) for node in (intended, chosen))

    (needed,) = re.findall(r"the weight (\d+) or more", finding.remedy)
    plugins = document["profiles"][0].setdefault("plugins", {}).setdefault("score", {}).setdefault("enabled", [])
    plugins.append({"name": "NodeResourcesFit", "weight": int(needed) - 1})
    assert outvoted(document) is not None
    plugins[-1]["weight"] += 1
    assert outvoted(document) is None


@pytest.mark.parametrize(
    ("document", "against"),
    [
        (one({"score": weighted("NodeResourcesFit", 40)}), "NodeResourcesFit 40 × 100 = 4000"),
        (
            one({"score": weighted("NodeResourcesFit", 40)}, NodeResourcesFit=MOST, PodTopologySpread=LIST),
            "NodeResourcesFit 40 × 100 = 4000",
        ),
        (
            one({"score": weighted("NodeResourcesBalancedAllocation", 90)}),
            "NodeResourcesBalancedAllocation 90 × 100 = 9000",
        ),
    ],
)
def test_preferences_that_are_outvoted(document: Object, against: str) -> None:
    """A pod says which node it wants, and gets the other one; the weight that is named is enough."""
    (finding,) = found(document)
    assert finding.code == "preferences-outvoted" and finding.example is not None
    assert against in finding.why
    assert f"prefers `{finding.example.intended}`" in finding.example.scene
    (wanted,) = re.findall(r"the weight (\d+) or more", finding.remedy)
    plugins = document["profiles"][0]["plugins"]["score"]["enabled"]
    plugins.append({"name": "NodeAffinity", "weight": int(wanted) - 1})
    assert [each.code for each in found(document)] == ["preferences-outvoted"]
    plugins[-1]["weight"] += 1
    assert found(document) == []


@pytest.mark.parametrize(
    "document",
    [
        one(NodeResourcesFit=MOST, PodTopologySpread=LIST),
        one(NodeResourcesFit=ratio(FALLING)),
        one({"score": off("PodTopologySpread")}, NodeResourcesFit=MOST),
        one({"score": off("*") | on("NodeResourcesFit")}, NodeResourcesFit=MOST),
    ],
)
def test_packing_that_wins(document: Object) -> None:
    """Nobody who pulls the other way, or nobody who packs."""
    assert outvoted(document) is None


def test_the_pods_of_a_cluster() -> None:
    """Whom they name; and preemption matters only where their priorities differ."""
    world = World()
    world.add_all(
        [pod("p", scheduler="berth-pak"), pod("q", scheduler="berth-pak", on="n"), pod("r", scheduler="used")]
    )
    config = decode(configuration(profile("berth-pack", {"postFilter": off("*")}), profile("used")))
    findings = lint(config, IN_TREE, world)
    assert [(each.code, each.path) for each in findings] == [
        ("profile-unused", "profiles[0].schedulerName"),
        ("profile-misspelt", "profiles[0].schedulerName"),
    ]
    assert findings[1].what == '1 waiting pod names "berth-pak", which no profile is called'
    world.add_all([pod("s", scheduler="used", priority=9)])
    assert [each.code for each in lint(config, IN_TREE, world)][-1] == "preemption-missing"


def test_between_files() -> None:
    """Two schedulers must not share a profile, nor a lease while both want to be active."""
    configs = {"a.yaml": decode(configuration(profile("x"))), "b.yaml": decode(configuration(profile("x")))}
    assert [(file, each.code) for file, each in between_files(configs)] == [
        ("b.yaml", "profile-in-two-files"),
        ("b.yaml", "lease-shared"),
    ]
    alone = {"leaderElection": {"resourceName": "other"}}
    apart = {"a.yaml": decode(configuration(profile("x"))), "b.yaml": decode(configuration(profile("y"), **alone))}
    assert list(between_files(apart)) == []


VALUES = (
    st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from(["", "a", "*", "NodeAffinity", "Zebra", "1s"])
)
LIVELY = one(
    {
        "multiPoint": on("AnnotationAffinity", "ServiceAffinity") | off("ImageLocality"),
        "score": weighted("NodeName", 3),
    },
    NodeResourcesFit=ratio(RISING),
    PodTopologySpread=LIST,
    ServiceAffinity={"affinityLabels": ["rack"]},
) | {"extenders": extender(tlsConfig={}, managedResources=[{"name": "a.b/c"}])["extenders"], "leaderElection": {}}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_a_file_holds_there_is_an_answer(data: st.DataObject) -> None:
    """A configuration with a few values replaced is refused in words, or looked at; nothing else is raised."""
    document = copy.deepcopy(LIVELY)
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not (isinstance(place[key], dict | list) and place[key]) or data.draw(st.integers(0, 9)) == 0:
                break
            place = place[key]
        place[key] = data.draw(VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.just("name"), VALUES))
    try:
        assert all(each.path for each in found(document))
    except ConfigError as error:
        assert str(error)
