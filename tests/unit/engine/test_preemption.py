"""Preemption and nominations, stimulus by stimulus."""

import time
from typing import Any

from podberth.engine.instructions import Bind, ClearNomination, Failed, PatchCondition, Preempt
from podberth.engine.stimuli import VictimStays

from .conftest import Harness, node, pod


def full_node(harness: Harness, name: str, priority: int = 0, victims: int = 1, **more: Any) -> None:
    """A node of one core, filled by pods of one priority."""
    harness.put(node(name, cpu="1"))
    share = f"{1000 // victims}m"
    for i in range(victims):
        harness.put(pod(f"{name}-v{i}", cpu=share, nodeName=name, priority=priority, **more))


def preempts(instructions: list[Any]) -> list[tuple[str, list[str]]]:
    return [(i.node, [v.name for v in i.victims]) for i in instructions if isinstance(i, Preempt)]


def test_lower_priority_makes_way_and_the_node_is_kept(harness: Harness) -> None:
    """The victim is asked to go, the preemptor is nominated, told so, and bound once the victim is gone."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    instructions = harness.cycle()
    assert preempts(instructions) == [("n1", ["n1-v0"])]
    patch = next(i for i in instructions if isinstance(i, PatchCondition))
    assert patch.nominated == "n1"
    assert patch.message.endswith("preemption: found a potential placement for pod on node n1, preempting 1 victims")
    harness.after(2)
    harness.gone("Pod", "n1-v0")
    assert harness.binds() == {"urgent": "n1"}
    assert not harness.engine.cluster.nominations


def test_room_kept_for_a_nominated_pod_is_not_given_to_lesser_pods(harness: Harness) -> None:
    """A pod of lower priority can't take the room while the victim leaves, nor after it left."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    harness.cycle()
    harness.put(pod("early", cpu="800m", priority=10))
    assert harness.binds() == {}
    harness.gone("Pod", "n1-v0")
    harness.put(pod("late", cpu="800m", priority=10))
    assert harness.binds() == {"urgent": "n1"}


def test_a_more_important_pod_takes_the_kept_room_and_ends_the_nomination(harness: Harness) -> None:
    """Higher priority preempts for the same node: the earlier nomination is cleared."""
    full_node(harness, "n1", victims=2)
    harness.put(pod("urgent", cpu="400m", priority=100))
    harness.cycle()
    harness.put(pod("vital", cpu="900m", priority=1000))
    instructions = harness.cycle()
    assert [i.pod.name for i in instructions if isinstance(i, ClearNomination)] == ["urgent"]
    assert harness.engine.cluster.nominations.node_of.get("vital") == "n1"


def test_who_loses_its_nomination_looks_again(harness: Harness) -> None:
    """Nothing need happen for it: room can be made on another node as well."""
    full_node(harness, "n1")
    full_node(harness, "n2")
    harness.put(pod("urgent", cpu="800m", priority=100))
    assert preempts(harness.cycle()) == [("n1", ["n1-v0"])]
    harness.put(pod("vital", cpu="900m", priority=1000, nodeSelector={"kubernetes.io/hostname": "n1"}))
    harness.cycle()
    harness.after(2)
    assert preempts(harness.cycles()) == [("n2", ["n2-v0"])]
    assert harness.engine.cluster.nominations.node_of.get("urgent") == "n2"


def test_a_nomination_that_was_cleared_is_written_again(harness: Harness) -> None:
    """The node is made anew, and all is as before: the API has lost the nomination meanwhile."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    harness.cycle()
    assert [i.pod.name for i in harness.lose("Node", "", "n1") if isinstance(i, ClearNomination)] == ["urgent"]
    harness.gone("Pod", "n1-v0")
    full_node(harness, "n1")
    harness.after(2)
    (patch,) = [i for i in harness.cycles() if isinstance(i, PatchCondition)]
    assert patch.nominated == "n1"


def test_the_same_victims_are_asked_once(harness: Harness) -> None:
    """While its victims leave, the preemptor does not preempt again."""
    full_node(harness, "n1")
    full_node(harness, "n2")
    harness.put(pod("urgent", cpu="800m", priority=100))
    chosen = preempts(harness.cycle())[0][0]
    harness.put(pod("urgent", cpu="800m", priority=100))
    nominated = pod("urgent", cpu="800m", priority=100)
    nominated["status"]["nominatedNodeName"] = chosen
    harness.put(nominated)
    harness.after(301)
    again = harness.cycle()
    assert preempts(again) == []
    failed = next(i for i in again if isinstance(i, Failed))
    assert failed.message.endswith("not eligible due to a terminating pod on the nominated node.")


def test_a_victim_that_stays_frees_the_preemptor_to_look_again(harness: Harness) -> None:
    """When the API refuses to remove the victim, it counts as before and the preemptor is tried again."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    preempt = next(i for i in harness.cycle() if isinstance(i, Preempt))
    harness.after(2)
    harness.handle(VictimStays(preempt.victims[0]))
    assert preempts(harness.cycles()) == [("n1", ["n1-v0"])]


def shown(victim: str, on: str, **meta: Any) -> dict[str, Any]:
    """A victim of `full_node`, as a watch shows it once it has the condition that we write."""
    made = pod(victim, cpu="1", nodeName=on, priority=0, meta=meta)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return made | {"status": {"conditions": [condition]}}


def test_a_victim_goes_although_only_its_condition_is_shown_yet(harness: Harness) -> None:
    """The condition is written before the pod is deleted: while that goes on, nobody else is told to go."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    assert preempts(harness.cycle()) == [("n1", ["n1-v0"])]
    harness.put(shown("n1-v0", "n1"))
    full_node(harness, "n2")
    harness.after(2)
    assert preempts(harness.cycles()) == []


def test_a_victim_that_is_shown_to_go_does_not_stay(harness: Harness) -> None:
    """The answer to its deletion was lost, and the watch has shown that it is being deleted."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    preempt = next(i for i in harness.cycle() if isinstance(i, Preempt))
    harness.put(shown("n1-v0", "n1", deletionTimestamp="2026-01-03T00:00:00Z"))
    harness.handle(VictimStays(preempt.victims[0]))
    full_node(harness, "n2")
    harness.after(2)
    assert preempts(harness.cycles()) == []


def test_victims_that_are_never_removed_cost_an_attempt_for_each_backoff(harness: Harness) -> None:
    """The API server may refuse each of them, and nothing has changed by that."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    attempts = 0
    for _ in range(100):
        for preempt in [one for one in harness.tick(0.1) + harness.cycles() if isinstance(one, Preempt)]:
            attempts += 1
            harness.handle(VictimStays(preempt.victims[0]))
    assert attempts == 4, "at once, and after backoffs of 1, 2 and 4 s"


def test_nobody_is_told_to_go_for_a_pod_that_is_gone(harness: Harness) -> None:
    """It was deleted after the first of its hundred victims were told."""
    harness.put(node("n1", cpu="100"), *(pod(f"low{i}", "1", nodeName="n1") for i in range(100)))
    harness.put(pod("urgent", "100", priority=100))
    ((_, told),) = preempts(harness.cycle())
    assert 0 < len(told) < 100
    harness.gone("Pod", "urgent")
    assert preempts(harness.cycles()) == []


def test_never_means_never(harness: Harness) -> None:
    """preemptionPolicy Never keeps victims safe and says why."""
    full_node(harness, "n1")
    harness.put(pod("polite", cpu="800m", priority=100, preemptionPolicy="Never"))
    instructions = harness.cycle()
    assert preempts(instructions) == []
    failed = next(i for i in instructions if isinstance(i, Failed))
    assert failed.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_nominated_node_that_goes_frees_its_pod(harness: Harness) -> None:
    """The nomination is cleared and the pod looks elsewhere."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    harness.cycle()
    from podberth.engine.stimuli import Gone

    assert [type(i) for i in harness.handle(Gone("Node", "", "n1", "n1"))] == [ClearNomination]
    harness.after(2)
    harness.put(node("n2"))
    assert harness.binds() == {"urgent": "n2"}


def test_the_fewest_least_important_victims_are_chosen(harness: Harness) -> None:
    """Between nodes, the lowest highest priority wins; on a node, only who has to go goes."""
    full_node(harness, "n1", priority=50)
    full_node(harness, "n2", priority=10, victims=4)
    harness.put(pod("urgent", cpu="400m", priority=100))
    node_name, victims = preempts(harness.cycle())[0]
    assert node_name == "n2"
    assert len(victims) == 2


def test_a_disruption_budget_is_respected_where_there_is_a_choice(harness: Harness) -> None:
    """A node whose victim breaks no budget is preferred."""
    full_node(harness, "n1", labels={"app": "guarded"})
    full_node(harness, "n2", labels={"app": "free"})
    harness.put(
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guard", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
            "status": {"disruptionsAllowed": 0},
        }
    )
    harness.put(pod("urgent", cpu="800m", priority=100))
    assert preempts(harness.cycle())[0][0] == "n2"


def test_a_thousand_nodes_of_ten_victims_are_tried_at_once(harness: Harness) -> None:
    """The dry run over many nodes restores every count and picks one node; its time is printed, not asserted."""
    for n in range(200):
        full_node(harness, f"n{n}", victims=10)
    harness.put(pod("urgent", cpu="250m", priority=100))
    started = time.perf_counter()
    instructions = harness.cycles()
    print(f"dry run over 200 nodes x 10 victims: {(time.perf_counter() - started) * 1000:.0f} ms")
    assert [len(victims) for _, victims in preempts(instructions)] == [3]


def test_a_nominated_pod_takes_its_node_though_others_score_better(harness: Harness) -> None:
    """Room was made there, so it is taken (evaluateNominatedNode)."""
    harness.put(node("small", cpu="1"), node("large", cpu="16"))
    kept = pod("urgent", cpu="500m", priority=100)
    kept["status"]["nominatedNodeName"] = "small"
    harness.put(kept)
    assert [i.node for i in harness.cycles() if isinstance(i, Bind)] == ["small"]


def test_a_victim_that_goes_wakes_whom_the_node_is_kept_for_and_only_once_there_is_room(harness: Harness) -> None:
    """Equal preemptors that wait for other nodes, and one that wants more, are left alone."""
    for name in ("n1", "n2"):
        full_node(harness, name, victims=2)
    harness.put(pod("first", cpu="800m", priority=100), pod("second", cpu="800m", priority=100))
    nodes = {i.pod.name: i.node for i in harness.cycles() if isinstance(i, Preempt)}
    assert sorted(nodes.values()) == ["n1", "n2"]
    harness.put(pod("third", cpu="800m", priority=100), pod("lesser", cpu="800m", priority=10))
    assert harness.binds() == {}
    harness.after(20)
    harness.gone("Pod", f"{nodes['first']}-v0")
    assert not harness.engine.has_work
    harness.gone("Pod", f"{nodes['first']}-v1")
    assert [type(i) for i in harness.cycle()][-1] is Bind
    assert not harness.engine.has_work


def test_room_beside_a_nominated_pod_wakes_those_who_fit_there(harness: Harness) -> None:
    """What the node is not kept for may be taken at once, whatever the others' priority."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="300m", priority=100))
    harness.cycle()
    harness.put(pod("large", cpu="800m", priority=10), pod("small", cpu="600m", priority=10))
    assert harness.binds() == {}
    harness.after(20)
    harness.gone("Pod", "n1-v0")
    assert harness.binds() == {"urgent": "n1", "small": "n1"}


def test_a_nomination_that_is_not_used_leaves_its_room_to_others(harness: Harness) -> None:
    """The pod was bound elsewhere by somebody else: who waits for its node hears of it."""
    full_node(harness, "n1")
    harness.put(pod("urgent", cpu="800m", priority=100))
    harness.cycle()
    harness.put(pod("lesser", cpu="800m", priority=10))
    harness.cycles()
    harness.after(20)
    harness.gone("Pod", "n1-v0")
    harness.put(pod("urgent", cpu="800m", priority=100, nodeName="elsewhere"))
    assert harness.binds() == {"lesser": "n1"}


def test_what_a_preemption_found_in_the_way_is_waited_for(harness: Harness) -> None:
    """A pod elsewhere in the zone repels it: when that one goes, its node has no room, but the other can be emptied."""
    term = {"labelSelector": {"matchLabels": {"app": "urgent"}}, "topologyKey": "zone"}
    repels = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    harness.put(node("n1", cpu="1", zone="a"), node("n2", cpu="1", zone="a"))
    harness.put(pod("n1-v0", cpu="1", nodeName="n1"), pod("large", cpu="900m", nodeName="n2", priority=1000))
    harness.put(pod("repelling", cpu="10m", nodeName="n2", priority=1000, affinity=repels))
    harness.put(pod("urgent", cpu="800m", priority=100))
    assert preempts(harness.cycles()) == []
    harness.after(2)
    harness.gone("Pod", "repelling")
    assert preempts(harness.cycles()) == [("n1", ["n1-v0"])]


def test_a_pod_waits_only_for_filters_that_keep_it_from_some_node(harness: Harness) -> None:
    """Beside the pod for which the node is kept there is too little room; without it, nobody whom the pod wants to be
    near. kube-scheduler asks beside it first, so it is the room that the pod waits for."""
    kept = pod("kept", "4", priority=5, schedulingGates=[{"name": "later"}])
    kept["status"]["nominatedNodeName"] = "n0"
    near = {"labelSelector": {"matchLabels": {"app": "kept"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    harness.put(node("n0"), kept, pod("follower", affinity=affinity))
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed) and one.pod.name == "follower"]
    assert failed.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert failed.plugins == {"NodeResourcesFit"}
