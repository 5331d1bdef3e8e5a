"""Reads a recording: its events in their order, and what was known at a time.

An event is an object that was put or is gone, another stimulus, or something that the engine decided. Objects can be
had as the engine got them (`Known.thing`) and as JSON of the API (`Known.document`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from podberth.lab.recording.entries import (
    ADDED,
    FINISHED,
    LISTED,
    PHASES,
    PREEMPTED,
    READY,
    TERMINATING,
    VERSION,
    Head,
    Kind,
    decoder,
)
from podberth.lab.recording.log import LogError, Segment, segments
from podberth.model.kinds import Decoder, Modelled
from podberth.model.pod import Pod


class PodState(Struct, gc=False):
    """What may change of a pod."""

    version: str
    node: str
    bits: int
    phase: str
    generation: int
    started: str | None = None
    nominated: str = ""
    condition: tuple[str, str, str, str] | None = None
    made_claims: tuple[tuple[str, str | None], ...] = ()


class Form:
    """A template: the wire form that pods of one shape share."""

    def __init__(self, json: bytes) -> None:
        self.json = json
        self._document: dict[str, Any] | None = None
        self._things: dict[int, Pod] = {}

    @property
    def document(self) -> dict[str, Any]:
        """Return it as a mapping."""
        if self._document is None:
            self._document = msgspec.json.decode(self.json)
        return self._document

    def pod(self, by: Decoder) -> Pod:
        """Return a pod of this form without a name."""
        found = self._things.get(id(by))
        if found is None:
            found = self._things[id(by)] = by.pod(self.json)
        return found


class Known:
    """An object at some time: a kind, the names that say which one it is, and what it was then."""

    kind: str
    namespace: str
    name: str
    uid: str

    def thing(self, by: Decoder) -> Modelled:
        """Return the object as the engine gets it."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """Return it as an object of the API, with what was recorded of it."""
        raise NotImplementedError


class KnownPod(Known):
    """A pod."""

    kind = "Pod"

    def __init__(
        self,
        form: Form,
        labels: Mapping[str, str],
        owner: tuple[str, str, str] | None,
        name: str,
        uid: str,
        created: str,
        state: PodState,
    ) -> None:
        self.form, self.labels, self.owner = form, labels, owner
        self.name, self.uid, self.created, self.state = name, uid, created, state
        self.namespace: str = form.document.get("metadata", {}).get("namespace", "")

    def again(self, state: PodState) -> "KnownPod":
        """Return it in another state."""
        return KnownPod(self.form, self.labels, self.owner, self.name, self.uid, self.created, state)

    def thing(self, by: Decoder) -> Pod:
        """Return the pod as the engine gets it."""
        state = self.state
        return replace(
            self.form.pod(by),
            name=self.name,
            uid=self.uid,
            resource_version=state.version,
            generation=state.generation,
            labels=self.labels,
            node_name=state.node,
            nominated_node_name=state.nominated,
            created=self.created,
            started=state.started,
            terminating=bool(state.bits & TERMINATING),
            preempted=bool(state.bits & PREEMPTED),
            finished=bool(state.bits & FINISHED),
            ready=bool(state.bits & READY),
            phase=state.phase,
            owner=self.owner,
            condition=state.condition,
            made_claims=state.made_claims,
        )

    def document(self) -> dict[str, Any]:
        """Return it as an object of the API."""
        form, state = self.form.document, self.state
        meta: dict[str, Any] = {**form.get("metadata", {}), "name": self.name, "uid": self.uid}
        meta |= {"creationTimestamp": self.created or None, "resourceVersion": state.version}
        meta |= {"labels": dict(self.labels), "generation": state.generation}
        if state.bits & TERMINATING:
            meta["deletionTimestamp"] = self.created or "1970-01-01T00:00:00Z"
        if self.owner is not None:
            kind, name, uid = self.owner
            meta["ownerReferences"] = [{"kind": kind, "name": name, "uid": uid, "controller": True}]
        spec, status = dict(form.get("spec", {})), {**form.get("status", {}), "phase": state.phase}
        if state.node:
            spec["nodeName"] = state.node
        conditions = list(status.get("conditions", ()))
        if state.condition is not None:
            names = ("status", "reason", "message", "lastTransitionTime")
            conditions.append({"type": "PodScheduled", **dict(zip(names, state.condition, strict=True))})
        if state.bits & PREEMPTED:
            conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"})
        if state.bits & READY:
            conditions.append({"type": "Ready", "status": "True"})
        if conditions:
            status["conditions"] = conditions
        if state.nominated:
            status["nominatedNodeName"] = state.nominated
        if state.started is not None:
            status["startTime"] = state.started
        if state.made_claims:
            status["resourceClaimStatuses"] = [
                {"name": name} | ({} if claim is None else {"resourceClaimName": claim})
                for name, claim in state.made_claims
            ]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


_API = {
    "PodDisruptionBudget": "policy/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "CSIStorageCapacity": "storage.k8s.io/v1",
    "VolumeAttachment": "storage.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "DeviceTaintRule": "resource.k8s.io/v1alpha3",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
}
"""The API versions of the kinds that are not of the core group."""


class KnownObject(Known):
    """An object that is no pod."""

    def __init__(self, kind: str, version: str, json: bytes) -> None:
        self.kind, self.version, self.json = kind, version, json
        meta = msgspec.json.decode(json, type=_Named).metadata
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid

    def thing(self, by: Decoder) -> Modelled:
        """Return the object as the engine gets it."""
        return replace(by.of_kind(self.kind)(self.json), resource_version=self.version)

    def document(self) -> dict[str, Any]:
        """Return it as an object of the API."""
        found: dict[str, Any] = msgspec.json.decode(self.json)
        found["metadata"]["resourceVersion"] = self.version
        kind, _, group = self.kind.partition(".")
        version = found.get("apiVersion") or (f"{group}/v1alpha1" if group else _API.get(kind, "v1"))
        return {**found, "apiVersion": version, "kind": kind}


class _Meta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Named(Struct):
    metadata: _Meta = field(default_factory=_Meta)


class Event(Struct):
    """Something in a recording. `at`: seconds of the engine's clock.

    `kind` says what it is; `known`: the object, of POD and OBJECT; `what`: all else, with names in place of numbers.
    """

    at: float
    kind: Kind
    known: Known | None = None
    what: tuple[Any, ...] = ()
    added: bool = False
    listed: bool = False


class _Reader:
    """Turns the entries of one file into events."""

    def __init__(self) -> None:
        self.at = 0.0
        self._ns = 0
        self._names: list[str] = []
        self._messages: list[str] = []
        self._labels: list[Mapping[str, str]] = []
        self._forms: list[Form] = []
        self._pods: list[KnownPod] = []
        self._version = 0

    def event(self, entry: list[Any], objects: dict[tuple[str, str, str], KnownObject]) -> Event | None:
        """Return what an entry says; None if others refer to it. `objects`: those before, for what has not changed."""
        kind = Kind(entry[0])
        match kind:
            case Kind.HEAD:
                head = msgspec.convert(entry[1], Head)
                self.at, self._ns = head.at, int(head.at * 1e9 + 0.5)
                return Event(self.at, kind, what=(head,))
            case Kind.AT:
                self.at, self._ns = entry[1], int(entry[1] * 1e9 + 0.5)
            case Kind.EPOCH:
                return Event(self.at, kind, what=(entry[1],))
            case Kind.TEXT:
                self._names.append(entry[1])
            case Kind.MESSAGE:
                self._messages.append(entry[1])
            case Kind.LABELS:
                self._labels.append(entry[1])
            case Kind.TEMPLATE:
                self._forms.append(Form(entry[1]))
            case Kind.PLACED:
                return Event(self.at, kind, what=(self._uid(entry[1]), self._name(entry[2])))
            case Kind.FAILED:
                message = entry[3] if isinstance(entry[3], str) else self._messages[entry[3]]
                return Event(self.at, kind, what=(self._uid(entry[1]), self._name(entry[2]), message))
            case Kind.PREEMPTS:
                victims = tuple(map(self._uid, entry[3]))
                return Event(self.at, kind, what=(self._uid(entry[1]), self._name(entry[2]), victims))
            case _:
                if entry[1]:
                    self._ns += entry[1]
                    self.at = self._ns / 1e9
                return self._timed(kind, entry, objects)
        return None

    def _timed(self, kind: Kind, entry: list[Any], objects: dict[tuple[str, str, str], KnownObject]) -> Event:
        match kind:
            case Kind.POD:
                _, _, how, form, labels, owner, name, uid, created, *state = entry
                names = None if owner is None else (self._name(owner[0]), self._name(owner[1]), self._name(owner[2]))
                known = KnownPod(
                    self._forms[form], self._labels[labels], names, name, uid, created, self._state(*state)
                )
                self._pods.append(known)
                return self._put(kind, known, how)
            case Kind.POD_AGAIN:
                _, _, how, number, *state = entry
                known = self._pods[number] = self._pods[number].again(self._state(*state))
                return self._put(Kind.POD, known, how)
            case Kind.POD_GONE:
                uid = self._uid(entry[2])
                return Event(self.at, kind, what=(uid,))
            case Kind.OBJECT:
                _, _, how, of, version, json = entry
                return self._put(kind, KnownObject(of, version, json), how)
            case Kind.OBJECT_AGAIN:
                _, _, how, of, namespace, name, version = entry
                before = objects[of, namespace, name]
                return self._put(Kind.OBJECT, KnownObject(of, version, before.json), how)
            case Kind.BOUND:
                return Event(self.at, kind, what=(self._uid(entry[2]),))
        return Event(self.at, kind, what=tuple(entry[2:]))

    def _put(self, kind: Kind, known: Known, how: int) -> Event:
        return Event(self.at, kind, known, (), bool(how & ADDED), bool(how & LISTED))

    def _uid(self, pod: int | str) -> str:
        return pod if isinstance(pod, str) else self._pods[pod].uid

    def _name(self, name: int | str) -> str:
        return name if isinstance(name, str) else self._names[name]

    def _state(
        self, version: int | str, node: int | str | None, bits: int, phase: int, generation: int, *more: Any
    ) -> PodState:
        if isinstance(version, int):
            self._version += version
            version = str(self._version)
        made = PodState(version, "" if node is None else self._name(node), bits, PHASES[phase], generation)
        if more:
            made.started, made.nominated, said, claims = more
            if said is not None:
                message = said[2] if isinstance(said[2], str) else self._messages[said[2]]
                made.condition = (said[0], said[1], message, said[3])
            made.made_claims = tuple((name, claim) for name, claim in claims)
        return made


class Recording:
    """A recording in a directory. All methods read it from the disk, as it is then."""

    def __init__(self, directory: str | Path) -> None:
        """Raises LogError."""
        self.directory = Path(directory)
        self.segments = segments(self.directory)

    def heads(self) -> list[tuple[Segment, Head]]:
        """Return the segments that can be read from their beginning, each with its head. Raises LogError."""
        found: list[tuple[Segment, Head]] = []
        for each in self.segments:
            head = _head(each)
            if head is not None:
                found.append((each, head))
        if not found:
            raise LogError("holds nothing yet: nothing was written to it for a second")
        return found

    def processes(self) -> list[list[tuple[Segment, Head]]]:
        """Return the segments by the process that wrote them. A process whose first segments were dropped begins with
        the state of the oldest one.
        """
        found: list[list[tuple[Segment, Head]]] = []
        for segment, head in self.heads():
            if head.fresh or not found:
                found.append([])
            found[-1].append((segment, head))
        while found and not found[0][0][1].fresh and not found[0][0][0].state.exists():
            del found[0][0]  # a process was killed before this was written
            if not found[0]:
                del found[0]
        return found

    def events(self, process: list[tuple[Segment, Head]]) -> Iterator[Event]:
        """Yield what a process has recorded; first the HEAD of its first segment, then what was known by then.

        Raises LogError.
        """
        objects: dict[tuple[str, str, str], KnownObject] = {}
        first, head = process[0]
        if not head.fresh:
            for event in _events(first.known(), objects):
                if event.kind is not Kind.HEAD:
                    event.listed = True
                yield event
        for segment, _ in process:
            for event in _events(segment.frames(), objects):
                if event.kind is not Kind.HEAD or (segment is first and head.fresh):
                    yield event


def _head(segment: Segment) -> Head | None:
    frames = segment.frames()
    try:
        first = next(frames, None)
        head = None if first is None else msgspec.convert(decoder.decode(first)[0][1], Head)
    except (msgspec.MsgspecError, IndexError) as error:
        raise LogError(f"{segment.path.name}: is damaged: {error}") from None
    if head is not None and head.version != VERSION:
        raise LogError(f"{segment.path.name}: version {head.version}: expected {VERSION}; another Berth has written it")
    return head


def _events(frames: Iterator[bytes], objects: dict[tuple[str, str, str], KnownObject]) -> Iterator[Event]:
    reader = _Reader()
    for frame in frames:
        for entry in decoder.decode(frame):
            event = reader.event(entry, objects)
            if event is None:
                continue
            if isinstance(event.known, KnownObject):
                objects[event.known.kind, event.known.namespace, event.known.name] = event.known
            elif event.kind is Kind.OBJECT_GONE:
                objects.pop(event.what[:3], None)
            yield event


class State:
    """What was known at a time, as events are taken in: objects, and pods that were assumed on a node."""

    def __init__(self) -> None:
        self.pods: dict[str, KnownPod] = {}
        self.objects: dict[tuple[str, str, str], KnownObject] = {}
        self.assumed: dict[str, str] = {}
        """UID → the node of a pod whose Binding is not seen yet."""
        self._rows: list[str | None] = []
        self._free: list[int] = []

    def take(self, event: Event) -> None:
        """Take in an event."""
        match event.kind:
            case Kind.POD:
                assert isinstance(event.known, KnownPod)
                self.pods[event.known.uid] = event.known
                if event.known.state.node:
                    self.assumed.pop(event.known.uid, None)
            case Kind.POD_GONE:
                self.pods.pop(event.what[0], None)
                self.assumed.pop(event.what[0], None)
            case Kind.OBJECT:
                assert isinstance(event.known, KnownObject)
                key = (event.known.kind, event.known.namespace, event.known.name)
                if key[0] == "Node" and key not in self.objects:
                    self._row(key[2])
                self.objects[key] = event.known
            case Kind.OBJECT_GONE:
                gone = self.objects.pop(event.what[:3], None)
                if gone is not None and gone.kind == "Node":
                    row = self._rows.index(gone.name)
                    self._rows[row] = None
                    self._free.append(row)
            case Kind.PLACED:
                self.assumed[event.what[0]] = event.what[1]
            case Kind.STIMULUS if event.what[0] in ("BindFailed", "BindWithdrawn", "PreBindWriteFailed", "CallFailed"):
                self.assumed.pop(event.what[1], None)

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
                yield self.objects["Node", "", name].document()
        for (kind, _, _), known in self.objects.items():
            if kind != "Node":
                yield known.document()
        for pod in self.pods.values():
            found = pod.document()
            if pod.uid in self.assumed:
                found["spec"]["nodeName"] = self.assumed[pod.uid]
            yield found
