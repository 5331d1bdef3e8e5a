"""Room that is kept for gangs that wait behind smaller pods: where, who may use it until then, and how it ends."""

from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Failed, Instruction, RecordEvent
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Follows
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import Object, configuration, profile
from tests.registered import registry
from tests.unit.work import calls

from .conftest import Harness, node, pod
from .test_gangs import bound, conditions, failures, group, member

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SOON = {"afterSeconds": 0, "forSeconds": 600, "percentageOfNodes": 100}


def stamp(seconds: float) -> str:
    """RFC 3339 for an engine time of less than an hour after 1000."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-01-01T{hours:02}:{minutes:02}:{rest:02}Z"


def reserving(**args: Any) -> Harness:
    """A harness whose engine knows the wall clock; its time 1000 is 00:16:40."""
    harness = Harness(configuration(profile(GangScheduling={"reservation": {**SOON, **args}})))
    harness.engine.epoch = EPOCH
    harness.handle(Follows(NATIVE, True))
    return harness


def running(
    name: str, on: str, cpu: str = "1", *, lasts: int | None = None, since: float = 1000, **spec: Any
) -> Object:
    """A pod of a Job on a node."""
    made = pod(name, cpu, **{"restartPolicy": "Never", "nodeName": on, **spec})
    if lasts is not None:
        made["spec"]["activeDeadlineSeconds"] = lasts
    made["status"] = {"phase": "Running", "startTime": stamp(since)}
    return made


def small(name: str, cpu: str = "1", lasts: int | None = None, **spec: Any) -> Object:
    if lasts is not None:
        spec["activeDeadlineSeconds"] = lasts
    return pod(name, cpu, **{"restartPolicy": "Never", **spec})


def waiting(harness: Harness, min_count: int = 2, cpu: str = "4", **spec: Any) -> list[Instruction]:
    """A gang that does not fit, tried once."""
    harness.put(group(min_count=min_count, **spec), *(member(f"train-{i}", cpu) for i in range(min_count)))
    return harness.cycles()


def events(said: list[Instruction]) -> list[tuple[str, str]]:
    return [(one.reason, one.note) for one in said if isinstance(one, RecordEvent)]


@pytest.fixture
def busy() -> Harness:
    """Three nodes of four cores. On n0 a pod ends at 1100, on n1 one ends at 1200, on n2 one never does."""
    harness = reserving()
    harness.put(*(node(f"n{i}") for i in range(3)))
    harness.put(running("a", "n0", lasts=100), running("b", "n1", lasts=200))
    harness.put(running("c", "n2", restartPolicy="Always"))
    return harness


KEPT = "room is kept for it on 2 nodes until 2026-01-01T00:26:40Z, it should have it all by 2026-01-01T00:20:00Z"
AWAY = "node(s) whose room is kept for podgroup default/train until 2026-01-01T00:26:40Z"


def test_room_is_kept_where_the_gang_would_start_first(busy: Harness) -> None:
    said = waiting(busy)
    assert conditions(said)[0][2].endswith(f", {KEPT}")
    told = failures(said)
    assert len(told) == 2
    assert all(message.endswith(f", {KEPT}") for message in told.values()), "its pods say so as well"
    assert events(said) == [("RoomKept", KEPT)]
    busy.put(small("forever", "3"), small("too-long", "3", lasts=201))
    said = busy.cycles()
    assert [one.node for one in said if isinstance(one, Bind)] == ["n2"], "nothing is kept there"
    (message,) = failures(said).values()
    assert message.startswith(f"0/3 nodes are available: 1 Insufficient cpu, 2 {AWAY}. preemption: ")
    assert message.endswith("2 Preemption is not helpful for scheduling."), "nobody is removed there for it"


def test_who_ends_in_time_may_go_there(busy: Harness) -> None:
    waiting(busy)
    busy.put(small("filler", "3"))
    assert busy.binds() == {"filler": "n2"}
    busy.put(small("short", "3", lasts=200), small("long", "3", lasts=201))
    said = busy.cycles()
    assert bound(said) == ["short"]
    assert list(failures(said)) == ["long"]


def test_the_gang_starts_as_soon_as_its_room_is_free(busy: Harness) -> None:
    waiting(busy)
    busy.put(*(small(f"s{i}", "3") for i in range(4)))
    assert set(busy.binds().values()) == {"n2"}
    busy.now = 1100.0
    busy.gone("Pod", "a")
    assert busy.binds() == {}
    busy.now = 1200.0
    busy.gone("Pod", "b")
    said = busy.cycles()
    assert sorted(bound(said)) == ["train-0", "train-1"]
    assert not busy.engine.cluster.reservations
    assert validate(busy.engine.cluster) == []


def test_without_the_argument_small_pods_take_it() -> None:
    """As kube-scheduler: the same objects, and the gang has no room."""
    plain = Harness(configuration(profile()))
    plain.engine.epoch = EPOCH
    plain.handle(Follows(NATIVE, True))
    plain.put(*(node(f"n{i}") for i in range(2)), running("a", "n0", lasts=100), running("b", "n1", lasts=200))
    said = waiting(plain)
    assert "room is kept" not in conditions(said)[0][2]
    plain.put(*(small(f"s{i}", "3") for i in range(2)))
    assert len(plain.binds()) == 2


def test_room_beside_the_gang_is_not_kept() -> None:
    """A gang that takes two of four cores leaves two, also while the pod is there whose end it waits for."""
    harness = reserving()
    harness.put(node("n0"), running("a", "n0", "2", lasts=100))
    waiting(harness, min_count=2, cpu="1500m")
    harness.put(small("beside", "1"), small("too-much", "500m"))
    said = harness.cycles()
    assert bound(said) == ["beside"], "3 cores are the gang's once a has ended"
    assert failures(said)["too-much"].startswith("0/1 nodes are available: 1 node(s) whose room is kept")


def test_higher_priorities_pass(busy: Harness) -> None:
    waiting(busy)
    busy.put(small("filler", "3"))
    busy.cycles()
    busy.put(small("same", "2"), small("important", "3", priority=1))
    assert bound(busy.cycles()) == ["important"]


def test_lower_priorities_are_not_removed_from_kept_nodes() -> None:
    """Neither for a pod of the gang's own priority, which could not have the room, nor for another gang."""
    harness = reserving()
    harness.put(node("n0"), node("n1"))
    harness.put(running("low-0", "n0", "1", lasts=100, priority=-1, preemptionPolicy="Never"))
    harness.put(running("low-1", "n1", "1", lasts=100, priority=-1, preemptionPolicy="Never"))
    never = {"preemptionPolicy": "Never"}
    harness.put(group(), *(member(f"train-{i}", "4", **never) for i in range(2)))
    assert events(harness.cycles())[0][0] == "RoomKept"
    harness.put(small("single", "4"), group("other"), *(member(f"other-{i}", "4", "other") for i in range(2)))
    said = harness.cycles()
    assert sorted(failures(said)) == ["other-0", "other-1", "single"]
    assert not [one for one in said if type(one).__name__ == "Preempt"]


def test_an_unknown_end_is_no_promise() -> None:
    harness = reserving()
    harness.put(node("n0"), node("n1"), running("a", "n0"), running("b", "n1", lasts=50))
    said = waiting(harness)
    assert events(said)[0][1].endswith("until 2026-01-01T00:26:40Z, nobody knows when it has all of it")
    harness.put(small("short", "1", lasts=1))
    assert bound(harness.cycles()) == []
    harness.gone("Pod", "a")
    harness.gone("Pod", "b")
    harness.after(60.0)
    assert sorted(harness.binds()) == ["train-0", "train-1"]


def test_pods_that_nobody_ends_are_not_waited_for() -> None:
    harness = reserving()
    harness.put(node("n0"), running("web", "n0", restartPolicy="Always"))
    said = waiting(harness, min_count=1)
    assert conditions(said)[0][2].endswith("no room is kept for it: no running pod is known to end")
    assert events(said) == []


def test_a_gang_that_never_fits_has_no_room(busy: Harness) -> None:
    said = waiting(busy, min_count=3)
    why = "no room is kept for it: there is too little room even if all pods end that may"
    assert conditions(said)[0][2].endswith(why)
    assert not busy.engine.cluster.reservations


def test_the_owners_word_counts_where_the_profile_trusts_it() -> None:
    expects: dict[str, Any] = {"meta": {"annotations": {"podberth.dev/expected-duration": "1m40s"}}}
    for trusting in (False, True):
        harness = reserving(trustExpectedDuration=trusting)
        harness.put(node("n0"), running("a", "n0", **expects))
        assert events(waiting(harness, min_count=1))[0][1].endswith("by 2026-01-01T00:18:20Z"), (
            "of running pods it does"
        )
        harness.put(small("b", "1", **expects))
        assert bound(harness.cycles()) == (["b"] if trusting else [])


def test_after_so_long(busy: Harness) -> None:
    harness = reserving(afterSeconds=60)
    harness.put(node("n0"), running("a", "n0", lasts=1000))
    assert events(waiting(harness, min_count=1)) == []
    harness.put(node("tiny", "1"))
    assert events(harness.cycles()) == []
    harness.tick(60.0)
    harness.put(node("tiny-too", "1"))
    assert [reason for reason, _ in events(harness.cycles())] == ["RoomKept"]


def test_no_more_of_the_nodes() -> None:
    harness = reserving(percentageOfNodes=50)
    harness.put(*(node(f"n{i}") for i in range(3)), *(running(f"p{i}", f"n{i}", lasts=100) for i in range(3)))
    said = waiting(harness)
    assert conditions(said)[0][2].endswith(
        "no room is kept for it: it needs 2 nodes, more than 50% of all (percentageOfNodes)"
    )
    assert not harness.engine.cluster.reservations


def test_no_lower_priority() -> None:
    harness = reserving(lowestPriority=10)
    harness.put(node("n0"), running("a", "n0", lasts=100))
    assert events(waiting(harness, min_count=1)) == []


def test_room_is_given_up_in_time_and_pods_that_waited_for_it_go_there(busy: Harness) -> None:
    waiting(busy)
    busy.put(*(small(f"s{i}", "3") for i in range(3)))
    assert len(bound(busy.cycles())) == 1
    assert busy.engine.next_tick() is not None
    said = busy.tick(600.0)
    assert events(said) == [("RoomNotKept", "room was kept for as long as forSeconds says, and is no longer")]
    assert len(bound(busy.cycles())) == 2


def test_who_waited_for_kept_room_is_told_why_it_is_woken(busy: Harness) -> None:
    """Not as something that happened to a pod group: its object is as it was."""
    waiting(busy)
    busy.put(*(small(f"s{i}", "3") for i in range(3)))
    left = "s1" if bound(busy.cycles()) != ["s1"] else "s2"
    busy.gone("PodGroup", "train")
    story = busy.engine.history.story(left)
    assert story is not None
    said = "woken: room is kept for a pod group no longer, which may help against GangScheduling"
    assert story.entries[-1].text.startswith(said)


def test_a_namespace_has_none_again_for_as_long(busy: Harness) -> None:
    """At most half of the time, however many gangs it makes."""
    waiting(busy)
    busy.tick(600.0)
    busy.put(group("again"), *(member(f"again-{i}", "4", "again") for i in range(2)))
    assert events(busy.cycles()) == []
    busy.tick(599.0)
    busy.put(node("tiny", "1"))
    assert events(busy.cycles()) == []
    busy.tick(60.0)
    busy.put(node("tiny-too", "1"))
    assert [reason for reason, _ in events(busy.cycles())] == ["RoomKept"]


def test_room_that_ends_while_it_is_looked_for_anew() -> None:
    """The search began when the gang had it, and goes on in later turns (beside seed 920275 of the storm)."""
    for turns in range(30):
        harness = reserving(forSeconds=61)
        harness.put(*(node(f"n{i}") for i in range(8)))
        harness.put(*(running(f"p{i}", f"n{i}", lasts=300 + 10 * i) for i in range(8)))
        waiting(harness, min_count=3)
        assert harness.engine.cluster.reservations.by_profile
        harness.tick(60.5)
        harness.put(node("tiny", "1"))
        for _ in range(turns):
            harness.cycle()
        harness.tick(0.6)
        harness.cycles()
        assert not harness.engine.cluster.reservations.by_profile


def test_a_gang_of_higher_priority_has_it_instead(busy: Harness) -> None:
    waiting(busy)
    busy.put(group("urgent", priority=5))
    busy.put(*(member(f"urgent-{i}", "4", "urgent", priority=5, preemptionPolicy="Never") for i in range(2)))
    assert [reason for reason, _ in events(busy.cycles())] == ["RoomKept"]
    (room,) = busy.engine.cluster.reservations.by_profile.values()
    assert room.group.name == "urgent"
    busy.put(group("third"), *(member(f"third-{i}", "4", "third") for i in range(2)))
    assert events(busy.cycles()) == []


@pytest.mark.parametrize("how", ["group", "pod"])
def test_who_does_not_wait_any_more_has_no_room(busy: Harness, how: str) -> None:
    waiting(busy)
    assert busy.engine.cluster.reservations
    busy.gone(*(("PodGroup", "train") if how == "group" else ("Pod", "train-0")))
    busy.cycles()
    assert not busy.engine.cluster.reservations


def test_a_node_that_goes_has_the_room_looked_for_again(busy: Harness) -> None:
    waiting(busy)
    busy.put(node("n3"), running("d", "n3", lasts=300))
    busy.gone("Pod", "a")
    busy.gone("Node", "n0")
    busy.tick(10.0)
    said = busy.cycles()
    (room,) = busy.engine.cluster.reservations.by_profile.values()
    assert sorted(room.names) == ["n1", "n3"]
    assert "RoomKept" not in [reason for reason, _ in events(said)], "it is the same reservation"
    assert room.expires == 1600.0


def test_a_node_that_comes_where_a_kept_one_was_is_not_kept(busy: Harness) -> None:
    """It is on the row of one that went, also before the gang has been tried again."""
    waiting(busy)
    busy.gone("Pod", "a")
    busy.gone("Node", "n0")
    busy.put(node("new"), small("s", "3", nodeSelector={"kubernetes.io/hostname": "new"}))
    assert busy.engine.cluster.reservations
    assert busy.binds() == {"s": "new"}


def test_who_waited_for_a_node_goes_there_when_room_is_kept_on_another_one(busy: Harness) -> None:
    """The gang would start sooner beside a pod that ends sooner: that node is kept instead of n1."""
    waiting(busy)
    busy.put(small("s", "3", nodeSelector={"kubernetes.io/hostname": "n1"}))
    assert busy.binds() == {}
    busy.tick(61.0)
    busy.put(node("n3"), running("d", "n3", lasts=50, since=1061))
    found = busy.binds()
    (room,) = busy.engine.cluster.reservations.by_profile.values()
    assert sorted(room.names) == ["n0", "n3"]
    busy.tick(10.0)
    assert found | busy.binds() == {"s": "n1"}


def test_room_is_not_given_up_for_sooner_room_on_too_many_nodes() -> None:
    """Of four nodes two are kept, which is half of them; three would take the gang sooner."""
    harness = reserving(percentageOfNodes=50)
    harness.put(*(node(f"n{i}", "8") for i in range(4)))
    harness.put(*(running(f"p{i}", f"n{i}", "8", lasts=300 if i < 2 else None) for i in range(4)))
    waiting(harness, min_count=4)
    harness.tick(61.0)
    for name in ("p0", "p2", "p3"):
        harness.gone("Pod", name)
    harness.put(running("short", "n0", "4", lasts=100, since=1061), running("long", "n2", "4"))
    harness.put(running("other", "n3", "4"))
    harness.put(running("brief", "n3", "1", lasts=20, since=1061))
    said = harness.cycles()
    assert "room is kept for it on 2 nodes" in conditions(said)[0][2]
    (room,) = harness.engine.cluster.reservations.by_profile.values()
    assert sorted(room.names) == ["n0", "n1"]


@pytest.mark.parametrize("turns", range(1, 18))
def test_room_is_not_kept_on_a_node_that_the_gang_may_not_use(busy: Harness, turns: int) -> None:
    """It gets a taint while room is looked for, or later."""
    busy.put(group(min_count=2), *(member(f"train-{i}", "4") for i in range(2)))
    for _ in range(turns):
        busy.cycle()
    tainted = node("n1")
    tainted["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    busy.put(tainted)
    busy.cycles()
    assert not busy.engine.cluster.reservations


def test_who_ends_sooner_than_declared_makes_the_promise_sooner() -> None:
    """It is looked for again, at most once a minute; a promise is never put off for that."""
    harness = reserving()
    harness.put(*(node(f"n{i}") for i in range(3)), *(running(f"p{i}", f"n{i}", lasts=300 + i) for i in range(3)))
    waiting(harness)
    harness.put(small("long", "3", lasts=301))
    assert bound(harness.cycles()) == ["long"], "until 1301, both nodes are free again"
    harness.tick(30.0)
    harness.gone("Pod", "p1")
    harness.cycles()
    (room,) = harness.engine.cluster.reservations.by_profile.values()
    assert (room.until, room.found) == (EPOCH + 1301.0, 1000.0)
    harness.tick(31.0)
    harness.gone("Pod", "long")
    harness.cycles()
    (room,) = harness.engine.cluster.reservations.by_profile.values()
    assert (room.until, room.found) == (EPOCH + 1300.0, 1061.0)


def test_who_is_late_is_waited_for_a_little_longer(busy: Harness) -> None:
    """A pod that should have ended: the room is looked for again, not given up."""
    waiting(busy)
    busy.tick(201.0)
    busy.gone("Pod", "a")
    busy.cycles()
    (room,) = busy.engine.cluster.reservations.by_profile.values()
    assert room.until == EPOCH + 1201.0 + 30.0


def test_other_namespaces_are_not_told_the_name(busy: Harness) -> None:
    waiting(busy)
    foreign = small("foreign", "4")
    foreign["metadata"]["namespace"] = "elsewhere"
    busy.put(foreign)
    (message,) = failures(busy.cycles()).values()
    away = AWAY.replace("podgroup default/train", "a podgroup of another namespace")
    assert message.startswith(f"0/3 nodes are available: 1 Insufficient cpu, 2 {away}. ")


def test_it_is_kept_where_it_is_there_first() -> None:
    harness = reserving()
    harness.put(*(node(f"n{i}") for i in range(8)))
    harness.put(*(running(f"p{i}", f"n{i}", lasts=100 + 10 * i) for i in range(8)))
    waiting(harness, min_count=3)
    (room,) = harness.engine.cluster.reservations.by_profile.values()
    assert (room.until, sorted(room.names)) == (EPOCH + 1120.0, ["n0", "n1", "n2"])


def test_terms_of_the_gangs_pods_keep_its_nodes_for_it_alone() -> None:
    """Where more than amounts decide, nobody says what may be beside the gang."""
    harness = reserving()
    harness.put(node("n0"), running("a", "n0", "3", lasts=100))
    term = {"labelSelector": {"matchLabels": {"app": "noise"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    harness.put(group(min_count=1), member("train-0", "2", affinity=apart))
    harness.cycles()
    harness.put(small("noise", "1", labels={"app": "noise"}), small("quiet", "1", lasts=100))
    assert bound(harness.cycles()) == ["quiet"]


def test_after_a_reload_without_the_argument_nothing_is_kept(busy: Harness) -> None:
    waiting(busy)
    plain = build(decode(configuration(profile())), registry())
    busy.engine.reconfigure(plain, 1.0, 10.0, busy.now)
    assert not busy.engine.cluster.reservations
    assert isinstance(busy.engine, Engine)


@pytest.mark.parametrize("turns", range(1, 18))
def test_after_a_reload_room_that_was_looked_for_is_not_kept(busy: Harness, turns: int) -> None:
    """The profile has no such argument any more."""
    busy.put(group(min_count=2), *(member(f"train-{i}", "4") for i in range(2)))
    for _ in range(turns):
        busy.cycle()
    busy.engine.reconfigure(build(decode(configuration(profile())), registry()), 1.0, 10.0, busy.now)
    busy.cycles()
    assert not busy.engine.cluster.reservations


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ({"afterSeconds": -1}, "reservation.afterSeconds: Invalid value: -1: must be between 0 and 604,800"),
        ({"forSeconds": 0}, "reservation.forSeconds: Invalid value: 0: must be between 1 and 604,800"),
        ({"percentageOfNodes": 101}, "reservation.percentageOfNodes: Invalid value: 101: must be between 1 and 100"),
    ],
)
def test_wrong_arguments_are_one_line(args: Object, line: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        build(decode(configuration(profile(GangScheduling={"reservation": args}))), registry())
    assert line in str(wrong.value)


def test_pods_without_room_wait_under_gang_scheduling(busy: Harness) -> None:
    waiting(busy)
    busy.put(small("s", "4"))
    (failed,) = [one for one in busy.cycles() if isinstance(one, Failed)]
    assert "GangScheduling" in failed.plugins
    assert busy.engine.queue.counts()[Place.UNSCHEDULABLE] == 3


def test_room_on_many_nodes_is_shared_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends on them is added up some nodes at a time."""
    many = 200
    harness = reserving()
    harness.put(*(node(f"n{i}") for i in range(many)))
    harness.put(*(running(f"r{i}", f"n{i}", lasts=100 + i) for i in range(many)))
    harness.put(group(min_count=many), *(member(f"train-{i}", "4") for i in range(many)))
    looked = calls(monkeypatch, (Cluster, "pods_on"))
    most = 0
    while harness.engine.has_work:
        looked.clear()
        harness.cycle()
        most = max(most, looked["pods_on"])
    room = harness.engine.cluster.reservations.by_profile["berth"]
    assert len(room.rows) == many
    assert most <= many * 3 // 4
    harness.put(small("late", cpu="1", lasts=10_000))
    assert "room is kept" in failures(harness.cycles())["late"]
