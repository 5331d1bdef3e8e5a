"""All objects of a kind, page by page: as fast as the client's rate allows, no page kept, and none of them large."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import msgspec

from podberth.kube.client import Client, read_answer
from podberth.kube.resources import Resource
from podberth.policy.objects import JsonObject

FIRST, MOST, PAGE_BYTES = 5, 100, 1_000_000
"""Objects of the first page, of the others at most, and what a page should come to: an object may have 1.5 MB."""


class _ListMeta(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class _Counted(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_counted = msgspec.json.Decoder(_Counted).decode


class Page(msgspec.Struct, rename="camel"):
    """One page of a list. Its items carry no kind and apiVersion: the list has them."""

    kind: str = ""
    api_version: str = ""
    items: list[JsonObject] | None = None

    def objects(self) -> list[JsonObject]:
        """The items as objects of their own."""
        kind = self.kind.removesuffix("List")
        return [{"apiVersion": self.api_version, "kind": kind, **item} for item in self.items or ()]


_page = msgspec.json.Decoder(Page).decode


async def pages(client: Client, kind: Resource, namespace: str | None) -> AsyncIterator[Page]:
    """The pages of a kind in a namespace, or (None) everywhere.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    async for body, _ in bodies(client, kind, namespace):
        yield read_answer(body, _page)


async def bodies(
    client: Client, kind: Resource, namespace: str | None
) -> AsyncIterator[tuple[bytes, list[msgspec.Raw]]]:
    """The pages as bytes, each with its items; the next page is as long as the size of this one's objects allows.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    query = {"limit": str(FIRST)}
    while True:
        body = await client.get(kind.path(namespace), query=urlencode(query))
        page = read_answer(body, _counted)
        items = page.items or []
        yield body, items
        if not page.metadata.next:
            return
        each = max(len(body) // max(len(items), 1), 1)
        query = {"limit": str(min(max(PAGE_BYTES // each, 1), MOST)), "continue": page.metadata.next}
