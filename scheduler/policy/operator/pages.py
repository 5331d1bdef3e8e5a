"""All objects of a kind, page by page: as fast as the client's rate allows, and no page kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.resources import Resource
from scheduler.policy.objects import JsonObject

PAGE = 100


class _ListMeta(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class Page(msgspec.Struct, rename="camel"):
    """One page of a list. Its items carry no kind and apiVersion: the list has them."""

    metadata: _ListMeta
    kind: str = ""
    api_version: str = ""
    items: list[JsonObject] | None = None

    def objects(self) -> list[JsonObject]:
        """The items as objects of their own."""
        kind = self.kind.removesuffix("List")
        return [{"apiVersion": self.api_version, "kind": kind, **item} for item in self.items or ()]


async def pages(client: Client, kind: Resource, namespace: str | None) -> AsyncIterator[Page]:
    """The pages of a kind in a namespace, or (None) everywhere.

    Raises ApiError, Unreachable, and MsgspecError for an answer that is no list.
    """
    query = {"limit": str(PAGE)}
    while True:
        body = await client.get(kind.path(namespace), query=urlencode(query))
        page = msgspec.json.decode(body, type=Page)
        yield page
        if not page.metadata.next:
            return
        query["continue"] = page.metadata.next
