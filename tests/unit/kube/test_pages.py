"""Lists that are read page by page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from podberth.apiserver import ApiServer
from podberth.kube.client import TRIES, Client, list_items, list_pages
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import CONFIG_MAPS

PATH = CONFIG_MAPS.path("default")


class Lists(Client):
    """Answers with the given pages, in order; an exception is raised. Remembers what was asked."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        super().__init__(Connection(host="http://127.0.0.1:1"))
        self.answers = list(answers)
        self.asked: list[dict[str, list[str]]] = []

    async def get(self, path: str, *, query: str = "", tries: int = TRIES, **_: Any) -> bytes:
        """The next answer."""
        self.asked.append(parse_qs(query))
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def listed(*sizes: int, following: str = "") -> bytes:
    """A page with one object for each size in bytes, about."""
    items = [{"metadata": {"name": f"c{index}"}, "data": "x" * size} for index, size in enumerate(sizes)]
    return json.dumps({"metadata": {"continue": following}, "items": items}).encode()


async def test_a_page_is_as_long_as_the_last_one_allows() -> None:
    """Never empty, and never longer than the most."""
    pages = (listed(1000, 1000, following="a"), listed(9000, following="b"), listed(following="c"), listed(1, 1))
    client = Lists(*pages)
    found = [
        len(page.items or ())
        async for _, page in list_pages(client, PATH, {"labelSelector": "a=b"}, first=2, most=7, page_bytes=4500)
    ]
    assert found == [2, 1, 0, 2]
    assert [asked["limit"] for asked in client.asked] == [["2"], ["4"], ["1"], ["7"]]
    assert [asked.get("continue") for asked in client.asked] == [None, ["a"], ["b"], ["c"]]
    assert all(asked["labelSelector"] == ["a=b"] for asked in client.asked)


async def test_the_history_is_forgotten_between_two_pages() -> None:
    """The list goes on in the present state: nothing comes twice, and what is there all the time is not missed."""
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        for name in "abc":
            await client.create(PATH, b'{"metadata":{"name":"%s"}}' % name.encode())
        found = []
        async for _, page in list_pages(client, PATH, first=1, most=1):
            found += [msgspec.json.decode(item)["metadata"]["name"] for item in page.items or ()]
            if found == ["a"]:
                await client.create(PATH, b'{"metadata":{"name":"d"}}')
                server.store.compact()
    assert found == ["a", "b", "c", "d"]


@pytest.mark.parametrize("offered", ["", "a"])
async def test_no_way_to_go_on(offered: str) -> None:
    """A 410 without another token than the one that was refused ends the list."""
    client = Lists(listed(1, following="a"), ApiError(410, "Expired", next_page=offered))
    with pytest.raises(ApiError):
        _ = [item async for item in list_items(client, PATH)]
    assert not client.answers


async def test_an_answer_that_is_no_list() -> None:
    """Whoever wrote that is no API server."""
    with pytest.raises(Unreachable, match="none of an API server's"):
        _ = [item async for item in list_items(Lists(b'{"metadata":{},"items":7}'), PATH)]
