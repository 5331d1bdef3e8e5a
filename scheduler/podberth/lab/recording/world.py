"""Makes of a recording what others read: changes for `berth shadow`, and a world for experiments."""

from collections.abc import Iterable, Iterator
from itertools import chain
from math import inf

import msgspec
from msgspec import Raw

from podberth.explain.shadow.shadow import Change as Seen
from podberth.lab.recording.entries import Gone, Head, Placed, Preempts, PutObject, PutPod, Told
from podberth.lab.recording.reading import UNDONE, Event, Part, Put, State, document, json_of
from podberth.lab.world import Arrival, Change, Key, World

_FIRST = ("ResourceClaim", "PersistentVolumeClaim", "PersistentVolume")
"""Kinds that are written when pods are placed: what a world has of them is what came first."""


def changes(events: Iterable[Event], head: Head) -> Iterator[Seen]:
    """Yield the changes of a recording as `berth shadow` follows them.

    Of a scheduler's own recording it is known when a pod was decided: it is bound then, and not when its Binding was
    seen. Raises LogError.
    """
    pods: dict[str, PutPod] = {}
    placed: dict[str, str] = {}
    synced = False
    for event in events:
        at = event.at - head.at
        match event:
            case Told(name="Cycle" | "Synced") if not synced:
                synced = True
                yield Seen(at=at, synced=True)
            case Placed() if event.uid in pods:
                placed[event.uid] = event.node
                yield _put(at, pods[event.uid], event.node)
            case PutPod():
                pods[event.uid] = event
                if event.node_name:
                    placed.pop(event.uid, None)
                elif event.uid in placed:
                    continue  # the watch has not shown its Binding yet
                yield _put(at, event)
            case PutObject():
                yield _put(at, event)
            case Gone():
                pods.pop(event.uid, None)
                placed.pop(event.uid, None)
                yield Seen(at=at, kind=event.kind, gone=(event.namespace, event.name, event.uid))
            case Told(name=name) if name in UNDONE:
                undone = pods.get(event.what[0])
                if undone is not None and placed.pop(undone.uid, None) is not None:
                    yield Seen(at=at, kind="Pod", gone=(undone.namespace, undone.name, undone.uid))
                    yield _put(at, undone)


def _put(at: float, put: Put, node: str = "") -> Seen:
    return Seen(at=at, kind=put.kind, object=Raw(json_of(put, nodeName=node)), listed=put.listed)


class _Life:
    """A pod that was to be scheduled. Times are seconds since the world's begin."""

    def __init__(self, at: float, pod: PutPod) -> None:
        self.at, self.pod = at, pod
        self.node: str | None = None
        self.bound: float | None = None
        self.ended: float | None = None
        self.preempted = False
        """Its end is what the recorded configuration decided: without that, nobody knows of one."""

    def arrival(self) -> Arrival:
        """Return it as it came."""
        came = {**document(self.pod), "status": {"phase": "Pending"}}
        known = self.bound is not None and self.ended is not None and not self.preempted
        lasts = max((self.ended or 0.0) - (self.bound or 0.0), 0.0) if known else inf
        return Arrival(self.at, msgspec.json.encode(came), lasts)


class Recorded:
    """The world of a recording from a moment on, and what became of its pods there.

    `span`: its seconds; `configuration`: by which was decided when it began; `reconfigured`: another one came later.

    Pods of the recorded schedulers come when they were first seen without gates, and end when they ended, counted from
    their binding; a victim of preemption has no end but that. All other objects are there, come, change and go as they
    did. A claim or volume is as it came: what was written of it since was for pods that another configuration may place
    elsewhere. Pods that were made anew after a preemption, or after their node was gone, are among those that come.
    """

    def __init__(self, part: Part, begin: float = 0.0) -> None:
        """`begin`: seconds since the process began, or since it first decided where that is 0. Raises LogError."""
        self._head = part.head
        self._there: dict[Key, bytes] = {}
        self._objects: tuple[bytes, ...] = ()
        self._lives: dict[str, _Life] = {}
        """By UID, in the order in which they came."""
        self._others: dict[str, PutPod] = {}
        self._preempted: set[str] = set()
        """Those of the others whose end is what the recorded configuration decided."""
        self._changes: list[Change] = []
        self.span, self.reconfigured = 0.0, False
        state, began, events = State(part.head), self._head.at + begin, part.events()
        for event in events:
            if event.at >= began if begin else isinstance(event, Told) and event.name in ("Cycle", "Synced"):
                events = chain((event,), events)
                began = began if begin else event.at
                break
            state.take(event)
        self.configuration = state.configuration
        self._ours = {each["schedulerName"] for each in self.configuration.get("profiles", ())} or {self._head.of}
        self._begin(state)
        for event in events:
            self.span = event.at - began
            self._take(event, self.span)

    def _begin(self, state: State) -> None:
        self._there = {key: json_of(put) for key, put in state.objects.items()}
        for uid, pod in state.pods.items():
            node = pod.node_name or state.assumed.get(uid, "")
            if node and not pod.finished:
                self._others[uid] = pod
                self._there[pod.key] = json_of(pod, nodeName=node)
            else:
                self._take_pod(pod, 0.0)
        self._objects = tuple(self._there.values())

    def _take(self, event: Event, at: float) -> None:
        match event:
            case PutPod():
                self._take_pod(event, at)
            case PutObject():
                if event.kind not in _FIRST or event.key not in self._there:
                    raw = json_of(event)
                    if self._there.get(event.key) != raw:
                        self._put(event.key, raw, at)
            case Gone(kind="Pod", uid=uid):
                life, other = self._lives.get(uid), self._others.pop(uid, None)
                if life is not None and life.ended is None:
                    life.ended = at
                    if life.bound is None:
                        self._changes.append(Change(at, gone=life.pod.key))
                elif other is not None and uid not in self._preempted:
                    self._go(other.key, at)
            case Gone():
                self._go((event.kind, event.namespace, event.name), at)
            case Told(name="Configured"):
                self.reconfigured = True
            case Preempts():
                for uid in event.victims:
                    if uid in self._lives:
                        self._lives[uid].preempted = True
                    else:
                        self._preempted.add(uid)
            case Placed() if event.uid in self._lives:
                life = self._lives[event.uid]
                life.node, life.bound = event.node, at
            case Told(name=name) if name in UNDONE and event.what[0] in self._lives:
                life = self._lives[event.what[0]]
                life.node = life.bound = None

    def _take_pod(self, pod: PutPod, at: float) -> None:
        life = self._lives.get(pod.uid)
        if life is not None:
            if pod.node_name and (life.node is None or self._head.of):
                life.bound = at if life.bound is None else life.bound
                life.node = pod.node_name
            if pod.finished and life.ended is None:
                life.ended = at
            return
        spec = {} if pod.form is None else pod.form.spec
        if pod.finished:
            if self._others.pop(pod.uid, None) is not None and pod.uid not in self._preempted:
                self._go(pod.key, at)
        elif pod.node_name:
            if pod.uid not in self._others:
                self._put(pod.key, json_of(pod), at)
            self._others[pod.uid] = pod
        elif spec.get("schedulerName") in self._ours and not spec.get("schedulingGates"):
            self._lives[pod.uid] = _Life(at, pod)

    def _put(self, key: Key, raw: bytes, at: float) -> None:
        self._there[key] = raw
        self._changes.append(Change(at, put=raw))

    def _go(self, key: Key, at: float) -> None:
        if self._there.pop(key, None) is not None:
            self._changes.append(Change(at, gone=key))

    def world(self, name: str) -> World:
        """Return the world."""
        arrivals = tuple(life.arrival() for life in self._lives.values())
        return World(name, self._objects, arrivals, tuple(self._changes), controllers=False)

    def placements(self) -> list[str | None]:
        """Return the recorded node of each pod that comes in the world, in their order; None: it had none."""
        return [life.node for life in self._lives.values()]
