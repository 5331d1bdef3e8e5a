"""A pod's story: one test for each kind of entry, in the words that an operator reads."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, PreBindWrite, Preempt
from podberth.engine.queue.places import FLUSH_AFTER
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Broke, Cycle, Follows, PreBindWriteFailed, VictimStays
from podberth.engine.story import LONGEST_TEXT, Told
from podberth.framework.binding import AssumedPod, BindResult
from podberth.framework.config import decode
from podberth.framework.interface import Plugin
from podberth.framework.profiles import build
from podberth.framework.status import Reject, Unschedulable
from podberth.model.pod_group import NATIVE
from tests.builders import configuration, profile
from tests.messages import without_place
from tests.registered import registry
from tests.storage import claim, storage_class, using, volume

from .api import Api
from .conftest import Harness, node, pod
from .test_extenders import FILTER, answered, asked, verdict
from .test_gangs import group, member
from .test_permit import gang
from .test_points import coroutine, everything, named, of, opened, plugin

__all__ = ["opened"]

Open = Callable[..., Harness]
NO_CPU = "Insufficient cpu"


def told(harness: Harness, uid: str = "web") -> list[str]:
    """What is told of a pod, without the times."""
    timeline = harness.engine.history.story(uid)
    assert timeline is not None
    return [entry.text for entry in timeline.entries]


def last(harness: Harness, kind: str, uid: str = "web") -> dict[str, Any]:
    """What the last entry of a kind says of its own."""
    timeline = harness.engine.history.story(uid)
    assert timeline is not None
    return [entry for entry in timeline.entries if entry.kind == kind][-1].details


def state(harness: Harness, uid: str = "web") -> str:
    timeline = harness.engine.history.story(uid)
    assert timeline is not None
    return timeline.state


def test_a_pod_that_is_bound_at_once(harness: Harness) -> None:
    """Seen, assumed, bound; the numbers are those of the decision, and the shape is what the documents say."""
    harness.put(node("n1"), node("n2", cpu="1"), pod("web", cpu="2"))
    assert (told(harness), state(harness)) == (["queued: the pod was added"], "active")
    harness.now += 0.25
    harness.cycle()
    assert state(harness) == "assumed"
    harness.now += 0.5
    harness.bound("web")
    timeline = harness.engine.history.story("web")
    assert timeline is not None
    assert (timeline.api_version, timeline.kind, timeline.state) == ("podberth.dev/v1alpha1", "Story", "bound")
    assert (timeline.pod.namespace, timeline.pod.name, timeline.pod.scheduler_name) == ("default", "web", "berth")
    queued = {"queue": "active", "event": "UnscheduledPodAdd", "object": "", "plugins": [], "reason": ""}
    found = {"attempt": 1, "node": "n1", "evaluatedNodes": 2, "feasibleNodes": 1, "score": None}
    assert timeline.entries == [
        Told("queued", 0.0, "queued: the pod was added", {**queued, "backoffSeconds": 0.0}),
        Told("assumed", 0.25, "attempt 1: assumed on n1 (2 nodes evaluated, 1 feasible)", {**found, "points": []}),
        Told("bound", 0.75, "bound to n1", {"node": "n1", "by": "berth"}),
    ]


def test_of_whom_nothing_is_told(harness: Harness) -> None:
    """Pods that are somebody else's, and those that nobody has seen."""
    harness.put(node("n1"), pod("theirs", scheduler="other"), pod("there", nodeName="n1"))
    for uid in ("theirs", "there", "nobody"):
        assert harness.engine.history.story(uid) is None
    assert harness.engine.history.story_of("default", "theirs") is None


def test_by_name(harness: Harness) -> None:
    """The pod of a name that was seen last is meant; the others are named."""
    harness.put(node("n1"))
    for uid in ("first", "second"):
        harness.put(pod("web", meta={"uid": uid}))
        harness.cycles()
        harness.bound(uid)
        harness.now += 1.0
        harness.lose("Pod", "default", "web", uid)
    timeline = harness.engine.history.story_of("default", "web")
    assert timeline is not None
    assert (timeline.pod.uid, timeline.others) == ("second", ("first",))
    assert harness.engine.history.story_of("other", "web") is None


def test_unschedulable_and_woken(harness: Harness) -> None:
    """Why no node was found, what the pod waits for, and whose change woke it."""
    harness.put(node("n1", cpu="1"), pod("web", cpu="2"))
    harness.cycles()
    assert state(harness) == "unschedulable"
    harness.after(5.0)
    harness.put(node("n4"))
    harness.cycles()
    assert told(harness)[1:] == [
        f"attempt 1: unschedulable: 0/1 nodes are available: 1 {NO_CPU}. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling.",
        "waits for a change that may help against NodeResourcesFit",
        "woken: node n4 was added, which may help against NodeResourcesFit",
        "attempt 2: assumed on n4 (2 nodes evaluated, 1 feasible)",
    ]
    woken = harness.engine.history.story("web").entries[3].details  # type: ignore[union-attr]
    assert (woken["event"], woken["object"], woken["plugins"]) == ("NodeAdd", "Node n4", ["NodeResourcesFit"])
    assert last(harness, "failed")["reason"] == "Unschedulable"


def test_woken_during_its_backoff(harness: Harness) -> None:
    """It backs off first, and that is told with the seconds that are left."""
    harness.put(node("n1", cpu="1"), pod("v", cpu="1", nodeName="n1"), pod("web", cpu="1"))
    harness.cycles()
    harness.now += 0.25
    harness.gone("Pod", "v")
    assert told(harness)[-1] == (
        "woken: pod default/v gave room back, which may help against NodeResourcesFit; backs off for 0.8 s first"
    )
    assert last(harness, "queued")["backoffSeconds"] == 0.75
    assert state(harness) == "backoff"
    harness.after(1.0)
    assert told(harness)[-1] == "queued: its backoff is over"


@pytest.mark.parametrize(
    ("id", "change", "want"),
    [
        ("labels", lambda h: h.put(node("n1", cpu="1", disk="ssd")), "woken: labels of node n1 changed"),
        ("allocatable", lambda h: h.put(node("n1", cpu="8", disk="ssd")), "woken: "),
        ("itself", lambda h: h.put(pod("web", nodeSelector={"disk": "hdd"})), "woken: the pod itself changed"),
        ("time", lambda h: h.after(FLUSH_AFTER), "flushed: no event has woken it for five minutes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_wakes_a_pod(harness: Harness, id: str, change: Any, want: str) -> None:
    """Each in a sentence of its own."""
    harness.put(node("n1", cpu="1"), pod("web", nodeSelector={"disk": "ssd"}))
    harness.cycles()
    harness.after(20.0)
    change(harness)
    assert told(harness)[-1].startswith(want)


def test_a_volume_wakes_a_pod(harness: Harness) -> None:
    """Storage objects are named with their kind."""
    api = Api(harness, node("n1"), storage_class(), using(pod("web", meta={"uid": "web"}), "data"))
    harness.cycles()
    harness.after(20.0)
    api.put(claim("data"))
    assert told(harness)[-1].startswith("woken: PersistentVolumeClaim default/data was added, which may help against ")


def test_gated(harness: Harness) -> None:
    """By which plugin, and why; and that the gate was opened."""
    harness.put(node("n1"), pod("web", schedulingGates=[{"name": "quota"}]))
    assert told(harness) == [
        "queued: the pod was added; gated by SchedulingGates: waiting for scheduling gates: [quota]"
    ]
    assert state(harness) == "gated"
    harness.put(pod("web"))
    assert told(harness)[-1] == "woken: the pod itself changed"
    assert state(harness) == "active"


def test_preemption(harness: Harness) -> None:
    """The preemptor's side and the victim's; and that a pod of higher priority takes the room."""
    harness.put(node("n1", cpu="1"), pod("low", cpu="1"))
    harness.cycles()
    harness.bound("low")
    harness.put(pod("web", cpu="1", priority=100))
    harness.cycles()
    assert told(harness)[2:] == [
        "waits for a change that may help against NodeResourcesFit",
        "nominated for n1: 1 pod of lower priority has to leave it: default/low",
    ]
    assert told(harness, "low")[-1] == "chosen as a victim: has to leave n1 for default/web"
    assert last(harness, "nominated")["victims"] == ("default/low",)
    harness.put(pod("vital", cpu="1", priority=1000))
    harness.cycles()
    assert "nominated no longer: a pod of higher priority needs it" in told(harness)


def test_many_victims_are_counted(harness: Harness) -> None:
    """The first eight are named."""
    harness.put(node("n1", cpu="1"), *(pod(f"v{i}", cpu="50m", nodeName="n1") for i in range(20)))
    harness.put(pod("web", cpu="1", priority=100))
    harness.cycles()
    nominated = last(harness, "nominated")
    assert (len(nominated["victims"]), nominated["victimsInAll"]) == (8, 20)
    text = next(text for text in told(harness) if text.startswith("nominated"))
    assert text.startswith("nominated for n1: 20 pods of lower priority have to leave it: default/v0, ")
    assert text.endswith(" and 12 more")


def test_a_nominated_node_goes(harness: Harness) -> None:
    """The pod has to look for another one."""
    harness.put(node("n1", cpu="1"), pod("low", cpu="1", nodeName="n1"), pod("web", cpu="1", priority=100))
    harness.cycles()
    harness.gone("Node", "n1")
    assert "nominated no longer: the node went" in told(harness)


def test_a_victim_that_stays(harness: Harness) -> None:
    """The preemptor is woken by its name."""
    harness.put(node("n1", cpu="1"), pod("low", cpu="1", nodeName="n1"), pod("web", cpu="1", priority=100))
    (preempt,) = [one for one in harness.cycles() if isinstance(one, Preempt)]
    harness.after(20.0)
    harness.handle(VictimStays(preempt.victims[0]))
    assert told(harness)[-1] == "woken: pod default/low gave room back, which may help against NodeResourcesFit"


def test_permit(opened: Open) -> None:
    """Who makes the pod wait and for how long at most, then the Binding; who waits in vain turns back."""
    harness = opened(gang(2, seconds=90.0))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    assert told(harness)[-1] == "waits on permit for n1: Own (at most 90 s)"
    assert state(harness) == "waiting on permit"
    harness.put(pod("other"))
    everything(harness)
    assert told(harness)[-1] == "Binding to n1 posted"
    assert state(harness) == "binding"
    harness.put(pod("late"))
    everything(harness)
    harness.tick(90.0)
    assert told(harness, "late")[3:] == [
        "turned back: no longer assumed on n1",
        "attempt 1: unschedulable: 0/1 nodes are available: "
        "1 rejected due to timeout after waiting 1m30s at plugin Own.",
        "waits for a change that may help against Own",
    ]


def test_a_backoff_that_is_not_waited_for(opened: Open) -> None:
    """Something happened while the pod waited on permit, and nothing else is to be done."""
    harness = opened(gang(2, seconds=90.0))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    harness.put(node("n2"))
    harness.tick(90.0)
    everything(harness)
    assert told(harness)[5:7] == [
        "backs off for 1.0 s",
        "queued: nothing else is to be done, so it does not wait for the end of its backoff",
    ]
    assert harness.engine.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert harness.engine.queue.places.incoming[Place.ACTIVE, "PopFromBackoffQ"] == 1  # as kube-scheduler counts


def test_reserve_refuses(opened: Open) -> None:
    """The pod was assumed, and is no longer."""

    def reserve(self: Any, pod: Any, cluster: Any, row: int) -> Reject:
        return Reject(Unschedulable("no dock free"))

    refuse = plugin(reserve=reserve)
    harness = opened(refuse)
    harness.put(node("n1"), pod("web"))
    everything(harness)
    assert told(harness)[2:4] == [
        "turned back: no longer assumed on n1",
        "attempt 1: unschedulable: 0/1 nodes are available: 1 no dock free.",
    ]


def test_pre_bind(harness: Harness) -> None:
    """What is written, what is awaited, each once; then the Binding."""
    api = Api(harness, node("n"), storage_class(), claim("data"), volume("v", on=["host in n"]))
    api.put(using(pod("web", meta={"uid": "web"}), "data"))
    (prepare,) = of(harness.cycles(), PreBindWrite)
    assert told(harness)[-1] == (
        "PreBind: VolumeBinding has PersistentVolume v written: the claim data gets the volume v"
    )
    harness.handle(api.write(prepare))
    api.show(("PersistentVolume", "", "v"))
    assert told(harness)[-1] == "PreBind: VolumeBinding waits for a change, at most 600 s"
    assert [text for text in told(harness) if "waits for a change, at" in text] == told(harness)[-1:]
    api.bind()
    assert told(harness)[-1] == "Binding to n posted"


def test_a_volume_is_made(harness: Harness) -> None:
    """For which claim, and of what class."""
    api = Api(harness, node("n"), storage_class("fast", "csi.test"), claim("data", storage_class="fast"))
    api.put(using(pod("web", meta={"uid": "web"}), "data"))
    harness.cycles()
    said = "a volume of the class fast is to be made for the claim data"
    assert told(harness)[-1] == f"PreBind: VolumeBinding has PersistentVolumeClaim default/data written: {said}"


def test_pre_bind_fails(harness: Harness) -> None:
    """The pod turns back, with the reason, and backs off."""
    api = Api(harness, node("n"), storage_class(), claim("data"), volume("v", on=["host in n"]))
    api.put(using(pod("web", meta={"uid": "web"}), "data"))
    harness.cycles()
    harness.handle(PreBindWriteFailed("web", 409, "the object has been modified", {}))
    assert told(harness)[-3:] == [
        "turned back: no longer assumed on n",
        'attempt 1: failed: running PreBind plugin "VolumeBinding": the object has been modified',
        "backs off for 1.0 s",
    ]


def test_a_plugin_at_work(opened: Open) -> None:
    """A coroutine is named with its point; one that binds the pod itself is named, too."""
    harness = opened(
        named("bind", coroutine(lambda *_: BindResult.DONE)),
        bind={"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]},
    )
    harness.put(node("n1"), pod("web"))
    everything(harness)
    assert told(harness)[2:] == ["Bind: Own is at work for the pod", "bound to n1 by the plugin Own"]


def test_bind_failed(harness: Harness) -> None:
    """The answer, that the pod turned back, and its backoff."""
    harness.put(node("n1"), pod("web"))
    harness.cycles()
    harness.bind_failed("web", 500, "etcd is away")
    assert told(harness)[2:] == [
        "Binding failed: the API server answered 500: etcd is away",
        "turned back: no longer assumed on n1",
        'attempt 1: failed: running Bind plugin "DefaultBinder": etcd is away',
        "backs off for 1.0 s",
    ]
    assert (last(harness, "failed")["reason"], state(harness)) == ("SchedulerError", "backoff")


def test_no_answer_to_a_binding(harness: Harness) -> None:
    """A status of 0."""
    harness.put(node("n1"), pod("web"))
    harness.cycles()
    harness.bind_failed("web", 0, "connection reset")
    assert told(harness)[2] == "Binding failed: the API server did not answer: connection reset"


@pytest.mark.parametrize(
    ("ours", "node_name", "want"),
    [(False, "n1", "bound to n1 by somebody else"), (True, "n1", "bound to n1")],
    ids=["by others", "by us, before the answer"],
)
def test_the_watch_shows_it_bound(harness: Harness, ours: bool, node_name: str, want: str) -> None:
    """Told once, whoever says it first."""
    harness.put(node("n1"), node("n2"), pod("web"))
    if ours:
        harness.cycles()
    harness.put(pod("web", nodeName=node_name))
    harness.bound("web")
    assert told(harness)[-1] == want
    assert len([text for text in told(harness) if "bound" in text]) == 1


@pytest.mark.parametrize(
    ("end", "want"),
    [
        (lambda h: h.gone("Pod", "web"), "deleted"),
        (lambda h: h.put(pod("web") | {"status": {"phase": "Succeeded"}}), "finished"),
        (lambda h: h.put(pod("web", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})), "terminating"),
        (
            lambda h: h.engine.reconfigure(build(decode(configuration(profile("x"))), registry()), 1.0, 10.0, h.now),
            "its profile is not configured any more",
        ),
    ],
    ids=["deleted", "finished", "terminating", "reconfigured"],
)
def test_left(harness: Harness, end: Any, want: str) -> None:
    """Why the pod is none of the scheduler's any more; its story stays."""
    harness.put(pod("web"))
    end(harness)
    harness.cycle()
    assert (told(harness)[-1], state(harness)) == (f"left the queue: {want}", want)
    assert harness.engine.queue.get("web") is None


def test_terminating_on_its_way(opened: Open) -> None:
    """A pod that waits on permit and is being deleted turns back at once, for good."""
    harness = opened(gang(2))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    harness.put(pod("web", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert told(harness)[2:] == ["waits on permit for n1: Own (at most 10 s)", "left the queue: terminating"]


def test_extenders() -> None:
    """Who was asked about what; then the attempt goes on."""
    config = decode(configuration(extenders=[FILTER]))
    harness = Harness()
    harness.engine = Engine(build(config, registry()), extenders=config.extenders)
    harness.put(node("n1"), node("n2"), pod("web"))
    question = asked(harness.cycle())
    assert told(harness)[-1] == "attempt 1: waits for what extenders say about nodes: http://e"
    assert state(harness) == "waiting for extenders"
    answered(harness, question, verdict("n2"))
    assert told(harness)[-1] == "attempt 1: assumed on n2 (2 nodes evaluated, 1 feasible)"


def test_a_plugin_fails(opened: Open) -> None:
    """In the words of the condition; before the queue, too."""

    class Own(Plugin):
        name = "Own"
        broken = True

        def pre_enqueue(self, pod: Any) -> None:
            if self.broken:
                raise RuntimeError("sensor on fire")

        def reserve(self, pod: Any, cluster: Any, row: int) -> None:
            raise RuntimeError("still on fire")

    harness = opened(Own)
    harness.put(node("n1"), pod("web"))
    failed, backs_off = told(harness)
    assert without_place(failed) == 'attempt 1: failed: running PreEnqueue plugin "Own": sensor on fire'
    assert backs_off == "queued: the pod was added; backs off for 1.0 s first"
    Own.broken = False
    harness.after(1.0)
    harness.cycles()
    assert [without_place(text) for text in told(harness)[3:]] == [
        "attempt 2: assumed on n1 (1 node evaluated, 1 feasible)",
        "turned back: no longer assumed on n1",
        'attempt 2: failed: running Reserve plugin "Own": still on fire',
        "backs off for 2.0 s",
    ]


def test_a_cycle_that_breaks(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours is in the story of the pod that it befell."""
    harness.put(node("n1"), pod("web"))
    framework = harness.engine.queue.frameworks["berth"]
    monkeypatch.setattr(framework, "decide_quickly", lambda *_, **__: [][1])
    with pytest.raises(IndexError):
        harness.handle(Cycle())
    harness.handle(Broke("IndexError: list index out of range"))
    assert told(harness)[1:] == [
        "attempt 1: failed: IndexError: list index out of range",
        "backs off for 1.0 s",
    ]


def test_long_messages_are_cut(opened: Open) -> None:
    """A plugin's text takes no more memory than any other's."""

    def filter(self: Any, pod: Any, cluster: Any) -> Any:
        raise RuntimeError("x" * 10_000)

    harness = opened(plugin(filter=filter))
    harness.put(node("n1"), pod("web"))
    harness.cycles()
    assert len(last(harness, "failed")["message"]) == LONGEST_TEXT


class Measured:
    """An engine whose attempts are measured: a second passes each time when the clock is read."""

    def __init__(self, harness: Harness) -> None:
        ticks = count(1)
        record = harness.engine.scheduling.record
        record.clock = lambda: float(next(ticks))
        for framework in harness.engine.queue.frameworks.values():
            framework.listen(None, record.reached, Quiet())


class Quiet:
    """Measures nothing."""

    def begin(self) -> None: ...

    def end(self, point: str, status: str) -> None: ...


def passed(harness: Harness, kind: str, uid: str = "web") -> list[tuple[str, str, float]]:
    return [(one["point"], one["status"], one["seconds"]) for one in last(harness, kind, uid)["points"]]


def test_points_of_an_attempt(harness: Harness) -> None:
    """Where somebody measures: each extension point with its status and its duration."""
    Measured(harness)
    harness.put(node("n1"), node("n2"), pod("web"), pod("big", cpu="64"))
    harness.cycles()
    success = [(point, "Success", 1.0) for point in ("PreFilter", "Filter", "Score", "Reserve")]
    assert passed(harness, "assumed") == success
    assert [one[:2] for one in passed(harness, "failed", "big")] == [
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PostFilter", "Unschedulable"),
    ]
    assert "attempt 1: assumed on " in told(harness)[1]
    assert " in 4000.00 ms (2 nodes evaluated, 2 feasible)" in told(harness)[1]


def test_the_quick_way_counts_as_a_part_of_the_plain_one(harness: Harness) -> None:
    """A pod of a known shape that finds no node is decided again the plain way: it passes each point once."""
    Measured(harness)
    harness.put(node("n1", cpu="1"), *(pod(f"p{i}", cpu="600m") for i in range(6)))
    harness.cycles()
    found = {tuple(passed(harness, "failed", f"p{i}")) for i in range(1, 6)}
    for points in found:
        assert [point for point, _, _ in points] == ["PreFilter", "Filter", "PostFilter"]
    # The clock was read once more before PreFilter was done: the quick way had come past it.
    assert {points[0][2] for points in found} >= {2.0}


def test_an_attempt_goes_on_after_extenders() -> None:
    """Its record has what it passed before and after, and the time in between under a name of its own."""
    config = decode(configuration(extenders=[FILTER]))
    harness = Harness()
    harness.engine = Engine(build(config, registry()), extenders=config.extenders)
    Measured(harness)
    harness.put(node("n1"), node("n2"), pod("web"), pod("other"))
    first = asked(harness.cycle())
    second = next(one for one in harness.cycle() if isinstance(one, AskExtenders)).question
    answered(harness, second, verdict("n1"))
    answered(harness, first, verdict("n1", "n2"))
    names = [[point for point, _, _ in passed(harness, "assumed", uid)] for uid in ("web", "other")]
    assert names == [
        ["PreFilter", "Filter", "Extenders", "PreFilter", "Filter", "Score", "Reserve"],
        ["PreFilter", "Filter", "Extenders", "PreFilter", "Filter", "Reserve"],
    ]


def test_permit_plugins_see_no_story(opened: Open) -> None:
    """What a plugin gets to see of a pod has no way to its story: it can't forge one."""
    seen: list[AssumedPod] = []

    def permit(self: Any, held: AssumedPod, cluster: Any) -> None:
        seen.append(held)

    harness = opened(plugin(permit=permit))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    assert not any("story" in name for held in seen for name in (*dir(held), *dir(held.pod)))


def test_a_gang(harness: Harness) -> None:
    """All its pods say what became of the group, and which plugin gates it, though it holds only one of them."""
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", cpu="1"), group(min_count=2), member("train-0"), member("train-1"), member("train-2"))
    harness.cycles()
    harness.put(group(min_count=1))
    harness.gone("PodGroup", "train")
    needs = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert told(harness, "train-1") == [
        f"queued: the pod was added; gated by GangScheduling: {needs}",
        "woken: pods of PodGroup default/train came or went, which may help against GangScheduling",
        f"attempt 1: unschedulable: 0/1 nodes are available: 1 {NO_CPU}.",
        "waits for a change that may help against NodeResourcesFit",
        "woken: PodGroup default/train changed, which may help against NodeResourcesFit; backs off for 1.0 s first",
        "woken: PodGroup default/train was deleted; gated by GangScheduling: "
        'waiting for pods\'s pod group "train" to appear in scheduling queue',
    ]
    assert told(harness, "train-0")[-2] == "woken: PodGroup default/train changed; backs off for 1.0 s first"
