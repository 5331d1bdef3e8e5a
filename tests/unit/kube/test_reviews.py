"""Delegated authentication and authorization: what is asked, what is remembered, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from scheduler.kube.reviews import KEEP_SECONDS, Reviews
from tests.unit.kube.conftest import ScriptedServer

USER = {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"scopes": ["metrics"]}}


class Server:
    """Knows one token and whether its owner may."""

    def __init__(self, *, authenticated: bool = True, allowed: bool = True) -> None:
        self.authenticated = authenticated
        self.allowed = allowed
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer a review."""
        review = json.loads(await request.read())
        self.asked.append(review["spec"])
        if review["kind"] == "TokenReview":
            user = USER if self.authenticated else {}
            return web.json_response({"status": {"authenticated": self.authenticated, "user": user}}, status=201)
        return web.json_response({"status": {"allowed": self.allowed}}, status=201)


@pytest.mark.parametrize(
    ("id", "header", "knows", "want"),
    [
        ("allowed", "Bearer good", Server(), (200, 2)),
        ("unknown token", "Bearer bad", Server(authenticated=False), (401, 1)),
        ("not allowed", "Bearer good", Server(allowed=False), (403, 2)),
        ("no header", None, Server(), (401, 0)),
        ("another scheme", "Basic Zm9v", Server(), (401, 0)),
        ("no token", "Bearer ", Server(), (401, 0)),
    ],
    ids=lambda value: value if (isinstance(value, str) and " " in value) or value == "allowed" else "",
)
async def test_verdicts(
    server: ScriptedServer, id: str, header: str | None, knows: Server, want: tuple[int, int]
) -> None:
    """(status, how many questions to the API server)."""
    server.answer = knows
    async with server.client() as client:
        status, _ = await Reviews(client).authorize(header, "/metrics")
    assert (status, len(knows.asked)) == want
    if len(knows.asked) == 2:
        assert knows.asked == [
            {"token": "good"},
            {
                "user": "prometheus",
                "uid": "7",
                "groups": ["scrapers"],
                "extra": {"scopes": ["metrics"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        ]


async def test_answers_are_kept_for_a_moment(server: ScriptedServer) -> None:
    """The same token and path are asked about once in ten seconds; another path is another question."""
    now = 100.0
    server.answer = knows = Server()
    async with server.client() as client:
        reviews = Reviews(client, clock=lambda: now)
        for path in ("/metrics", "/metrics", "/configz"):
            assert (await reviews.authorize("Bearer good", path))[0] == 200
        assert len(knows.asked) == 4
        now += KEEP_SECONDS
        knows.allowed = False
        assert (await reviews.authorize("Bearer good", "/metrics"))[0] == 403


async def test_trouble_is_not_kept(server: ScriptedServer) -> None:
    """An API server that can't be asked is no verdict: 503, and asked again."""

    async def broken(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    server.answer = broken
    async with server.client() as client:
        reviews = Reviews(client)
        assert (await reviews.authorize("Bearer good", "/metrics"))[0] == 503
        server.answer = Server()
        assert (await reviews.authorize("Bearer good", "/metrics"))[0] == 200
