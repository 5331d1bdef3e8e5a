"""The queue's finer points, with kube-scheduler's as the measure: counts behind backoffs, gates, events while away."""

from collections.abc import Callable
from typing import Any

import pytest

from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Bind, Failed
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import ExtendersAnswered
from podberth.framework.binding import AssumedPod, Hold
from podberth.framework.config import decode
from podberth.framework.events import ClusterEvent
from podberth.framework.extenders import NodesAnswer
from podberth.framework.profiles import build
from podberth.framework.status import Unschedulable
from tests.builders import configuration
from tests.registered import registry

from .conftest import Harness, node, pod
from .test_points import everything, of, opened, place, plugin

__all__ = ["opened"]

Open = Callable[..., Harness]


def test_errors_and_rejections_are_counted_apart(harness: Harness) -> None:
    """An error's backoff goes by the errors in a row, another's by the times that no node was found."""
    harness.put(node("n1", cpu="1"), pod("web", cpu="2"))
    for _ in range(4):
        harness.cycle()
        harness.after(301)
    (queued,) = harness.engine.queue
    assert (queued.rejections, harness.engine.queue.places.backoff(queued)) == (4, 8.0)
    harness.put(node("n2", cpu="8"))
    harness.after(60)
    harness.binds()
    harness.bind_failed("web")
    assert (queued.errors, harness.engine.queue.places.backoff(queued)) == (1, 1.0)
    assert harness.engine.queue.next_tick() == harness.now + 1.0
    harness.put(pod("web", cpu="9"))
    harness.after(1)
    harness.cycles()
    assert (queued.errors, queued.rejections, harness.engine.queue.places.backoff(queued)) == (0, 5, 10.0)


def test_backoff_begins_when_the_attempt_has_come_to_nothing(harness: Harness) -> None:
    """A Binding that took long to fail is not tried again at once."""
    harness.put(node("n1"), pod("web"))
    harness.binds()
    harness.after(60)
    harness.bind_failed("web", 409)
    assert place(harness, "web") is Place.BACKOFF
    assert harness.engine.queue.next_tick() == harness.now + 1.0


def gate(shut: list[bool], **more: Any) -> Any:
    """A PreEnqueue plugin that holds pods back while the list says so; it counts how often it is asked."""
    asked: list[str] = []

    def pre_enqueue(self: Any, pod: Any) -> Any:
        asked.append(pod.name)
        return Unschedulable("the lock is shut") if shut[0] else None

    return plugin(pre_enqueue=pre_enqueue, asked=asked, **more)


def test_a_gate_is_asked_again_when_something_happens_that_it_waits_for(opened: Open) -> None:
    """Other events leave the pod alone; five minutes don't."""
    shut = [True]
    own = gate(shut, events=ClusterEvent.NODE_ADDED)
    harness = opened(own)
    harness.put(pod("web"))
    assert place(harness, "web") is Place.GATED
    harness.put(pod("other", nodeName="n1", scheduler="else"))
    assert own.asked == ["web"]
    harness.put(node("n1"))
    assert (own.asked, place(harness, "web")) == (["web"] * 2, Place.GATED)
    shut[0] = False
    harness.after(299)
    assert place(harness, "web") is Place.GATED
    harness.after(2)
    assert set(harness.binds()) == {"web"}


def test_a_gate_may_shut_again(opened: Open) -> None:
    """Each way into the active queue leads past it, the one from backoff too."""
    shut = [False]
    harness = opened(gate(shut))
    harness.put(node("n1"), pod("web"))
    harness.binds()
    shut[0] = True
    harness.bind_failed("web", 409)
    assert place(harness, "web") is Place.BACKOFF
    harness.after(1.5)
    assert place(harness, "web") is Place.GATED


@pytest.mark.parametrize(
    ("event", "where"), [(True, Place.BACKOFF), (False, Place.UNSCHEDULABLE)], ids=["event", "none"]
)
def test_what_happens_while_a_pod_waits_for_a_permit_counts(opened: Open, event: bool, where: Place) -> None:
    """An event that may help its plugin, and that it missed, has it tried again after its backoff."""

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Hold:
        return Hold(60.0)

    harness = opened(plugin(permit=permit, events=ClusterEvent.NODE_ADDED))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    harness.after(30)
    harness.put(node("n2") if event else pod("other", scheduler="else", nodeName="n1"))
    (failed,) = of(harness.tick(30), Failed)
    assert "rejected due to timeout after waiting 1m0s at plugin Own" in failed.message
    assert place(harness, "web") is where


def test_what_happens_while_extenders_think_counts(harness: Harness) -> None:
    """They may see it otherwise now."""
    config = decode(configuration(extenders=[{"urlPrefix": "http://e", "filterVerb": "filter"}]))
    harness.engine = Engine(build(config, registry()), extenders=config.extenders)
    harness.put(node("n1"), pod("web"))
    (ask,) = of(harness.cycle(), AskExtenders)
    harness.put(pod("other", nodeName="n1", scheduler="else"))
    done = harness.handle(ExtendersAnswered(ask.question, NodesAnswer(frozenset(), {"n1": "no berth"}, {})))
    assert len(of(done, Failed)) == 1
    assert place(harness, "web") is Place.BACKOFF


def test_a_priority_that_changes_moves_a_waiting_pod(opened: Open) -> None:
    """Among active pods it takes its new place."""
    harness = opened()
    harness.put(node("n1"), pod("a", priority=5), pod("b", priority=1))
    harness.put(pod("b", priority=9))
    assert [one.pod.name for one in everything(harness) if isinstance(one, Bind)] == ["b", "a"]


def test_pods_that_one_event_wakes_come_in_the_order_in_which_they_waited(harness: Harness) -> None:
    """Also those that differ, and wait for the event in groups of equal ones."""
    harness.put(node("n0", "100m"))
    for name, cpu in (("a", "600m"), ("b", "1"), ("c", "600m")):
        harness.put(pod(name, cpu, labels={"app": "x"}, preemptionPolicy="Never"))
        assert harness.binds() == {}
        harness.after(0.01)
    harness.after(20)
    harness.put(node("n1", "2"))
    assert list(harness.binds()) == ["a", "b"]
