"""Groups that go as a whole: what all their pods cost is counted once, not on each row that they touch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.plugins.default_preemption.victims import Priorities, rank_of
from tests.builders import node, pod
from tests.unit.plugins.preempting import a_budget, a_framework, answer, decoder

ROWS = 40
"""Nodes that the preemptor may go to."""
MOST_SLICES = 1_000


class Calls:
    """How often a function of Python was called, or a generator asked for one more."""

    def __init__(self) -> None:
        self.number = 0

    def _one(self, _frame: FrameType, event: str, _what: Any) -> None:
        self.number += event == "call"

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._one)
        try:
            yield
        finally:
            sys.setprofile(before)


def _pod(name: str, cpu: int, priority: int, on: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    made = pod(name, cpu=f"{cpu}")
    made["metadata"]["labels"] = labels or {"app": "low"}
    made["spec"] |= {"priority": priority, **spec}
    placed = decoder.pod(msgspec.json.encode(made))
    return msgspec.structs.replace(placed, node_name=on) if on else placed


def _group(name: str) -> PodGroup:
    document = {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "priority": 0, "disruptionMode": {"all": {}}},
    }
    made = decoder.of_kind("PodGroup")(msgspec.json.encode(document))
    assert isinstance(made, PodGroup)
    return made


def _cluster(size: int, *budgets: int) -> Cluster:
    """A pod of one large group on each node that the preemptor may go to, and all its other pods on another node.

    `budgets`: what each of some budgets over all of them allows.
    """
    cluster = Cluster()
    cluster.pod_groups.put(_group("large"))
    for i in range(ROWS):
        made = node(f"n{i}", cpu="4", pods="5", labels={"disk": "ssd"})
        cluster.put_node(decoder.node(msgspec.json.encode(made)))
    cluster.put_node(decoder.node(msgspec.json.encode(node("rest", cpu="4", pods="10000"))))
    for i in range(size):
        where = f"n{i}" if i < ROWS else "rest"
        of_group = {"schedulingGroup": {"podGroupName": "large"}}
        labels = {"app": "low", "part": "large"}
        cluster.put_pod(_pod(f"p{i}", 2 if i < ROWS else 0, i % 3, where, labels=labels, **of_group))
    for i in range(ROWS):
        cluster.put_pod(_pod(f"alone-{i}", 2, -1, f"n{i}"))
    for i, allowed in enumerate(budgets):
        cluster.put_selecting(a_budget(f"b{i}", allowed, {"matchLabels": {"app": "low"}}))
    return cluster


def _preemptor() -> Pod:
    return _pod("q", 4, 5, labels={"app": "q"}, nodeSelector={"disk": "ssd"})


def _framework(*, asks: bool) -> Framework:
    """The default profile; `asks`: amounts do not tell everything."""
    framework = a_framework()
    exact = framework.filters.spare

    def unsure(pod: Pod, cluster: Cluster) -> Any:
        found = exact(pod, cluster)
        found.exact = False
        return found

    if asks:
        framework.filters.spare = unsure  # type: ignore[method-assign]
    return framework


@pytest.mark.parametrize("asks", [False, True], ids=["amounts", "filters are asked"])
def test_a_row_costs_the_same_however_large_its_group_is(asks: bool) -> None:
    """A pod more of the group is counted a few times in all, and not once for each row that has pods of the group."""
    made = []
    for size in (100, 500):
        cluster, framework, calls = _cluster(size), _framework(asks=asks), Calls()
        preemptor = _preemptor()
        decision = framework.decide(preemptor, cluster)
        with calls.counted():
            result = framework.post_filter_result(preemptor, cluster, decision)
        assert len(result.victims) == size + 1
        assert len(result.candidates) == ROWS
        made.append(calls.number)
    a_pod_more = (made[1] - made[0]) / 400
    assert a_pod_more < ROWS


def _order(cluster: Cluster) -> list[str]:
    """The names of the pods on the first node, the most important first."""
    priorities = Priorities()
    priorities.follow(cluster)
    return [one.pod.name for one in priorities.below(np.array([0]), 1, cluster)[2]]


def test_who_is_the_most_important_goes_by_pods_on_other_rows() -> None:
    """Of two groups of one priority, the one with more pods: what changes elsewhere changes the order here."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.pod_groups.put(_group(name))
    for i in range(2):
        cluster.put_node(decoder.node(msgspec.json.encode(node(f"n{i}", cpu="4", pods="9"))))

    def member(name: str, group: str, on: str) -> Pod:
        return _pod(name, 1, 0, on, schedulingGroup={"podGroupName": group})

    for placed in (member("b0", "b", "n0"), member("a0", "a", "n0"), member("a1", "a", "n1")):
        cluster.put_pod(placed)
    assert _order(cluster) == ["a0", "b0"]
    for i in (1, 2):
        cluster.put_pod(member(f"b{i}", "b", "n1"))
    assert _order(cluster) == ["b0", "a0"]


def test_a_group_becomes_more_important_by_pods_on_other_rows() -> None:
    """Than a pod of a group whose pods go one by one."""
    cluster = Cluster()
    cluster.pod_groups.put(_group("whole"))
    for i in range(2):
        cluster.put_node(decoder.node(msgspec.json.encode(node(f"n{i}", cpu="4", pods="9"))))
    for second, (name, group) in enumerate((("other", "none"), ("w0", "whole")), 1):
        placed = _pod(name, 1, 0, "n0", schedulingGroup={"podGroupName": group})
        cluster.put_pod(msgspec.structs.replace(placed, started=f"2026-01-01T00:00:0{second}Z"))
    for order in (["other", "w0"], ["w0", "other"]):
        assert _order(cluster) == order
        cluster.put_pod(_pod("w1", 1, 0, "n1", schedulingGroup={"podGroupName": "whole"}))


def test_pods_of_groups_come_before_others() -> None:
    """Whoever runs longer."""
    cluster = Cluster()
    cluster.put_node(decoder.node(msgspec.json.encode(node("n0", cpu="4", pods="9"))))
    for second, name, spec in ((9, "of-group", {"schedulingGroup": {"podGroupName": "g"}}), (1, "pod", {})):
        placed = _pod(name, 1, 0, "n0", **spec)
        cluster.put_pod(msgspec.structs.replace(placed, started=f"2026-01-01T00:00:0{second}Z"))
    assert _order(cluster) == ["of-group", "pod"]


@pytest.mark.parametrize("mode", ["all", "single"])
def test_a_priority_of_a_group_that_changes(mode: str) -> None:
    """What was found on the rows of its pods is found anew."""
    cluster, framework = _two_groups(pods=1), a_framework()

    def put(name: str, priority: int) -> None:
        cluster.pod_groups.put(msgspec.structs.replace(_group(name), priority=priority, disruption_mode=mode))

    for name, priority, chosen in (("g0", 0, "n0"), ("g1", 0, "n0"), ("g0", 9, "n1"), ("g1", 9, "")):
        put(name, priority)
        assert answer(framework, _preemptor(), cluster)[0] == chosen


@pytest.mark.parametrize(("first", "last"), [("single", "whole"), ("whole", "single")])
def test_a_group_of_one_pod_is_as_important_as_a_pod_of_a_group(first: str, last: str) -> None:
    """Both are one pod: who runs longer comes first."""
    cluster = Cluster()
    apart = msgspec.structs.replace(_group("single"), disruption_mode="single")
    for group in (_group("whole"), apart):
        cluster.pod_groups.put(group)
    cluster.put_node(decoder.node(msgspec.json.encode(node("n0", cpu="4", pods="9"))))
    for second, name in ((2, last), (1, first)):
        placed = _pod(name, 1, 0, "n0", schedulingGroup={"podGroupName": name})
        cluster.put_pod(msgspec.structs.replace(placed, started=f"2026-01-01T00:00:0{second}Z"))
    assert _order(cluster) == [first, last]


@pytest.mark.parametrize(("spec", "rank"), [({}, 0), ({"schedulingGroup": {"podGroupName": "a"}}, 1)])
def test_pods_of_groups_rank_before_others(spec: dict[str, Any], rank: int) -> None:
    """victimRank; groups of other APIs are none to kube-scheduler."""
    assert rank_of(_pod("p", 1, 0, **spec)) == rank
    labelled = _pod("p", 1, 0, labels={"scheduling.x-k8s.io/pod-group": "a"})
    assert rank_of(labelled) == 0


ALONE, TOGETHER = ROWS - 3, 3
"""Nodes with one victim, and those with a pod of the group beside it: twelve for each of two that may be a group."""


@pytest.mark.parametrize(
    ("id", "budgets", "asks", "steps"),
    [
        ("by sums", (), False, ALONE * (4 + 1) + TOGETHER * (4 + 2 * 12)),
        # Four for each pod that is lifted, and 40 for each time that the filters are asked: nobody may stay.
        ("asking", (), True, ALONE * (4 + 1 + 4) + 40 + TOGETHER * (4 + 2 * 12 + 2 * 4 + 40)),
        # Two for the budget, two for each of two sets of labels, and one for each pod: on each node of the group, all
        # three of its pods and the one beside.
        ("a budget", (1,), False, ALONE * (4 + 1) + TOGETHER * (4 + 2 * 12) + 2 + 2 * 2 + ALONE + TOGETHER * (3 + 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_steps_of_a_search(id: str, budgets: tuple[int, ...], asks: bool, steps: int) -> None:
    """About a microsecond each."""
    cluster, framework, preemptor = _cluster(3, *budgets), _framework(asks=asks), _preemptor()
    decision = framework.decide(preemptor, cluster)
    before = cluster.search_steps.taken
    framework.post_filter_result(preemptor, cluster, decision)
    assert cluster.search_steps.taken - before == steps


def test_steps_of_a_search_in_vain() -> None:
    """Each row is tried by its amounts; then the filters are asked once, and once for each row with a group's pods."""
    cluster, framework, preemptor = _cluster(3), a_framework(), _preemptor()
    for i in range(ROWS):
        cluster.put_pod(_pod(f"stays{i}", 1, 9, f"n{i}"))
    decision = framework.decide(preemptor, cluster)
    before = cluster.search_steps.taken
    assert not framework.post_filter_result(preemptor, cluster, decision).node
    tried = ALONE * (4 + 1) + TOGETHER * (4 + 2 * 12)
    asked = ALONE * 4 + 40 + TOGETHER * (2 * 4 + 40)
    assert cluster.search_steps.taken - before == 2 * tried + asked


def _keeps_away(part: str = "large") -> Pod:
    """A preemptor that may be in no zone with such pods: what is elsewhere counts."""
    term = {"labelSelector": {"matchLabels": {"part": part}}, "topologyKey": "zone"}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return _pod("q", 4, 5, labels={"app": "q"}, nodeSelector={"disk": "ssd"}, affinity=required)


def _zoned(size: int) -> Cluster:
    """As `_cluster`, all nodes in one zone."""
    cluster = _cluster(size)
    for row in range(cluster.nodes.rows):
        there = cluster.nodes.objects[row]
        assert there is not None
        cluster.put_node(msgspec.structs.replace(there, labels={**there.labels, "zone": "z"}))
    return cluster


def test_what_a_group_leaves_elsewhere_counts() -> None:
    """For a preemptor that looks at other nodes. The cluster is as it was."""
    cluster = _zoned(200)
    node, victims, _ = answer(a_framework(), _keeps_away(), cluster)
    assert (node, len(victims)) == ("n0", 200 + 1)
    assert not cluster.supposed
    assert validate(cluster) == []


def test_a_group_that_changes_is_counted_anew() -> None:
    """What its pods cost is kept as long as it is the same."""
    cluster, framework = _cluster(700), a_framework()
    assert len(answer(framework, _preemptor(), cluster)[1]) == 700 + 1
    cluster.drop_pod("default/p100")
    cluster.drop_pod("default/p600")
    assert len(answer(framework, _preemptor(), cluster)[1]) == 698 + 1


def test_what_is_kept_heeds_members_elsewhere() -> None:
    """Of two groups the one with fewer pods goes: pods of theirs on other nodes come and go."""
    cluster, framework = Cluster(), a_framework()
    for i in range(2):
        cluster.pod_groups.put(_group(f"g{i}"))
        cluster.put_node(decoder.node(msgspec.json.encode(node(f"n{i}", cpu="4", labels={"disk": "ssd"}))))
    cluster.put_node(decoder.node(msgspec.json.encode(node("rest", cpu="4", pods="100"))))

    def put(group: int, name: str, where: str, cpu: int = 0) -> None:
        of_group = {"schedulingGroup": {"podGroupName": f"g{group}"}}
        cluster.put_pod(_pod(name, cpu, 0, where, **of_group))

    for i in range(2):
        put(i, f"here-{i}", f"n{i}", 4)
        put(i, f"there-{i}", "rest")
    for taken, number in enumerate((1, 2, 3, 4), 1):
        fewer, more = taken % 2, 1 - taken % 2
        for k in range(2):
            put(more, f"more-{number}-{k}", "rest")
        found = answer(framework, _preemptor(), cluster)
        assert found == answer(a_framework(), _preemptor(), cluster)
        assert found[0] == f"n{fewer}"


def _two_groups(pods: int) -> Cluster:
    """Two nodes, each full of the pods of a group that goes as a whole."""
    cluster = Cluster()
    for i in range(2):
        cluster.pod_groups.put(_group(f"g{i}"))
        cluster.put_node(decoder.node(msgspec.json.encode(node(f"n{i}", cpu="4", labels={"disk": "ssd"}))))
        for k in range(pods):
            of_group = {"schedulingGroup": {"podGroupName": f"g{i}"}}
            cluster.put_pod(_pod(f"g{i}-{k}", 4 // pods, 0, f"n{i}", labels={"group": f"g{i}"}, **of_group))
    return cluster


def test_a_group_whose_budget_is_overdrawn_is_spared() -> None:
    """Of two groups that are alike, the one goes of which fewer pods overdraw a budget (pickOneNodeForPreemption)."""
    for allowed, chosen in (((1, 1), "n0"), ((1, 2), "n1"), ((2, 1), "n0"), ((0, 1), "n1"), ((), "n0")):
        cluster, framework, preemptor = _two_groups(pods=2), a_framework(), _preemptor()
        for i, number in enumerate(allowed):
            cluster.put_selecting(a_budget(f"b{i}", number, {"matchLabels": {"group": f"g{i}"}}))
        result = framework.post_filter_result(preemptor, cluster, framework.decide(preemptor, cluster))
        assert (result.node, len(result.victims)) == (chosen, 2), allowed
        offered = {name: (len(victims), overdrawn) for name, (victims, overdrawn) in result.candidates.items()}
        assert offered == {f"n{i}": (2, 2 - number) for i, number in enumerate(allowed or (2, 2))}


def test_where_groups_are_the_least_important_pod_of_a_node_counts() -> None:
    """For the next preemptor, too, which is of another kind."""
    cluster, framework = _two_groups(pods=1), a_framework()
    cluster.drop_node("n1")
    cluster.put_pod(_pod("important", 0, 9, "n0"))
    for cpu in (4, 3):
        preemptor = _pod(f"q{cpu}", cpu, 5, nodeSelector={"disk": "ssd"})
        assert answer(framework, preemptor, cluster)[:2] == ("n0", {"default/g0-0"})
