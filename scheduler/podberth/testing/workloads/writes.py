"""Many creates and deletes at the API server's pace, the claims that are made for pods, and when pods are bound.

Claims are made as kube-controller-manager's claim controller makes them, for clusters where none runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from podberth.explain.objects import resource_claims
from podberth.explain.objects.resource_claims import Templated, templated
from podberth.kube.client import Client, list_items
from podberth.kube.errors import ApiError, Unreachable, read_status
from podberth.kube.listwatch import LineSplitter
from podberth.kube.objects import list_page, partial, watch_event
from podberth.kube.resources import POD_GROUPS, PODS, RESOURCE_CLAIMS, Resource
from podberth.testing.workloads.objects import LABEL

_AT_ONCE = 16
_GONE, _NOT_ALLOWED, _CONFLICT = 404, 405, 409
_NOW = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

Item = TypeVar("Item")
Post = tuple[str, bytes]
"""Path of a collection, and the object to create in it."""
LET_GO = msgspec.json.encode({"metadata": {"finalizers": None}})
_FREED = msgspec.json.encode({"status": {"allocation": None, "reservedFor": None, "devices": None}})
Key = tuple[str, str]
_SILENCE = 600.0


async def create_all(
    client: Client,
    posts: Iterable[Post],
    *,
    rate: float | None = None,
    again: bool = False,
    sent: Callable[[int, float], None] = lambda _index, _moment: None,
    then: Callable[[int, bytes], Awaitable[None]] | None = None,
) -> None:
    """Create in order; at `rate` a second, or as fast as the server takes them.

    `sent(index, moment)` is told when each is sent; `then(index, answer)` is done with what the server made of it.
    `again`: what is there already is left alone. Raises ApiError at the first refusal.
    """

    async def create(post: tuple[int, Post]) -> None:
        index, (path, body) = post
        sent(index, time.monotonic())
        try:
            answer = await client.create(path, body)
        except ApiError as error:
            if not (again and error.status == _CONFLICT):
                raise
            return
        if then is not None:
            await then(index, answer)

    await for_each(enumerate(posts), create, rate)


async def for_each(todo: Iterable[Item], do: Callable[[Item], Awaitable[None]], rate: float | None = None) -> None:
    """Do something for each, begun in order, some at a time; `rate` a second or as fast as it goes.

    Raises what the first that fails raises.
    """
    waiting = enumerate(todo)
    began = time.monotonic()

    async def work() -> None:
        for index, one in waiting:
            if rate is not None:
                await asyncio.sleep(max(began + index / rate - time.monotonic(), 0))
            await do(one)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def delete_labelled(client: Client, path: str, label: str) -> None:
    """Delete what carries the label in one collection, without grace; one by one where the server wants it so."""
    query = urlencode({"labelSelector": label})
    try:
        await client.request("DELETE", path, query=query, body=_NOW, timeout=120.0)
    except ApiError as error:
        if error.status != _NOT_ALLOWED:
            raise
        for name in await names(client, path, label):
            await delete_one(client, f"{path}/{name}")


async def delete_one(client: Client, path: str) -> None:
    """Delete an object without grace; it may be gone already."""
    try:
        await client.delete(path, _NOW)
    except ApiError as error:
        if error.status != _GONE:
            raise


async def count(client: Client, path: str) -> int:
    """Return how many objects a collection holds."""
    page = _counted.decode(await client.get(path, query="limit=1"))
    return len(page.items or ()) + page.metadata.remaining_item_count


async def names(client: Client, path: str, label: str) -> list[str]:
    """Return the names in a collection of what carries a label (`key`, `key=value`), or does not (`!key`)."""
    return [partial.decode(item).metadata.name async for item in list_items(client, path, {"labelSelector": label})]


class _ListMeta(msgspec.Struct, rename="camel"):
    remaining_item_count: int = 0


class _Counted(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_counted = msgspec.json.Decoder(_Counted)


class _Owner(msgspec.Struct):
    kind: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    owner_references: list[_Owner] = []
    finalizers: list[str] = []


class _Status(msgspec.Struct, rename="camel"):
    reserved_for: list[msgspec.Raw] = []


class _Claim(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _Holder(msgspec.Struct):
    """A pod or a pod group."""

    metadata: _Metadata
    spec: dict[str, Any]

    def group(self) -> str:
        """Return the name of the group that the pod is in; empty: it is in none."""
        name: str = self.spec.get("schedulingGroup", {}).get("podGroupName", "")
        return name


class ClaimController:
    """Makes and removes the claims of one run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._templates: dict[tuple[str, str], dict[str, Any]] = {}
        self._of_groups: dict[tuple[str, str], set[Templated]] = {}
        """The claims that the pods of a group share."""

    def learn(self, namespace: str, template: bytes) -> None:
        """Remember a ResourceClaimTemplate that was created."""
        document = msgspec.json.decode(template)
        self._templates[namespace, document["metadata"]["name"]] = document

    async def follow(self, answer: bytes) -> None:
        """Make the claims of a pod that was created, and name them in its status. Raises ApiError."""
        pod = _holder.decode(answer)
        meta = pod.metadata
        shared = self._of_groups.get((meta.namespace, pod.group()), ())
        await self._make(PODS, pod, shared)

    async def follow_group(self, answer: bytes) -> None:
        """Make the claims that the pods of a new group share, and name them in its status."""
        group = _holder.decode(answer)
        self._of_groups[group.metadata.namespace, group.metadata.name] = set(templated(group.spec))
        await self._make(POD_GROUPS, group)

    async def _make(self, kind: Resource, holder: _Holder, shared: Container[Templated] = ()) -> None:
        meta = holder.metadata
        asked = [each for each in templated(holder.spec) if (meta.namespace, each.template) in self._templates]
        named = []
        for each in asked:
            if each in shared:
                named.append(resource_claims.named(holder.group(), each))
                continue
            template = self._templates[meta.namespace, each.template]
            made = resource_claims.claim(
                template, each, owner=meta.name, namespace=meta.namespace, uid=meta.uid, of_group=kind is POD_GROUPS
            )
            await self._client.create(RESOURCE_CLAIMS.path(meta.namespace), msgspec.json.encode(made))
            named.append(resource_claims.named(meta.name, each))
        if named:
            change = {"status": {"resourceClaimStatuses": named}}
            path = kind.path(meta.namespace, meta.name, "status")
            await self._client.patch(path, msgspec.json.encode(change))

    async def end(self, namespace: str, pod: str, answer: bytes) -> None:
        """Delete the claims of a pod that was deleted. `answer`: the one to its creation."""
        for each in templated(_holder.decode(answer).spec):
            path = RESOURCE_CLAIMS.path(namespace, resource_claims.claim_name(pod, each.name))
            await self._client.patch(path, LET_GO)
            await delete_one(self._client, path)

    async def clear(self, namespaces: Iterable[str]) -> None:
        """Delete the claims of all pods of these namespaces, which were deleted, and free the shared ones."""
        for namespace in namespaces:
            found = [_claim.decode(item) async for item in list_items(self._client, RESOURCE_CLAIMS.path(namespace))]
            await for_each(found, self._clear)

    async def _clear(self, claim: _Claim) -> None:
        meta = claim.metadata
        path = RESOURCE_CLAIMS.path(meta.namespace, meta.name)
        if any(owner.kind in (PODS.kind, POD_GROUPS.kind) for owner in meta.owner_references):
            if meta.finalizers:
                await self._client.patch(path, LET_GO)
            await delete_one(self._client, path)
        elif claim.status.reserved_for:
            await self._client.patch(f"{path}/status", _FREED)
            await self._client.patch(path, LET_GO)


_holder, _claim = msgspec.json.Decoder(_Holder), msgspec.json.Decoder(_Claim)


class Bindings:
    """Use as `async with`. `at`: (namespace, name) → time.monotonic() when the watch showed the pod on a node."""

    def __init__(self, client: Client, run: str) -> None:
        self.at: dict[Key, float] = {}
        self._client = client
        self._query = {"labelSelector": f"{LABEL}={run}", "fieldSelector": "spec.nodeName!="}
        self._version = ""
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._awaited: dict[Key, asyncio.Event] = {}

    async def __aenter__(self) -> Bindings:
        page = list_page.decode(await self._client.get(PODS.path(), query="limit=1"))
        self._version = page.metadata.resource_version
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._following is not None
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def wait(self, done: Callable[[], bool], patience: float, check: Callable[[], None]) -> bool:
        """Wait until `done` returns true; return False when `patience` seconds went by first.

        `check` is called twice a second and may raise; what ends the watch is raised here.
        """
        assert self._following is not None
        until = time.monotonic() + patience
        while not done():
            if self._following.done():
                self._following.result()
            check()
            if time.monotonic() > until:
                return False
            self._news.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._news.wait()
            except TimeoutError:
                continue
        return True

    async def wait_for(self, key: Key) -> None:
        """Wait until one pod is bound, however long that takes."""
        if key not in self.at:
            await self._awaited.setdefault(key, asyncio.Event()).wait()

    async def _follow(self) -> None:
        while True:
            query = {**self._query, "watch": "true", "resourceVersion": self._version}
            splitter = LineSplitter()
            async with self._client.stream(PODS.path(), query=urlencode(query), idle=_SILENCE) as stream:
                try:
                    while chunk := await stream.read():
                        self._note(splitter.feed(chunk))
                except Unreachable:
                    continue  # opened again from the last version seen: nothing is lost

    def _note(self, lines: list[bytes]) -> None:
        now = time.monotonic()
        for line in lines:
            event = watch_event.decode(line)
            if event.type == "ERROR":
                raise ApiError.from_event(read_status(event.object))
            metadata = partial.decode(event.object).metadata
            self._version = metadata.resource_version
            if event.type == "ADDED":
                key = (metadata.namespace, metadata.name)
                self.at.setdefault(key, now)
                if key in self._awaited:
                    self._awaited.pop(key).set()
        self._news.set()
