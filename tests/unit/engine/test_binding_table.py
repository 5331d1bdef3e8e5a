"""The whole table of the binding cycle, walked: every state is reached by a plugin, and everything happens in it."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.binding_table import ANSWERS, ASKING, ENDS, LIVE, TABLE, Action, Event, State
from podberth.engine.instructions import (
    Bind,
    CancelCall,
    Failed,
    Instruction,
    Misbehaved,
    PatchCondition,
    PermitWaited,
    PreBindWrite,
    Preempt,
    RunCall,
)
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import (
    BindFailed,
    BindWithdrawn,
    Bound,
    Broke,
    CallEnded,
    CallFailed,
    Follows,
    PreBindWriteFailed,
    PreBindWritten,
    Stimulus,
)
from podberth.framework.binding import AssumedPod, BindResult, Call, Hold, Patch, Wait
from podberth.framework.guard import Guard
from podberth.framework.interface import Plugin
from podberth.framework.status import Reject, Unschedulable
from podberth.model.pod_group import NATIVE
from tests.builders import configuration, profile

from .conftest import Harness, node, pod

WATCHED = ("Node", "", "watched")
POINTS = dict(zip(ASKING, ("reserve", "permit", "pre_bind", "bind"), strict=True))
REJECT = Reject(Unschedulable("not here"))
WRITE = Wait(30.0, writes=(Patch(WATCHED, "watched", "1", {}),))
WAIT = Wait(30.0, on=frozenset({WATCHED}))

REACHED_BY: dict[State, tuple[str, Any]] = {
    **{state: (point, KeyboardInterrupt()) for state, point in POINTS.items()},
    State.GROUP_DECIDING: ("reserve", None),
    State.GROUP_GATHERING: ("pre_bind", None),
    State.PERMIT_CALLING: ("permit", "call"),
    State.WAITING_ON_PERMIT: ("permit", Hold(30.0)),
    State.PRE_BIND_WRITING: ("pre_bind", WRITE),
    State.PRE_BIND_LEAVING: ("pre_bind", WRITE),
    State.PRE_BIND_WAITING: ("pre_bind", WAIT),
    State.PRE_BIND_CALLING: ("pre_bind", "call"),
    State.BIND_CALLING: ("bind", "call"),
    State.BIND_POSTING: ("bind", BindResult.POST),
    State.BOUND: ("post_bind", "call"),
    State.REVERTED: ("bind", BindResult.POST),
}
"""What the plugin answers, and where, for the pod to come into a state; "call": it is a coroutine function there.

While plugins are asked nothing else can happen, but that Berth itself breaks: a KeyboardInterrupt stands for that.
"""

OF_GROUPS = {State.GROUP_DECIDING: 1, State.GROUP_GATHERING: 2}
"""States of pods of a group: how many of these are needed. The other pod is tried later, or held by Permit."""

ANSWERED: dict[Event, Any] = {
    Event.SUCCESS: None,
    Event.REJECTED: REJECT,
    Event.HELD: Hold(30.0),
    Event.WRITES: WRITE,
    Event.WAITS: WAIT,
    Event.CALLS: "call",
    Event.POSTS: BindResult.POST,
    Event.DONE: BindResult.DONE,
    Event.ERROR: RuntimeError("boom"),
}


def plugins(point: str, first: Any, kept: dict[str, list[str]]) -> tuple[Any, Any]:
    """Own gives the pod "p" this answer at one point, once, and lets it go on otherwise; Other only holds with it."""
    answers = [first]

    def answer(at: str, name: str) -> Any:
        if (at, name) == ("permit", "q"):
            return Hold(900.0)
        if name != "p" or at != point or not answers:
            return BindResult.SKIP if at == "bind" else None
        found = answers.pop()
        if isinstance(found, BaseException):
            raise found
        return found

    def reserve(self: Any, pod: Any, cluster: Any, row: int) -> Any:
        found = answer("reserve", pod.name)
        if not isinstance(found, Reject):
            kept["reserved"].append(pod.name)
        return waiting() if found == "call" else found

    async def waiting() -> None:
        """Never ends by itself."""

    def unreserve(self: Any, assumed: AssumedPod, cluster: Any) -> None:
        kept["unreserved"].append(assumed.pod.name)

    def post_bind(self: Any, assumed: AssumedPod, cluster: Any) -> None:
        kept["told"].append(assumed.pod.name)

    async def coroutine(self: Any, assumed: AssumedPod) -> None:
        """The test ends it."""

    def method(at: str) -> Callable[..., Any]:
        return lambda self, assumed, cluster: answer(at, assumed.pod.name)

    members: dict[str, Any] = {at: method(at) for at in ("permit", "pre_bind", "bind")}
    members |= {"reserve": reserve, "unreserve": unreserve, "post_bind": post_bind}
    if first == "call" and point != "reserve":
        members[point] = coroutine

    def hold(self: Any, assumed: AssumedPod, cluster: Any) -> Any:
        return first if point == "permit" and isinstance(first, Hold) and assumed.pod.name == "p" else None

    return type("Own", (Plugin,), {"name": "Own", **members}), type(
        "Other", (Plugin,), {"name": "Other", "permit": hold}
    )


class World(Harness):
    """One node with room for one pod, one pod, and what was said about it."""

    def __init__(self, point: str, first: Any, *, alone: bool = False, needed: int = 0) -> None:
        """`alone`: nobody but the plugin binds. `needed`: the pod is in a group of two, and so many have to fit."""
        self.kept: dict[str, list[str]] = {"reserved": [], "unreserved": [], "told": []}
        own, other = plugins(point, first, self.kept)
        binders = [{"name": "Own"}] if alone else [{"name": "Own"}, {"name": "DefaultBinder"}]
        points = {"enabled": [{"name": "Own"}, {"name": "Other"}]}
        only = {"enabled": binders, "disabled": [{"name": "*"}]}
        config = configuration(profile(plugins={"multiPoint": points, "bind": only}))
        super().__init__(config, own, other)
        self.said: list[Instruction] = []
        self.needed = needed
        self.grouped: dict[str, Any] = {}
        if needed:
            self.handle(Follows(NATIVE, True))
            self.grouped = {"schedulingGroup": {"podGroupName": "g"}}
            spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
            self.put({"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": spec})
        self.put(node("n1", cpu="1"), pod("p", cpu="900m", **self.grouped))
        if needed:
            self.put(pod("q", cpu="50m", **self.grouped))

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        done = super().handle(stimulus)
        if hasattr(self, "said"):
            self.said += done
        return done

    def begin(self) -> None:
        """The pod's attempt."""
        try:
            for _ in range(max(self.needed, 1)):
                self.cycle()
        except KeyboardInterrupt:
            assert self.state in ASKING

    @property
    def state(self) -> State | None:
        return self.engine.binding.state("p")

    def of(self, kind: type) -> list[Any]:
        """What was said of the pod, of one kind."""
        return [one for one in self.said if isinstance(one, kind) and one.pod.uid == "p"]

    @property
    def call(self) -> Call:
        """The coroutine that runs; one of nobody's if none does."""
        calls = self.of(RunCall)
        (queued,) = [*self.of(Bind), *self.of(Failed), *self.of(RunCall), *self.of(PreBindWrite)][:1] or [None]
        whose = queued.pod if queued is not None else self.decoder.pod(b'{"metadata":{"uid":"p","name":"p"}}')
        return calls[-1].call if calls else Call(whose, "n1", object(), "permit", 1.0, lambda: None, Guard())  # type: ignore[arg-type, return-value]


def reach(state: State) -> World:
    """A world with the pod in this state."""
    world = World(*REACHED_BY[state], needed=OF_GROUPS.get(state, 0))
    world.begin()
    if state is State.BOUND:
        world.bound("p")
    elif state is State.REVERTED:
        world.bind_failed("p")
    elif state is State.PRE_BIND_LEAVING:
        world.gone("Pod", "p")
    assert world.state == (None if state in ENDS else state)
    return world


def spoken(*words: str) -> Callable[[World], None]:
    """Plugins speak for all pods that wait on Permit: "allow" for one of the two that hold, or "reject"."""

    def speak(world: World) -> None:
        for waiting in world.engine.binding.waiting_pods:
            if waiting.pod.name != "p":
                continue
            for plugin, word in zip(("Own", "Other"), words, strict=False):
                waiting.allow(plugin) if word == "allow" else waiting.reject(plugin, "not here")
        world.tick(0.0)

    return speak


def shown(**change: Any) -> Callable[[World], None]:
    """The watch shows the pod so."""
    return lambda world: world.put(pod("p", cpu="900m", **{"meta": {"uid": "p"}, **world.grouped, **change}))


def preempted(world: World) -> None:
    world.put(pod("big", cpu="900m", priority=10))
    world.cycle()


def cordoned(world: World) -> None:
    document = node("n1", cpu="1")
    document["spec"]["unschedulable"] = True
    world.put(document)


def happens(event: Event) -> Callable[[World], None]:
    """The engine says so itself."""

    def say(world: World) -> None:
        world.engine.binding.happens("p", event, None, world.now)
        world.tick(0.0)

    return say


def broke(world: World) -> None:
    if world.grouped:
        world.engine.binding.broke("p", "IndexError: row 7 of 3", world.now)
    world.handle(Broke("IndexError: row 7 of 3"))


HAPPENS: dict[Event, Callable[[World], Any]] = {
    Event.REJECTED: spoken("reject"),
    Event.STANDS_BY: happens(Event.STANDS_BY),
    Event.GROUP_ON: happens(Event.GROUP_ON),
    Event.GROUP_BACK: happens(Event.GROUP_BACK),
    Event.ALLOWED: spoken("allow", "allow"),
    Event.PARTLY_ALLOWED: spoken("allow"),
    Event.WRITTEN: lambda world: world.handle(PreBindWritten("p", {})),
    Event.WRITE_FAILED: lambda world: world.handle(PreBindWriteFailed("p", 500, "boom", {})),
    Event.CALL_ENDED: lambda world: world.handle(
        CallEnded("p", world.call, {"bind": BindResult.SKIP, "post_bind": 7}.get(world.call.point))
    ),
    Event.CALL_FAILED: lambda world: world.handle(CallFailed("p", world.call, "boom")),
    Event.OBJECT_CHANGED: lambda world: world.put(node("watched", cpu="100m")),
    Event.TIME_OVER: lambda world: world.tick(
        0.0 if world.state is None else 400.0 if world.state is State.GROUP_GATHERING else 40.0
    ),
    Event.PREEMPTED: preempted,
    Event.UPDATED: shown(labels={"app": "p", "new": "yes"}),
    Event.TERMINATING: shown(meta={"uid": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
    Event.GONE: lambda world: world.gone("Pod", "p"),
    Event.PLACED: shown(nodeName="n1"),
    Event.BOUND: lambda world: world.handle(Bound("p")),
    Event.BIND_FAILED: lambda world: world.handle(BindFailed("p", 500, "boom")),
    Event.BIND_CONFLICT: lambda world: world.handle(BindFailed("p", 409, "taken")),
    Event.WITHDRAWN: lambda world: world.handle(BindWithdrawn("p", "node n1 is gone")),
    Event.UNFIT: cordoned,
    Event.BROKE: broke,
}


def follow(state: State) -> State:
    """Where a pod comes to, with plugins that have nothing more to say."""
    while state in ASKING:
        state = TABLE[state][Event.POSTS if state is State.BINDING else Event.SUCCESS].next
    return state


def check(world: World, state: State, event: Event) -> None:
    """What holds whatever has happened, and what the table says."""
    action, target, because = TABLE[state][event]
    end = follow(target) if target is not state else state
    if state in LIVE:
        assert world.state == (None if end in ENDS else end)
    engine = world.engine
    assert validate(engine.cluster) == []
    queued, placed = engine.queue.get("p"), engine.cluster.placement("p")
    if world.state is None and queued is None:
        queued = engine.groups.trying("p")  # it waits for the next slice of its group
    leaves = event in (Event.GONE, Event.TERMINATING) and (world.state is None)
    gone = State.PRE_BIND_LEAVING in (state, world.state)
    if gone:
        assert (placed is not None) == (event is Event.PLACED), "it keeps no room, but where the API shows it"
        assert (queued is not None) == (event is Event.UPDATED), "it is there, by the newest word of the API"
    elif state in LIVE:
        bound = end is State.BOUND or (event is Event.PLACED and world.state is None)
        assert [queued is not None, world.state is not None, bound].count(True) == (0 if leaves and not bound else 1)
        assert (placed is not None) == (world.state is not None or bound), "the room is kept and given back with it"
    if state in LIVE:
        holds = world.kept["reserved"].count("p") - world.kept["unreserved"].count("p")
        assert holds == (1 if "p" in world.kept["reserved"] and (world.state or end is State.BOUND) else 0)
    assert world.kept["unreserved"].count("p") <= 1
    if state in LIVE:
        assert world.kept["told"].count("p") == (end is State.BOUND)
    running = {id(one.call) for one in world.of(RunCall)} - {id(one.call) for one in world.of(CancelCall)}
    if world.state in (State.PERMIT_CALLING, State.PRE_BIND_CALLING, State.BIND_CALLING):
        assert len(running) == 1
    elif event not in (Event.CALL_ENDED, Event.CALL_FAILED) and state not in ENDS:
        assert not running
    if action in (Action.PARK, Action.RETRY, Action.RETRY_QUIETLY):
        assert queued is not None
        parked = action is Action.PARK and not world.grouped
        assert queued.place is (Place.UNSCHEDULABLE if parked else Place.BACKOFF)
        assert len(world.of(Failed)) == 1
        assert bool(world.of(PatchCondition)) == (action is not Action.RETRY_QUIETLY)
    if action is Action.IGNORE:
        assert because
    if state is State.WAITING_ON_PERMIT:
        assert len(world.of(PermitWaited)) == (0 if world.state is State.WAITING_ON_PERMIT else 1)
    assert (engine.next_tick() is not None) or queued is None or engine.has_work
    if world.state in (State.WAITING_ON_PERMIT, State.PRE_BIND_WAITING, State.GROUP_GATHERING):
        assert engine.next_tick() is not None, "nobody waits for ever"
    if event is not Event.PREEMPTED:
        unanswered = (State.PRE_BIND_WRITING, State.PRE_BIND_LEAVING, State.BIND_POSTING)
        assert engine.in_flight == (world.state in (*ASKING, *unanswered))
    if world.state is not State.PRE_BIND_WAITING:
        said = len(world.of(Instruction))
        world.put(node("watched", cpu="200m"))
        assert len(world.of(Instruction)) == said, "what it waited for is nothing to it any more"


@pytest.mark.parametrize(
    ("state", "event"), [(s, e) for s, e in product(ASKING, ANSWERS)], ids=lambda value: str(value.name)
)
def test_plugins_answer(state: State, event: Event) -> None:
    """Each answer at each point, those that are none there among them."""
    answer = ANSWERED[event]
    if state is State.BINDING and event is Event.SUCCESS:
        answer = BindResult.SKIP
    world = World(POINTS[state], answer, alone=answer is BindResult.SKIP)
    world.begin()
    check(world, state, event)
    if TABLE[state][event].action is Action.RETRY:
        (failed,) = world.of(Failed)
        assert failed.reason == ("Unschedulable" if event is Event.REJECTED else "SchedulerError")
        assert ('plugin "Own": ' in failed.message) == (event is not Event.REJECTED)


OUTSIDE = [pair for pair in product(State, Event) if pair[1] not in ANSWERS]
OUTSIDE = [pair for pair in OUTSIDE if pair not in (*product(ASKING, [Event.STANDS_BY]), (ASKING[0], Event.GROUP_BACK))]
"""The two that are left out are said by the engine itself while it asks a pod of a group: `test_gangs` has them."""
OUTSIDE.append((State.WAITING_ON_PERMIT, Event.REJECTED))


@pytest.mark.parametrize(("state", "event"), OUTSIDE, ids=lambda value: str(value.name))
@pytest.mark.usefixtures("pod_by_pod")
def test_everything_happens(state: State, event: Event) -> None:
    """Each stimulus in each state."""
    world = reach(state)
    before = len(world.of(Instruction)), world.kept["unreserved"].count("p")
    HAPPENS[event](world)
    check(world, state, event)
    action = TABLE[state][event].action
    if action is Action.IGNORE and event is not Event.PREEMPTED and state not in ENDS:
        assert (len(world.of(Instruction)), world.kept["unreserved"].count("p")) == before
    if event is Event.PREEMPTED and state not in (State.REVERTED, State.PRE_BIND_LEAVING):
        (preempt,) = [one for one in world.said if isinstance(one, Preempt)]
        names = [one.name for one in preempt.victims], [one.name for one in preempt.reverted]
        assert names == (([], ["p"]) if action in (Action.RETRY, Action.GIVE_BACK) else (["p"], []))
    if action is Action.REPORT:
        assert len(world.of(Misbehaved)) == 1


@pytest.mark.parametrize("state", [State.PRE_BIND_WRITING, State.BIND_CALLING, State.BIND_POSTING])
@pytest.mark.parametrize("event", [Event.PREEMPTED, Event.TERMINATING])
def test_what_is_under_way_is_awaited(state: State, event: Event) -> None:
    """Objects that are being written, and a Binding, may be there already: plugins give nothing back yet."""
    world = reach(state)
    HAPPENS[event](world)
    assert (world.state, world.kept["unreserved"]) == (state, [])


@pytest.mark.parametrize("end", [Event.WRITTEN, Event.WRITE_FAILED])
@pytest.mark.parametrize("event", [Event.GONE, Event.PLACED])
def test_what_is_written_for_a_pod_that_goes_is_held_until_it_is_known(event: Event, end: Event) -> None:
    """A device that is being given to a pod is not free because the pod went: the write may still take place."""
    world = reach(State.PRE_BIND_WRITING)
    HAPPENS[event](world)
    assert (world.state, world.kept["unreserved"]) == (State.PRE_BIND_LEAVING, [])
    HAPPENS[end](world)
    assert (world.state, world.kept["unreserved"]) == (None, ["p"])


def test_every_pair_is_in_the_table() -> None:
    """And no answer comes from plugins that are not asked."""
    assert {(state, event) for state, row in TABLE.items() for event in row} == set(product(State, Event))
    for state, event in product(State, ANSWERS):
        if state not in ASKING and (state, event) != (State.WAITING_ON_PERMIT, Event.REJECTED):
            assert TABLE[state][event].action is Action.IGNORE


def test_no_state_is_out_of_reach() -> None:
    """From the first state, by what the table says; and every action is taken somewhere."""
    found, left = set[State](), [State.RESERVING]
    while left:
        state = left.pop()
        if state not in found:
            found.add(state)
            left += [outcome.next for outcome in TABLE[state].values()]
    assert found == set(State)
    assert {outcome.action for row in TABLE.values() for outcome in row.values()} == set(Action)
