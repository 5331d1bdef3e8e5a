"""All objects of a kind, page by page: as fast as the client's rate allows, no page kept, and none of them large."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from podberth.kube.client import Client, list_pages, read_answer
from podberth.kube.objects import ListPage
from podberth.kube.resources import Resource
from podberth.policy.objects import JsonObject

FIRST, MOST, PAGE_BYTES = 5, 100, 1_000_000
"""Objects of the first page, of the others at most, and what a page should come to: an object may have 1.5 MB."""


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


def bodies(client: Client, kind: Resource, namespace: str | None) -> AsyncIterator[tuple[bytes, ListPage]]:
    """The pages as bytes and decoded to their shells; the next is as long as the size of this one's objects allows.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    return list_pages(client, kind.path(namespace), first=FIRST, most=MOST, page_bytes=PAGE_BYTES)
