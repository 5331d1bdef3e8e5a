"""Permit and PreBind: pods that have their node and wait for a plugin, and coroutines that outlive their pod."""

from collections.abc import Callable
from typing import Any

import pytest

from podberth.engine.instructions import Bind, CancelCall, Failed, Preempt, RunCall
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Broke, CallEnded, CallFailed
from podberth.framework.binding import AssumedPod, BindResult, Hold, Wait
from podberth.framework.interface import Plugin
from podberth.framework.status import Reject, Unschedulable

from .conftest import Harness, node, pod
from .test_points import everything, of, opened, place, plugin, run_calls

__all__ = ["opened"]

Open = Callable[..., Harness]


def gang(size: int, seconds: float = 10.0) -> Any:
    """Pods wait until so many of them have a node."""

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Hold | None:
        others = list(assumed.waiting_pods)
        if len(others) + 1 < size:
            return Hold(seconds)
        for other in others:
            other.allow("Own")
        return None

    return plugin(permit=permit)


def test_pods_that_wait_for_each_other(opened: Open) -> None:
    """The last one lets the others go; until then they hold their room, and are announced on their node."""
    harness = opened(gang(3))
    harness.put(node("n1"), pod("a"), pod("b"))
    assert harness.binds() == {}
    assert harness.engine.cluster.assumed() == 2
    assert harness.engine.in_flight == 0
    harness.put(pod("c"))
    assert set(harness.binds()) == {"a", "b", "c"}


def test_nobody_comes(opened: Open) -> None:
    """The pod is rejected in kube-scheduler's words, gives its room back and waits for an event that may help."""
    harness = opened(gang(2, seconds=90.0))
    harness.put(node("n1"), pod("a"))
    everything(harness)
    assert harness.engine.next_tick() == harness.now + 90.0
    harness.tick(89.0)
    assert harness.engine.cluster.assumed() == 1
    (failed,) = of(harness.tick(1.0), Failed)
    assert (failed.reason, failed.plugins) == ("Unschedulable", {"Own"})
    assert failed.message == ("0/1 nodes are available: 1 rejected due to timeout after waiting 1m30s at plugin Own.")
    assert harness.engine.cluster.assumed() == 0
    assert place(harness, "a") is Place.UNSCHEDULABLE


def test_a_change_of_the_pod_while_it_waits_is_no_event_to_be_missed(opened: Open) -> None:
    """The plugin might decide otherwise now: the pod is tried again after its backoff."""
    harness = opened(gang(2, seconds=90.0))
    harness.put(node("n1"), pod("a"))
    everything(harness)
    harness.put(pod("a", labels={"app": "another"}))
    harness.tick(90.0)
    assert place(harness, "a") is Place.BACKOFF


def test_the_longest_hold(opened: Open) -> None:
    """No plugin makes a pod wait for more than a quarter of an hour."""
    harness = opened(gang(2, seconds=1e6))
    harness.put(node("n1"), pod("a"))
    everything(harness)
    assert harness.engine.next_tick() == harness.now + 900.0


def test_two_plugins(opened: Open) -> None:
    """A pod goes once all that wait have allowed it; the first deadline that is not met rejects it."""

    class Other(Plugin):
        name = "Other"

        def permit(self, assumed: AssumedPod, cluster: Any) -> Hold:
            return Hold(20.0)

    harness = opened(gang(2), Other)
    harness.put(node("n1"), pod("a"))
    everything(harness)
    harness.put(pod("b"))
    assert harness.binds() == {}
    assert harness.engine.next_tick() == harness.now + 20.0
    messages = {one.pod.name: one.message for one in of(harness.tick(20.0), Failed)}
    assert set(messages) == {"a", "b"}
    assert "after waiting 20s at plugin Other" in messages["a"]


def test_refusal(opened: Open) -> None:
    """A Reject is told like a node that does not fit."""
    harness = opened(plugin(permit=lambda *_: Reject(Unschedulable("not today"))))
    harness.put(node("n1"), pod("a"))
    (failed,) = of(everything(harness), Failed)
    assert failed.message == "0/1 nodes are available: 1 not today."
    assert place(harness, "a") is Place.UNSCHEDULABLE
    assert harness.engine.cluster.assumed() == 0


def test_rejected_by_another_pod(opened: Open) -> None:
    """Whoever comes later may reject those that wait; what the pods reserved is given back."""
    released = []

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Hold | None:
        for other in assumed.waiting_pods:
            other.reject("Own", "the convoy is off")
            other.reject("Own", "this comes too late")
        return Hold(10.0) if assumed.pod.name == "a" else None

    own = plugin(
        permit=permit, reserve=lambda *_: 1, unreserve=lambda self, assumed, _: released.append(assumed.pod.name)
    )
    harness = opened(own)
    harness.put(node("n1"), pod("a"))
    everything(harness)
    harness.put(pod("b"))
    done = everything(harness)
    assert [one.message for one in of(done, Failed)] == ["0/1 nodes are available: 1 the convoy is off."]
    assert [one.pod.name for one in of(done, Bind)] == ["b"]
    assert released == ["a"]


def test_deleted_while_waiting(opened: Open) -> None:
    """The room is free at once, and nobody counts on the pod any more."""
    harness = opened(gang(2))
    harness.put(node("n1"), pod("a"))
    everything(harness)
    harness.gone("Pod", "a")
    assert harness.engine.cluster.assumed() == 0
    harness.put(pod("b"))
    assert harness.binds() == {}
    assert harness.tick(5.0) == []


def test_preempted_while_waiting(opened: Open) -> None:
    """A pod that is not bound yet is not deleted for one of higher priority: it goes back to the queue."""
    harness = opened(gang(2))
    harness.put(node("n1", cpu="1"), pod("small", cpu="900m", priority=0))
    everything(harness)
    harness.put(pod("big", cpu="900m", priority=10))
    done = everything(harness)
    (preempt,) = of(done, Preempt)
    assert (preempt.victims, [one.name for one in preempt.reverted]) == ((), ["small"])
    messages = {one.pod.name: one.message for one in of(done, Failed)}
    assert messages["small"] == "waiting on permit for pod: preempted"
    assert place(harness, "small") is Place.BACKOFF
    harness.tick(1.5)
    everything(harness)
    assert harness.engine.cluster.placement("big") is not None


def waits_in(point: str) -> Any:
    """A plugin whose coroutine the test ends itself."""

    async def run(self: Any, assumed: AssumedPod) -> Any:
        raise AssertionError("the test answers")

    return plugin(**{point: run, "reserve": lambda *_: 1, "time_limit": 7.0})


@pytest.mark.parametrize("point", ["permit", "pre_bind", "bind"])
def test_a_pod_that_goes_takes_its_call_along(opened: Open, point: str) -> None:
    """The coroutine is cancelled; what it answers all the same is nobody's."""
    harness = opened(
        waits_in(point), bind={"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]} if point == "bind" else {}
    )
    harness.put(node("n1"), pod("a"))
    (run,) = of(harness.cycles(), RunCall)
    assert (run.call.name, run.call.point, run.call.seconds) == ("Own", point, 7.0)
    said = harness.lose("Pod", "default", "a", "a")
    assert [one.call for one in of(said, CancelCall)] == [run.call]
    assert harness.handle(CallEnded(run.call.pod.uid, run.call, None)) == []
    assert harness.handle(CallFailed(run.call.pod.uid, run.call, "too late")) == []
    assert harness.engine.cluster.assumed() == 0


def test_an_answer_for_an_attempt_that_is_over(opened: Open) -> None:
    """Only the call that the pod waits for counts, not one of an earlier attempt."""
    harness = opened(waits_in("pre_bind"))
    harness.put(node("n1"), pod("a"))
    (first,) = of(harness.cycles(), RunCall)
    (failed,) = of(harness.handle(CallFailed(first.call.pod.uid, first.call, "no answer within 7s")), Failed)
    assert failed.message == 'running PreBind plugin "Own": no answer within 7s'
    harness.after(1.5)
    (second,) = of(harness.cycles(), RunCall)
    assert harness.handle(CallEnded(first.call.pod.uid, first.call, None)) == []
    assert [type(one) for one in harness.handle(CallEnded(second.call.pod.uid, second.call, None))] == [Bind]


def test_a_coroutine_that_binds_is_not_disturbed_by_its_own_success(opened: Open) -> None:
    """The watch may show the pod bound before the coroutine ends: nothing is unreserved."""
    released = []
    own = waits_in("bind")
    own.unreserve = lambda self, assumed, cluster: released.append(assumed.pod.name)
    harness = opened(own, bind={"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]})
    harness.put(node("n1"), pod("a"))
    (run,) = of(harness.cycles(), RunCall)
    harness.put(pod("a", nodeName="n1"))
    done = harness.handle(CallEnded(run.call.pod.uid, run.call, BindResult.DONE))
    assert len(done) == 1
    assert released == []
    assert harness.engine.cluster.assumed() == 0


def test_many_that_are_let_go_at_once(opened: Open) -> None:
    """They go on some at a time, and a Tick is due until all have; so do those whose time is over."""
    harness = opened(gang(300, seconds=20.0))
    harness.put(node("n1", cpu="64"), *(node(f"n{i}", cpu="64") for i in range(2, 6)))
    harness.put(*(pod(f"p{i}", cpu="1m") for i in range(299)))
    everything(harness)
    harness.put(pod("last", cpu="1m"))
    bound = [of(harness.cycle(), Bind)]
    while (due := harness.engine.next_tick()) is not None and due <= harness.now:
        bound.append(of(harness.tick(0.0), Bind))
    assert len(bound) > 3
    assert max(map(len, bound)) < 100
    assert sum(map(len, bound)) == 300


def test_many_whose_time_is_over(opened: Open) -> None:
    """They are reverted some at a time."""
    harness = opened(gang(1000, seconds=20.0))
    harness.put(*(node(f"n{i}", cpu="64") for i in range(5)), *(pod(f"p{i}", cpu="1m") for i in range(299)))
    everything(harness)
    failed = [of(harness.tick(20.0), Failed)]
    while (due := harness.engine.next_tick()) is not None and due <= harness.now:
        failed.append(of(harness.tick(0.0), Failed))
    assert len(failed) > 3
    assert max(map(len, failed)) < 100
    assert sum(map(len, failed)) == 299
    assert harness.engine.cluster.assumed() == 0


def test_deadlines_of_pods_that_went_are_forgotten(opened: Open) -> None:
    """What is kept of pods that waited does not grow with how many there were."""
    harness = opened(gang(2, seconds=900.0))
    harness.put(node("n1"))
    for i in range(3000):
        harness.put(pod(f"p{i}", cpu="1m"))
        everything(harness)
        harness.gone("Pod", f"p{i}")
    assert harness.engine.binding.entries() <= 1100


def test_time_is_over_for_pods_that_were_allowed(opened: Open) -> None:
    """More pods are allowed at once than go on in one turn: those that have to wait for the next are not given up."""
    harness = opened(gang(200, seconds=20.0))
    harness.put(*(node(f"n{i}", cpu="64") for i in range(5)), *(pod(f"p{i}", cpu="1m") for i in range(199)))
    everything(harness)
    harness.now += 20.0
    harness.put(pod("last", cpu="1m"))
    said = harness.cycle()
    for _ in range(5):
        said += harness.tick(0.0)
    assert len(of(said, Bind)) == 200
    assert of(said, Failed) == []


def test_a_cycle_that_breaks_for_another_pod(opened: Open) -> None:
    """Whoever was being asked is tried again, too, and what was said of third pods is still done."""

    def pre_bind(self: Any, assumed: AssumedPod, cluster: Any) -> None:
        if assumed.pod.name == "b":
            raise KeyboardInterrupt  # nothing that a guard keeps from Berth

    own = gang(3)
    own.pre_bind = pre_bind
    harness = opened(own)
    harness.put(node("n1"), pod("a"), pod("b"))
    everything(harness)
    harness.put(pod("c"))
    with pytest.raises(KeyboardInterrupt):
        harness.cycle()
    said = harness.handle(Broke("KeyboardInterrupt"))
    assert [one.pod.name for one in of(said, Bind)] == ["a"]
    assert [(one.pod.name, one.message) for one in of(said, Failed)] == [
        ("b", "KeyboardInterrupt"),
        ("c", "KeyboardInterrupt"),
    ]
    assert (place(harness, "b"), place(harness, "c")) == (Place.BACKOFF, Place.BACKOFF)
    assert harness.engine.cluster.assumed() == 1


def relabelled(value: str) -> dict[str, Any]:
    document = node("n1", a=value)
    document["metadata"]["uid"] = "n1"
    return document


def test_a_coroutine_that_waits_once_more_has_no_longer_than_before(opened: Open) -> None:
    """Its time goes on while it runs, and ends the waiting."""

    async def pre_bind(self: Any, assumed: AssumedPod) -> Wait:
        return Wait(10.0, on=frozenset((("Node", "", "n1"),)))

    harness = opened(plugin(pre_bind=pre_bind))
    harness.put(relabelled("b"), pod("web"))
    everything(harness)
    harness.now += 4.0
    called = harness.tell(relabelled("c"))
    assert harness.engine.next_tick() is None
    run_calls(harness, called)
    assert harness.engine.next_tick() == harness.now + 6.0
    (failed,) = of(harness.tick(6.0), Failed)
    assert failed.message == 'running PreBind plugin "Own": timed out'


def test_each_pause_has_a_time_of_its_own(opened: Open) -> None:
    """A plugin that pauses again is asked about a change without being told that this pause is over, too."""
    told = []

    def pre_bind(self: Any, assumed: AssumedPod, cluster: Any) -> Wait:
        told.append(assumed.expired)
        return Wait(10.0, on=frozenset((("Node", "", "n1"),)), pause=True)

    harness = opened(plugin(pre_bind=pre_bind))
    harness.put(relabelled("b"), pod("web"))
    everything(harness)
    harness.tick(10.0)
    harness.put(relabelled("c"))
    assert told == [False, True, False]
