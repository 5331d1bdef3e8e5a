"""Near and away from other pods, in both directions."""

import numpy as np
import pytest

from podberth.cache.affinity_counts import AffinityCounts
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, RemovedPods
from podberth.plugins import inter_pod_affinity
from tests.builders import Object, namespace, node, pod, term
from tests.unit.plugins.small import (
    a_node,
    a_pod,
    cluster,
    normalized,
    plugin,
    pre_filter,
    reasons,
    rejected,
    rejected_with_none_gone,
    scored,
)
from tests.unit.work import calls

NOT_NEAR = "!node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
NODES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("none")]
TEAM = [namespace("default"), namespace("team", owner="x")]
DB = {"app": "db"}


def on(name: str, where: str, /, **more: object) -> Object:
    """A placed pod labelled `app: db`."""
    return pod(name, on=where, **({"labels": DB} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asks", "placed", "out"),
    [
        pytest.param(
            pod("p", near=["app=db per zone"]), [on("e", "a1")], {"b1": NOT_NEAR, "none": NOT_NEAR}, id="near"
        ),
        pytest.param(
            pod("p", near=["app=db per zone"]),
            [],
            dict.fromkeys(["a1", "a2", "b1", "none"], NOT_NEAR),
            id="nobody there",
        ),
        pytest.param(
            pod("p", labels=DB, near=["app=db per zone"]),
            [],
            {"none": NOT_NEAR},
            id="the first of its kind, where the key is",
        ),
        pytest.param(
            pod("p", labels=DB, near=["app=db per zone"]),
            [on("e", "b1")],
            {"a1": NOT_NEAR, "a2": NOT_NEAR, "none": NOT_NEAR},
            id="no longer the first",
        ),
        pytest.param(
            pod("p", labels=DB, near=["app=db per zone"]),
            [on("e", "none")],
            {"none": NOT_NEAR},
            id="one outside every zone",
        ),
        pytest.param(
            pod("p", labels=DB, near=["app=db per zone"]), [on("e", "gone")], {"none": NOT_NEAR}, id="one on no node"
        ),
        pytest.param(
            pod("p", near=["app=db per zone", "app=db per host"]),
            [on("e", "a1")],
            {"a2": NOT_NEAR, "b1": NOT_NEAR, "none": NOT_NEAR},
            id="every domain of every term",
        ),
        pytest.param(
            pod("p", labels=DB, near=["app=db per zone", "app=db per host"]),
            [on("e", "none")],
            dict.fromkeys(["a1", "a2", "b1", "none"], NOT_NEAR),
            id="not the first, by one term",
        ),
        pytest.param(
            pod("p", near=["app=db per zone", "tier per zone"]),
            [on("e", "a1"), on("f", "a1", labels={"tier": "x"})],
            dict.fromkeys(["a1", "a2", "b1", "none"], NOT_NEAR),
            id="one pod has to meet all terms",
        ),
        pytest.param(
            pod("p", apart=["app=db per zone"]), [on("e", "a1")], {"a1": NOT_APART, "a2": NOT_APART}, id="apart"
        ),
        pytest.param(pod("p", apart=["app=db per host"]), [on("e", "a1")], {"a1": NOT_APART}, id="apart per host"),
        pytest.param(
            pod("p", apart=["app=db per gone"]), [on("e", "a1")], {}, id="no such key: nothing to be apart from"
        ),
        pytest.param(
            pod("p", labels={"app": "web"}),
            [on("e", "a1", apart=["app=web per zone"])],
            {"a1": REPELLED, "a2": REPELLED},
            id="repelled",
        ),
        pytest.param(pod("p", labels=DB), [on("e", "a1", apart=["app=web per zone"])], {}, id="not meant"),
        pytest.param(
            pod("p", labels={"app": "web"}, apart=["app=db per host"]),
            [on("e", "a1", apart=["app=web per zone"])],
            {"a1": NOT_APART, "a2": REPELLED},
            id="the pod's own anti-affinity is asked first",
        ),
        pytest.param(
            pod("p", apart=[term("app=db", "zone", namespaces_with="owner=x")]),
            [*TEAM, on("e", "a1", namespace="team"), on("f", "b1")],
            {"a1": NOT_APART, "a2": NOT_APART},
            id="namespaces by label",
        ),
        pytest.param(
            pod("p", apart=[term("app=db", "zone", namespaces_with="!owner")]),
            [*TEAM, on("e", "a1", namespace="unknown"), on("f", "b1")],
            {"b1": NOT_APART},
            id="an unknown namespace meets no selector of an incoming pod",
        ),
        pytest.param(
            pod("p", namespace="unknown", labels={"app": "web"}),
            [*TEAM, on("e", "a1", apart=[term("app=web", "zone", namespaces_with="!owner")])],
            {"a1": REPELLED, "a2": REPELLED},
            id="but has no labels for a placed one",
        ),
        pytest.param(
            pod("p", apart=[term("app=db", "zone", namespaces_with="")]),
            [on("e", "a1", namespace="unknown")],
            {"a1": NOT_APART, "a2": NOT_APART},
            id="the empty selector means all",
        ),
        pytest.param(pod("p", apart=[term(None, "zone")]), [on("e", "a1")], {}, id="a null selector means nobody"),
        pytest.param(
            pod("p", apart=[term("", "zone")]),
            [on("e", "a1", labels={})],
            {"a1": NOT_APART, "a2": NOT_APART},
            id="everybody",
        ),
        pytest.param(
            pod("p", apart=["app=db per zone"]), [on("e", "a1", phase="Succeeded")], {}, id="finished pods are gone"
        ),
    ],
)
def test_filter(asks: Object, placed: list[Object], out: dict[str, str]) -> None:
    """A node's first reason: affinity, then anti-affinity, then that of the pods there."""
    found = rejected(plugin("InterPodAffinity"), asks, *NODES, *placed)
    assert {name: reasons[0] for name, reasons in found.items()} == out
    assert all(len(reasons) == 1 for reasons in found.values())
    assert rejected_with_none_gone(plugin("InterPodAffinity"), asks, *NODES, *placed) == found


def test_terms_that_do_not_parse_reject_the_pod() -> None:
    """With the path of the field."""
    asks = pod(
        "p", near=[{"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Is"}]}}]
    )
    made = plugin("InterPodAffinity")
    found = pre_filter(made, asks, *NODES)
    assert (made.skips(a_pod(asks).shape), made.skips(a_pod(NEAR).shape)) == (NO_POINTS, ("pre_filter",))
    assert "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector" in found


@pytest.mark.parametrize(
    ("asks", "placed", "args", "raw"),
    [
        (pod("p"), [], {}, None),
        (pod("p", rather_near=[(10, "app=db per zone")]), [], {}, None),
        (pod("p", rather_near=[(10, "app=db per zone")]), [on("e", "a1"), on("f", "a2")], {}, [20, 20, 0, 0]),
        (pod("p", rather_near=[(10, "app=db per zone")]), [on("e", "none")], {}, None),
        (pod("p", rather_apart=[(10, "app=db per host")]), [on("e", "a1")], {}, [-10, 0, 0, 0]),
        (
            pod("p", rather_near=[(5, "app=db per zone")], rather_apart=[(5, "app=db per zone")]),
            [on("e", "a1")],
            {},
            [0, 0, 0, 0],
        ),
        (pod("p", labels=DB), [on("e", "a1", rather_apart=[(7, "app=db per zone")])], {}, [-7, -7, 0, 0]),
        (pod("p", labels=DB), [on("e", "a1", near=["app=db per zone"])], {}, [1, 1, 0, 0]),
        (pod("p", labels=DB), [on("e", "a1", near=["app=db per zone"])], {"hardPodAffinityWeight": 0}, None),
        (pod("p", labels=DB), [on("e", "a1", near=["app=db per host"])], {"hardPodAffinityWeight": 50}, [50, 0, 0, 0]),
        (
            pod("p", labels=DB),
            [on("e", "a1", rather_near=[(7, "app=db per zone")])],
            {"ignorePreferredTermsOfExistingPods": True},
            None,
        ),
        (
            pod("p", labels=DB, rather_near=[(1, "app=db per host")]),
            [on("e", "a1", rather_near=[(7, "app=db per zone")])],
            {"ignorePreferredTermsOfExistingPods": True},
            [8, 7, 0, 0],
        ),
    ],
)
def test_score(asks: Object, placed: list[Object], args: Object, raw: list[int] | None) -> None:
    """Weights of both sides per topology value; nothing to add up means taking no part."""
    found = scored(plugin("InterPodAffinity", **args), asks, *NODES, *placed)
    assert found == (raw and dict(zip(["a1", "a2", "b1", "none"], raw, strict=True)))


def test_normalized_between_lowest_and_highest() -> None:
    """In floats, then truncated: 1/3 of 100 is 33."""
    placed = [on("e", "a1"), on("f", "a1"), on("g", "a1"), on("h", "a2")]
    asks = pod("p", rather_near=[(1, "app=db per host")])
    assert normalized(plugin("InterPodAffinity"), asks, *NODES, *placed) == {"a1": 100, "a2": 33, "b1": 0, "none": 0}
    assert normalized(plugin("InterPodAffinity"), asks, *NODES, *placed, among="b1 none") == {"b1": 0, "none": 0}


BOTH = pod("p", near=["app=db per zone", "tier per rack"])
NEAR, APART = pod("p", near=["app=db per zone"]), pod("p", labels={"app": "web"}, apart=["app=db per zone"])


@pytest.mark.parametrize(
    ("asks", "old", "new", "wakes"),
    [
        (NEAR, None, node("n", zone="a"), True),
        (NEAR, None, node("n"), False),
        (APART, None, node("n"), True),
        (NEAR, node("n", zone="a"), node("n", zone="b"), True),
        (NEAR, node("n", zone="a"), node("n", zone="a", labels={"x": "y"}), False),
        (APART, node("n", zone="a"), node("n"), True),
        (pod("p"), node("n"), node("n", zone="a"), True),
        (pod("p"), node("n", zone="a"), node("n", zone="a"), False),
        (pod("p"), None, node("n"), True),
        (BOTH, None, node("n", zone="a"), True),
        (BOTH, None, node("n"), False),
        (BOTH, node("n"), node("n", labels={"rack": "r"}), True),
        (pod("p", near=["app=db per zone"], apart=["app=db per rack"]), None, node("n"), True),
    ],
)
def test_wakes_for_a_node(asks: Object, old: Object | None, new: Object, wakes: bool) -> None:
    """One that joined or changed a domain of the pod's terms."""
    assert plugin("InterPodAffinity").node_hint(a_pod(asks), old and a_node(old), a_node(new)) is wakes


@pytest.mark.parametrize(
    ("asks", "event", "other", "wakes"),
    [
        (NEAR, ClusterEvent.POD_PLACED, on("e", "n"), True),
        (NEAR, ClusterEvent.POD_PLACED, on("e", "n", labels={}), False),
        (APART, ClusterEvent.POD_PLACED, on("e", "n"), False),
        (APART, ClusterEvent.POD_GONE, on("e", "n"), True),
        (APART, ClusterEvent.POD_GONE, on("e", "n", labels={}), False),
        (APART, ClusterEvent.POD_GONE, on("e", "n", labels={}, apart=["app=web per zone"]), True),
        (NEAR, ClusterEvent.POD_GONE, on("e", "n"), False),
        (APART, ClusterEvent.POD_GONE, on("e", "n", namespace="other"), False),
        (BOTH, ClusterEvent.POD_PLACED, on("e", "n"), False),
        (BOTH, ClusterEvent.POD_PLACED, on("e", "n", labels=DB | {"tier": "x"}), True),
        (pod("p"), ClusterEvent.POD_PLACED, on("e", "n"), False),
        (NEAR, ClusterEvent.POD_LABELS, on("e", "n"), True),
        (NEAR, ClusterEvent.POD_LABELS | ClusterEvent.POD_SHRUNK, on("e", "n"), True),
    ],
)
def test_wakes_for_a_pod(asks: Object, event: ClusterEvent, other: Object, wakes: bool) -> None:
    """One wanted near that came, or one in the way that went."""
    assert plugin("InterPodAffinity").pod_hint(a_pod(asks), event, a_pod(other)) is wakes


def test_a_supposed_pod_repels_nobody_whom_none_repelled_before() -> None:
    """PreFilter skips the plugin for a pod that nobody repels; a dry run's pods come too late. Not if it has terms."""
    asks, made = a_pod(pod("p", labels={"app": "web"})), plugin("InterPodAffinity")
    near = a_pod(pod("q", labels={"app": "web"}, near=["app=web per zone"]))
    other = a_pod(pod("e", apart=["app=web per zone"]))
    for repelled, placed in ((False, []), (True, [on("f", "b1", apart=["app=web per zone"])])):
        there = cluster(*NODES, *placed)
        with there.supposing([(other, there.nodes.row_of("a1") or 0)]):
            assert bool(made.filter(asks, there)) is repelled
            itself = reasons(made.filter(near, there), there)
        assert there.supposed == {}
        assert itself["a1"] == [REPELLED]


def test_a_pod_that_is_left_out_repelled_it_before() -> None:
    """PreFilter saw whom a dry run takes away, so what it supposes besides counts."""
    asks, made = a_pod(pod("p", labels={"app": "web"})), plugin("InterPodAffinity")
    other = a_pod(pod("e", apart=["app=web per zone"]))
    there = cluster(*NODES, on("f", "b1", apart=["app=web per zone"]))
    (placement,) = there.placements()
    there.leave_out(placement)
    assert not made.filter(asks, there)
    with there.supposing([(other, there.nodes.row_of("a1") or 0)]):
        assert made.filter(asks, there)
    there.put_back(placement)


def test_pods_that_are_left_out_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preemption leaves out thousands at a time, if a group goes as a whole; somebody else keeps the pod away."""
    asks, made = a_pod(pod("p", labels={"app": "web"})), plugin("InterPodAffinity")
    leaving = [on(f"e{i}", "a1", apart=["app=web per zone"]) for i in range(100)]
    there = cluster(*NODES, on("f", "b1", apart=["app=web per zone"]), *leaving)
    left_out = [one for one in there.placements() if one.pod.name.startswith("e")]
    for placement in left_out:
        there.leave_out(placement)
    asked = calls(monkeypatch, (AffinityCounts, "repulsion"))
    assert made.filter(asks, there)
    assert asked.total() == 0
    for placement in left_out:
        there.put_back(placement)


WEB = pod("e", labels={"app": "web"})


@pytest.mark.parametrize(
    ("asks", "others", "affected"),
    [
        (NEAR, [WEB], False),
        (NEAR, [WEB, pod("e", labels=DB)], True),
        (APART, [WEB, pod("e", labels=DB)], True),
        (APART, [pod("e", labels=DB, namespace="other")], False),
        (pod("p", labels={"app": "web"}), [WEB, pod("e", apart=["app=web per zone"])], True),
        (pod("p", labels=DB), [WEB, pod("e", apart=["app=web per zone"])], False),
        (pod("p", labels={"app": "web"}), [pod("e", near=["app=web per zone"])], False),
        (NEAR, [WEB] * 4, False),
        (NEAR, [WEB] * 5, True),
        (BOTH, [WEB] * 3, True),
        (NEAR, [*[WEB] * 2, *[pod("e", apart=["app=db per zone"])] * 2], True),
    ],
)
def test_pods_that_matter(asks: Object, others: list[Object], affected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a required term of either side selects; if there are too many to find out, they may."""
    monkeypatch.setattr(inter_pod_affinity, "_LOOKS", 4)
    made = plugin("InterPodAffinity")
    assert made.affected_by(a_pod(asks), cluster(*NODES), [a_pod(other) for other in others]) is affected


@pytest.mark.parametrize(
    ("asks", "placed", "others", "elsewhere"),
    [
        (pod("p"), [], [WEB], False),
        (NEAR, [], [], True),
        (APART, [], [], True),
        (pod("p", labels={"app": "web"}), [on("e", "a1", apart=["app=web per zone"])], [], True),
        (pod("p", labels={"app": "web"}), [], [WEB, pod("e", apart=["app=db per zone"])], True),
    ],
)
def test_nodes_depend_on_others(asks: Object, placed: list[Object], others: list[Object], elsewhere: bool) -> None:
    """By required terms of the pod, of placed pods that it is meant by, or of those that are supposed."""
    there, coming = cluster(*NODES, *placed), [a_pod(other) for other in others]
    assert plugin("InterPodAffinity").looks_elsewhere(a_pod(asks), there, coming) is elsewhere


@pytest.mark.parametrize(
    ("where", "beside", "crowded"),
    [("a1", [], 0), ("a1", [on("e", "a2")], 1), ("a1", [on("e", "b1")], 0), ("none", [on("e", "none")], 0)],
)
def test_a_placed_pod_is_in_a_crowd(where: str, beside: list[Object], crowded: int) -> None:
    """Of its domain, if others than itself are there that its anti-affinity selects."""
    itself = pod("p", labels=DB, apart=["app=db per zone"], on=where)
    there = cluster(*NODES, itself, *beside)
    row = there.nodes.row_of(where)
    assert row is not None
    assert len(plugin("InterPodAffinity").crowded(a_pod(itself), row, there)) == crowded


@pytest.mark.parametrize(("labels", "out"), [(DB, []), ({}, ["a1"])])
def test_without_the_last_of_its_kind_a_pod_is_the_first(labels: dict[str, str], out: list[str]) -> None:
    """Once a dry run has taken it away; a pod of another kind has nobody left to be near."""
    asks, there = a_pod(pod("p", labels=labels, near=["app=db per zone"])), cluster(*NODES, on("e", "a1"))
    row = there.nodes.row_of("a1")
    removed = RemovedPods(np.array([row]), [*there.placements()], np.zeros(1, dtype=np.intp))
    assert list(reasons(plugin("InterPodAffinity").filter_removed(asks, there, removed), there)) == out
