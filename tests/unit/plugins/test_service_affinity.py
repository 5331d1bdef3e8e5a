"""ServiceAffinity and ServiceAntiAffinity: tables, the historic plugin's reading in plain loops, and what wakes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.framework.config import ConfigError, decode
from podberth.framework.events import ClusterEvent
from podberth.framework.profiles import build
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, node, pod, profile
from tests.unit.plugins.small import a_node, a_pod, normalized, plugin, rejected, scored

WEB = {"app": "web"}
NODES = (
    node("a1", labels={"site": "a", "row": "1"}),
    node("a2", labels={"site": "a", "row": "2"}),
    node("b1", labels={"site": "b", "row": "1"}),
    node("bare"),
)
ELSEWHERE = "node(s) didn't match service affinity"


def service(name: str = "web", namespace: str = "default", selector: dict[str, str] | None = WEB) -> Object:
    spec = {} if selector is None else {"selector": selector}
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def placed(name: str, on: str, labels: dict[str, str] = WEB, *, leaving: bool = False, **more: Any) -> Object:
    made = pod(name, labels=labels, on=on, **more)
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


SITE = ("site",)
FILTERED: list[tuple[str, tuple[str, ...], Object, list[Object], str]] = [
    ("no labels configured", (), pod("p", labels=WEB), [service(), placed("x", "a1")], ""),
    ("the first pod of a Service may go anywhere", SITE, pod("p", labels=WEB), [service()], ""),
    ("the next ones follow it", SITE, pod("p", labels=WEB), [service(), placed("x", "a1")], "b1 bare"),
    ("where most are, by all labels together", ("site", "row"), pod("p", labels=WEB),
     [service(), *(placed(f"{on}-{i}", on) for on, pods in (("a1", 3), ("a2", 2), ("b1", 2)) for i in range(pods))],
     "a2 b1 bare"),
    ("also while it is on its way out", SITE, pod("p", labels=WEB), [service(), placed("x", "b1", leaving=True)],
     "a1 a2 bare"),
    ("no Service, nobody to follow", SITE, pod("p", labels=WEB), [placed("x", "a1")], ""),
    ("a Service of another namespace", SITE, pod("p", labels=WEB), [service(namespace="other"), placed("x", "a1")],
     ""),
    ("a Service without selector", SITE, pod("p", labels=WEB), [service(selector=None), placed("x", "a1")], ""),
    ("pods of another namespace", SITE, pod("p", labels=WEB), [service(), placed("x", "a1", namespace="other")], ""),
    ("a pod that lacks one of the labels is not like it", SITE, pod("p", labels=WEB | {"v": "2"}),
     [service(), placed("x", "a1")], ""),
    ("one with more labels is", SITE, pod("p", labels=WEB), [service(), placed("x", "a1", WEB | {"v": "2"})],
     "b1 bare"),
    ("nodeSelector says it (A ∩ B)", SITE, pod("p", labels=WEB, select={"site": "b"}),
     [service(), placed("x", "a1")], "a1 a2 bare"),
    ("nodeSelector says it without a Service", SITE, pod("p", select={"site": "b"}), [], "a1 a2 bare"),
    ("a nodeSelector about something else", SITE, pod("p", labels=WEB, select={"row": "1"}),
     [service(), placed("x", "a1")], "b1 bare"),
    ("one label from each (A ∩ B + B ∩ C)", ("site", "row"), pod("p", labels=WEB, select={"row": "2"}),
     [service(), placed("x", "a1")], "a1 b1 bare"),
    ("two labels of one node", ("site", "row"), pod("p", labels=WEB), [service(), placed("x", "a2")],
     "a1 b1 bare"),
    ("a node without the label leaves it open", SITE, pod("p", labels=WEB), [service(), placed("x", "bare")], ""),
    ("most of the pods", SITE, pod("p", labels=WEB),
     [service(), placed("x", "a1"), placed("y", "b1"), placed("z", "b1")], "a1 a2 bare"),
    ("as many here as there: the smaller value", SITE, pod("p", labels=WEB),
     [service(), placed("y", "b1"), placed("x", "a1")], "b1 bare"),
    ("a value beats none", SITE, pod("p", labels=WEB), [service(), placed("y", "bare"), placed("x", "b1")],
     "a1 a2 bare"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "asks", "objects", "want"), [row[1:] for row in FILTERED], ids=[row[0] for row in FILTERED]
)
def test_filter(labels: tuple[str, ...], asks: Object, objects: list[Object], want: str) -> None:
    """Rejected are the nodes that differ from what the pod or its Service's pods have."""
    found = rejected(plugin("ServiceAffinity", affinityLabels=list(labels)), asks, *NODES, *objects)
    assert found == {name: [ELSEWHERE] for name in want.split()}


def test_pods_of_a_node_that_is_gone() -> None:
    """They have nobody to follow: the snapshot upstream looks at has no such node either."""
    found = rejected(
        plugin("ServiceAffinity", affinityLabels=["site"]), pod("p", labels=WEB), *NODES, service(), placed("x", "?")
    )
    assert found == {}


SCORED: list[tuple[str, list[str], list[Object], dict[str, int]]] = [
    ("no Service", ["site"], [], {"a1": 100, "a2": 100, "b1": 100, "bare": 0}),
    ("no pods yet", ["site"], [service()], {"a1": 100, "a2": 100, "b1": 100, "bare": 0}),
    ("all in one site", ["site"], [service(), placed("x", "a1")], {"a1": 0, "a2": 0, "b1": 100, "bare": 0}),
    ("two to one", ["site"], [service(), placed("x", "a1"), placed("y", "a2"), placed("z", "b1")],
     {"a1": 33, "a2": 33, "b1": 66, "bare": 0}),
    ("pods on nodes without the label count in the total", ["site"], [service(), placed("x", "a1"),
     placed("y", "bare")], {"a1": 50, "a2": 50, "b1": 100, "bare": 0}),
    ("those on their way out do not", ["site"], [service(), placed("x", "a1", leaving=True)],
     {"a1": 100, "a2": 100, "b1": 100, "bare": 0}),
    ("two labels, half each", ["site", "row"], [service(), placed("x", "a1")],
     {"a1": 0, "a2": 50, "b1": 50, "bare": 0}),
    ("the first Service by name", ["site"], [service("z"), service("a", selector={"app": "web", "v": "1"}),
     placed("x", "a1")], {"a1": 0, "a2": 0, "b1": 100, "bare": 0}),
]  # fmt: skip


@pytest.mark.parametrize("name", ["ServiceAntiAffinity", "ServiceAffinity"])
@pytest.mark.parametrize(("labels", "objects", "want"), [row[1:] for row in SCORED], ids=[row[0] for row in SCORED])
def test_score(name: str, labels: list[str], objects: list[Object], want: dict[str, int]) -> None:
    """Few of the Service's pods in the label's value is much; both plugins agree."""
    made = plugin(name, antiAffinityLabelsPreference=labels)
    assert normalized(made, pod("p", labels=WEB), *NODES, *objects) == want


def test_without_a_preference_they_do_not_score() -> None:
    """Nothing to spread over is no opinion."""
    assert scored(plugin("ServiceAntiAffinity"), pod("p", labels=WEB), *NODES, service()) is None
    assert scored(plugin("ServiceAffinity", affinityLabels=["site"]), pod("p", labels=WEB), *NODES) is None


def test_only_feasible_nodes_count() -> None:
    """Upstream sums over the nodes that it scores."""
    objects = [*NODES, service(), placed("x", "a1"), placed("y", "b1")]
    made = plugin("ServiceAntiAffinity", antiAffinityLabelsPreference=["site"])
    assert normalized(made, pod("p", labels=WEB), *objects, among="a2 b1") == {"a2": 100, "b1": 0}


VALUES = st.sampled_from(["", "u", "v"])
WORLDS = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5),
        "pods": st.lists(
            st.tuples(st.integers(0, 4), st.sampled_from(["", "app", "app v"]), st.booleans()), max_size=7
        ),
        "services": st.lists(st.sampled_from(["app", "v"]), max_size=2),
        "select": st.tuples(VALUES, VALUES),
    }
)


def marked(text: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), "1")


def keyed(first: str, second: str) -> dict[str, str]:
    return {key: value for key, value in (("k", first), ("l", second)) if value}


@settings(max_examples=100, deadline=None)
@given(WORLDS)
def test_against_plain_loops(world: Any) -> None:
    """Filter: as the historic plugin, had its list begun with a pod of ours; scores: exactly its numbers."""
    nodes = {f"n{i}": keyed(*values) for i, values in enumerate(world["nodes"])}
    pods = [(f"n{at % len(nodes)}", marked(labels), leaving) for at, labels, leaving in world["pods"]]
    services = [marked(selector) for selector in world["services"]]
    asks = pod("p", labels=marked("app v"), select=keyed(*world["select"]))
    objects = [node(name, labels=labels) for name, labels in nodes.items()]
    objects += [placed(f"p{i}", on, labels, leaving=leaving) for i, (on, labels, leaving) in enumerate(pods)]
    objects += [service(f"s{i}", selector=selector) for i, selector in enumerate(services)]
    both = {"affinityLabels": ["k", "l"], "antiAffinityLabelsPreference": ["l", "k"]}
    made = plugin("ServiceAffinity", **both)
    fits = set(nodes) - set(rejected(made, asks, *objects))
    assert fits in plain_filter(nodes, pods, services, asks)
    assert normalized(made, asks, *objects) == plain_scores(nodes, pods, services, ["l", "k"])


def plain_filter(nodes: Any, pods: Any, services: Any, asks: Object) -> list[set[str]]:
    """What the historic Filter lets through, for each pod that its list may begin with."""
    own, selector = asks["metadata"]["labels"], asks["spec"].get("nodeSelector", {})
    alike = [on for on, labels, _ in pods if own.items() <= labels.items()]
    mine = [service for service in services if service.items() <= own.items()]
    answers = []
    for home in alike or [None]:
        wanted = {label: selector[label] for label in ("k", "l") if label in selector}
        if len(wanted) < 2 and mine and home is not None:
            wanted = {label: nodes[home][label] for label in ("k", "l") if label in nodes[home]} | wanted
        answers.append({name for name, labels in nodes.items() if wanted.items() <= labels.items()})
    return answers


def plain_scores(nodes: Any, pods: Any, services: Any, labels: list[str]) -> dict[str, int]:
    """The historic Score and NormalizeScore over all nodes."""
    raw = {
        name: sum(on == name and not leaving and services[0].items() <= held.items() for on, held, leaving in pods)
        if services
        else 0
        for name in nodes
    }
    total, result = sum(raw.values()), dict.fromkeys(nodes, 0.0)
    for label in labels:
        for name, values in nodes.items():
            if label in values:
                here = sum(raw[other] for other in nodes if nodes[other].get(label) == values[label])
                share = 100.0 * ((total - here) / total) if total else 100.0
                result[name] += share / float(len(labels))
    return {name: int(value) for name, value in result.items()}


HINTS: list[tuple[str, ClusterEvent, Object, bool]] = [
    ("one like it came", ClusterEvent.POD_PLACED, placed("x", "a1"), True),
    ("another came", ClusterEvent.POD_PLACED, placed("x", "a1", {"app": "db"}), False),
    ("one like it went", ClusterEvent.POD_GONE, placed("x", "a1"), True),
    ("another went", ClusterEvent.POD_GONE, placed("x", "a1", {"app": "db"}), False),
    ("one of another namespace went", ClusterEvent.POD_GONE, placed("x", "a1", namespace="other"), False),
    ("one was relabelled", ClusterEvent.POD_LABELS, placed("x", "a1", {"app": "db"}), True),
    ("and shrank", ClusterEvent.POD_LABELS | ClusterEvent.POD_SHRUNK, placed("x", "a1", {"app": "db"}), True),
]


@pytest.mark.parametrize(("event", "other", "want"), [row[1:] for row in HINTS], ids=[row[0] for row in HINTS])
def test_pods_that_wake(event: ClusterEvent, other: Object, want: bool) -> None:
    """Only pods that the choice goes by."""
    made = plugin("ServiceAffinity", affinityLabels=["site"])
    assert made.pod_hint(a_pod(pod("p", labels=WEB)), event, a_pod(other)) is want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, node("n"), True),
        (node("n"), node("n", labels={"site": "a"}), True),
        (node("n", labels={"hall": "1"}), node("n", labels={"hall": "1", "site": "a"}), True),
        (node("n"), node("n", labels={"row": "a"}), False),
    ],
)
def test_nodes_that_wake(old: Object | None, new: Object, want: bool) -> None:
    """New ones, and those that moved."""
    made = plugin("ServiceAffinity", affinityLabels=["site", "hall"])
    before = None if old is None else a_node(old)
    assert made.node_hint(a_pod(pod("p")), before, a_node(new)) is want


def test_off_unless_named() -> None:
    """The default profile has neither; a profile that names them has both halves."""
    usual = build(decode(configuration(profile())), IN_TREE)["berth"].profile
    assert not {"ServiceAffinity", "ServiceAntiAffinity"} & {p.name for ps in usual.points.values() for p in ps}
    asked = {"multiPoint": {"enabled": [{"name": "ServiceAffinity", "weight": 7}]}}
    found = build(decode(configuration(profile("a", asked))), IN_TREE)["a"].profile
    assert [p.name for p in found.points["filter"]][-1] == "ServiceAffinity"
    assert found.weights["ServiceAffinity"] == 7


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"affinityLabels": ["a b"]}, 'affinityLabels[0]: Invalid value: "a b": not a legal label key'),
        ({"affinityLabels": ["a", "a"]}, 'affinityLabels[1]: Duplicate value: "a"'),
        ({"antiAffinityLabelsPreference": ["/"]}, 'antiAffinityLabelsPreference[0]: Invalid value: "/": not a legal'),
        ({"labels": []}, "labels: Unknown field"),
    ],
)
def test_bad_arguments(args: Object, want: str) -> None:
    """Refused with their path."""
    asked = {"multiPoint": {"enabled": [{"name": "ServiceAffinity"}]}}
    with pytest.raises(ConfigError) as refused:
        build(decode(configuration(profile("a", asked, ServiceAffinity=args))), IN_TREE)
    assert f"profiles[0].pluginConfig[0].args.{want}" in str(refused.value)
