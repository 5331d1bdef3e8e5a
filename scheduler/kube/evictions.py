"""The requests of the evictor: read a node and its pods as they are now, write an intent down, evict, tell.

An intent is an Event about the pod, written before the eviction is asked for: it outlives the process, so that the
next one knows whose successors to spare. Each function here is one request; when, is the engine's decision.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError
from scheduler.kube.flow import EVENT, EVICT
from scheduler.kube.resources import EVENTS, NODES, PODS
from scheduler.kube.wire import list_page
from scheduler.kube.writes import NOTE_BYTES, PodRef, event_name, eviction, micro_time, pod_path, shorten

CONTROLLER = "podberth.dev/evictor"
INTENT = "Evicting"
OWNER = "podberth.dev/owner"
"""Annotation of an intent: whose pod it is about."""
CLUSTER_EVENTS = "default"
"""The namespace of Events about objects that are in none (tools/events/event_recorder.go)."""
_PAGE = 500
_EXPIRED = 410


@dataclass(frozen=True, slots=True)
class Regarding:
    """Which object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Intent:
    """An eviction that was meant: whose pod, and when by the server's clock (RFC 3339)."""

    owner: str
    uid: str
    at: str


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""
    annotations: dict[str, str] | None = None


class _Reference(msgspec.Struct):
    uid: str = ""


class _Event(msgspec.Struct):
    metadata: _Meta
    regarding: _Reference = msgspec.field(default_factory=_Reference)


class _LiveMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Live(msgspec.Struct):
    metadata: _LiveMeta


_event = msgspec.json.Decoder(_Event)
_live = msgspec.json.Decoder(_Live)


def regarding(pod: PodRef) -> Regarding:
    """A pod, as what an Event is about."""
    return Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)


def event(
    about: Regarding, *, kind: str, reason: str, action: str, note: str, instance: str, owner: str = ""
) -> tuple[str, bytes]:
    """POST: an events.k8s.io Event about any object; `kind` is Normal or Warning, `owner` goes into its annotation."""
    namespace = about.namespace or CLUSTER_EVENTS
    metadata: dict[str, object] = {"namespace": namespace, "name": event_name(about.name)}
    if owner:
        metadata["annotations"] = {OWNER: owner}
    reference = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": metadata,
        "eventTime": micro_time(time.time()),
        "type": kind,
        "reason": reason,
        "action": action,
        "note": shorten(note, NOTE_BYTES),
        "reportingController": CONTROLLER,
        "reportingInstance": shorten(instance, 128),
        "regarding": {**reference, "namespace": about.namespace} if about.namespace else reference,
    }
    return EVENTS.path(namespace), msgspec.json.encode(body)


async def tell(client: Client, path: str, body: bytes) -> None:
    """Create an event made by `event`."""
    await client.create(path, body, lane=EVENT)


async def intents(client: Client) -> list[Intent]:
    """The intents of all evictors that the server still keeps (an hour, by its default)."""
    query = {"fieldSelector": f"reason={INTENT},reportingController={CONTROLLER}", "limit": str(_PAGE)}
    found = []
    async for raw in _pages(client, EVENTS.path(), query):
        read = _event.decode(raw)
        owner = (read.metadata.annotations or {}).get(OWNER, "")
        if owner:
            found.append(Intent(owner, read.regarding.uid, read.metadata.creation_timestamp))
    return found


async def read_node(client: Client, name: str) -> bytes | None:
    """A node as it is now, not as a cache has it; None: there is none."""
    try:
        return await client.get(NODES.path(None, name), tries=2)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def read_pods(client: Client, node: str) -> list[msgspec.Raw]:
    """The pods on a node as they are now."""
    query = {"fieldSelector": f"spec.nodeName={node}", "limit": str(_PAGE)}
    return [raw async for raw in _pages(client, PODS.path(), query)]


async def evict(client: Client, pod: PodRef, *, dry_run: bool) -> None:
    """Ask once for the eviction of this very pod: what a refusal means, and when to ask again, is not decided here."""
    path, body = eviction(pod)
    await client.request("POST", path, query="dryRun=All" if dry_run else "", body=body, lane=EVICT, tries=1)


async def is_leaving(client: Client, pod: PodRef) -> bool:
    """Whether this very pod is gone or on its way, for when the answer to its eviction was lost."""
    try:
        live = _live.decode(await client.get(pod_path(pod), tries=2)).metadata
    except ApiError as error:
        if error.status == 404:
            return True
        raise
    return live.uid != pod.uid or live.deletion_timestamp is not None


async def _pages(client: Client, path: str, query: dict[str, str]) -> AsyncIterator[msgspec.Raw]:
    """The items of a list; a list that changed too much between its pages is begun anew without them."""
    following = dict(query)
    seen = 0
    while True:
        try:
            page = list_page.decode(await client.get(path, query=urlencode(following), tries=2))
        except ApiError as error:
            if error.status != _EXPIRED or "continue" not in following:
                raise
            whole = {key: value for key, value in query.items() if key != "limit"}
            page = list_page.decode(await client.get(path, query=urlencode(whole), tries=2))
            for item in (page.items or ())[seen:]:
                yield item
            return
        for item in page.items or ():
            seen += 1
            yield item
        if not page.metadata.next:
            return
        following["continue"] = page.metadata.next
