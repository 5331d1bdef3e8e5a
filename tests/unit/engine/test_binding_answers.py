"""Answers of plugins from Reserve on that are none: one clear line under the plugin's name, and nothing is kept."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from podberth.engine.instructions import Bind, Failed, Misbehaved, PatchCondition, RecordFailure
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Bound
from podberth.framework.binding import AssumedPod, BindResult, Hold, Patch, Wait
from podberth.framework.events import ClusterEvent
from podberth.framework.status import LONGEST_TEXT, Narrow, Reject, Unschedulable
from tests.messages import without_place

from .conftest import Harness, node, pod
from .test_points import everything, of, opened, place, plugin, run_calls

__all__ = ["opened"]

Open = Callable[..., Harness]


def at(point: str, make: Callable[[], Any], *, asynchronous: bool = False, **more: Any) -> Any:
    """A plugin that makes its answer when it is asked."""

    def ask(*_: Any) -> Any:
        return make()

    async def run(self: Any, assumed: AssumedPod) -> Any:
        return make()

    method: Callable[..., Any] = run if asynchronous else ask
    method.__name__ = point
    return plugin(**{point: method, **more})


def binders(point: str) -> dict[str, Any]:
    """Own is asked to bind before the default is, if that is its point."""
    return {"bind": {"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]}} if point == "bind" else {}


WRONG: list[tuple[str, str, Callable[[], Any], str]] = [
    ("seconds as text", "permit", lambda: Hold("30s"), 'Hold wants a number of seconds, got "30s"'),  # type: ignore[arg-type]
    ("seconds as a truth", "permit", lambda: Hold(True), "Hold wants a number of seconds, got True"),
    ("no number", "permit", lambda: Hold(math.nan), "Hold wants a number of seconds, got nan"),
    ("back in time", "permit", lambda: Hold(-5), "Hold wants more than 0 seconds, got -5"),
    ("text at reserve", "reserve", lambda: Reject("no"), 'want a Reason in the Reject, got "no"'),  # type: ignore[arg-type]
    ("text at permit", "permit", lambda: Reject("no"), 'want a Reason in the Reject, got "no"'),  # type: ignore[arg-type]
    ("text at pre_bind", "pre_bind", lambda: Reject("no"), 'want a Reason in the Reject, got "no"'),  # type: ignore[arg-type]
    (
        "hold at reserve",
        "reserve",
        lambda: Hold(30),
        "want a Reject, or what the plugin has to remember of the pod, got Hold(seconds=30)",
    ),
    (
        "narrow at reserve",
        "reserve",
        lambda: Narrow(frozenset()),
        "want a Reject, or what the plugin has to remember of the pod, got Narrow(names=frozenset())",
    ),
    ("truth at permit", "permit", lambda: True, "want None, a Hold or a Reject, got True"),
    ("wait at permit", "permit", lambda: BindResult.POST, "want None, a Hold or a Reject, got <BindResult.POST: 2>"),
    ("hold at pre_bind", "pre_bind", lambda: Hold(3), "want None, a Wait or a Reject, got Hold(seconds=3)"),
    ("nothing at bind", "bind", lambda: None, "want a BindResult or a Reject, got None"),
    ("text at bind", "bind", lambda: "done", 'want a BindResult or a Reject, got "done"'),
    (
        "writes as a list",
        "pre_bind",
        lambda: Wait(3, writes=[]),  # type: ignore[arg-type]
        "Wait wants a tuple of Patch, Create or Delete as its writes, got []",
    ),
    (
        "a name to wait on",
        "pre_bind",
        lambda: Wait(3, on=frozenset({"claim"})),  # type: ignore[arg-type]
        'Wait wants (kind, namespace, name) for an object, got "claim"',
    ),
    (
        "a patch of what",
        "pre_bind",
        lambda: Wait(3, (Patch(("Node", "n1"), "", "", {}),)),  # type: ignore[arg-type]
        "Patch wants (kind, namespace, name) for an object, got ('Node', 'n1')",
    ),
    (
        "a change as text",
        "pre_bind",
        lambda: Wait(3, (Patch(("Node", "", "n1"), "", "", "{}"),)),  # type: ignore[arg-type]
        'Patch wants a mapping as its change, got "{}"',
    ),
    ("an odd object", "permit", lambda: type("Odd", (), {"__repr__": lambda _: 1 / 0})(), "got a Odd"),
]
POINT = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}


RAISED = re.compile(r"(Hold|Wait|Patch) wants|want a Reason in the Reject")
"""What the constructor of an answer says; other answers are refused when they are given."""
CASES = [(*case, False) for case in WRONG]
# What a coroutine raises the shell tells (`podberth.app.calls`); and reserve can't be one.
CASES += [(*case, True) for case in WRONG if not RAISED.match(case[3]) and case[1] != "reserve"]


@pytest.mark.parametrize(
    ("id", "point", "make", "message", "asynchronous"), CASES, ids=[f"{c[0]}{', coroutine' * c[4]}" for c in CASES]
)
def test_answers_that_are_none(
    opened: Open, id: str, point: str, make: Callable[[], Any], message: str, asynchronous: bool
) -> None:
    """The pod fails as by an exception, its room is free, and it is tried again after its backoff."""
    harness = opened(at(point, make, asynchronous=asynchronous), **binders(point))
    harness.put(node("n1"), pod("web"))
    (failed,) = of(everything(harness), Failed)
    assert failed.reason == "SchedulerError"
    assert failed.message.startswith(f'running {POINT[point]} plugin "Own": ')
    assert without_place(failed.message).endswith(message)
    assert (place(harness, "web"), harness.engine.cluster.assumed()) == (Place.BACKOFF, 0)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["method", "coroutine"])
def test_post_bind_has_nothing_to_answer(opened: Open, asynchronous: bool) -> None:
    """The pod is bound; the plugin is named in the log."""
    harness = opened(at("post_bind", lambda: 7, asynchronous=asynchronous))
    harness.put(node("n1"), pod("web"))
    harness.binds()
    (odd,) = of(run_calls(harness, harness.handle(Bound("web"))), Misbehaved)
    assert str(odd.error) == 'running PostBind plugin "Own": want None, got 7'


def test_unreserve_answers_with_writes_or_nothing(opened: Open) -> None:
    """The room is given back all the same."""
    harness = opened(plugin(reserve=lambda *_: 1, unreserve=lambda *_: "done"))
    harness.put(node("n1"), pod("web"))
    harness.binds()
    (odd,) = of(harness.bind_failed("web"), Misbehaved)
    assert str(odd.error) == 'running Unreserve plugin "Own": want None, or a tuple of writes, got "done"'
    assert harness.engine.cluster.assumed() == 0


@pytest.mark.parametrize("point", ["filter", "reserve", "pre_bind"])
def test_what_an_exception_says_is_cut_and_escaped(opened: Open, point: str) -> None:
    """Five thousand characters with escapes for a terminal: a thousand, which can be printed."""

    def loud() -> Any:
        raise RuntimeError("\x1b[2J\n" + "boom " * 1000)

    harness = opened(at(point, loud))
    harness.put(node("n1"), pod("web"))
    done = everything(harness)
    messages = [one.message for one in done if isinstance(one, Failed | PatchCondition | RecordFailure)]
    assert len(messages) == 3
    for message in messages:
        assert "\\x1b[2J\\nboom boom" in message
        assert without_place(message).endswith("…")
        assert message.isprintable()
        assert len(message) < LONGEST_TEXT + 100


def test_what_a_rejection_says_is_cut_and_escaped(opened: Open) -> None:
    """The same of a Reason's text from Reserve on: it may be what some server has answered."""
    harness = opened(plugin(permit=lambda *_: Reject(Unschedulable("no\x07" * 2000))))
    harness.put(node("n1"), pod("web"))
    (failed,) = of(everything(harness), Failed)
    assert failed.message.isprintable()
    assert len(failed.message) < LONGEST_TEXT + 100


def test_an_exception_that_can_not_be_told(opened: Open) -> None:
    """Its text raises in turn: the plugin is named, and the loop goes on."""

    class OddError(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    def loud() -> Any:
        raise OddError

    harness = opened(at("permit", loud))
    harness.put(node("n1"), pod("web"))
    (failed,) = of(everything(harness), Failed)
    assert (
        without_place(failed.message)
        == 'running Permit plugin "Own": it failed with an error whose text can\'t be read'
    )


@pytest.mark.parametrize("asynchronous", [False, True], ids=["method", "coroutine"])
@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_reject_after_permit(opened: Open, point: str, asynchronous: bool) -> None:
    """As kube-scheduler: Unschedulable, in the plugin's own words, tried again after a backoff that grows as of errors.

    A status of PreBind or Bind that is a rejection has no nodes to count, and no event wakes its pod
    (RunPreBindPlugins, handleSchedulingFailure, AddUnschedulablePodIfNotPresent).
    """
    reject = Reject(Unschedulable("the berth is taken"))
    own = at(point, lambda: reject, asynchronous=asynchronous, events=ClusterEvent.NODE_ADDED)
    harness = opened(own, **binders(point))
    harness.put(node("n1"), pod("web"))
    done = everything(harness)
    (failed,) = of(done, Failed)
    assert (failed.reason, failed.message, failed.plugins) == ("Unschedulable", "the berth is taken", frozenset())
    (condition,) = of(done, PatchCondition)
    assert (condition.reason, condition.message) == ("Unschedulable", "the berth is taken")
    assert (place(harness, "web"), harness.engine.cluster.assumed()) == (Place.BACKOFF, 0)
    (queued,) = harness.engine.queue
    assert (queued.errors, queued.rejections) == (1, 0)
    assert of(harness.cycles(), Bind) == []
    harness.after(1.0)
    assert len(of(everything(harness), Failed)) == 1
