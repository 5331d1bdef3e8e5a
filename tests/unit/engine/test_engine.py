"""The engine's behaviour, stimulus by stimulus, in virtual time."""

from typing import Any

import pytest

from podberth.engine.instructions import Bind, Failed, PatchCondition, RecordFailure
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Follows, Unwritten
from podberth.model.pod_group import NATIVE

from .conftest import Harness, node, pod
from .test_gangs import group, member


def place_of(harness: Harness, uid: str) -> Place | None:
    queued = harness.engine.queue.get(uid)
    return None if queued is None else queued.place


def anti_affinity(app: str, key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_waiting_pod_is_bound_with_its_uid(harness: Harness) -> None:
    """A pod that fits becomes one Bind that carries the pod's identity."""
    harness.put(node("n1"), pod("web", meta={"uid": "u-1"}))
    instructions = harness.cycle()
    assert [type(i) for i in instructions] == [Bind]
    bind = instructions[0]
    assert isinstance(bind, Bind)
    assert (bind.pod.uid, bind.node, bind.attempts) == ("u-1", "n1", 1)
    assert harness.cycle() == []


def test_a_pod_about_to_be_bound_holds_no_other_nodes(harness: Harness) -> None:
    """Many pods are on their way at a time: thousands of nodes that were as good are not kept for each of them."""
    harness.put(*(node(f"n{i}") for i in range(50)), pod("web"))
    (bind,) = [one for one in harness.cycles() if isinstance(one, Bind)]
    assert bind.decision.feasible.tolist() == [harness.engine.cluster.nodes.row_of(bind.node)]
    assert bind.decision.fitting == 50


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("another scheduler", {"scheduler": "default-scheduler"}),
        ("already placed", {"nodeName": "n1"}),
        ("terminating", {"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
)
def test_pods_that_are_not_ours_to_schedule_are_left_alone(harness: Harness, id: str, change: dict[str, Any]) -> None:
    """Foreign, placed and terminating pods never reach the queue."""
    harness.put(node("n1"), pod("web", **change))
    assert not harness.engine.has_work


def test_foreign_pods_on_our_nodes_take_room(harness: Harness) -> None:
    """What other schedulers placed is counted before we decide."""
    harness.put(node("n1", cpu="1"), pod("foreign", cpu="900m", scheduler="default-scheduler", nodeName="n1"))
    harness.put(pod("web", cpu="200m"))
    assert harness.binds() == {}
    assert place_of(harness, "web") is Place.UNSCHEDULABLE


def test_assumed_pods_hold_their_room_until_the_api_speaks(harness: Harness) -> None:
    """Two pods that fit only one at a time are never both decided for the same room, however long the bind takes."""
    harness.put(node("n1", cpu="1"), pod("one", cpu="600m"), pod("two", cpu="600m"))
    assert len(harness.binds()) == 1
    harness.after(3600)
    assert harness.binds() == {}


def test_a_confirmed_pod_is_counted_once(harness: Harness) -> None:
    """The watch event of our own binding confirms the assumption instead of adding to it."""
    harness.put(node("n1", cpu="1"), pod("one", cpu="600m"))
    harness.binds()
    harness.put(pod("one", cpu="600m", nodeName="n1"))
    harness.bound("one")
    assert harness.engine.cluster.assumed() == 0
    assert int(harness.engine.cluster.nodes.requested[0, 0]) == 600


def test_a_stale_update_of_a_bound_pod_does_not_queue_it_again(harness: Harness) -> None:
    """After our Bind, late events that still show the pod unbound are ignored."""
    harness.put(node("n1"), pod("web"))
    harness.binds()
    harness.put(pod("web", labels={"app": "web", "new": "label"}))
    harness.bound("web")
    harness.put(pod("web"))
    assert not harness.engine.has_work
    assert len(harness.engine.queue) == 0


def test_a_failed_binding_gives_the_room_back_and_retries_after_backoff(harness: Harness) -> None:
    """The assumption is forgotten, the failure is told, and the pod waits a second before its next attempt."""
    harness.put(node("n1", cpu="1"), pod("web", cpu="600m"))
    harness.binds()
    instructions = harness.bind_failed("web", 500, "etcd is away")
    assert [type(i) for i in instructions] == [Failed, PatchCondition, RecordFailure]
    assert int(harness.engine.cluster.nodes.requested[0, 0]) == 0
    assert place_of(harness, "web") is Place.BACKOFF
    harness.after(0.9)
    assert harness.binds() == {}
    harness.after(0.2)
    assert harness.binds() == {"web": "n1"}


@pytest.mark.parametrize("status", [404, 409])
def test_a_binding_refused_as_taken_or_gone_is_not_announced(harness: Harness, status: int) -> None:
    """409 and 404 mean that someone else acted: no event, no condition, no retry storm."""
    harness.put(node("n1"), pod("web"))
    harness.binds()
    instructions = harness.bind_failed("web", status, "already assigned")
    assert [type(i) for i in instructions] == [Failed]
    assert place_of(harness, "web") is Place.BACKOFF


def test_a_pod_that_another_scheduler_won_is_dropped(harness: Harness) -> None:
    """When the watch shows the pod on another node, the refused Binding leads to nothing more."""
    harness.put(node("n1"), node("n2"), pod("web"))
    ours = harness.binds()["web"]
    other = "n2" if ours == "n1" else "n1"
    harness.put(pod("web", nodeName=other))
    assert harness.bind_failed("web", 409) == []
    assert len(harness.engine.queue) == 0
    placement = harness.engine.cluster.placement("web")
    assert placement is not None
    assert harness.engine.cluster.nodes.names[placement.row] == other


def test_a_pod_deleted_while_binding_frees_its_room_at_once(harness: Harness) -> None:
    """The delete event ends the assumption; the late 404 changes nothing."""
    harness.put(node("n1", cpu="1"), pod("web", cpu="900m"))
    harness.binds()
    harness.gone("Pod", "web")
    harness.put(pod("next", cpu="900m"))
    assert harness.binds() == {"next": "n1"}
    assert harness.bind_failed("web", 404) == []


def test_a_recreated_pod_is_scheduled_anew_under_its_new_uid(harness: Harness) -> None:
    """Same name, new uid: the old assumption goes with the old pod."""
    harness.put(node("n1", cpu="1"), pod("web", cpu="900m", meta={"uid": "old"}))
    harness.binds()
    from podberth.engine.stimuli import Gone

    harness.handle(Gone("Pod", "default", "web", "old"))
    harness.put(pod("web", cpu="900m", meta={"uid": "new"}))
    bind = harness.cycle()[0]
    assert isinstance(bind, Bind)
    assert bind.pod.uid == "new"


def test_a_pod_terminating_while_its_binding_fails_is_not_retried(harness: Harness) -> None:
    """A terminating pod is not scheduled again."""
    harness.put(node("n1"), pod("web"))
    harness.binds()
    harness.put(pod("web", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    harness.bind_failed("web", 500)
    assert len(harness.engine.queue) == 0


def test_failure_is_told_as_kube_scheduler_tells_it_and_only_once(harness: Harness) -> None:
    """The condition and the event carry the FitError text; an identical second failure writes nothing."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    first = harness.cycle()
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert first[1:] == [
        PatchCondition(first[1].pod, "Unschedulable", message),
        RecordFailure(first[1].pod, message),
    ]
    harness.after(301)
    again = harness.cycle()
    assert [type(i) for i in again] == [Failed]


def test_a_changed_failure_is_told_again(harness: Harness) -> None:
    """A new reason is news."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    harness.cycle()
    harness.put(node("n2", cpu="1"))
    harness.after(301)
    told = [i for i in harness.cycle() if isinstance(i, PatchCondition)]
    assert [i.message[:28] for i in told] == ["0/2 nodes are available: 2 I"]


def test_a_condition_that_could_not_be_written_is_said_next_time(harness: Harness) -> None:
    """After Unwritten the same failure is told once more."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    harness.cycle()
    harness.handle(Unwritten("big"))
    harness.after(301)
    assert PatchCondition in [type(i) for i in harness.cycle()]


def test_a_condition_that_the_api_has_from_before_a_restart_is_not_rewritten(harness: Harness) -> None:
    """The pod's own status says what was told; a restarted scheduler does not repeat it."""
    big = pod("big")
    big["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no nodes available to schedule pods",
        }
    ]
    harness.put(big)
    assert [type(i) for i in harness.cycle()] == [Failed]


@pytest.mark.parametrize("grouped", [False, True], ids=["a pod", "a pod of a group"])
def test_a_condition_that_another_leader_has_written_over_is_written_again(harness: Harness, grouped: bool) -> None:
    """It may have been shown to a standby, or come late; what we wrote ourselves is not repeated once it is shown."""
    big = member("big", cpu="2") if grouped else pod("big", cpu="2")

    def written() -> list[tuple[str, str]]:
        return [(i.reason, i.message) for i in harness.cycles() if isinstance(i, PatchCondition)]

    def show(reason: str, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        harness.put({**big, "status": {"phase": "Pending", "conditions": [condition]}})
        harness.after(301)

    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", cpu="1"), group(min_count=None), big)
    (ours,) = written()
    show(*ours)
    assert written() == []
    show("SchedulerError", "the leader of before said this last")
    assert written() == [ours]


def test_no_nodes_has_its_own_text(harness: Harness) -> None:
    """An empty cluster is said to be one, and any new node wakes the pod."""
    harness.put(pod("web"))
    failed = harness.cycle()[0]
    assert isinstance(failed, Failed)
    assert failed.message == "no nodes available to schedule pods"
    harness.after(1.1)
    harness.put(node("n1"))
    assert harness.binds() == {"web": "n1"}


def test_higher_priority_goes_first_then_the_older(harness: Harness) -> None:
    """The active queue is ordered by priority, then by time."""
    harness.put(node("n1"), pod("old"))
    harness.now += 1
    harness.put(pod("young"), pod("urgent", priority=10))
    assert [i.pod.name for i in harness.cycles() if isinstance(i, Bind)] == ["urgent", "old", "young"]


def test_ties_are_broken_the_same_way_every_time(harness: Harness) -> None:
    """Equal nodes: the choice depends on seed and pod only."""
    harness.put(*(node(f"n{i}") for i in range(20)))
    harness.put(*(pod(f"p{i}", cpu="0") for i in range(20)))
    first = harness.binds()
    again = Harness()
    again.put(*(node(f"n{i}") for i in range(20)))
    again.put(*(pod(f"p{i}", cpu="0") for i in range(20)))
    assert again.binds() == first
    assert len(set(first.values())) > 5


def test_gated_pods_wait_for_their_gates(harness: Harness) -> None:
    """A gated pod is not tried; it becomes active when the last gate goes."""
    harness.put(node("n1"), pod("web", schedulingGates=[{"name": "a"}, {"name": "b"}]))
    assert place_of(harness, "web") is Place.GATED
    harness.put(pod("web", schedulingGates=[{"name": "b"}]))
    assert place_of(harness, "web") is Place.GATED
    harness.put(pod("web"))
    assert harness.binds() == {"web": "n1"}


@pytest.mark.parametrize(
    ("id", "wakes", "change"),
    [
        ("a node with room", True, lambda: node("n2", cpu="8")),
        ("a node without room", False, lambda: node("n2", cpu="1")),
        ("more cpu on the node", True, lambda: node("n1", cpu="8")),
        ("a label on the node", False, lambda: node("n1", cpu="1", disk="ssd")),
        ("a placed pod arrives", False, lambda: pod("other", nodeName="n1")),
    ],
)
def test_only_what_can_help_wakes_a_pod(harness: Harness, id: str, wakes: bool, change: Any) -> None:
    """A pod that lacks cpu is tried again for room, not for any news."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    harness.cycle()
    harness.after(5)
    harness.put(change())
    assert harness.engine.has_work is wakes


def test_a_pod_woken_during_its_backoff_goes_after_all_others(harness: Harness) -> None:
    """An event that helps moves the pod to backoff; it is taken early only when nothing else is active."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2", priority=100))
    harness.cycle()
    harness.put(node("n2", cpu="8"), pod("small"))
    assert place_of(harness, "big") is Place.BACKOFF
    assert harness.engine.queue.next_tick() == pytest.approx(1001.0)
    assert [i.pod.name for i in harness.cycles() if isinstance(i, Bind)] == ["small", "big"]


def test_backoff_doubles_up_to_its_maximum(harness: Harness) -> None:
    """1, 2, 4, 8, 10, 10 seconds."""
    harness.put(node("n1"), pod("web"))
    waits = []
    for _ in range(6):
        harness.binds()
        harness.bind_failed("web", 409)
        due = harness.engine.queue.next_tick()
        assert due is not None
        waits.append(due - harness.now)
        harness.after(due - harness.now)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_unschedulable_pods_are_tried_again_after_five_minutes(harness: Harness) -> None:
    """Whatever the hints say, nobody waits for ever."""
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    harness.cycle()
    harness.after(299)
    assert not harness.engine.has_work
    harness.after(2)
    assert harness.engine.has_work


def test_a_deleted_pod_makes_room_for_one_that_waits(harness: Harness) -> None:
    """The end of a placed pod wakes pods that lacked room."""
    harness.put(node("n1", cpu="1"), pod("old", cpu="900m", nodeName="n1"), pod("new", cpu="900m"))
    harness.cycle()
    harness.after(2)
    harness.gone("Pod", "old")
    assert harness.binds() == {"new": "n1"}


def test_a_finished_pod_makes_room_too(harness: Harness) -> None:
    """A pod that succeeded no longer counts, also before it is deleted."""
    harness.put(node("n1", cpu="1"), pod("job", cpu="900m", nodeName="n1"), pod("new", cpu="900m"))
    harness.cycle()
    harness.after(2)
    done = pod("job", cpu="900m", nodeName="n1")
    done["status"]["phase"] = "Succeeded"
    harness.put(done)
    assert harness.binds() == {"new": "n1"}


def test_a_pod_wanted_near_wakes_the_one_that_wants_it(harness: Harness) -> None:
    """Required affinity waits for the pod it names, and for no other."""
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    harness.put(node("n1"), node("n2"), pod("web", affinity=near))
    harness.cycle()
    harness.after(2)
    harness.put(pod("other", nodeName="n1"))
    assert not harness.engine.has_work
    harness.put(pod("cache", nodeName="n2"))
    assert harness.binds() == {"web": "n2"}


def test_a_backlog_of_anti_affine_pods_lands_on_different_nodes(harness: Harness) -> None:
    """Assumed pods count for affinity at once."""
    harness.put(*(node(f"n{i}") for i in range(5)))
    harness.put(*(pod(f"db-{i}", labels={"app": "db"}, affinity=anti_affinity("db")) for i in range(6)))
    bound = harness.binds()
    assert sorted(bound.values()) == [f"n{i}" for i in range(5)]
    assert len(harness.engine.queue) == 1


def test_a_node_that_goes_takes_its_capacity_along(harness: Harness) -> None:
    """Pods are not decided for a node that is gone; its pods stay counted until they go."""
    harness.put(node("n1"), pod("old", nodeName="n1"))
    harness.gone("Node", "n1")
    harness.put(pod("web"))
    assert harness.binds() == {}
    harness.put(node("n1", cpu="1"))
    harness.after(1.1)
    assert harness.binds() == {"web": "n1"}


def test_a_cordoned_node_is_honoured_by_the_next_cycle(harness: Harness) -> None:
    """Cordon before the cycle, uncordon after: the pod waits in between."""
    cordoned = node("n1")
    cordoned["spec"]["unschedulable"] = True
    harness.put(node("n1"))
    harness.put(cordoned, pod("web"))
    assert harness.binds() == {}
    harness.after(2)
    harness.put(node("n1"))
    assert harness.binds() == {"web": "n1"}


def test_each_profile_schedules_its_own_pods(harness: Harness) -> None:
    """Two schedulerNames in one process share nodes, not pods."""
    harness.put(node("n1"), pod("a", scheduler="packed"), pod("b"), pod("c", scheduler="nobody"))
    assert set(harness.binds()) == {"a", "b"}


def test_a_plugin_that_raises_fails_its_pod_by_name_and_nothing_else(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broken pod never stops the loop."""
    from podberth.plugins.node_unschedulable import NodeUnschedulable

    def filter(self: NodeUnschedulable, pod: Any, cluster: Any) -> Any:
        if pod.name == "bad":
            raise RuntimeError("sensor on fire")
        return ()

    monkeypatch.setattr(NodeUnschedulable, "filter", filter)
    harness.put(node("n1"), pod("bad"), pod("good"))
    instructions = harness.cycles()
    failed = next(i for i in instructions if isinstance(i, Failed))
    assert (failed.pod.name, failed.reason) == ("bad", "SchedulerError")
    assert failed.message == 'running Filter plugin "NodeUnschedulable": sensor on fire'
    assert [i.pod.name for i in instructions if isinstance(i, Bind)] == ["good"]
    assert place_of(harness, "bad") is Place.BACKOFF


def test_a_pod_of_a_group_stays_pending_with_a_reason(harness: Harness) -> None:
    """Alone it would start a part of a gang: condition and event say why it is refused."""
    harness.put(node("n1"), pod("train", schedulingGroup={"podGroupName": "workers"}))
    failed, condition, event = harness.cycle()
    assert isinstance(failed, Failed)
    assert "spec.schedulingGroup, but the API server serves no PodGroups" in failed.message
    assert isinstance(condition, PatchCondition)
    assert isinstance(event, RecordFailure)
    assert condition.message == event.message == failed.message


def test_thousands_of_equal_unschedulable_pods_are_asked_as_one(harness: Harness) -> None:
    """An event asks each kind of waiting pod once: the hint runs once for 500 equal pods."""
    harness.put(node("n1", cpu="1"))
    harness.put(*(pod(f"p{i}", cpu="2", labels={"app": "same"}) for i in range(500)))
    harness.cycles()
    harness.after(20)
    asked: list[str] = []
    framework = harness.engine.queue.frameworks["berth"]
    plugin: Any = framework.plugin("NodeResourcesFit")
    original = plugin.node_hint

    def hint(asking: Any, old: Any, new: Any) -> Any:
        asked.append(asking.name)
        return original(asking, old, new)

    plugin.node_hint = hint
    harness.put(node("n2", cpu="1"))
    assert len(asked) == 1
    assert not harness.engine.has_work


def test_mended_promise_wakes_the_pod(harness: Harness) -> None:
    """A pod whose annotation could not be read, or asked for too much, is tried again when it is edited."""
    annotation = "podberth.dev/required-during-execution"
    harness.put(node("n1"), pod("web", meta={"annotations": {annotation: "ssd"}}))
    assert harness.binds() == {}
    harness.after(20)
    harness.put(pod("web", meta={"annotations": {annotation: "true"}}))
    assert harness.binds() == {"web": "n1"}
