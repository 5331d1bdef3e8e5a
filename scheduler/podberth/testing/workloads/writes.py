"""Many creates and deletes at the API server's pace, over one client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.objects import list_page, partial

_AT_ONCE = 16
_PAGE = "500"
_GONE, _NOT_ALLOWED, _CONFLICT = 404, 405, 409
_NOW = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

Item = TypeVar("Item")
Post = tuple[str, bytes]
"""Path of a collection, and the object to create in it."""


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
    """The names in a collection of what carries a label (`key`, `key=value`), or does not (`!key`)."""
    return [partial.decode(item).metadata.name async for item in items(client, path, labelSelector=label)]


async def items(client: Client, path: str, **query: str) -> AsyncIterator[msgspec.Raw]:
    """The objects of a collection, which is read a page at a time. `query`: what else to ask for."""
    following = ""
    while True:
        asked = {**query, "limit": _PAGE} | ({"continue": following} if following else {})
        page = list_page.decode(await client.get(path, query=urlencode(asked)))
        for item in page.items or ():
            yield item
        following = page.metadata.next
        if not following:
            return


class _ListMeta(msgspec.Struct, rename="camel"):
    remaining_item_count: int = 0


class _Counted(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_counted = msgspec.json.Decoder(_Counted)
