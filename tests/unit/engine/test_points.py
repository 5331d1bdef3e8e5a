"""Third-party plugins at every extension point: what a plugin that fails does to its pod, and to nobody else."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import (
    Bind,
    BoundByPlugin,
    Failed,
    Instruction,
    Misbehaved,
    PatchCondition,
    RecordFailure,
    RunCall,
)
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Bound, CallEnded, CallFailed
from podberth.framework.binding import AssumedPod, BindResult
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import ANYTHING, NODE, Plugin
from podberth.framework.status import Narrow, Reject, Unschedulable
from tests.builders import configuration, profile
from tests.messages import without_place

from .conftest import Harness, node, pod

ALL = [{"name": "*"}]


@pytest.fixture
def opened() -> Iterator[Callable[..., Harness]]:
    """`opened(plugin, …)`: an engine with these plugins enabled at all their points; validated at the end."""
    made: list[Harness] = []

    def make(*plugins: Any, **points: Any) -> Harness:
        multi_point = {"enabled": [{"name": plugin.name} for plugin in plugins]}
        made.append(Harness(configuration(profile(plugins={"multiPoint": multi_point, **points})), *plugins))
        return made[-1]

    yield make
    for harness in made:
        assert validate(harness.engine.cluster) == []


def plugin(**members: Any) -> Any:
    """A third-party plugin class of the name Own."""
    depends_on = ANYTHING if {"filter", "score"} & members.keys() else None
    return type("Own", (Plugin,), {"name": "Own", "depends_on": depends_on, **members})


def raising(*answer: Any) -> Callable[..., Any]:
    """A point that raises for the pod "bad", and gives this answer for others (a function of the arguments)."""

    def ask(self: Any, subject: Any, *others: Any) -> Any:
        if getattr(subject, "pod", subject).name == "bad":
            raise RuntimeError("sensor on fire")
        return answer[0](subject, *others) if answer else None

    return ask


def coroutine(*answer: Any) -> Callable[..., Any]:
    """As `raising`, for a coroutine function."""
    ask = raising(*answer)

    async def run(self: Any, assumed: AssumedPod) -> Any:
        return ask(self, assumed)

    return run


def named(point: str, method: Callable[..., Any]) -> Any:
    method.__name__ = point
    return plugin(**{point: method})


def run_calls(harness: Harness, instructions: list[Instruction]) -> list[Instruction]:
    """Carry out the coroutines that are asked for, at once; all instructions, those that follow from it included."""
    found = []
    for instruction in instructions:
        found.append(instruction)
        if isinstance(instruction, RunCall):
            call = instruction.call
            try:
                call.start().send(None)
            except StopIteration as end:
                found += run_calls(harness, harness.handle(CallEnded(call.pod.uid, call, end.value)))
            except RuntimeError as error:
                found += run_calls(harness, harness.handle(CallFailed(call.pod.uid, call, f"{error}")))
    return found


def everything(harness: Harness) -> list[Instruction]:
    """Schedule until nothing is active."""
    found: list[Instruction] = []
    while harness.engine.has_work:
        found += run_calls(harness, harness.cycle())
    return found


def place(harness: Harness, uid: str) -> Place | None:
    queued = harness.engine.queue.get(uid)
    return None if queued is None else queued.place


def of(instructions: list[Instruction], kind: type) -> list[Any]:
    return [one for one in instructions if isinstance(one, kind)]


def _normalize(self: Any, scores: Any, pod: Any, cluster: Any, feasible: Any) -> Any:
    return raising(lambda *_: scores)(self, pod)


FAILING = [
    ("PreFilter", named("pre_filter", raising())),
    ("Filter", named("filter", raising(lambda *_: ()))),
    ("Score", named("score", raising())),
    ("Normalize", plugin(score=lambda *given: np.zeros(len(given[3]), dtype=np.int64), normalize=_normalize)),
    ("Reserve", named("reserve", raising())),
    ("Permit", named("permit", raising())),
    ("PreBind", named("pre_bind", raising())),
    ("Permit", named("permit", coroutine())),
    ("PreBind", named("pre_bind", coroutine())),
]


@pytest.mark.parametrize(("point", "own"), FAILING, ids=[f"{point} {i}" for i, (point, _) in enumerate(FAILING)])
def test_a_plugin_that_raises(opened: Callable[..., Harness], point: str, own: Any) -> None:
    """Its pod fails with its name in condition and event, is tried again after backoff, and others are bound."""
    harness = opened(own)
    harness.put(node("n1"), node("n2"), pod("bad"), pod("good"))
    done = everything(harness)
    message = f'running {point} plugin "Own": sensor on fire'
    assert [(one.pod.name, one.reason, without_place(one.message)) for one in of(done, Failed)] == [
        ("bad", "SchedulerError", message)
    ]
    assert [without_place(one.message) for one in of(done, PatchCondition)] == [message]
    assert [without_place(one.message) for one in of(done, RecordFailure)] == [message]
    assert [one.pod.name for one in of(done, Bind)] == ["good"]
    assert place(harness, "bad") is Place.BACKOFF
    assert harness.engine.cluster.assumed() == 1
    harness.after(1.5)
    (again,) = of(everything(harness), Failed)
    assert again.attempts == 2


@pytest.mark.parametrize("asynchronous", [False, True], ids=["method", "coroutine"])
def test_a_bind_plugin_that_raises(opened: Callable[..., Harness], asynchronous: bool) -> None:
    """As at other points, and the binder behind it is not asked."""
    made = (coroutine if asynchronous else raising)(lambda *_: BindResult.SKIP)
    harness = opened(named("bind", made), bind={"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]})
    harness.put(node("n1"), pod("bad"), pod("good"))
    done = everything(harness)
    assert [without_place(one.message) for one in of(done, Failed)] == ['running Bind plugin "Own": sensor on fire']
    assert [one.pod.name for one in of(done, Bind)] == ["good"]


def test_pre_enqueue(opened: Callable[..., Harness]) -> None:
    """A pod that can't even be asked about waits out a backoff that grows, is told so once, and is asked again."""
    broken = [True]

    def pre_enqueue(self: Any, pod: Any) -> None:
        if broken[0] and pod.name == "bad":
            raise RuntimeError("sensor on fire")

    harness = opened(plugin(pre_enqueue=pre_enqueue))
    harness.put(node("n1"), pod("good"))
    said = harness.tell(pod("bad", meta={"uid": "bad"}))
    message = 'running PreEnqueue plugin "Own": sensor on fire'
    assert [without_place(one.message) for one in of(said, PatchCondition)] == [message]
    assert set(harness.binds()) == {"good"}
    assert place(harness, "bad") is Place.BACKOFF
    assert [type(one) for one in harness.tick(1.1)] == [Failed]
    assert place(harness, "bad") is Place.BACKOFF
    broken[0] = False
    harness.after(1.1)
    assert not harness.engine.has_work
    harness.after(1.0)
    assert set(harness.binds()) == {"bad"}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (lambda pod: 1 / 0, "division by zero"),
        (lambda pod: 7, "want a tuple of numbers and texts, got 7"),
        (lambda pod: ("x", 1), "the sort key ('x', 1) can't be compared with those before it"),
    ],
    ids=["raises", "no key", "another key"],
)
def test_queue_sort(opened: Callable[..., Harness], key: Any, message: str) -> None:
    """A pod without a place in the queue waits apart; the order of the others stands."""

    class Own(Plugin):
        name = "Own"

        def queue_sort(self, pod: Any, queued_at: float) -> Any:
            return key(pod) if pod.name == "bad" else (-pod.priority, pod.name)

    harness = opened(Own, queueSort={"enabled": [{"name": "Own"}], "disabled": ALL})
    harness.put(node("n1"), pod("b"), pod("a"))
    said = harness.tell(pod("bad", meta={"uid": "bad"}))
    assert [without_place(one.message) for one in of(said, Failed)] == [f'running QueueSort plugin "Own": {message}']
    assert list(harness.binds()) == ["a", "b"]
    assert place(harness, "bad") is Place.BACKOFF


def test_post_filter(opened: Callable[..., Harness]) -> None:
    """The pod stays unschedulable for the reasons it has, and the plugin is named behind them."""
    own = named("post_filter", raising())
    harness = opened(own, postFilter={"enabled": [{"name": "Own"}], "disabled": ALL})
    harness.put(node("n1", cpu="1"), pod("bad", cpu="2"))
    (failed,) = of(everything(harness), Failed)
    assert failed.reason == "Unschedulable"
    assert without_place(failed.message) == (
        '0/1 nodes are available: 1 Insufficient cpu. running PostFilter plugin "Own": sensor on fire'
    )
    assert place(harness, "bad") is Place.UNSCHEDULABLE


@pytest.mark.parametrize("asynchronous", [False, True], ids=["method", "coroutine"])
def test_post_bind(opened: Callable[..., Harness], asynchronous: bool) -> None:
    """The pod is bound, so it can't fail any more: the plugin is named in the log."""
    harness = opened(named("post_bind", (coroutine if asynchronous else raising)()))
    harness.put(node("n1"), pod("bad"))
    assert set(harness.binds()) == {"bad"}
    done = run_calls(harness, harness.handle(Bound("bad")))
    (odd,) = of(done, Misbehaved)
    assert (odd.pod.name, without_place(str(odd.error))) == ("bad", 'running PostBind plugin "Own": sensor on fire')


def test_unreserve(opened: Callable[..., Harness]) -> None:
    """The room is given back all the same, and the others give back what they hold."""

    class First(Plugin):
        name = "First"
        given_back = 0

        def reserve(self, pod: Any, cluster: Any, row: int) -> None:
            pass

        def unreserve(self, assumed: AssumedPod, cluster: Any) -> None:
            First.given_back += 1

    harness = opened(First, plugin(reserve=lambda *_: None, unreserve=raising()))
    harness.put(node("n1"), pod("bad"))
    harness.binds()
    (odd,) = of(harness.bind_failed("bad"), Misbehaved)
    assert odd.error.plugin == "Own"
    assert (First.given_back, harness.engine.cluster.assumed()) == (1, 0)


@pytest.mark.parametrize("hint", ["node_hint", "pod_hint"])
def test_hints(opened: Callable[..., Harness], hint: str) -> None:
    """A hint that fails must not keep the pod waiting: it is woken, and the plugin is named in the log."""

    def no(self: Any, pod: Any, cluster: Any) -> Any:
        return ((Unschedulable("no"), np.ones(cluster.nodes.rows, dtype=np.bool_)),) if pod.name == "bad" else ()

    harness = opened(
        plugin(**{"filter": no, hint: raising(), "events": ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE})
    )
    harness.put(node("n1"), pod("other", nodeName="n1"), pod("bad"))
    everything(harness)
    assert place(harness, "bad") is Place.UNSCHEDULABLE
    if hint == "node_hint":
        said = harness.tell(node("n2") | {"metadata": {"name": "n2", "uid": "n2"}})
    else:
        said = harness.lose("Pod", "default", "other", "other")
    assert [one.error.plugin for one in of(said, Misbehaved)] == ["Own"]
    assert place(harness, "bad") is Place.BACKOFF


@pytest.mark.parametrize(
    ("id", "members", "message"),
    [
        (
            "no mask",
            {"filter": lambda *_: None},
            'running Filter plugin "Own": want (Reason, bool[2]) pairs, got None',
        ),
        (
            "wrong mask",
            {"filter": lambda *_: ((Unschedulable("no"), np.zeros(7, dtype=np.bool_)),)},
            'want (Reason, bool[2]) pairs, got bool[7] for "no"',
        ),
        (
            "reason as text",
            {"pre_filter": lambda *_: Reject("no")},  # type: ignore[arg-type]
            'want a Reason in the Reject, got "no"',
        ),
        (
            "one name",
            {"pre_filter": lambda *_: Narrow("n0")},  # type: ignore[arg-type]
            'want a set of names in the Narrow, got "n0"',
        ),
        (
            "floats",
            {"score": lambda self, pod, cluster, feasible: np.ones(len(feasible))},
            "want int64[2], one score for each feasible node, got float64[2]",
        ),
        (
            "too much",
            {"score": lambda self, pod, cluster, feasible: np.full(len(feasible), 101)},
            "returns an invalid score 101, it should in the range of [0, 100] after normalizing",
        ),
        (
            "signs by a list",
            {"filter": lambda *_: (), "depends_on": NODE, "signature": lambda *_: ["requests"]},
            "unhashable type: 'list'",
        ),
        (
            "skips what is no point",
            {"filter": lambda *_: (), "skips": lambda *_: ("filtre",)},
            "want some of filter, pre_bind, pre_enqueue, pre_filter, reserve, score, got ('filtre',)",
        ),
        (
            "permit",
            {"permit": lambda *_: "yes"},
            'running Permit plugin "Own": want None, a Hold or a Reject, got "yes"',
        ),
        ("pre_bind", {"pre_bind": lambda *_: 7}, "want None, a Wait or a Reject, got 7"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_absurd_answers(opened: Callable[..., Harness], id: str, members: Any, message: str) -> None:
    """An answer that is no answer fails the pod like an exception, under the plugin's name."""
    harness = opened(plugin(**members))
    harness.put(node("n1"), node("n2"), pod("bad"))
    (failed,) = of(everything(harness), Failed)
    assert without_place(failed.message).endswith(message)
    assert failed.plugins == {"Own"} or 'plugin "Own"' in failed.message


def test_nobody_binds(opened: Callable[..., Harness]) -> None:
    """All binders skip the pod: an error, not a pod that waits for ever."""
    own = plugin(bind=lambda *_: BindResult.SKIP)
    harness = opened(own, bind={"enabled": [{"name": "Own"}], "disabled": ALL})
    harness.put(node("n1"), pod("web"))
    (failed,) = of(everything(harness), Failed)
    assert failed.message == 'running Bind plugin "Own": skips the pod, and no other Bind plugin is left'
    assert harness.engine.cluster.assumed() == 0


@pytest.mark.parametrize(
    ("answer", "binds", "by_plugin"),
    [(BindResult.DONE, [], ["web"]), (BindResult.POST, ["web"], []), (BindResult.SKIP, ["web"], [])],
    ids=lambda value: value.name if isinstance(value, BindResult) else "",
)
def test_bind_plugins(
    opened: Callable[..., Harness], answer: BindResult, binds: list[str], by_plugin: list[str]
) -> None:
    """A coroutine binds the pod itself, has it bound, or leaves it to the next; PostBind hears of it in each case."""
    told = []

    async def bind(self: Any, assumed: AssumedPod) -> BindResult:
        return answer

    own = plugin(bind=bind, post_bind=lambda self, assumed, cluster: told.append((assumed.pod.name, assumed.node)))
    harness = opened(own, bind={"enabled": [{"name": "Own"}, {"name": "DefaultBinder"}]})
    harness.put(node("n1"), pod("web"))
    done = everything(harness)
    assert [one.pod.name for one in of(done, Bind)] == binds
    assert [one.pod.name for one in of(done, BoundByPlugin)] == by_plugin
    if binds:
        harness.bound("web")
    assert told == [("web", "n1")]
    assert harness.engine.in_flight == 0
