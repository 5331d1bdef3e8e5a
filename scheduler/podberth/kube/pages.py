"""All objects of a kind, page by page: one list for everything that reads a collection once and does not watch it.

A page is as long as the size of the last one's objects allows, so that no answer is larger than the caller wants to
hold. Where the server has forgotten the state that the pages are of (410), the list goes on in the present state, with
the token that the server offers for that (k8s.io/apiserver pkg/storage/etcd3/errors.go): each object that was there all
the time comes once. `listwatch` pages by itself, because it needs a list of one moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlencode

import msgspec

from podberth.kube.client import TRIES, Client, read_answer
from podberth.kube.errors import ApiError
from podberth.kube.objects import ListPage, list_page

MOST = 500
"""Objects of a page, as client-go's pager asks for."""
PAGE_BYTES = 16 << 20
_EXPIRED = 410


async def list_pages(
    client: Client,
    path: str,
    selectors: Mapping[str, str] | None = None,
    *,
    first: int = MOST,
    most: int = MOST,
    page_bytes: int = PAGE_BYTES,
    tries: int = TRIES,
) -> AsyncIterator[tuple[bytes, ListPage]]:
    """Yield each page of a collection, as it came and decoded to its shell.

    `selectors`: `fieldSelector`, `labelSelector`. `first`, `most`: objects of the first page, and of the others at
    most. `page_bytes`: what a page should come to, which one may exceed if its objects are larger than those before.
    `tries`: as in `Client.request`.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    limit, token = first, ""
    while True:
        query = {**(selectors or {}), "limit": str(limit), **({"continue": token} if token else {})}
        try:
            body = await client.get(path, query=urlencode(query), tries=tries)
        except ApiError as error:
            if error.status != _EXPIRED or error.next_page in ("", token):
                raise
            token = error.next_page
            continue
        page = read_answer(body, list_page.decode)
        yield body, page
        token = page.metadata.next
        if not token:
            return
        limit = max(1, min(most, page_bytes * len(page.items) // len(body))) if page.items else most


async def list_items(
    client: Client, path: str, selectors: Mapping[str, str] | None = None, *, tries: int = TRIES
) -> AsyncIterator[msgspec.Raw]:
    """Yield each object of a collection, undecoded. Arguments and errors are those of `list_pages`."""
    async for _, page in list_pages(client, path, selectors, tries=tries):
        for item in page.items or ():
            yield item
