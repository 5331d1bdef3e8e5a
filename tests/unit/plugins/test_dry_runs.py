"""Where preemption helps: the same however nodes are tried, with what was kept, and up to a cap."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.framework.filters import FilterPlugins
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector
from podberth.plugins.default_preemption import dry_run
from podberth.plugins.default_preemption.plugin import DefaultPreemption
from podberth.plugins.default_preemption.victims import Priorities
from tests.builders import node, pod
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

full = st.lists(pods, min_size=2 * NODES, max_size=2 * NODES)


def _with_terms(name: str, cpu: int) -> Pod:
    """A pod that may not be where one of app 1 is: what is on one node counts on another."""
    made = pod(name, cpu=f"{cpu}")
    made["metadata"]["labels"] = {"app": "a0"}
    made["spec"]["priority"] = 2
    term = {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": "kubernetes.io/hostname"}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return decoder.pod(msgspec.json.encode(made))


@settings(max_examples=100, deadline=None)
@given(full, st.lists(st.lists(changes, max_size=4), max_size=5), st.sampled_from((2, 4)))
def test_what_is_kept_is_what_would_be_found_anew(start: list[Any], turns: list[Any], cpu: int) -> None:
    """One preemptor after the other of the same kind, while the cluster changes."""
    crowd, framework = Crowd(start), a_framework()
    for i, happened in enumerate([[], *turns]):
        for change in happened:
            crowd.change(*change)
        preemptor = a_pod(f"q{i}", 2, cpu)
        assert answer(framework, preemptor, crowd.cluster) == anew(preemptor, crowd.cluster)


@settings(max_examples=60, deadline=None)
@given(full, st.lists(changes, max_size=12), st.sampled_from((2, 4)), st.booleans())
def test_however_many_are_tried_at_a_time(start: list[Any], happened: list[Any], cpu: int, terms: bool) -> None:
    """Row by row, and all of them together."""
    crowd, found = Crowd(start), []
    for change in happened:
        crowd.change(*change)
    preemptor = _with_terms("q", cpu) if terms else a_pod("q", 2, cpu)
    for most in (1, 1_000):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(dry_run, "AT_ONCE", most)
            found.append(answer(a_framework(), preemptor, crowd.cluster))
    assert found[0] == found[1]


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
    assert answer(_unsure(a_framework()), preemptor, crowd.cluster) == by_sums


def _with_port(name: str, priority: int) -> Pod:
    made = pod(name, cpu="1", ports=["80"])
    made["spec"]["priority"] = priority
    return decoder.pod(msgspec.json.encode(made))


def _preemption(framework: Any) -> DefaultPreemption:
    found = framework.plugin("DefaultPreemption")
    assert isinstance(found, DefaultPreemption)
    return found


def test_only_changed_rows_are_tried_again() -> None:
    """A second preemptor of the same kind looks at the row that changed."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    known = _preemption(framework).dry_runs.known
    answer(framework, a_pod("q0", 2, 4), crowd.cluster)
    assert known.tried == NODES
    crowd.change("start", 3, 5)
    answer(framework, a_pod("q1", 2, 4), crowd.cluster)
    assert known.tried == NODES + 1


def test_filters_are_asked_about_no_row_where_amounts_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where all rows are to be tried, nor where one is."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    for i in range(2):
        preemptor = a_pod(f"q{i}", 2, 4)
        decision = framework.decide(preemptor, crowd.cluster)
        with monkeypatch.context() as patched:
            asked = calls(patched, (FilterPlugins, "passing"))
            assert framework.post_filter_result(preemptor, crowd.cluster, decision).node == f"n{i}"
        assert asked["passing"] == 0
        crowd.change("start", 0, 5)
        crowd.change("place", 0, (0, 0, 0))


def test_budgets_of_others_cost_no_look_at_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes budgets again and again had the pods of each row that helps looked at."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    known = _preemption(framework).dry_runs.known
    answer(framework, a_pod("q0", 2, 4), crowd.cluster)
    looked = calls(monkeypatch, (Priorities, "below"))
    crowd.cluster.put_selecting(msgspec.structs.replace(a_budget("b", 1, {}), namespace="elsewhere"))
    assert answer(framework, a_pod("q1", 2, 4), crowd.cluster)[0] == "n0"
    assert known.tried == NODES
    assert looked["below"] == 0


def test_dry_runs_touch_no_row() -> None:
    """For whoever keeps answers by row, a dry run that lifts pods and lowers them again did not happen."""
    crowd, framework = Crowd([(0, 2, 0), (0, 2, 1)] * NODES), a_framework()
    before = crowd.cluster.nodes.log.version
    answer(framework, _with_terms("q", 4), crowd.cluster)
    assert crowd.cluster.nodes.log.version == before
    assert validate(crowd.cluster) == []


def test_budgets_are_held_against_each_set_of_labels_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not against each victim; and a budget that asks for another label is not asked at all."""
    cluster, framework = Cluster(), a_framework()
    for i in range(NODES):
        cluster.put_node(a_node(i, 4))
        for j in range(2):
            cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}-{j}", 0, 2), node_name=f"n{i}"))
    for i in range(200):
        cluster.put_selecting(a_budget(f"b{i}", 1, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
        cluster.put_selecting(a_budget(f"c{i}", 1, {"matchLabels": {"app": f"other-{i}"}}))
    asked = calls(monkeypatch, (LabelSelector, "matches"))
    found = answer(framework, a_pod("q", 2, 4), cluster)
    assert asked["matches"] == 200
    assert found[0] == "n0"
    assert len(found[1]) == 2


# -- at the cap ------------------------------------------------------------------------------------------------------


def _full(nodes: int, priority: int) -> Cluster:
    """Nodes that one pod fills; one has a second pod of no use, with the lowest priority."""
    cluster = Cluster()
    for i in range(nodes):
        cluster.put_node(decoder.node(msgspec.json.encode(node(f"n{i}", cpu="4", pods="5"))))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}", priority, 4), node_name=f"n{i}"))
    cluster.put_pod(msgspec.structs.replace(a_pod("low", -10, 0), node_name="n0"))
    return cluster


@pytest.mark.parametrize("terms", [False, True])
def test_what_was_found_before_the_cap_counts(terms: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod gets one of the nodes that were tried; where results are kept, the next one has more of them tried."""
    monkeypatch.setattr(dry_run, "MOST_STEPS", 300)
    monkeypatch.setattr(dry_run, "AT_ONCE", 10)
    cluster, framework = _full(300, 0), a_framework()
    known = _preemption(framework).dry_runs.known
    tried = []
    for i in range(12):
        preemptor = _with_terms(f"q{i}", 4) if terms else a_pod(f"q{i}", 2, 4)
        found = answer(framework, preemptor, cluster)
        assert found[0] not in (None, "")
        assert found[1]
        tried.append(known.tried)
    assert 0 < tried[0] < 300
    assert tried[1] == 2 * tried[0] if terms else tried[0] < tried[1] <= tried[-1] == 300
    assert validate(cluster) == []


def _unsure(framework: Framework) -> Framework:
    """Amounts do not tell everything: filters are asked."""
    exact = framework.filters.spare

    def unsure(pod: Pod, cluster: Cluster) -> Any:
        found = exact(pod, cluster)
        found.exact = False
        return found

    framework.filters.spare = unsure  # type: ignore[method-assign]
    return framework


def _steps(framework: Framework, preemptor: Pod, cluster: Cluster) -> int:
    """Steps that the search for victims takes."""
    decision = framework.decide(preemptor, cluster)
    before = cluster.search_steps.taken
    framework.post_filter_result(preemptor, cluster, decision)
    return cluster.search_steps.taken - before


def _budgeted(cluster: Cluster, budgets: int) -> Cluster:
    for i in range(budgets):
        cluster.put_selecting(a_budget(f"b{i}", 1, {"matchLabels": {"app": "a0"}}))
    return cluster


def _kept_for_others(cluster: Cluster) -> Cluster:
    for i in range(3):
        cluster.nominations.put(a_pod(f"w{i}", 3, 0), f"n{i}")
    return cluster


def _with_more_nodes(cluster: Cluster) -> Cluster:
    for i in range(3, 120):
        cluster.put_node(a_node(i, 4, cordoned=True))
    return cluster


def _with_small_pods(cluster: Cluster) -> Cluster:
    for i in range(3):
        cluster.put_pod(msgspec.structs.replace(a_pod(f"small{i}", 0, 0), node_name=f"n{i}"))
    return cluster


def _repelling() -> Cluster:
    """Nodes with a pod that stays, and repels the preemptor."""
    cluster = _full(3, 0)
    for i in range(3):
        cluster.put_pod(msgspec.structs.replace(a_pod(f"stays{i}", 5, 0, app=1), node_name=f"n{i}"))
    return cluster


def _one_kept_for_another(cluster: Cluster) -> Cluster:
    cluster.nominations.put(a_pod("w", 3, 0), "n1")
    return cluster


def _with_disk(name: str, priority: int) -> Pod:
    made = pod(name, cpu="1")
    made["spec"] |= {"priority": priority, "volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}
    return decoder.pod(msgspec.json.encode(made))


def _with_a_disk_in_use() -> Cluster:
    """A node with room for all."""
    cluster = Cluster()
    cluster.put_node(a_node(0, 4))
    for placed in (_with_disk("h", 0), a_pod("small", 1, 1)):
        cluster.put_pod(msgspec.structs.replace(placed, node_name="n0"))
    return cluster


@pytest.mark.parametrize(
    ("id", "cluster", "preemptor", "asks", "steps"),
    [
        # There are three nodes and four victims, which are tried together: four for each node, one for each victim.
        ("by sums", lambda: _full(3, 0), lambda: a_pod("q", 2, 4), False, 4 * 3 + 4),
        ("one by one", lambda: _full(2, 0), lambda: a_pod("q", 2, 4), False, 4 * 2 + 3),
        # Two for the budget, one for each victim, and for their labels two: the budget, and what it requires.
        ("a budget", lambda: _budgeted(_full(3, 0), 1), lambda: a_pod("q", 2, 4), False, 16 + 2 + 4 + 2),
        # Besides, one for every four budgets that a victim has.
        (
            "many budgets",
            lambda: _budgeted(_full(3, 0), 200),
            lambda: a_pod("q", 2, 4),
            False,
            16 + 400 + 4 * (1 + 50) + 400,
        ),
        # Four for each pod that is lifted. The filters are asked twice, as the second pod of n0 may stay: 40, and one
        # for 100 nodes.
        (
            "asking the filters",
            lambda: _with_more_nodes(_full(3, 0)),
            lambda: a_pod("q", 2, 4),
            True,
            16 + 4 * 4 + 2 * (40 + 1),
        ),
        # Each node for itself; a pod that is lifted from all counts takes 20. Of n0, the filters are asked twice.
        ("apart", lambda: _kept_for_others(_full(3, 0)), lambda: _with_terms("q", 4), False, 16 + 20 * 4 + 40 * 4),
        # n1 for itself, and last: four steps, one for its victim, which is lifted from all counts, and the filters.
        (
            "one apart",
            lambda: _one_kept_for_another(_full(3, 0)),
            lambda: _with_terms("q", 4),
            False,
            (4 * 2 + 3) + (4 + 1 + 20 + 40),
        ),
        # Filters that look elsewhere tell why nothing helps when the victims are gone, and are not asked again.
        ("told at once", _repelling, lambda: _with_terms("q", 4), False, 4 * 3 + 4),
        # Nothing helps; then the filters are asked once, about all nodes, without those who could leave.
        (
            "and why",
            lambda: _with_small_pods(_full(3, 5)),
            lambda: a_pod("q", 2, 4),
            False,
            16 + 16 + 4 * 4 + 40,
        ),
        # No node has room enough, so the filters need not be asked before.
        (
            "and why, asking the filters",
            lambda: _with_small_pods(_full(3, 5)),
            lambda: a_pod("q", 2, 4),
            True,
            16 + 16 + 4 * 4 + 40,
        ),
        # One pod has the disk: first without both, then with the one beside it, then with that too, which has to go.
        ("a disk", _with_a_disk_in_use, lambda: _with_disk("q", 2), False, 4 + 2 + 4 * 2 + 3 * 40),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_steps_of_a_search(id: str, cluster: Any, preemptor: Any, asks: bool, steps: int) -> None:
    """About a microsecond each: as many as its parts have taken when they were measured."""
    there, framework = cluster(), a_framework()
    if asks:
        _unsure(framework)
    assert _steps(framework, preemptor(), there) == steps
    assert validate(there) == []


def test_an_equal_preemptor_is_not_told_again_why_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays in its way on an emptied node is remembered, until the node changes."""
    there, framework = _with_small_pods(_full(3, 5)), a_framework()
    said = answer(framework, a_pod("q", 2, 4), there)
    made = calls(monkeypatch, (FilterPlugins, "spare"))
    assert _steps(framework, a_pod("r", 2, 4), there) == 0
    assert made["spare"] == 0
    assert answer(framework, a_pod("r", 2, 4), there) == said
    there.put_pod(msgspec.structs.replace(a_pod("small3", 0, 0), node_name="n1"))
    assert _steps(framework, a_pod("s", 2, 4), there) == 2 * (4 + 2) + 4 * 2 + 40
    assert answer(framework, a_pod("s", 2, 4), there) == said


@pytest.mark.parametrize(("nodes", "again"), [(16, 0), (17, NODES)])
def test_budgets_of_few_namespaces_have_their_rows_tried_again(nodes: int, again: int) -> None:
    """Of more namespaces than 16, all rows that help: it would cost more to find out which have their pods."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    known = _preemption(framework).dry_runs.known
    answer(framework, a_pod("q0", 2, 4), crowd.cluster)
    for i in range(nodes):
        crowd.cluster.put_selecting(msgspec.structs.replace(a_budget("b", 1, {}), namespace=f"elsewhere{i}"))
    answer(framework, a_pod("q1", 2, 4), crowd.cluster)
    assert known.tried == NODES + again


@pytest.mark.parametrize("asks", [False, True], ids=["by sums", "filters are asked"])
def test_room_that_is_kept_for_a_more_important_pod_is_not_there(asks: bool) -> None:
    """So both victims have to go, where one of them would do without the pod that is nominated."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    for row in range(1, NODES):
        crowd.change("node", row, 4, True)
    if asks:
        _unsure(framework)
    assert len(answer(framework, a_pod("q0", 2, 2), crowd.cluster)[1]) == 1
    crowd.change("nominate", 0, 3, 2)
    assert len(answer(framework, a_pod("q1", 2, 2), crowd.cluster)[1]) == 2


def _asking_for_most(name: str, priority: int) -> Pod:
    """256 such pods are 2**63 milli-cores."""
    return a_pod(name, priority, 36028797018963)


@pytest.mark.parametrize("nodes", [1, 3])
def test_victims_that_ask_for_more_than_a_column_holds(nodes: int) -> None:
    """Pods that were placed by hand: all of them have to go, with how many nodes ever the node is tried."""
    cluster = Cluster()
    for i in range(nodes):
        cluster.put_node(a_node(i, 4))
        for k in range(300):
            cluster.put_pod(msgspec.structs.replace(_asking_for_most(f"p{i}-{k}", 0), node_name=f"n{i}"))
    assert len(answer(a_framework(), a_pod("q", 2, 4), cluster)[1]) == 300


@pytest.mark.parametrize("nodes", [1, 3])
def test_nominated_pods_that_ask_for_more_than_a_column_holds(nodes: int) -> None:
    """Nothing is left beside them, whoever goes."""
    cluster = Cluster()
    for i in range(nodes):
        cluster.put_node(a_node(i, 4))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}", 0, 4), node_name=f"n{i}"))
        for k in range(300):
            cluster.nominations.put(_asking_for_most(f"kept{i}-{k}", 3), f"n{i}")
    assert answer(a_framework(), a_pod("q", 2, 4), cluster)[1] == set()


@pytest.mark.parametrize(("nodes", "asks"), [(1, False), (1, True), (3, False)])
def test_whom_a_budget_protects_is_spared_first(nodes: int, asks: bool) -> None:
    """SelectVictimsOnNode: so the more important pod goes, however many nodes are tried at a time."""
    cluster, framework = Cluster(), a_framework()
    for i in range(nodes):
        cluster.put_node(a_node(i, 4))
        for name, priority, app in ((f"free{i}", 1, 0), (f"protected{i}", 0, 1)):
            cluster.put_pod(msgspec.structs.replace(a_pod(name, priority, 2, app), node_name=f"n{i}"))
    cluster.put_selecting(a_budget("b", 0, {"matchLabels": {"app": "a1"}}))
    found = answer(_unsure(framework) if asks else framework, a_pod("q", 5, 2), cluster)
    assert found[:2] == ("n0", {"default/free0"})


def test_who_has_to_go_after_all_makes_room_for_the_next_one() -> None:
    """The pod that has the disk fits beside the preemptor by its amounts, and has to go; the other one stays."""
    cluster = Cluster()
    cluster.put_node(a_node(0, 4))
    for placed in (_with_disk("h", 1), a_pod("low", 0, 2)):
        cluster.put_pod(msgspec.structs.replace(placed, node_name="n0"))
    asks = _with_disk("q", 2)
    assert answer(a_framework(), asks, cluster)[:2] == ("n0", {"default/h"})
    assert validate(cluster) == []


@pytest.mark.parametrize(
    ("priority", "more", "may"),
    [
        (1, {"terminating": True, "preempted": True}, False),
        (2, {"terminating": True, "preempted": True}, True),
        (1, {"terminating": True}, True),
        (1, {"preempted": True}, True),
    ],
    ids=["its victim is leaving", "of equal priority", "on its way out for another reason", "not leaving yet"],
)
def test_a_pod_whose_victim_is_leaving_its_node_waits(priority: int, more: dict[str, bool], may: bool) -> None:
    """PodEligibleToPreemptOthers: of lower priority, terminating, and by preemption."""
    cluster, preemptor = Cluster(), msgspec.structs.replace(a_pod("q", 2, 4), nominated_node_name="n0")
    for i in range(2):
        cluster.put_node(a_node(i, 4))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"v{i}", 1, 4), node_name=f"n{i}"))
    cluster.put_pod(msgspec.structs.replace(a_pod("leaves", priority, 0), node_name="n0", **more))
    node, _, text = answer(a_framework(), preemptor, cluster)
    refused = "preemption: not eligible due to a terminating pod on the nominated node."
    assert (text == refused) is not may
    assert (node == "n0") is may


def test_no_victim_is_looked_for_where_no_victim_would_help() -> None:
    """On a cordoned node, for example."""
    cluster = Cluster()
    for i, priority in enumerate((0, 5)):
        cluster.put_node(a_node(i, 4, cordoned=not i))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"v{i}", priority, 4), node_name=f"n{i}"))
    text = "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
    node, _, said = answer(a_framework(), a_pod("q", 2, 4), cluster)
    assert (node, said) == ("", f"preemption: {text}1 Preemption is not helpful for scheduling.")


def test_places_by_name_are_kept_until_nodes_change() -> None:
    cluster, runs = Cluster(), dry_run.DryRuns()
    for i in (1, 0):
        cluster.put_node(a_node(i, 4))
    ranks = runs.name_ranks(cluster.nodes)
    assert ranks.tolist() == [1, 0]
    assert runs.name_ranks(cluster.nodes) is ranks
    cluster.put_node(a_node(2, 4))
    assert runs.name_ranks(cluster.nodes).tolist() == [1, 0, 2]


def test_who_stays_on_the_only_node_and_repels_the_pod_is_seen() -> None:
    """Filters that look elsewhere have their say where few nodes are tried, too."""
    cluster = Cluster()
    cluster.put_node(a_node(0, 4))
    for placed in (a_pod("stays", 5, 0, app=1), a_pod("low", 0, 4)):
        cluster.put_pod(msgspec.structs.replace(placed, node_name="n0"))
    assert answer(a_framework(), _with_terms("q", 4), cluster)[0] == ""


@pytest.mark.parametrize("leaving", [False, True])
def test_a_budget_has_the_nodes_of_its_pods_tried_again(leaving: bool) -> None:
    """Also where there is one such pod, and where that is on its way out."""
    cluster, framework = Cluster(), a_framework()
    for i in range(2):
        cluster.put_node(a_node(i, 4))
        placed = msgspec.structs.replace(a_pod(f"p{i}", 3, 4, app=1 - i), node_name=f"n{i}", terminating=leaving)
        cluster.put_pod(placed)
    assert answer(framework, a_pod("q0", 5, 4), cluster)[0] == "n0"
    cluster.put_selecting(a_budget("b", 0, {"matchLabels": {"app": "a1"}}))
    preemptor = a_pod("q1", 5, 4)
    decision = framework.decide(preemptor, cluster)
    result = framework.post_filter_result(preemptor, cluster, decision)
    assert result.node == "n1"
    offered = {name: (len(victims), overdrawn) for name, (victims, overdrawn) in result.candidates.items()}
    assert offered == {"n0": (1, 1), "n1": (1, 0)}


@pytest.mark.parametrize("what", ["budgets", "pods", "nodes"])
def test_more_changed_than_is_remembered(what: str) -> None:
    """Then all is tried again: what was found is not right any more."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    assert answer(framework, a_pod("q0", 2, 4), crowd.cluster)[0] == "n0"
    match what:
        case "budgets":
            crowd.cluster.budget_log.begin_again()
            crowd.change("budget", 0, 0)
        case "pods":
            crowd.change("place", 0, (1, 0, 0))
            crowd.change("node", 0, 2, True)
            crowd.cluster.nodes.log.begin_again()
        case "nodes":
            crowd.change("drop node", 0)
            crowd.cluster.pod_groups.log.begin_again()
    preemptor = a_pod("q1", 2, 4)
    assert answer(framework, preemptor, crowd.cluster) == anew(preemptor, crowd.cluster)


def test_a_node_that_comes_later_is_tried() -> None:
    """One more row than before."""
    crowd, framework = Crowd([(1, 2, 0)] * 2 * NODES), a_framework()
    assert answer(framework, a_pod("q0", 2, 4), crowd.cluster)[0] == "n0"
    crowd.cluster.put_node(a_node(NODES, 4))
    crowd.change("place", NODES, (0, 4, 0))
    assert answer(framework, a_pod("q1", 2, 4), crowd.cluster)[0] == f"n{NODES}"


def test_it_says_that_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody found. The cluster is as it was."""
    monkeypatch.setattr(dry_run, "MOST_STEPS", 100)
    cluster = _full(20, 5)
    for i in range(20):
        cluster.put_pod(msgspec.structs.replace(a_pod(f"small{i}", 0, 0), node_name=f"n{i}"))
    node, victims, text = answer(a_framework(), _with_terms("q", 4), cluster)
    assert (node, victims) == (None, set())
    assert (
        text
        == "preemption: gave up looking for victims after 100 steps (about 0.0001 s of one core), and had found none"
    )
    assert validate(cluster) == []


# -- what is looked at -----------------------------------------------------------------------------------------------


def test_nobody_looks_for_victims_where_no_pod_has_a_lower_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that fit nowhere are tried again and again, and most clusters have one priority: no node is looked at."""
    cluster = _full(40, 5)
    cluster.drop_pod("default/low")
    looked = calls(monkeypatch, (Priorities, "below"))
    framework, preemptor = a_framework(), a_pod("q", 5, 4)
    found = framework.post_filter_result(preemptor, cluster, framework.decide(preemptor, cluster))
    assert looked["below"] == 0
    said = "0/40 nodes are available: 40 No preemption victims found for incoming pod."
    assert (found.node, found.text) == ("", f"preemption: {said}")


@pytest.mark.parametrize("case", ["nobody to preempt", "by sums", "one by one"])
def test_looks_grow_with_the_nodes_and_not_faster(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the nodes: four times the looks."""
    monkeypatch.setattr(dry_run, "AT_ONCE", 50)
    preemptor = _with_terms("q", 4) if case == "one by one" else a_pod("q", 2, 4)
    looked: list[int] = []
    below = Priorities.below

    def counted(self: Priorities, rows: Any, priority: int, cluster: Cluster) -> Any:
        looked[-1] += len(rows)
        return below(self, rows, priority, cluster)

    monkeypatch.setattr(Priorities, "below", counted)
    for nodes in (100, 400):
        cluster = _full(nodes, priority=5 if case == "nobody to preempt" else 0)
        looked.append(0)
        answer(a_framework(), preemptor, cluster)
    assert looked[0] >= 100
    assert looked[1] <= 4 * looked[0] + 20
