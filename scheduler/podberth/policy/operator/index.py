"""All policies and all sets, as kopf's events tell of them, and what these do not tell (`kopf_limits`).

`Index` is what handlers write and the reconciler reads; `Missed` completes it, and finds what is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from podberth.kube.client import Client, list_items
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.lease import LeaseLostError
from podberth.kube.objects import MALFORMED, Version, list_page, older, read_version
from podberth.kube.resources import METADATA_POLICIES, Resource
from podberth.policy.operator.kopf_limits import AGAIN_SECONDS, STREAM_SECONDS, Pulse, Session

SILENT_SECONDS = 2 * STREAM_SECONDS + 15.0
"""kopf may wait for ever for the answer to a watch; after so long, while we are answered, a new process is better."""
CHECK_SECONDS = 10.0
"""Between two looks whether policies are served, and whether resourceVersions go on."""

log = structlog.get_logger("watch")


class Item(Protocol):
    """An object as an index has it."""

    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> Version: ...


Held = TypeVar("Held", bound=Item)


class Index(Generic[Held]):
    """Holds all objects of a kind, by namespace. `read` returns the part of an object that is kept."""

    def __init__(self, kind: Resource, read: Callable[[Mapping[str, Any]], Held], selector: str = "") -> None:
        self.kind = kind
        self.selector = {"labelSelector": selector} if selector else {}
        self._read = read
        self._items: dict[str, dict[str, Held]] = {}
        self._gone: set[str] = set()
        """The uids of those that went since the last comparison."""

    def put(self, document: Mapping[str, Any]) -> None:
        """Keep an object, or its new state."""
        item, namespace = self._read(document), document["metadata"]["namespace"]
        held = self._items.get(namespace, {}).get(item.uid)
        if item.uid not in self._gone and not (held is not None and older(item.version, held.version)):
            self._items.setdefault(namespace, {})[item.uid] = item

    def drop(self, namespace: str, uid: str) -> None:
        """Take note that an object is gone, though an older state of it may still come."""
        self._gone.add(uid)
        found = self._items.get(namespace, {})
        found.pop(uid, None)
        if not found:
            self._items.pop(namespace, None)

    def of(self, namespace: str) -> list[Held]:
        """Return what a namespace has."""
        return list(self._items.get(namespace, {}).values())

    def namespaces(self) -> list[str]:
        """Return the namespaces that have some."""
        return list(self._items)

    async def compare(self, client: Client, watched: Iterable[str | None]) -> bool:
        """List all objects, and return whether the index had some of them differently.

        Raises ApiError and Unreachable.
        """
        before = {
            (namespace, uid): held.version for namespace, found in self._items.items() for uid, held in found.items()
        }
        differs = False
        self._gone.clear()
        for namespace in watched:
            async for item in list_items(client, self.kind.path(namespace), self.selector):
                document = msgspec.json.decode(item)
                self.put(document)
                meta = document["metadata"]
                there = before.pop((meta["namespace"], meta["uid"]), 0)
                differs |= older(there, read_version(meta["resourceVersion"]))
        for gone in before:
            self.drop(*gone)
        return differs or bool(before)


class Missed:
    """Completes the indices, and finds what they have differently: then `lost()` is called."""

    def __init__(
        self,
        client: Client,
        session: Session,
        pulse: Pulse,
        watched: tuple[str, ...],
        indices: tuple[Index[Any], ...],
        lost: Callable[[], None],
    ) -> None:
        self.complete = asyncio.Event()
        """The indices have all that there is: from then on namespaces can be judged by them."""
        self._client = client
        self._session = session
        self._pulse = pulse
        self._watched: tuple[str | None, ...] = watched or (None,)
        self._indices = indices
        self._lost = lost
        self._absences = 0
        self._version: Version = ""
        self._said = ""

    async def run(self) -> None:
        """Compare after each list of kopf's, and look each `CHECK_SECONDS`, until cancelled.

        Raises LeaseLostError when all has to be learned anew.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS if self.complete.is_set() else AGAIN_SECONDS):
                    await self._session.relisted.wait()
            try:
                await self._look()
                if self._session.relisted.is_set():
                    self._session.relisted.clear()
                    await self._compare()
                    self.complete.set()
            except (ApiError, Unreachable, *MALFORMED) as error:
                self._session.relisted.set()
                self._failed(error)
                await asyncio.sleep(AGAIN_SECONDS)

    def _failed(self, error: Exception) -> None:
        """Say it. A first 404 may come from an API server that starts; two mean that all policies are gone.

        Raises LeaseLostError when they are.
        """
        told = f"MetadataPolicies can't be listed, trying again: {error}"
        if isinstance(error, ApiError) and error.status == 404:
            self._absences += 1
            if self._absences < 2:
                return
            raise LeaseLostError("the CRD of MetadataPolicies is gone") from error
        if told != self._said:
            log.warning(told[:300])
        self._said = told

    async def _look(self) -> None:
        path = METADATA_POLICIES.path(self._watched[0])
        page = list_page.decode(await self._client.get(path, query="limit=1", tries=1))
        before, self._version = self._version, read_version(page.metadata.resource_version)
        self._absences = 0
        self._said = ""
        if older(self._version, before):
            raise LeaseLostError("resourceVersions went back: etcd was restored from a backup")
        self._hear()

    def _hear(self) -> None:
        if self._pulse.silence() > SILENT_SECONDS:
            raise LeaseLostError("kopf's watch of MetadataPolicies is silent, though the API server answers")

    async def _compare(self) -> None:
        for index in self._indices:
            if await index.compare(self._client, self._watched):
                self._lost()  # now: the next list may fail, and a second comparison of this index finds nothing
        self._hear()
