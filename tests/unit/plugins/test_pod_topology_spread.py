"""Spread: what a dry run adds and takes away, and what wakes a pod."""

from typing import Any

import msgspec
import numpy as np
import pytest

from podberth.framework.events import ClusterEvent
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.namespaced import SelectingObject
from podberth.plugins import pod_topology_spread
from podberth.plugins.pod_topology_spread import Spread, default_selector, distinct, rounded
from tests.builders import Object, label, node, pod
from tests.unit.plugins.small import (
    a_node,
    a_pod,
    cluster,
    normalized,
    plugin,
    reasons,
    rejected,
    rejected_with_none_gone,
    scored,
)

NODES = [node("a1", zone="a"), node("b1", zone="b")]
SERVICE = {"metadata": {"name": "db", "namespace": "default", "uid": "db"}, "spec": {"selector": {"app": "db"}}}


def spread(selector: Object | None, **more: object) -> Object:
    """A pod that wants as many of the selected in each zone."""
    made = pod("p", labels={"app": "db"})
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    made["spec"]["topologySpreadConstraints"] = [constraint | {"labelSelector": selector} | more]
    return made


def leaving(document: Object) -> Object:
    """The pod on its way out."""
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return document


@pytest.mark.parametrize(
    ("id", "selector", "other", "uneven"),
    [
        ("selected", {"matchLabels": {"app": "db"}}, pod("e", labels={"app": "db"}), ["a1"]),
        ("not selected", {"matchLabels": {"app": "web"}}, pod("e", labels={"app": "db"}), []),
        ("of everything", {}, pod("e"), ["a1"]),
        ("of nothing", None, pod("e"), []),
        ("of another namespace", {}, pod("e", namespace="other"), []),
        ("on its way out", {"matchLabels": {"app": "db"}}, leaving(pod("e", labels={"app": "db"})), ["a1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_dry_run_adds_counts(id: str, selector: Object | None, other: Object, uneven: list[str]) -> None:
    """Also where the same pods, were they placed, would not: upstream counts the two in different functions."""
    made, there = plugin("PodTopologySpread"), cluster(*NODES)
    made_of = a_pod(spread(selector, maxSkew=1))
    row = there.nodes.row_of("a1")
    assert row is not None
    with there.supposing([(a_pod(other), row)]):
        found = made.filter(made_of, there)
    rows = {there.nodes.names[i] for reason, where in found for i in range(2) if where[i] and reason is made.uneven}
    assert sorted(map(str, rows)) == uneven
    assert not any(where[:2].any() for _, where in made.filter(made_of, there))


IGNORING = {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"}


@pytest.mark.parametrize(
    ("keys", "more", "old", "new", "wakes"),
    [
        pytest.param(["zone"], IGNORING, None, {"zone": "a"}, True, id="a node of a domain"),
        pytest.param(["zone"], IGNORING, None, {}, False, id="a node of none"),
        pytest.param(["zone", "rack"], IGNORING, None, {"zone": "a"}, False, id="a node that lacks one of two labels"),
        pytest.param(["zone"], IGNORING, {}, {"zone": "a"}, True, id="it comes to have the label"),
        pytest.param(["zone"], IGNORING, {"zone": "a"}, {}, True, id="it has the label no more"),
        pytest.param(
            ["zone", "rack"], IGNORING, {"zone": "a"}, {"zone": "b"}, False, id="it lacked one, and still does"
        ),
        pytest.param(["zone", "rack"], IGNORING, {"zone": "a"}, {"zone": "a", "rack": "r"}, True, id="the last label"),
        pytest.param(["zone"], IGNORING, {"zone": "a"}, {"zone": "a"}, False, id="nothing that counts"),
        pytest.param(
            ["zone", "rack"],
            IGNORING,
            {"zone": "a", "rack": "r"},
            {"zone": "b", "rack": "r"},
            True,
            id="one of its two domains",
        ),
        pytest.param(["zone"], {}, {"zone": "a"}, {"zone": "a"}, True, id="nodes count by the pod's affinity"),
        pytest.param(
            ["zone"], IGNORING | {"nodeTaintsPolicy": "Honor"}, {}, {}, True, id="nodes count by their taints"
        ),
        pytest.param(
            ["zone"],
            IGNORING | {"whenUnsatisfiable": "ScheduleAnyway"},
            None,
            {},
            True,
            id="it was not this pod's fault",
        ),
    ],
)
def test_wakes_for_labels(keys: list[str], more: Object, old: Object | None, new: Object, wakes: bool) -> None:
    """isSchedulableAfterNodeChange: domains change with the nodes that have all labels."""
    asks = spread({"matchLabels": {"app": "db"}}, **more)
    (one,) = asks["spec"]["topologySpreadConstraints"]
    asks["spec"]["topologySpreadConstraints"] = [one | {"topologyKey": label(key)} for key in keys]
    before = None if old is None else a_node(node("n", labels=old))
    found = plugin("PodTopologySpread").node_hint(a_pod(asks), before, a_node(node("n", labels=new)))
    assert found is wakes


@pytest.mark.parametrize(
    ("other", "event", "hard", "wakes"),
    [
        (pod("e", labels={"app": "db"}), ClusterEvent.POD_GONE, True, True),
        (pod("e", labels={"app": "web"}), ClusterEvent.POD_GONE, True, False),
        (pod("e", labels={"app": "web"}), ClusterEvent.POD_LABELS, True, True),
        (pod("e", labels={"app": "web"}), ClusterEvent.POD_GONE, False, True),
        (pod("e", labels={"app": "db"}, namespace="other"), ClusterEvent.POD_LABELS, True, False),
    ],
)
def test_wakes_for_a_pod(other: Object, event: ClusterEvent, hard: bool, wakes: bool) -> None:
    """Of its namespace, if it is counted, or may have been; without a constraint it was not this pod's fault."""
    asks = spread({"matchLabels": {"app": "db"}}, whenUnsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway")
    assert plugin("PodTopologySpread").pod_hint(a_pod(asks), event, a_pod(other)) is wakes


def selecting(kind: str, name: str, **labels: str) -> SelectingObject:
    """A Service, or a controller."""
    plain = kind in ("Service", "ReplicationController")
    selector = labels if plain else {"matchLabels": labels}
    document = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"selector": selector}}
    found = Decoder().of_kind(kind)(wire.encode(document))
    assert isinstance(found, SelectingObject)
    return found


DB, TIER = selecting("Service", "db", app="db"), selecting("Service", "tier", tier="x")


@pytest.mark.parametrize(
    ("owner", "objects", "wanted"),
    [
        pytest.param(None, [], None, id="nothing"),
        pytest.param(None, [selecting("Service", "web", app="web")], None, id="a Service of others"),
        pytest.param(None, [DB], ["app"], id="a Service"),
        pytest.param(None, [DB, TIER], ["app", "tier"], id="two Services"),
        pytest.param(None, [DB, selecting("Service", "d", app="db")], ["app"], id="two Services that say the same"),
        pytest.param("ReplicaSet", [selecting("ReplicaSet", "o", app="db")], ["app"], id="a controller"),
        pytest.param("ReplicaSet", [], None, id="a controller that is not there"),
        pytest.param(
            "apps.kruise.io/v1beta1 StatefulSet", [selecting("StatefulSet", "o", app="db")], None, id="another group's"
        ),
        pytest.param("ReplicaSet", [selecting("ReplicaSet", "o")], None, id="a controller that selects everything"),
        pytest.param(
            "StatefulSet",
            [selecting("StatefulSet", "o", tier="x"), DB],
            ["app", "tier"],
            id="a Service and a controller",
        ),
        pytest.param(
            "ReplicaSet", [selecting("ReplicaSet", "o", app="db"), DB], ["app", "app"], id="both, as they are"
        ),
        pytest.param(
            "ReplicationController",
            [selecting("ReplicationController", "o", tier="x")],
            ["tier"],
            id="an old controller",
        ),
        pytest.param(
            "ReplicationController",
            [selecting("ReplicationController", "o", app="db", tier="x"), DB],
            ["app", "tier"],
            id="one set of labels with a Service",
        ),
    ],
)
def test_default_constraints_select_by(
    owner: str | None, objects: list[SelectingObject], wanted: list[str] | None
) -> None:
    """DefaultSelector in plugins/helper/spread.go: the Services' labels and the controller's selector, merged."""
    asks, there = pod("p", labels={"app": "db", "tier": "x"}), cluster()
    if owner is not None:
        version, _, kind = owner.rpartition(" ")
        version = version or ("v1" if kind == "ReplicationController" else "apps/v1")
        one = {"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}
        asks["metadata"]["ownerReferences"] = [one]
    for selector in objects:
        there.put_selecting(selector)
    found = default_selector(a_pod(asks), there)
    assert (found and [requirement.key for requirement in found.requirements]) == wanted


def test_domains_are_kept_for_the_last_pods_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pods that were asked about least lately go."""
    monkeypatch.setattr(pod_topology_spread, "_SPREADS", 3)
    made, there = plugin("PodTopologySpread"), cluster(*NODES)
    pods = [a_pod(spread({"matchLabels": {"app": app}})) for app in "abcd"]
    first = [made.spread(one, there, hard=True) for one in pods[:3]]
    assert [made.spread(one, there, hard=True) is kept for one, kept in zip(pods[:3], first, strict=True)] == [True] * 3
    assert made.spread(pods[0], there, hard=True) is first[0]
    made.spread(pods[3], there, hard=True)
    assert made.spread(pods[0], there, hard=True) is first[0]
    assert made.spread(pods[1], there, hard=True) is not first[1]


@pytest.mark.parametrize(
    ("others", "affected"),
    [
        ([pod("e", labels={"app": "web"})], False),
        ([pod("e", labels={"app": "web"}), pod("f", labels={"app": "db"})], True),
        ([pod("e", labels={"app": "db"}, namespace="other")], False),
        ([pod("e", labels={"app": "web"})] * 2, False),
        ([pod("e", labels={"app": "web"})] * 3, True),
    ],
    ids=["not counted", "one is", "of another namespace", "as many as are looked at", "too many to look"],
)
def test_pods_that_matter(others: list[Object], affected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are counted; if there are too many to find out, they may be."""
    monkeypatch.setattr(pod_topology_spread, "_LOOKS", 2)
    made, asks = plugin("PodTopologySpread"), a_pod(spread({"matchLabels": {"app": "db"}}))
    there = cluster(*NODES)
    assert made.affected_by(asks, there, [a_pod(other) for other in others]) is affected
    assert made.looks_elsewhere(asks, there, []) is True
    assert made.looks_elsewhere(a_pod(spread({}, whenUnsatisfiable="ScheduleAnyway")), there, []) is False


@pytest.mark.parametrize(
    ("id", "old", "new", "wakes"),
    [
        ("other taints", node("n", zone="a", taints=["x:NoSchedule"]), node("n", zone="a"), True),
        ("other taints out of every zone", node("n", taints=["x:NoSchedule"]), node("n"), False),
        ("another zone", node("n", zone="a"), node("n", zone="b"), True),
        ("another label", node("n", zone="a"), node("n", zone="a", labels={"x": "y"}), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_a_node(id: str, old: Object, new: Object, wakes: bool) -> None:
    """Whatever may change the counts of a domain, policies or not."""
    asks = a_pod(spread({"matchLabels": {"app": "db"}}, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Ignore"))
    assert plugin("PodTopologySpread").node_hint(asks, a_node(old), a_node(new)) is wakes


@pytest.mark.parametrize(("gate", "uneven"), [(True, ["a1"]), (False, [])])
def test_nodes_whose_taints_are_tolerated_by_comparison_count(gate: bool, uneven: list[str]) -> None:
    """With the gate: then the pod on the tainted node makes its zone the fuller one."""
    gates = {"featureGates": {"TaintTolerationComparisonOperators": True}} if gate else {}
    asks = spread({"matchLabels": {"app": "db"}}, nodeTaintsPolicy="Honor")
    asks["spec"]["tolerations"] = [{"key": "sla", "operator": "Gt", "value": "9"}]
    there = [node("a1", zone="a", taints=["sla=10:NoSchedule"]), NODES[1], pod("e", labels={"app": "db"}, on="a1")]
    found = rejected(plugin("PodTopologySpread", **gates), asks, *there)
    assert list(found) == uneven


def test_wakes_for_new_labels_of_a_pod_that_also_shrank() -> None:
    """One update can be several events."""
    event = ClusterEvent.POD_LABELS | ClusterEvent.POD_SHRUNK
    assert plugin("PodTopologySpread").pod_hint(a_pod(spread({})), event, a_pod(pod("e", on="n")))


def test_nodes_that_went_take_no_part() -> None:
    """Their rows are still there, free or with pods that are left on them: all nodes are all that exist."""
    made, gone = plugin("PodTopologySpread"), [node("x"), node("y", zone="c")]
    asks = a_pod(spread({"matchLabels": {"app": "db"}}, whenUnsatisfiable="ScheduleAnyway"))
    placed = [pod("e", labels={"app": "db"}, on="a1"), pod("left", labels={"app": "db"}, on="x")]
    there = cluster(*gone, *NODES, *placed)
    for document in gone:
        there.drop_node(document["metadata"]["name"])
    found = Spread(asks.shape.spread, asks, there, all_keys=True)
    (domains,) = found.domains
    assert (found.whole, domains.everywhere, domains.size) == (True, True, 2)
    fresh = cluster(*NODES, *placed[:1])
    rows = [np.array([row for row, _ in one.nodes.live()], dtype=np.intp) for one in (there, fresh)]
    assert made.score(asks, there, rows[0]).tolist() == made.score(asks, fresh, rows[1]).tolist()


@pytest.mark.parametrize(
    ("skew", "placed", "raw", "stretched"),
    [
        # Three zones: each pod weighs ln(3 + 2) = 1.6094, and maxSkew - 1 is added.
        # Normalised: 100 (max + min - s) // max.
        (1, [10, 3, 0], [16, 5, 0], [0, 68, 100]),  # 16.094, 4.828, 0
        (4, [10, 3, 0], [19, 8, 3], [15, 73, 100]),  # 19.094, 7.828, 3
        (2, [1, 1, 1], [3, 3, 3], [100, 100, 100]),  # 2.609
    ],
    ids=str,
)
def test_score_by_hand(skew: int, placed: list[int], raw: list[int], stretched: list[int]) -> None:
    """By kube-scheduler's formula, scoreForCount and topologyNormalizingWeight in podtopologyspread/scoring.go."""
    nodes = [node(name, zone=name) for name in "abc"]
    there = [
        pod(f"{on}{i}", labels={"app": "db"}, on=on) for on, n in zip("abc", placed, strict=True) for i in range(n)
    ]
    asks = spread({"matchLabels": {"app": "db"}}, whenUnsatisfiable="ScheduleAnyway", maxSkew=skew)
    made = plugin("PodTopologySpread")
    assert scored(made, asks, *nodes, *there) == dict(zip("abc", raw, strict=True))
    assert normalized(made, asks, *nodes, *there) == dict(zip("abc", stretched, strict=True))


def test_two_constraints_are_rounded_together() -> None:
    """Two zones weigh ln 4 = 1.386, three hosts ln 5 = 1.609; one by one, a1 would have 6 + 6 and a2 6 + 3."""
    nodes = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]
    asks = spread({"matchLabels": {"app": "db"}}, whenUnsatisfiable="ScheduleAnyway")
    (one,) = asks["spec"]["topologySpreadConstraints"]
    asks["spec"]["topologySpreadConstraints"] = [one, one | {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2}]
    for document in nodes:
        document["metadata"]["labels"]["kubernetes.io/hostname"] = document["metadata"]["name"]
    placed = [pod(name, labels={"app": "db"}, on=on) for name, on in zip("wxyz", ("a1", "a1", "a1", "a2"), strict=True)]
    # 4 × 1.386 + 3 × 1.609 + 1 = 11.37, 4 × 1.386 + 1.609 + 1 = 8.15, and 1: maxSkew 2 adds 1 everywhere.
    assert scored(plugin("PodTopologySpread"), asks, *nodes, *placed) == {"a1": 11, "a2": 8, "b1": 1}


def test_halves_are_rounded_up() -> None:
    """As Go's math.Round does for what is not negative; Python's own round takes the even one."""
    assert rounded(np.array([0.0, 0.49, 0.5, 1.5, 2.5, 2.51, 7.99])).tolist() == [0, 0, 1, 2, 3, 3, 8]


def test_no_label_is_one_more_domain() -> None:
    """The code of a row without the label is -1."""
    assert (distinct(np.array([0, 2, 2])), distinct(np.array([-1, 0, 2, -1]))) == (2, 3)


@pytest.mark.parametrize(
    ("when", "skipped"),
    [("DoNotSchedule", "score"), ("ScheduleAnyway", "filter"), (None, "filter")],
)
def test_what_it_has_no_say_in(when: str | None, skipped: str) -> None:
    """A pod without constraints has the cluster's default ones, which are soft; one with its own has only those."""
    asks = pod("p") if when is None else spread({}, whenUnsatisfiable=when)
    assert plugin("PodTopologySpread").skips(a_pod(asks).shape) == ("pre_filter", skipped)


def test_labels_that_one_of_two_constraints_looks_at() -> None:
    """Nodes that the pod's selector does not match count for the one that ignores it, and for the other one do not."""
    asks = spread({"matchLabels": {"app": "db"}})
    (one,) = asks["spec"]["topologySpreadConstraints"]
    asks["spec"]["topologySpreadConstraints"] = [one, one | {"maxSkew": 2, "nodeAffinityPolicy": "Ignore"}]
    asks["spec"]["nodeSelector"] = {"disk": "ssd"}
    there, made = cluster(node("a1", zone="a", labels={"disk": "ssd"}), node("b1", zone="b")), a_pod(asks)
    found = Spread(made.shape.spread, made, there, all_keys=True)
    assert found.holds(there.nodes)
    there.put_node(a_node(node("b1", zone="b", labels={"disk": "ssd"})))
    assert not found.holds(there.nodes)


def test_one_of_two_constraints_looks_at_taints_or_labels() -> None:
    """What either of them reads makes domains another."""
    asks = spread({"matchLabels": {"app": "db"}}, **IGNORING)
    (one,) = asks["spec"]["topologySpreadConstraints"]
    asks["spec"]["topologySpreadConstraints"] = [one, one | {"topologyKey": "rack", "nodeTaintsPolicy": "Honor"}]
    made = a_pod(asks)
    plain: dict[str, Any] = {"zone": "a", "labels": {"rack": "r"}}
    assert plugin("PodTopologySpread").node_hint(made, a_node(node("n", **plain)), a_node(node("n", **plain)))
    for changed in ({"taints": ["x:NoSchedule"]}, {"zone": "b"}, {"labels": {"rack": "s"}}):
        there = cluster(node("n", **plain))
        found = Spread(made.shape.spread, made, there, all_keys=True)
        there.put_node(a_node(node("n", cpu="9", **plain)))
        assert found.holds(there.nodes)
        there.put_node(a_node(node("n", **plain | changed)))
        assert not found.holds(there.nodes)


def test_a_node_in_a_zone_where_the_pod_can_go_elsewhere() -> None:
    """It has the count of its zone, though nobody on it is counted."""
    ssd = {"disk": "ssd"}
    nodes = [node("a1", zone="a", labels=ssd), node("a2", zone="a"), node("b1", zone="b", labels=ssd)]
    asks = spread({"matchLabels": {"app": "db"}})
    asks["spec"]["nodeSelector"] = ssd
    for asked in (rejected, rejected_with_none_gone):
        found = asked(plugin("PodTopologySpread"), asks, *nodes, pod("e", labels={"app": "db"}, on="a1"))
        assert list(found) == ["a1", "a2"]


@pytest.mark.parametrize(("policy", "uneven"), [("Honor", []), ("Ignore", ["a1"])])
def test_zones_that_the_pod_can_not_go_to(policy: str, uneven: list[str]) -> None:
    """They are no domains, unless the constraint passes over the pod's affinity."""
    nodes = [node("a1", zone="a", labels={"disk": "ssd"}), node("b1", zone="b")]
    asks = spread({"matchLabels": {"app": "db"}}, nodeAffinityPolicy=policy)
    asks["spec"]["nodeSelector"] = {"disk": "ssd"}
    found = rejected(plugin("PodTopologySpread"), asks, *nodes, pod("e", labels={"app": "db"}, on="a1"))
    assert list(found) == uneven


def test_a_node_is_told_the_first_reason_only() -> None:
    """The first constraint that a node misses is the last one that is looked at there (filtering.go, Filter)."""
    asks = spread({"matchLabels": {"app": "db"}})
    (one,) = asks["spec"]["topologySpreadConstraints"]
    asks["spec"]["topologySpreadConstraints"] = [one, one | {"topologyKey": "rack"}]
    racks = {"a1": ("a", "full"), "b1": ("b", "empty"), "none": (None, "full"), "b2": ("b", "full")}
    nodes = [node(name, zone=zone, labels={"rack": rack}) for name, (zone, rack) in racks.items()]
    there = [pod(f"e{i}", labels={"app": "db"}, on="a1") for i in range(2)]
    wanted = {
        "a1": ["node(s) didn't match pod topology spread constraints"],
        "none": ["!node(s) didn't match pod topology spread constraints (missing required label)"],
        "b2": ["node(s) didn't match pod topology spread constraints"],
    }
    assert rejected(plugin("PodTopologySpread"), asks, *nodes, *there) == wanted
    assert rejected_with_none_gone(plugin("PodTopologySpread"), asks, *nodes, *there) == wanted


def test_the_first_service_of_all_is_heeded() -> None:
    """A pod without constraints follows the default ones once a Service selects it."""
    made, asks, there = plugin("PodTopologySpread"), a_pod(pod("p", labels={"app": "db"})), cluster(*NODES)
    assert made.constraints(asks, there, hard=False) == []
    service = Decoder().of_kind("Service")(wire.encode(SERVICE))
    assert isinstance(service, SelectingObject)
    there.put_selecting(service)
    found = made.constraints(asks, there, hard=False)
    assert [one.topology_key for one in found] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert [one.selector.matches({"app": app}) for one in found for app in ("db", "web")] == [True, False] * 2
    elsewhere = cluster(*NODES)
    elsewhere.put_selecting(selecting("Service", "web", app="web"))
    assert made.constraints(asks, elsewhere, hard=False) == []
    assert made.constraints(asks, there, hard=False) == found


def test_a_placed_pod_is_one_too_many_in_any_zone() -> None:
    """By as many as its zone has beyond the emptiest one and maxSkew. Zones without it, and hosts, are fine."""
    made, selector = plugin("PodTopologySpread"), {"matchLabels": {"app": "db"}}
    for name in ("a1", "b1"):
        placed = [spread(selector) for _ in range(3)]
        for i, document in enumerate(placed):
            document["metadata"] |= {"name": f"p{i}", "uid": f"p{i}"}
            document["spec"]["nodeName"] = name
        there = cluster(*NODES, *placed)
        ((constraint, excess),) = made.too_uneven(a_pod(placed[0]), there.nodes.row_of(name), there)
        assert (constraint.topology_key, excess) == ("topology.kubernetes.io/zone", 2)


@pytest.mark.parametrize(("here", "there", "excess"), [(3, 1, [1]), (2, 1, []), (4, 1, [2]), (1, 0, [])])
def test_a_placed_pod_is_one_too_many_by_the_emptiest_zone(here: int, there: int, excess: list[int]) -> None:
    """Up to maxSkew more than there are fine."""
    made, asks = plugin("PodTopologySpread"), a_pod(spread({"matchLabels": {"app": "db"}}))
    placed = [pod(f"{on}{i}", labels={"app": "db"}, on=on) for on, n in (("a1", here), ("b1", there)) for i in range(n)]
    filled = cluster(*NODES, *placed)
    assert [too_many for _, too_many in made.too_uneven(asks, filled.nodes.row_of("a1"), filled)] == excess


@pytest.mark.parametrize("constraints", [1, 2])
def test_pods_of_one_template_count_those_of_their_own_version(constraints: int) -> None:
    """By `matchLabelKeys`, be it of one constraint only; pods of both versions have all else in common."""
    placed = [pod(name, labels={"app": "db", "v": "1"}, on="a1") for name in ("e", "f")]
    made, there = plugin("PodTopologySpread"), cluster(*NODES, *placed)
    asks = spread({"matchLabels": {"app": "db"}}, matchLabelKeys=["v"])
    (one,) = asks["spec"]["topologySpreadConstraints"]
    more = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 9, "matchLabelKeys": []}
    asks["spec"]["topologySpreadConstraints"] = [one, one | more][:constraints]
    first, uneven = a_pod(asks), []
    for version in ("1", "2"):
        coming = msgspec.structs.replace(first, labels={"app": "db", "v": version})
        found = reasons(made.filter(coming, there), there)
        uneven.append([name for name, why in found.items() if "!" not in why[0]])
    assert uneven == [["a1"], []]


def test_a_pod_that_one_of_two_constraints_counts_wakes() -> None:
    asks = spread({"matchLabels": {"app": "db"}})
    (one,) = asks["spec"]["topologySpreadConstraints"]
    web = one | {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "rack"}
    asks["spec"]["topologySpreadConstraints"] = [one, web]
    made = plugin("PodTopologySpread")
    hints = [
        made.pod_hint(a_pod(asks), ClusterEvent.POD_GONE, a_pod(pod("e", labels={"app": app})))
        for app in ("db", "web", "x")
    ]
    assert hints == [True, True, False]


def test_a_placed_pod_out_of_every_zone_is_in_nobodys_way() -> None:
    made, asks = plugin("PodTopologySpread"), a_pod(spread({"matchLabels": {"app": "db"}}))
    there = cluster(*NODES, node("none"), *(pod(f"e{i}", labels={"app": "db"}, on="b1") for i in range(3)))
    assert made.too_uneven(asks, there.nodes.row_of("none"), there) == []
