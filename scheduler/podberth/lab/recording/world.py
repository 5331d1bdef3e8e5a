"""Makes of a recording what others read: changes for `berth shadow`, and a world for experiments."""

from collections.abc import Iterator
from math import inf
from typing import Any

import msgspec
from msgspec import Raw

from podberth.explain.shadow.shadow import Change as Seen
from podberth.lab.recording.entries import FINISHED, Head, Kind
from podberth.lab.recording.reading import Event, KnownPod
from podberth.lab.recording.summary import Moment
from podberth.lab.world import Arrival, Change, World

_FIRST = ("ResourceClaim", "PersistentVolumeClaim", "PersistentVolume")
"""Kinds that are written when pods are placed: what a world has of them is what came first."""


def recorded_of(head: Head) -> str:
    """Return the scheduler whose decisions were recorded; of several profiles, the first."""
    profiles = head.configuration.get("profiles") or [{}]
    return head.of or profiles[0].get("schedulerName", "")


def changes(moment: Moment) -> Iterator[Seen]:
    """Yield the changes of a recording as `berth shadow` follows them.

    Of a scheduler's own recording it is known when a pod was decided: it is bound then, and not when its Binding was
    seen. Raises LogError.
    """
    head = moment.head
    pods: dict[str, KnownPod] = {}
    placed: dict[str, str] = {}
    synced = False
    for event in moment.events():
        at = event.at - head.at
        if event.kind in (Kind.CYCLE, Kind.SYNCED) and not synced:
            synced = True
            yield Seen(at=at, synced=True)
        elif event.kind is Kind.PLACED and event.what[0] in pods:
            placed[event.what[0]] = event.what[1]
            yield _put(at, pods[event.what[0]], event.what[1])
        elif isinstance(event.known, KnownPod):
            known = pods[event.known.uid] = event.known
            if known.state.node:
                placed.pop(known.uid, None)
            elif known.uid in placed:
                continue  # the watch has not shown its Binding yet
            yield _put(at, known, known.state.node, listed=event.listed)
        elif event.known is not None:
            document = event.known.document()
            yield Seen(at=at, kind=event.known.kind, object=Raw(msgspec.json.encode(document)), listed=event.listed)
        elif event.kind is Kind.POD_GONE and event.what[0] in pods:
            known = pods.pop(event.what[0])
            placed.pop(known.uid, None)
            yield Seen(at=at, kind="Pod", gone=(known.namespace, known.name, known.uid))
        elif event.kind is Kind.OBJECT_GONE:
            yield Seen(at=at, kind=event.what[0], gone=event.what[1:])
        elif event.kind is Kind.STIMULUS and event.what[0] in ("BindFailed", "BindWithdrawn"):
            undone = pods.get(event.what[1])
            if undone is not None and placed.pop(undone.uid, None) is not None:
                yield Seen(at=at, kind="Pod", gone=(undone.namespace, undone.name, undone.uid))
                yield _put(at, undone, "")


def _put(at: float, pod: KnownPod, node: str, *, listed: bool = False) -> Seen:
    document = pod.document()
    if node:
        document["spec"]["nodeName"] = node
    return Seen(at=at, kind="Pod", object=Raw(msgspec.json.encode(document)), listed=listed)


class _Life:
    """A pod that was to be scheduled. Times are seconds since the world's begin."""

    def __init__(self, at: float, pod: KnownPod) -> None:
        self.at, self.pod = at, pod
        self.node: str | None = None
        self.bound: float | None = None
        self.ended: float | None = None
        self.preempted = False
        """Its end is what the recorded configuration decided: without that, nobody knows of one."""

    def arrival(self) -> Arrival:
        """Return it as it came."""
        document = self.pod.document()
        document["status"] = {"phase": "Pending"}
        document["spec"].pop("nodeName", None)
        known = self.bound is not None and self.ended is not None and not self.preempted
        lasts = max((self.ended or 0.0) - (self.bound or 0.0), 0.0) if known else inf
        return Arrival(self.at, msgspec.json.encode(document), lasts)


class Recorded:
    """The world of a recording from a moment on, and what became of its pods there.

    Pods of the recorded schedulers come when they were first seen without gates, and end when they ended, counted from
    their binding; a victim of preemption has no end but that. All other objects are there, come, change and go as they
    did. A claim or volume is as it came: what was written of it since was for pods that another configuration may place
    elsewhere. Pods that were made anew after a preemption, or after their node was gone, are among those that come.
    """

    def __init__(self, recording: Moment, begin: float = 0.0) -> None:
        """`begin`: seconds since the process began. Raises LogError."""
        self.head = recording.head
        self._ours = {each["schedulerName"] for each in self.head.configuration.get("profiles", ())} or {self.head.of}
        self._begin = self.head.at + begin
        self._there: dict[tuple[str, str, str], bytes] = {}
        self._lives: dict[str, _Life] = {}
        self._others: dict[str, KnownPod] = {}
        self._changes: list[Change] = []
        self._start: dict[tuple[str, str, str], bytes] = {}
        self._started = begin > 0
        self.span = 0.0
        held: list[Event] = []
        for event in recording.events():
            if event.at < self._begin or (not self._started and event.kind not in (Kind.CYCLE, Kind.SYNCED)):
                held.append(event)
                continue
            if held:
                self._begin_with(held)
                held = []
            self._started = True
            self._take(event, event.at - self._begin)
        if held:
            self._begin_with(held)

    def _begin_with(self, held: list[Event]) -> None:
        if not self._started:
            self._begin = held[-1].at
        for event in held:
            self._take(event, 0.0)
        # What ended before it begins never was; what was placed is there.
        self._changes.clear()
        self.span = 0.0
        self._lives = {uid: life for uid, life in self._lives.items() if life.ended is None}
        for uid, life in list(self._lives.items()):
            if life.node is not None:
                self._others[uid] = life.pod
                self._there["Pod", life.pod.namespace, life.pod.name] = _placed(life.pod, life.node)
                del self._lives[uid]
        self._start = dict(self._there)

    def _take(self, event: Event, at: float) -> None:
        self.span = max(self.span, at)
        if isinstance(event.known, KnownPod):
            self._take_pod(event.known, at)
        elif event.known is not None:
            key = (event.known.kind, event.known.namespace, event.known.name)
            if key[0] not in _FIRST or key not in self._there:
                raw = msgspec.json.encode(event.known.document())
                if self._there.get(key) != raw:
                    self._put(key, raw, at)
        elif event.kind is Kind.OBJECT_GONE:
            self._go(event.what[:3], at)
        elif event.kind is Kind.POD_GONE:
            uid = event.what[0]
            life, other = self._lives.get(uid), self._others.pop(uid, None)
            if life is not None and life.ended is None:
                life.ended = at
                if life.bound is None:
                    self._changes.append(Change(at, gone=("Pod", life.pod.namespace, life.pod.name)))
            elif other is not None:
                self._go(("Pod", other.namespace, other.name), at)
        elif event.kind is Kind.PREEMPTS:
            for uid in event.what[2]:
                if uid in self._lives:
                    self._lives[uid].preempted = True
        elif event.kind is Kind.PLACED and event.what[0] in self._lives:
            life = self._lives[event.what[0]]
            life.node, life.bound = event.what[1], at

    def _take_pod(self, pod: KnownPod, at: float) -> None:
        life = self._lives.get(pod.uid)
        if life is not None:
            if pod.state.node and (life.node is None or self.head.of):
                life.bound = at if life.bound is None else life.bound
                life.node = pod.state.node
            if pod.state.bits & FINISHED and life.ended is None:
                life.ended = at
            return
        key = ("Pod", pod.namespace, pod.name)
        spec = pod.form.document.get("spec", {})
        if pod.state.bits & FINISHED:
            if self._others.pop(pod.uid, None) is not None:
                self._go(key, at)
        elif pod.state.node:
            if pod.uid not in self._others:
                self._put(key, _placed(pod, pod.state.node), at)
            self._others[pod.uid] = pod
        elif spec.get("schedulerName") in self._ours and not spec.get("schedulingGates"):
            self._lives[pod.uid] = _Life(at, pod)

    def _put(self, key: tuple[str, str, str], raw: bytes, at: float) -> None:
        self._there[key] = raw
        self._changes.append(Change(at, put=raw))

    def _go(self, key: tuple[str, str, str], at: float) -> None:
        if self._there.pop(key, None) is not None:
            self._changes.append(Change(at, gone=key))

    def world(self, name: str) -> World:
        """Return the world."""
        lives = sorted(self._lives.values(), key=lambda life: life.at)
        return World(
            name=name,
            objects=tuple(self._start.values()),
            arrivals=tuple(life.arrival() for life in lives),
            changes=tuple(self._changes),
            controllers=False,
        )

    def placements(self) -> dict[str, str]:
        """Return pod → node, as it was recorded."""
        return {f"{one.pod.namespace}/{one.pod.name}": one.node for one in self._lives.values() if one.node is not None}


def _placed(pod: KnownPod, node: str) -> bytes:
    document: dict[str, Any] = pod.document()
    document["spec"]["nodeName"] = node
    return msgspec.json.encode(document)
