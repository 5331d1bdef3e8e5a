"""Groups that go as a whole: what all their pods cost is counted once, not on each row that they touch."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.runtime import Framework
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.pod_group import PodGroup
from scheduler.plugins.default_preemption import select_victims
from scheduler.plugins.default_preemption.budgets import Budgets, Drawn, DrawnTogether
from scheduler.plugins.default_preemption.plugin import DefaultPreemption
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.copied import FollowingCopy
from scheduler.state.effort import SliceOver
from scheduler.state.nodes import Nodes
from tests.builders import node, pod
from tests.unit.plugins.preempting import a_budget, a_framework, answer, decoder
from tests.unit.work import calls

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


@pytest.mark.parametrize(
    ("budgets", "asks"),
    [((), False), ((3,), False), ((3,) * 30, False), ((), True)],
    ids=["amounts", "a budget", "many budgets", "filters are asked"],
)
def test_a_row_costs_the_same_however_large_its_group_is(budgets: tuple[int, ...], asks: bool) -> None:
    """A pod more of the group is counted a few times in all, and not once for each row that has pods of the group."""
    made = []
    for size in (100, 500):
        cluster, framework, calls = _cluster(size, *budgets), _framework(asks=asks), Calls()
        preemptor = _preemptor()
        decision = framework.decide(preemptor, cluster)
        with calls.counted():
            result = framework.post_filter_result(preemptor, cluster, decision)
        assert len(result.victims) == size + 1
        assert len(result.candidates) == ROWS
        made.append(calls.number)
    a_pod_more = (made[1] - made[0]) / 400
    assert a_pod_more < ROWS


@pytest.mark.parametrize("budgets", [(), (3,), (3,) * 30])
def test_pods_of_a_large_group_are_counted_in_slices(budgets: tuple[int, ...]) -> None:
    """An attempt that stops after each part gets to the same answer as one go."""
    cluster = _cluster(700, *budgets)
    expected = answer(a_framework(), _preemptor(), cluster)
    framework, effort, longest, slices = a_framework(), cluster.effort, 0, 0
    while slices < MOST_SLICES:
        effort.begin(1)
        try:
            found = answer(framework, _preemptor(), cluster)
            break
        except SliceOver:
            longest = max(longest, effort.spent)
            slices += 1
        finally:
            effort.end()
    else:
        raise AssertionError(f"no answer after {MOST_SLICES} slices")
    assert found == expected
    assert slices > 1
    assert longest < 1_000


def test_a_group_that_changes_while_it_is_counted() -> None:
    """What was counted of it is counted anew."""
    cluster, framework = _cluster(700), a_framework()
    cluster.effort.begin(1)
    with pytest.raises(SliceOver):
        answer(framework, _preemptor(), cluster)
    cluster.effort.end()
    cluster.drop_pod("default/p100")
    cluster.drop_pod("default/p600")
    assert len(answer(framework, _preemptor(), cluster)[1]) == 698 + 1


labels = st.sampled_from(({"app": "a"}, {"app": "b"}, {"app": "a", "and": "b"}, {"app": "c"}))
parts = st.lists(st.lists(labels, min_size=1, max_size=12), min_size=1, max_size=5)
allowed = st.lists(st.tuples(st.sampled_from(("app=a", "app=b", "and=b", "app")), st.integers(0, 6)), max_size=4)


@settings(max_examples=100, deadline=None)
@given(parts, allowed, allowed, st.booleans())
def test_pods_draw_together_what_they_draw_one_by_one(
    parts: list[list[dict[str, str]]], first: list[Any], then: list[Any], many: bool
) -> None:
    """Each time it is asked, in any place among others, and after the budgets have changed."""
    cluster, budgets = Cluster(), Budgets()
    groups = [
        [Placement(_pod(f"p{i}-{k}", 1, 0, labels=its), 0, assumed=False) for k, its in enumerate(part)]
        for i, part in enumerate(parts)
    ]
    known = [DrawnTogether() for _ in groups]
    for written in (first, then):
        for i, (selector, number) in enumerate(written * (10 if many else 1)):
            key, _, value = selector.partition("=")
            what = (
                {"matchLabels": {key: value}} if value else {"matchExpressions": [{"key": key, "operator": "Exists"}]}
            )
            cluster.put_selecting(a_budget(f"b{i}", number, what))
        budgets.renew(cluster)
        for begin in (0, 1, 0):
            pods = [placement.pod for group in groups[begin:] for placement in group]
            flags = iter(budgets.overdrawing(pods, cluster) or [False] * len(pods))
            expected = [sum(next(flags) for _ in group) for group in groups[begin:]]
            drawn = Drawn()
            there = zip(groups[begin:], known[begin:], strict=True)
            assert [budgets.together(group, its, cluster, drawn) for group, its in there] == expected


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


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often pods are taken away and given back."""
    return calls(monkeypatch, (Cluster, "leave_out"), (Cluster, "put_back"))


def test_no_turn_moves_a_whole_group(moved: Counter[str]) -> None:
    """A group goes as a whole, and what it leaves elsewhere counts: it is taken away in parts, in a copy, and once."""
    size = 700
    cluster, framework = _zoned(size), a_framework()
    most = total = slices = 0
    while True:
        cluster.effort.begin(500)
        moved.clear()
        try:
            node, victims, _ = answer(framework, _keeps_away(), cluster)
            break
        except SliceOver:
            slices += 1
        finally:
            cluster.effort.end()
            most, total = max(most, moved.total()), total + moved.total()
            assert not cluster.supposed
    assert (node, len(victims)) == ("n0", size + 1)
    assert slices > 1
    assert most <= 128
    assert total < 2 * size


def test_in_a_copy_and_in_the_cluster_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of some preemptors; some of them don't fit whoever goes, and the reasons are the same."""
    cluster = _zoned(300)
    cluster.put_pod(_pod("stays", 1, 9, "rest", labels={"part": "stays"}))
    for part in ("large", "stays", "none"):
        preemptor, said = _keeps_away(part), []
        for most in (1, 10_000):
            monkeypatch.setattr(select_victims, "MOVED_AT_ONCE", most)
            said.append(answer(a_framework(), preemptor, cluster))
        assert said[0] == said[1]


def test_two_preemptors_have_the_copy_one_after_the_other() -> None:
    """And who never asks again does not have it for ever."""
    cluster, framework = _zoned(300), a_framework()

    def asked(preemptor: Pod) -> Any:
        cluster.effort.begin(500)
        try:
            return answer(framework, preemptor, cluster)
        except SliceOver:
            return None
        finally:
            cluster.effort.end()

    first, second = (msgspec.structs.replace(_keeps_away(), uid=uid, name=uid) for uid in "ab")
    assert asked(first) is None
    found: dict[str, Any] = {}
    for _ in range(1_000):
        for preemptor in (first, second):
            found[preemptor.uid] = found.get(preemptor.uid) or asked(preemptor)
    assert found["a"] == found["b"] is not None
    assert asked(msgspec.structs.replace(first, uid="gone")) is None
    for _ in range(1_000):
        if asked(msgspec.structs.replace(first, uid="c")) is not None:
            return
    raise AssertionError("it waits for ever")


def test_the_next_preemptor_takes_the_copy_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not made anew as long as preemptors come, and let go of in parts when none does."""
    cluster, framework = _zoned(300), a_framework()
    copied: list[int] = []
    before = Nodes.put

    def counted(self: Nodes, row: int, node: Node | None) -> None:
        copied.append(row)
        before(self, row, node)

    monkeypatch.setattr(Nodes, "put", counted)
    said = [
        answer(framework, msgspec.structs.replace(_keeps_away(), uid=uid, name=uid), cluster) for uid in ("a", "b", "c")
    ]
    assert said[0] == said[1] == said[2]
    assert len(copied) == ROWS + 1
    cluster.storage.version += 1  # storage has changed, which the copy does not follow
    assert answer(framework, msgspec.structs.replace(_keeps_away(), uid="d", name="d"), cluster) == said[0]
    assert len(copied) == 2 * (ROWS + 1)
    preemption = framework.plugin("DefaultPreemption")
    assert isinstance(preemption, DefaultPreemption)
    for _ in range(1_000):
        preemption.dry_runs.in_copy.others_search("e", cluster)
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, FollowingCopy)]


def test_a_cluster_that_changes_while_a_group_is_taken_away() -> None:
    """Pods of the group go and others come between the slices; the answer is what it is in the end."""
    cluster, framework = _zoned(400), a_framework()
    for i in range(1_000):
        cluster.effort.begin(500)
        try:
            node, victims, _ = answer(framework, _keeps_away(), cluster)
            break
        except SliceOver:
            if i < 20:
                cluster.drop_pod(f"default/p{200 + i}")
                cluster.put_pod(_pod(f"more-{i}", 0, 9, "rest", labels={"part": "more"}))
        finally:
            cluster.effort.end()
    assert node == "n0"
    assert victims == answer(a_framework(), _keeps_away(), cluster)[1]
    assert len(victims) == 400 + 1 - 20


def test_each_change_of_a_member_does_not_begin_the_search_again() -> None:
    """A pod of the group changes before each slice: its own row is tried again, and whoever is chosen."""
    cluster, framework = _zoned(300), a_framework()
    preemption = framework.plugin("DefaultPreemption")
    assert isinstance(preemption, DefaultPreemption)
    for i in range(ROWS * 10):
        cluster.effort.begin(2_000)
        try:
            node, victims, _ = answer(framework, _keeps_away(), cluster)
            break
        except SliceOver:
            uid = f"p{i % ROWS}"
            of_group = {"schedulingGroup": {"podGroupName": "large"}}
            changed = _pod(uid, 2, i % ROWS % 3, f"n{i % ROWS}", labels={"part": "large", "news": f"{i}"}, **of_group)
            cluster.put_pod(changed)
        finally:
            cluster.effort.end()
    else:
        raise AssertionError("it comes to no end")
    assert (node, len(victims)) == ("n0", 301)
    assert preemption.dry_runs.tried < 3 * ROWS


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
