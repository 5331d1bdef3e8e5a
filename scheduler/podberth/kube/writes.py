"""A scheduler makes few requests: bind, record an event, patch a pod's status, evict, delete.

Each is a pure function that gives path and body bytes, and a thin caller that sends them in their lane. What they say
and when is the engine's decision; texts follow kube-scheduler (see `registry/core/pod/storage` and client-go's
`tools/events` for what the server makes of them). Bindings and events, of which there is one a pod, are said in
protobuf where the client speaks it: the server takes less CPU to read it (decision 13).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, ClassVar

import msgspec

from podberth.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client, read_answer
from podberth.kube.errors import ApiError
from podberth.kube.flow import BIND, EVENT, EVICT, STATUS, Lane
from podberth.kube.objects import partial as partial_object
from podberth.kube.resources import EVENTS, PODS, Resource

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2
NOTE_BYTES = 1024  # events.k8s.io refuses longer notes (validation: noteLengthLimit)
CLUSTER_EVENTS = "default"  # the namespace of Events about objects that are in none (tools/events/event_recorder.go)
NAME_BYTES = 253  # an object's name is a DNS subdomain
BIND_SECONDS = 65.0  # a slow webhook, a slow etcd: an API server gives up after 60 s, and closing would make it do so
BIND_PATIENCE = 5.0
"""Seconds that we wait for the answer to a Binding. Then its place is another's, and the pod is asked for instead."""
_NOT_SPOKEN = frozenset((406, 415))
"""Answers to a media type that the server does not know; it has done nothing then."""
_encode = msgspec.json.Encoder().encode
_order = itertools.count(1)


class PodRef(msgspec.Struct, frozen=True, gc=False):
    """A pod that a request is about: the uid keeps it from hitting a namesake created since."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"


class Regarding(msgspec.Struct, frozen=True, gc=False):
    """An object of any kind that an Event is about; `namespace` is empty if it is in none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: ClassVar[str] = ""


class _LiveMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _LiveSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class LivePod(msgspec.Struct):
    """A pod as it is in the API now: whether it is still the one that was meant, and its node."""

    metadata: _LiveMeta
    spec: _LiveSpec = msgspec.field(default_factory=_LiveSpec)


_live_pod = msgspec.json.Decoder(LivePod)


def live_pod(answer: bytes) -> LivePod:
    """Return the pod that an answer to a GET shows. Raises Unreachable for an answer that is no pod."""
    return read_answer(answer, _live_pod.decode)


CHANGED = frozenset((409, 422))
"""Answers to a patch: the object has changed, or another of its name has come (422: its UID differs)."""


def micro_time(moment: float | None = None) -> str:
    """Return a metav1.MicroTime of seconds since the epoch, by default now: RFC 3339 in UTC with six digits."""
    when = datetime.fromtimestamp(time.time() if moment is None else moment, UTC)
    return f"{when.isoformat(timespec='microseconds')[:-6]}Z"  # a fifth of what strftime takes


def meta_time(moment: float) -> str:
    """Return a metav1.Time of seconds since the epoch: RFC 3339 in UTC, in whole seconds."""
    return f"{micro_time(int(moment))[:-8]}Z"


def pod_path(pod: PodRef, subresource: str | None = None) -> str:
    """Return the pod's path or its subresource's."""
    return PODS.path(pod.namespace, pod.name, subresource)


def binding(pod: PodRef, node: str) -> bytes:
    """Return the body of a POST of pods/binding, which puts the pod on the node.

    The server answers 409 when the uid is another's or the pod is bound already.
    """
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }
    return _encode(body)


def protobuf_binding(pod: PodRef, node: str) -> bytes:
    """Return the body of a Binding in protobuf (core/v1 Binding: metadata 1, target 2)."""
    metadata = text(1, pod.name) + kept_text(3, pod.namespace) + text(5, pod.uid)
    return envelope("v1", "Binding", message(1, metadata) + message(2, kept_text(1, "Node") + text(3, node)))


class Event(msgspec.Struct, frozen=True, gc=False):
    """An events.k8s.io Event, not yet written. `moment`: microseconds since the epoch."""

    about: PodRef | Regarding
    name: str
    moment: int
    kind: str
    reason: str
    action: str
    note: str
    controller: str
    instance: str
    annotations: Mapping[str, str] | None = None

    @property
    def namespace(self) -> str:
        """Return the namespace of the Event: those about objects that are in none are in a certain one."""
        return self.about.namespace or CLUSTER_EVENTS

    def json(self) -> bytes:
        """Return the body of a POST."""
        about = self.about
        regarding = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
        if about.namespace:
            regarding["namespace"] = about.namespace
        if about.resource_version:
            regarding["resourceVersion"] = about.resource_version
        metadata: dict[str, Any] = {"namespace": self.namespace, "name": self.name}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": metadata,
            "eventTime": f"{micro_time(self.moment // 1_000_000)[:-8]}.{self.moment % 1_000_000:06}Z",
            "type": self.kind,
            "reason": self.reason,
            "action": self.action,
            "note": self.note,
            "reportingController": self.controller,
            "reportingInstance": self.instance,
            "regarding": regarding,
        }
        return _encode(body)

    def protobuf(self) -> bytes:
        """Return the body in protobuf (events.k8s.io/v1 Event, core/v1 ObjectReference, meta/v1 MicroTime)."""
        about = self.about
        seconds, micros = divmod(self.moment, 1_000_000)
        metadata = text(1, self.name) + kept_text(3, self.namespace)
        for key, value in (self.annotations or {}).items():
            metadata += message(12, text(1, key) + text(2, value))
        regarding = (
            kept_text(1, about.kind)
            + kept_text(2, about.namespace)
            + text(3, about.name)
            + text(4, about.uid)
            + kept_text(5, about.api_version)
            + text(6, about.resource_version)
        )
        return envelope(
            "events.k8s.io/v1",
            "Event",
            message(1, metadata)
            + message(2, kept_integer(1, seconds) + integer(2, 1000 * micros))
            + kept_text(4, self.controller)
            + kept_text(5, self.instance)
            + kept_text(6, self.action)
            + kept_text(7, self.reason)
            + message(8, regarding)
            + text(10, self.note)
            + kept_text(11, self.kind),
        )


def event(
    about: PodRef | Regarding,
    *,
    kind: str,
    reason: str,
    action: str,
    note: str,
    controller: str,
    instance: str,
    moment: float,
) -> Event:
    """Return an Event about a pod, or another object.

    `kind` is Normal or Warning, `controller` the profile's schedulerName, `instance` names this process (at most 128
    bytes), `moment` seconds since the epoch. The note is cut to 1024 bytes between characters. The name is unique in
    this process and, by its nanoseconds, between processes.
    """
    return Event(
        about=about,
        name=event_name(about.name),
        moment=round(1e6 * moment),
        kind=kind,
        reason=reason,
        action=action,
        note=shorten(note, NOTE_BYTES),
        controller=controller,
        instance=shorten(instance, 128),
    )


def event_name(pod: str) -> str:
    """Return `POD.HEX`, as client-go names events (pod name and nanoseconds), with a counter against equal clocks."""
    tail = f".{time.time_ns() & 0xFFFFFFFFFFFFFFF:x}{next(_order) & 0xFFFF:04x}"
    return pod[: NAME_BYTES - len(tail)].rstrip("-.") + tail


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` bytes of UTF-8, cut between characters, with `...` where something is missing."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."


def condition_patch(
    pod: PodRef,
    *,
    status: str,
    reason: str,
    message: str,
    transition: str,
    generation: int | None = None,
    kind: str = "PodScheduled",
    nominated: str | None = None,
    at_version: bool = False,
) -> tuple[str, bytes]:
    """Return path and body of a PATCH (strategic merge) of pods/status: a condition, with `nominated` also the node.

    `transition` is when `status` last changed (RFC 3339; the caller keeps it when only the message changed),
    `generation` the pod's metadata.generation that was looked at; an empty `nominated` clears the field. The uid in
    the body makes the server refuse a namesake (422: the field is immutable). `at_version`: only if the pod has not
    changed since the version of `pod` (409).
    """
    condition: dict[str, Any] = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": transition,
    }
    if generation is not None:
        condition["observedGeneration"] = generation
    metadata = _at_version(pod) if at_version else {"uid": pod.uid}
    body: dict[str, Any] = {"metadata": metadata, "status": {"conditions": [condition]}}
    if nominated is not None:
        body["status"]["nominatedNodeName"] = nominated or None
    return pod_path(pod, "status"), _encode(body)


def nomination_patch(pod: PodRef, node: str) -> tuple[str, bytes]:
    """Return path and body of a PATCH (strategic merge) of pods/status: nominatedNodeName; an empty node clears it.

    409 if the pod has changed since its version, where that is known.
    """
    body = {"metadata": _at_version(pod), "status": {"nominatedNodeName": node or None}}
    return pod_path(pod, "status"), _encode(body)


def _at_version(pod: PodRef) -> dict[str, str]:
    """Return the metadata of a patch of this very pod, as it was."""
    return {"uid": pod.uid, "resourceVersion": pod.resource_version} if pod.resource_version else {"uid": pod.uid}


def object_patch(
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str,
    resource_version: str,
    change: Mapping[str, Any],
    subresource: str = "",
) -> tuple[str, bytes]:
    """Return path and body of a PATCH (merge) of an object as it was at that version.

    409 if it has changed since, or is another by now. Without `uid` or `resource_version`, that is not compared.
    """
    known = {"uid": uid, "resourceVersion": resource_version}
    metadata = {**change.get("metadata", {}), **{key: value for key, value in known.items() if value}}
    path = resource.path(namespace or None, name, subresource or None)
    return path, _encode({**change, "metadata": metadata} if metadata else change)


def object_creation(resource: Resource, namespace: str, name: str, document: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return path and body of a POST of a new object."""
    metadata = {**document.get("metadata", {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    body = {**document, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return resource.path(namespace or None), _encode(body)


def object_deletion(resource: Resource, namespace: str, name: str, uid: str) -> tuple[str, bytes]:
    """Return path and body of a DELETE of this very object; without `uid`, of the one that has the name."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    return resource.path(namespace or None, name), _encode(options)


def eviction(pod: PodRef) -> tuple[str, bytes]:
    """Return path and body of a POST of pods/eviction: this pod goes if its disruption budgets allow (else 429)."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return pod_path(pod, "eviction"), _encode(body)


def deletion(pod: PodRef) -> tuple[str, bytes]:
    """Return path and body of a DELETE of this very pod; 409 when the name belongs to another by now."""
    return object_deletion(PODS, pod.namespace, pod.name, pod.uid)


async def bind(
    client: Client,
    pod: PodRef,
    node: str,
    on_send: Callable[[], None] | None = None,
    since: float | None = None,
) -> None:
    """Bind; returns when the server said yes. `Unreachable` with `sent` True leaves open whether it happened.

    `on_send` is called when it leaves, each time that it does. `since`: as in `Client.request`.
    """
    create = partial(
        client.create,
        pod_path(pod, "binding"),
        lane=BIND,
        timeout=BIND_SECONDS,
        patience=BIND_PATIENCE,
        on_send=on_send,
        since=since,
    )
    if not (client.protobuf and await _in_protobuf(client, create, protobuf_binding(pod, node))):
        await create(binding(pod, node))


async def record(client: Client, event: Event) -> None:
    """Create an event; returns when the server said yes."""
    create = partial(client.create, EVENTS.path(event.namespace), lane=EVENT)
    if not (client.protobuf and await _in_protobuf(client, create, event.protobuf())):
        await create(event.json())


async def record_all(client: Client, events: Sequence[Event]) -> list[int]:
    """Create some events, which had their turn (`Client.turns`); return the statuses of those that were answered.

    Raises Unreachable if nothing was sent.
    """
    objects = [(EVENTS.path(event.namespace), event.protobuf()) for event in events]
    return await client.create_many(objects, PROTOBUF, lane=EVENT)


async def _in_protobuf(client: Client, create: Callable[[bytes, str], Awaitable[bytes]], body: bytes) -> bool:
    """Create in protobuf; return False, and never try again, when the server does not speak it."""
    try:
        await create(body, PROTOBUF)
    except ApiError as error:
        if error.status not in _NOT_SPOKEN:
            raise
        client.protobuf = False
        return False
    return True


async def patch_status(client: Client, path: str, body: bytes, lane: Lane = STATUS) -> bytes:
    """Send a status patch made by `condition_patch` or `nomination_patch`; returns the pod as it is now."""
    return await client.patch(path, body, STRATEGIC_MERGE_PATCH, lane=lane)


async def patch_object(
    client: Client, path: str, body: bytes, *, strategic: bool = False, since: float | None = None
) -> str:
    """Send a patch made by `object_patch`, with `since` as in `Client.request`; returns the new resourceVersion."""
    kind = STRATEGIC_MERGE_PATCH if strategic else MERGE_PATCH
    return version_of(await client.patch(path, body, kind, lane=BIND, since=since))


async def create_object(client: Client, path: str, body: bytes, *, since: float | None = None) -> str:
    """Create what `object_creation` made; returns its resourceVersion. `since`: as in `Client.request`."""
    return version_of(await client.create(path, body, lane=BIND, since=since))


def version_of(answer: bytes) -> str:
    """Return the resourceVersion of the object in an answer. Raises Unreachable for an answer that is no object."""
    return read_answer(answer, partial_object.decode).resource_version


async def delete_object(client: Client, path: str, body: bytes) -> None:
    """Delete what `object_deletion` names."""
    await client.delete(path, body, lane=STATUS)


async def delete_pod(client: Client, pod: PodRef) -> None:
    """Delete a pod (preemption's victim)."""
    path, body = deletion(pod)
    await client.delete(path, body, lane=EVICT)


# -- Kubernetes' protobuf encoding, as far as these writes need it -------------------------------------------------
#
# Messages are put together field by field; the numbers are those of generated.proto of k8s.io/api and
# k8s.io/apimachinery. On the wire every object is in an envelope: four bytes and a runtime.Unknown that names its kind.
# Answers are JSON.


def varint(number: int) -> bytes:
    """Return the bytes of a number from 0 on, seven bits a byte, the least first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_LENGTHS = tuple(varint(length) for length in range(2048))
_KEYS = tuple(bytes((field << 3 | _BYTES,)) for field in range(16))
"""The keys of fields that are bytes. Keys and lengths are looked up, since a pod's two bodies have forty of both."""


def integer(field: int, number: int) -> bytes:
    """Return a field that holds a number from 0 on. `field` is at most 15, here and below: its key is one byte."""
    return bytes((field << 3 | _VARINT,)) + varint(number)


def message(field: int, body: bytes) -> bytes:
    """Return a field that holds a message, or bytes."""
    length = len(body)
    return _KEYS[field] + (_LENGTHS[length] if length < 2048 else varint(length)) + body


def text(field: int, value: str) -> bytes:
    """Return a field that holds a string; nothing for an empty one, which is what its absence means."""
    if not value:
        return b""
    body = value.encode()
    length = len(body)
    return _KEYS[field] + (_LENGTHS[length] if length < 2048 else varint(length)) + body


kept_text = lru_cache(1024)(text)
kept_integer = lru_cache(1024)(integer)
"""`text` and `integer` for values that come again and again: their bytes are kept."""


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """Return an object as a request's body (runtime.Unknown: typeMeta 1, raw 2)."""
    return _head(api_version, kind) + message(2, body)


@lru_cache(16)
def _head(api_version: str, kind: str) -> bytes:
    return MAGIC + message(1, text(1, api_version) + text(2, kind))
