"""The requests of the evictor: read a node and its pods as they are now, write an intent down, evict, tell.

An intent is the Event `Evicting` about the pod, written before the eviction is asked for; `Evicted` says that it took
place. They outlive the process: the next one, `--dry-run` and `explain` read from them whose successors to spare, and
until when (`past_evictions`). When to send a request is the engine's decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from podberth.kube.client import Client, list_items
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import EVENT, EVICT
from podberth.kube.objects import MALFORMED
from podberth.kube.resources import EVENTS, NODES, PODS
from podberth.kube.writes import Event, PodRef, Regarding, eviction, live_pod, pod_path

CONTROLLER = "podberth.dev/evictor"
INTENT, DONE, LEADS = "Evicting", "Evicted", "LeaderElection"
OWNER = "podberth.dev/owner"
"""Annotation of both: whose pod it is about."""
ROUND = "podberth.dev/eviction-round"
"""Annotation of both: how often pods of the owner were evicted one after the other."""
SPARED = "podberth.dev/successors-wait-seconds"
"""Annotation of both: for how long pods that are created afterwards are not evicted."""
ASKED = "podberth.dev/asked-at"
"""Annotation of `Evicted`: when the eviction was asked for, by the server's clock."""
_MOST = 1e6
MOST_OF_NAMESPACE = 20_000
"""Events of one namespace that are kept in mind. At the default rates an evictor writes some 4,000 there in an hour."""


@dataclass(frozen=True, slots=True)
class PastEviction:
    """One pod that an evictor evicted, or meant to. Times are the server's (RFC 3339), in whole seconds.

    `owner`: UID of the pods' controller, or the name of a pod without one, in the pod's namespace.
    `spared`: seconds for which pods that were created afterwards are left alone; 0 where nobody wrote it down.
    `done_at`: when it was written down that it took place, empty where it was not.
    """

    namespace: str
    name: str
    uid: str
    owner: str
    round: int
    spared: float
    asked_at: str
    done_at: str

    def ago(self, now: float) -> float | None:
        """Return the seconds since it took place, or one less; None: nobody wrote that down. `now`: Unix time."""
        return max(now - seconds(self.done_at) - 1.0, 0.0) if self.done_at else None


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _Reference(msgspec.Struct):
    uid: str = ""
    name: str = ""
    namespace: str = ""


class _Event(msgspec.Struct, rename="camel"):
    """An Event of events.k8s.io/v1, or of v1, where two fields have other names."""

    metadata: _Meta
    reason: str = ""
    regarding: _Reference | None = None
    involved_object: _Reference | None = None
    reporting_controller: str = ""
    reporting_component: str = ""

    @property
    def about(self) -> _Reference:
        return self.regarding or self.involved_object or _Reference()

    @property
    def created(self) -> str:
        return self.metadata.creation_timestamp or ""

    @property
    def said(self) -> dict[str, str]:
        return self.metadata.annotations or {}


_event = msgspec.json.Decoder(_Event)


def regarding(pod: PodRef) -> Regarding:
    """Return the reference to a pod that an Event about it has."""
    return Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)


async def tell(client: Client, event: Event, annotations: Mapping[str, str] | None) -> str:
    """Create an Event with these annotations; return when it was created, by the server's clock (RFC 3339).

    An answer that does not say so is as good as none: Unreachable.
    """
    event = msgspec.structs.replace(event, annotations=annotations)
    answer = await client.create(EVENTS.path(event.namespace), event.json(), lane=EVENT)
    try:
        created = _event.decode(answer).created
        seconds(created)
    except MALFORMED as error:
        raise Unreachable(f"an Event was created, but the answer does not say when: {error}") from error
    return created


def record(owner: str, round_: int, spared: float, asked_at: str = "") -> dict[str, str]:
    """Return the annotations by which the Event of an eviction is understood later."""
    found = {OWNER: owner, ROUND: str(round_), SPARED: f"{spared:g}"}
    return {**found, ASKED: asked_at} if asked_at else found


async def read_past_evictions(client: Client) -> list[PastEviction]:
    """Return what all evictors wrote down and the server still keeps (an hour, by its default)."""
    found = _Records()
    for reason in (INTENT, DONE):
        selectors = {"fieldSelector": f"reason={reason},reportingController={CONTROLLER}"}
        async for raw in list_items(client, EVENTS.path(), selectors, tries=2):
            found.add(raw)
    return found.evictions()


def past_evictions(events: Iterable[bytes | msgspec.Raw]) -> list[PastEviction]:
    """Return what these Events tell of evictions; others are passed over. Raises msgspec.MsgspecError."""
    found = _Records()
    for raw in events:
        found.add(raw)
    return found.evictions()


class _Records:
    """Events about evictions, by pod. Anybody may write Events in their namespace, so each one has its share."""

    def __init__(self) -> None:
        self._told: dict[str, list[_Event]] = {}
        self._of: Counter[str] = Counter()

    def add(self, raw: bytes | msgspec.Raw) -> None:
        """Keep an Event, if an evictor wrote it about an eviction. Raises msgspec.MsgspecError."""
        read = _event.decode(raw)
        ours = CONTROLLER in (read.reporting_controller, read.reporting_component)
        about = read.about
        if not ours or read.reason not in (INTENT, DONE) or not about.uid or not read.created:
            return
        self._of[about.namespace] += 1
        if self._of[about.namespace] <= MOST_OF_NAMESPACE:
            self._told.setdefault(about.uid, []).append(read)

    def evictions(self) -> list[PastEviction]:
        """Return what the Events tell, one entry for each pod."""
        return [_folded(each) for each in self._told.values() if any(OWNER in one.said for one in each)]


def _folded(events: list[_Event]) -> PastEviction:
    """Return what several Events tell of one pod: an intent is written again from time to time."""
    done = max((one for one in events if one.reason == DONE), key=lambda one: one.created, default=None)
    asked = [one.created for one in events if one.reason == INTENT]
    about = events[0].about
    return PastEviction(
        about.namespace,
        about.name,
        about.uid,
        next(one.said[OWNER] for one in events if OWNER in one.said),
        max(1, *(int(_number(one.said.get(ROUND))) for one in events)),
        max(_number(one.said.get(SPARED)) for one in events),
        (done.said.get(ASKED) if done is not None else None) or min(asked, default="") or (done or events[0]).created,
        "" if done is None else done.created,
    )


def _number(text: str | None) -> float:
    """Return a number that we wrote, or 0: anybody may change an annotation."""
    try:
        found = float(text or 0)
    except ValueError:
        return 0.0
    return found if 0 <= found <= _MOST else 0.0


def seconds(stamp: str) -> float:
    """Return Unix time of an RFC 3339 time."""
    return datetime.fromisoformat(stamp).timestamp()


async def read_node(client: Client, name: str) -> bytes | None:
    """Return a node as it is now, not as a cache has it; None: there is none."""
    try:
        return await client.get(NODES.path(None, name), tries=2)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def read_pods(client: Client, node: str) -> list[msgspec.Raw]:
    """Return the pods on a node as they are now."""
    selectors = {"fieldSelector": f"spec.nodeName={node}"}
    return [raw async for raw in list_items(client, PODS.path(), selectors, tries=2)]


async def evict(client: Client, pod: PodRef, *, dry_run: bool) -> None:
    """Ask once for the eviction of this very pod: what a refusal means, and when to ask again, is not decided here."""
    path, body = eviction(pod)
    await client.request("POST", path, query="dryRun=All" if dry_run else "", body=body, lane=EVICT, tries=1)


async def is_leaving(client: Client, pod: PodRef) -> bool:
    """Return whether this very pod is gone or being deleted, for when the answer to its eviction was lost."""
    try:
        live = live_pod(await client.get(pod_path(pod), tries=2)).metadata
    except ApiError as error:
        if error.status == 404:
            return True
        raise
    return live.uid != pod.uid or live.deletion_timestamp is not None
