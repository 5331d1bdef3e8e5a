"""Reads a recording: what its processes were given and decided, in order, and what was known at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from podberth.kube.resources import BY_KIND
from podberth.lab.recording.entries import (
    AnyEntry,
    Decision,
    Failed,
    Form,
    Gone,
    Head,
    Known,
    Placed,
    Preempts,
    PutObject,
    PutPod,
    Template,
    Told,
    decoder,
)
from podberth.lab.recording.log import LogError, frames, segments
from podberth.model.kinds import Decoder, Modelled

_SINCE = re.compile(r"\+?(\d+(?:\.\d+)?)s?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?")
DECIDED = (Placed, Failed, Preempts)
UNDONE = ("BindFailed", "BindWithdrawn")
"""Stimuli after which a pod is not on the node that was decided. What fails before its Binding undoes nothing that was
recorded, and after it only PostBind can fail.
"""
_LAST = 2e11
"""Seconds of the calendar that no file should name."""
MALFORMED = (msgspec.MsgspecError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What reading an object raises that is none."""
_DELETED = "1970-01-01T00:00:00Z"
"""When a pod was deleted, where that was not recorded: what counts is that it goes."""


Put = PutObject | PutPod


def document(put: Put) -> dict[str, Any]:
    """Return it as an object of the API, with what was recorded of it. Raises LogError."""
    try:
        return _pod(put) if isinstance(put, PutPod) else _object(put)
    except (LookupError, TypeError, ValueError) as error:
        raise _damaged(put, error) from None


def json_of(put: Put, **spec: Any) -> bytes:
    """Return its JSON, with these fields of its spec if they say something. Raises LogError."""
    found = document(put)
    found |= {"spec": found["spec"] | spec} if any(spec.values()) else {}
    return msgspec.json.encode(found)


def thing_of(put: Put, by: Decoder) -> Modelled:
    """Return what the engine was given. Raises LogError."""
    try:
        return by.of_kind(put.kind)(json_of(put))
    except MALFORMED as error:
        raise _damaged(put, error) from None


def _damaged(put: Put, error: Exception) -> LogError:
    return LogError(f"is damaged: {put.kind} {put.name}: {error}")


def _object(put: PutObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(put.json or "")
    found["metadata"]["resourceVersion"] = put.resource_version
    version = found.get("apiVersion") or BY_KIND[put.kind].api_version
    return {**found, "apiVersion": version, "kind": put.kind.partition(".")[0]}


def _pod(put: PutPod) -> dict[str, Any]:
    form = put.form or Form()
    meta: dict[str, Any] = {**form.metadata, "name": put.name, "uid": put.uid}
    meta |= {"creationTimestamp": put.created or None, "resourceVersion": put.resource_version}
    meta |= {"labels": {**meta.get("labels", {}), **put.labels}, "generation": put.generation}
    if put.terminating:
        meta["deletionTimestamp"] = put.created or _DELETED
    if put.owner is not None:
        meta["ownerReferences"] = [{**dict(zip(("kind", "name", "uid"), put.owner, strict=True)), "controller": True}]
    spec, status = dict(form.spec), {**form.status, "phase": put.phase}
    if put.node_name:
        spec["nodeName"] = put.node_name
    conditions = list(status.get("conditions", ()))
    if put.condition is not None:
        names = ("status", "reason", "message", "lastTransitionTime")
        conditions.append({"type": "PodScheduled", **dict(zip(names, put.condition, strict=True))})
    if put.preempted:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"})
    if put.ready:
        conditions.append({"type": "Ready", "status": "True"})
    status |= {
        "conditions": conditions,
        "nominatedNodeName": put.nominated_node_name,
        "startTime": put.started,
        "resourceClaimStatuses": [
            {"name": name} | ({} if claim is None else {"resourceClaimName": claim}) for name, claim in put.made_claims
        ],
    }
    said = {key: value for key, value in status.items() if value}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": said}


Event = PutObject | PutPod | Gone | Told | Decision


def frames_of(path: Path) -> Iterator[list[AnyEntry]]:
    """Yield the entries of a segment, frame by frame. Raises LogError."""
    try:
        yield from map(decoder.decode, frames(path))
    except msgspec.MsgspecError as error:
        raise LogError(f"{path.name}: is damaged: {error}") from None


def _events(path: Path, *, known: bool) -> Iterator[Event]:
    """Yield a segment's events; what was `known` when it began only if that is asked for. Raises LogError."""
    forms: dict[int, Form] = {}
    objects: dict[tuple[str, str, str], str] = {}
    wanted = True
    try:
        for entry in chain.from_iterable(frames_of(path)):
            match entry:
                case Head():
                    wanted = known or entry.fresh
                    continue
                case Known():
                    wanted = True
                    continue
                case Template():
                    forms[entry.number] = msgspec.json.decode(entry.json, type=Form)
                    continue
                case PutPod():
                    entry.form = forms[entry.template]
                case PutObject():
                    if entry.kind not in BY_KIND:
                        raise LookupError(entry.kind)
                    entry.json = objects[entry.key] = entry.json or objects[entry.key]
                case Told(name=name, what=what) if name in UNDONE and not (what and isinstance(what[0], str)):
                    raise LookupError(name)
            if wanted:
                yield entry
    except (LookupError, msgspec.MsgspecError) as error:
        raise LogError(f"{path.name}: is damaged: {type(error).__name__}: {error}") from None


class Part:
    """What one process has recorded, up to a time (`until`, on the clock of its events) or to its end.

    `head`: of the first segment that is there.
    """

    def __init__(self, paths: list[Path], head: Head, until: float | None = None) -> None:
        self.paths, self.head, self.until = paths, head, until

    @property
    def name(self) -> str:
        """Return the scheduler whose decisions were recorded; of several profiles, the first."""
        profiles = self.head.configuration.get("profiles") or [{}]
        return self.head.of or profiles[0].get("schedulerName", "")

    def time(self, at: float) -> str:
        """Return a time of its events as RFC 3339 has it."""
        return stamp(self.head.began + at - self.head.at)

    def events(self) -> Iterator[Event]:
        """Yield what happened after what was known when its first segment began. Raises LogError."""
        for number, path in enumerate(self.paths):
            for event in _events(path, known=not number):
                if self.until is not None and event.at > self.until:
                    return
                yield event

    def state(self, events: int | None = None) -> State:
        """Return what was known at its end, or after so many events. Raises LogError."""
        found = State(self.head)
        for event in islice(self.events(), events):
            found.take(event)
        return found


def stamp(seconds: float) -> str:
    """Return a time of the calendar as RFC 3339 has it; the epoch for what is none."""
    seconds = seconds if 0 <= seconds < _LAST else 0.0
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parts(directory: str | Path) -> list[Part]:
    """Return what each process has recorded, in their order. Raises LogError."""
    found: list[Part] = []
    for path in segments(Path(directory)):
        first = next(frames_of(path), None)
        if first is None:
            continue  # nothing was written to it yet
        head = first[0] if first else None
        if not isinstance(head, Head):
            raise LogError(f"{path.name}: is damaged: it does not begin with a head")
        if head.fresh or not found:
            found.append(Part([], head))
        found[-1].paths.append(path)
    if not found:
        raise LogError("holds nothing yet: nothing was written to it for a second")
    return found


def part(directory: str | Path, until: str | None = None) -> Part:
    """Return what the last process has recorded, or the one that a time is of, until then.

    `until`: RFC 3339, a time of the recording's last day in UTC, or seconds since the last process began.
    Raises LogError.
    """
    found = parts(directory)
    last = found[-1]
    if until is None:
        return last
    if since := _SINCE.fullmatch(until):
        return Part(last.paths, last.head, last.head.at + float(since[1]))
    text = until
    try:
        if _CLOCK.fullmatch(text):
            ended = max((event.at for event in last.events()), default=last.head.at)
            day, _, _ = last.time(ended).partition("T")
            text = f"{day}T{text if len(text.partition(':')[0]) == 2 else f'0{text}'}Z"
        wanted = datetime.fromisoformat(text)
    except ValueError:
        raise LogError(f"--at {until}: expected a time such as 23:15:02, 2026-11-29T23:15:02Z or 90s") from None
    seconds = wanted.replace(tzinfo=wanted.tzinfo or UTC).timestamp()
    for each in reversed(found):
        if each.head.began <= seconds:
            return Part(each.paths, each.head, each.head.at + seconds - each.head.began)
    raise LogError(f"--at {until}: the recording begins at {stamp(found[0].head.began)}")


class State:
    """What was known at a time, as events are taken in: objects, and pods that were assumed on a node.

    `configuration`: by which was decided then, as JSON has it; empty if nobody knows, as of another scheduler.
    """

    def __init__(self, head: Head) -> None:
        self.configuration = head.configuration
        self.pods: dict[str, PutPod] = {}
        self.objects: dict[tuple[str, str, str], PutObject] = {}
        self.assumed: dict[str, str] = {}
        """UID → the node of a pod whose Binding is not seen yet."""
        self._rows: list[str | None] = []
        self._free: list[int] = []

    def take(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case PutPod():
                self.pods[event.uid] = event
                if event.node_name:
                    self.assumed.pop(event.uid, None)
            case PutObject():
                if event.kind == "Node" and event.key not in self.objects:
                    self._row(event.name)
                self.objects[event.key] = event
            case Gone(kind="Pod"):
                self.pods.pop(event.uid, None)
                self.assumed.pop(event.uid, None)
            case Gone():
                gone = self.objects.pop((event.kind, event.namespace, event.name), None)
                if gone is not None and gone.kind == "Node":
                    row = self._rows.index(gone.name)
                    self._rows[row] = None
                    self._free.append(row)
            case Placed():
                self.assumed[event.uid] = event.node
            case Told(name="Configured", what=[configuration]):
                self.configuration = configuration
            case Told(name=name) if name in UNDONE:
                self.assumed.pop(event.what[0], None)

    def _row(self, name: str) -> None:
        """Give a node the row that the columns give it, since equal nodes are chosen by their order."""
        if self._free:
            self._rows[self._free.pop()] = name
        else:
            self._rows.append(name)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield all objects of the API, nodes first and in the order of their rows; an assumed pod has its node."""
        for name in self._rows:
            if name is not None:
                yield document(self.objects["Node", "", name])
        for (kind, _, _), known in self.objects.items():
            if kind != "Node":
                yield document(known)
        for pod in self.pods.values():
            found = document(pod)
            if pod.uid in self.assumed:
                found["spec"]["nodeName"] = self.assumed[pod.uid]
            yield found


def decision(pod: str, of: Part) -> tuple[State, Placed | Failed, PutPod]:
    """Return the state in which a pod was decided last, the decision, and the pod.

    `pod`: namespace/name, or a name that one namespace has. Raises LogError.
    """
    namespace, _, name = pod.rpartition("/")
    last: tuple[int, Placed | Failed, PutPod] | None = None
    known: dict[str, PutPod] = {}
    for number, event in enumerate(of.events()):
        if isinstance(event, PutPod) and event.name == name and namespace in ("", event.namespace):
            known[event.uid] = event
        elif isinstance(event, (Placed, Failed)) and event.uid in known:
            last = number, event, known[event.uid]
    spaces = sorted({each.namespace for each in known.values()})
    if len(spaces) > 1:
        raise LogError(f"{pod}: pods of {' and '.join(spaces)} have this name: expected NAMESPACE/NAME")
    if last is None:
        seen = "the pod was seen, and nothing was decided about it" if known else "no such pod was seen"
        raise LogError(f"{pod}: {seen} until then")
    return of.state(last[0]), *last[1:]
