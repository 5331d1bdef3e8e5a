"""Preemption in slices: however small they are and whatever happens in between, it comes to the end that it should."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.plugins.default_preemption import victims
from scheduler.plugins.default_preemption.importance import Ranking
from scheduler.plugins.default_preemption.plugin import DefaultPreemption
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver
from scheduler.state.validate import validate
from tests.builders import pod
from tests.unit.plugins.preempting import (
    NODES,
    Crowd,
    a_budget,
    a_framework,
    a_node,
    a_pod,
    anew,
    answer,
    changes,
    decoder,
    pods,
)
from tests.unit.work import calls

MOST_SLICES = 400
small = st.sampled_from((1, 1, 30, 200, 700))
full = st.lists(pods, min_size=2 * NODES, max_size=2 * NODES)


@pytest.fixture(autouse=True)
def _row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows at a time: a slice may end after any of them."""
    monkeypatch.setattr(victims, "CHUNK", 1)


def in_slices(
    framework: Framework, preemptor: Pod, crowd: Crowd, slices: list[int], between: list[Any]
) -> tuple[tuple[str | None, set[str], str], int]:
    """The answer, asked again after each slice; a change of `between` happens after each until there are none left."""
    effort, between = crowd.cluster.effort, list(between)
    for i in range(MOST_SLICES):
        effort.begin(slices[i % len(slices)], effort.spent)
        try:
            return answer(framework, preemptor, crowd.cluster), i
        except SliceOver:
            validate(crowd.cluster)
            if between:
                crowd.change(*between.pop(0))
        finally:
            effort.end()
    raise AssertionError(f"no answer after {MOST_SLICES} slices")


@settings(max_examples=100, deadline=None)
@given(full, st.lists(small, min_size=1, max_size=5), st.lists(changes, max_size=12), st.sampled_from((2, 4)))
def test_the_end_is_that_of_one_go(start: list[Any], slices: list[int], between: list[Any], cpu: int) -> None:
    """With the cluster changing between slices: what one go finds on the cluster as it is at the end."""
    crowd, framework = Crowd(start), a_framework()
    for i in range(2):
        budgets = 0
        for change in between:
            budgets += change[0] == "budget"
        few = between if budgets <= 3 else [change for change in between if change[0] != "budget"]
        preemptor = a_pod(f"q{i}", 2, cpu)
        found, _ = in_slices(framework, preemptor, crowd, slices, few)
        assert found == anew(preemptor, crowd.cluster)


def _with_terms(name: str, cpu: int) -> Pod:
    """A pod that may not be where one of app 1 is, nor in a zone that has more of app 0 than another."""
    made = pod(name, cpu=f"{cpu}")
    made["metadata"]["labels"] = {"app": "a0"}
    made["spec"]["priority"] = 2
    term = {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": "kubernetes.io/hostname"}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return decoder.pod(msgspec.json.encode(made))


@settings(max_examples=60, deadline=None)
@given(full, st.lists(small, min_size=1, max_size=5), st.sampled_from((2, 4)))
def test_one_node_after_the_other(start: list[Any], slices: list[int], cpu: int) -> None:
    """Where other rows are read, too, and nothing happens in between."""
    crowd = Crowd(start)
    preemptor = _with_terms("q", cpu)
    found, _ = in_slices(a_framework(), preemptor, crowd, slices, [])
    assert found == anew(preemptor, crowd.cluster)


@settings(max_examples=60, deadline=None)
@given(full, st.lists(changes, min_size=1, max_size=12), st.sampled_from((2, 4)))
def test_who_is_chosen_helps_at_the_end(start: list[Any], between: list[Any], cpu: int) -> None:
    """Where other rows are read and the cluster changes: the victims are those that this node takes at the end."""
    crowd = Crowd(start)
    preemptor = _with_terms("q", cpu)
    (node, victims, _), _ = in_slices(a_framework(), preemptor, crowd, [1], between)
    if not node or node == "fits":
        return
    cluster = crowd.cluster
    decision = a_framework().decide(preemptor, cluster)
    offered = a_framework().post_filter_result(preemptor, cluster, decision).candidates
    assert {victim.uid for victim in offered[node][0]} == victims


@settings(max_examples=60, deadline=None)
@given(full, st.lists(changes, max_size=12), st.sampled_from((2, 4)), st.booleans())
def test_sums_say_what_filters_say(start: list[Any], happened: list[Any], cpu: int, with_ports: bool) -> None:
    """Whom to preempt by sums alone, and by asking the filters about each victim."""
    crowd = Crowd(start)
    for change in happened:
        crowd.change(*change)
    if with_ports:
        for i in range(NODES):
            crowd.cluster.put_pod(msgspec.structs.replace(_with_port(f"h{i}", i % 2), node_name=f"n{i}"))
    preemptor = _with_port("q", 2) if with_ports else a_pod("q", 2, cpu)
    by_sums = answer(a_framework(), preemptor, crowd.cluster)
    asking = a_framework()
    exact = asking.filters.spare

    def unsure(pod: Pod, cluster: Cluster) -> Any:
        found = exact(pod, cluster)
        found.exact = False
        return found

    asking.filters.spare = unsure  # type: ignore[method-assign]
    assert answer(asking, preemptor, crowd.cluster) == by_sums


def _with_port(name: str, priority: int) -> Pod:
    made = pod(name, cpu="1", ports=["80"])
    made["spec"]["priority"] = priority
    return decoder.pod(msgspec.json.encode(made))


def test_budgets_that_never_rest_hold_nobody_up() -> None:
    """Somebody changes a budget after each slice, for ever; the preemptor gets its node, with the right victims."""
    crowd = Crowd([(0, 2, 0)] * 2 * NODES)
    for app in range(2):
        crowd.change("budget", app, 1)
    framework, preemptor = a_framework(), a_pod("q", 2, 4)
    flips = [("budget", 0, i % 3) for i in range(MOST_SLICES)]
    found, slices = in_slices(framework, preemptor, crowd, [1], flips)
    assert slices < 20 * NODES
    assert found[0] == "n0"
    assert found[1] == {"default/p0", f"default/p{NODES}"}


def test_only_changed_rows_are_tried_again() -> None:
    """A second preemptor of the same kind looks at the row that changed, and a slice that ended loses no row."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    plugin = framework.plugin("DefaultPreemption")
    assert isinstance(plugin, DefaultPreemption)
    in_slices(framework, a_pod("q0", 2, 4), crowd, [1], [])
    assert plugin.dry_runs.tried == NODES
    crowd.change("start", 3, 5)
    in_slices(framework, a_pod("q1", 2, 4), crowd, [1], [])
    assert plugin.dry_runs.tried == NODES + 1


def test_budgets_of_others_cost_no_look_at_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes budgets again and again had the pods of each row that helps looked at, in one turn."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    plugin = framework.plugin("DefaultPreemption")
    assert isinstance(plugin, DefaultPreemption)
    in_slices(framework, a_pod("q0", 2, 4), crowd, [1], [])
    looked = calls(monkeypatch, (Ranking, "below"))
    crowd.cluster.put_selecting(msgspec.structs.replace(a_budget("b", 1, {}), namespace="elsewhere"))
    assert answer(framework, a_pod("q1", 2, 4), crowd.cluster)[0] == "n0"
    assert plugin.dry_runs.tried == NODES
    assert looked["below"] == 0


def test_dry_runs_touch_no_row() -> None:
    """For whoever keeps answers by row, a dry run that lifts pods and lowers them again did not happen."""
    crowd, framework = Crowd([(0, 2, 0), (0, 2, 1)] * NODES), a_framework()
    before = crowd.cluster.nodes.log.version
    answer(framework, _with_terms("q", 4), crowd.cluster)
    assert crowd.cluster.nodes.log.version == before
    validate(crowd.cluster)


def test_more_unfinished_searches_than_are_kept() -> None:
    """Many preemptors of different sizes take turns, a slice each: all get their answer."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    waiting = [a_pod(f"q{i}", 2 + i, 4) for i in range(40)]
    for _ in range(MOST_SLICES):
        left = []
        for preemptor in waiting:
            crowd.cluster.effort.begin(1)
            try:
                answer(framework, preemptor, crowd.cluster)
            except SliceOver:
                left.append(preemptor)
            finally:
                crowd.cluster.effort.end()
        waiting = left
        if not waiting:
            return
    raise AssertionError(f"{len(waiting)} have no answer")


@pytest.mark.parametrize(("operator", "looked"), [("NotIn", 0), ("Exists", 2000)])
def test_many_budgets_for_everything(operator: str, looked: int) -> None:
    """Budgets are matched once for each set of labels, not for each victim, and a slice may end in between.

    One that bars a few labels is not held against any.
    """
    cluster, framework = Cluster(), a_framework()
    for i in range(NODES):
        cluster.put_node(a_node(i, 4))
        for j in range(2):
            cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}-{j}", 0, 2), node_name=f"n{i}"))
    for i in range(2000):
        what: Any = {"key": "app", "operator": operator}
        if operator == "NotIn":
            what["values"] = [f"x{i}"]
        cluster.put_selecting(a_budget(f"b{i}", 1, {"matchExpressions": [what]}))
    plugin = framework.plugin("DefaultPreemption")
    assert isinstance(plugin, DefaultPreemption)
    slices = 0
    while True:
        cluster.effort.begin(500)
        try:
            found = answer(framework, a_pod("q", 2, 4), cluster)
            break
        except SliceOver:
            slices += 1
        finally:
            cluster.effort.end()
    assert slices > 1
    # Each set of labels is one of a parsed pod's, shared by equal bytes.
    assert plugin.dry_runs.budgets.looked == looked
    assert found[0] == "n0"
    assert len(found[1]) == 2
