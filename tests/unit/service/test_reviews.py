"""Delegated authentication and authorization: what is asked, what is remembered, and what is not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from podberth.service.reviews import (
    ALL_BURST,
    CA_KEY,
    CA_NAME,
    CA_NAMESPACE,
    KEEP_MOST,
    KEEP_SECONDS,
    PEER_BURST,
    PEERS_MOST,
    Reviews,
)
from tests.certificates import Authority, der
from tests.unit.kube.conftest import ScriptedServer

USER = {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"scopes": ["metrics"]}}


def answered(review: dict[str, Any], status: dict[str, Any]) -> web.Response:
    """The review with its answer in it, as the API server gives it back."""
    return web.json_response({**review, "status": status}, status=201)


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
            return answered(review, {"authenticated": self.authenticated, "user": user})
        return answered(review, {"allowed": self.allowed})


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


async def test_a_certificate_comes_before_a_token(server: ScriptedServer, tmp_path: Path) -> None:
    """Whom it names is known without asking; what they may is asked, and remembered."""
    server.answer = knows = Server()
    certificate = der(Authority(tmp_path).user("ann", "ops"))
    async with server.client() as client:
        reviews = Reviews(client)
        for _ in range(2):
            assert await reviews.authorize("Bearer good", "/metrics", certificate) == (200, "ann")
        nameless = der(Authority(tmp_path).client())
        assert (await reviews.authorize("Bearer good", "/metrics", nameless))[0] == 401
    (asked,) = knows.asked
    assert (asked["user"], asked["groups"]) == ("ann", ["ops", "system:authenticated"])


async def test_made_up_tokens_are_bounded(server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A peer that makes up tokens asks a few questions, all of them together some more; one line of the log counts."""
    now = 100.0
    server.answer = knows = Server(authenticated=False)
    async with server.client() as client:
        reviews = Reviews(client, clock=lambda: now)
        answers = [(await reviews.authorize(f"Bearer {i}", "/metrics", peer="10.0.0.1"))[0] for i in range(200)]
        assert answers == [401] * PEER_BURST + [429] * (200 - PEER_BURST)
        assert len(knows.asked) == PEER_BURST
        for i in range(200):
            await reviews.authorize(f"Bearer {i}", "/metrics", peer=f"10.0.1.{i}")
        assert len(knows.asked) == ALL_BURST
        now += 5.0
        assert (await reviews.authorize("Bearer another", "/metrics", peer="10.0.0.1"))[0] == 401
    said = capsys.readouterr().out
    assert said.count("requests were refused without asking the API server") == 1


async def test_who_is_known_is_served_beside_strangers(server: ScriptedServer) -> None:
    """Whoever is allowed stays so while others flood: kept answers cost nothing, and good questions are given back."""
    now = 100.0

    async def answer(request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        good = review["spec"].get("token", "good").startswith("good")
        return answered(review, {"authenticated": good, "user": USER, "allowed": good})

    server.answer = answer
    async with server.client() as client:
        reviews = Reviews(client, clock=lambda: now)
        for i in range(500):
            assert (await reviews.authorize(f"Bearer good{i % 100}", f"/{i}", peer="10.0.0.9"))[0] == 200
            if i % 10 == 0:
                await reviews.authorize(f"Bearer bad{i}", "/metrics", peer="10.0.0.1")
            now += 0.01
        for i in range(3000):
            await reviews.authorize(f"Bearer more{i}", "/metrics", peer=f"10.1.{i // 200}.{i % 200}")
            now += 0.001
        assert (await reviews.authorize("Bearer good99", "/499", peer="10.0.0.9"))[0] == 200
        kept = reviews.kept
        assert kept["allowed"] <= KEEP_MOST
        assert kept["refused"] <= KEEP_MOST
        assert kept["peers"] <= PEERS_MOST + 1


async def test_a_token_of_any_length_is_no_token(server: ScriptedServer) -> None:
    """A text that is longer than any token is not sent on."""
    server.answer = knows = Server()
    async with server.client() as client:
        assert (await Reviews(client).authorize(f"Bearer {'x' * 100_000}", "/metrics"))[0] == 401
    assert not knows.asked


def _map(version: str, **data: str) -> dict[str, Any]:
    metadata = {"name": CA_NAME, "namespace": CA_NAMESPACE, "uid": "1", "resourceVersion": version}
    return {"metadata": metadata, "data": data}


async def test_the_clusters_authorities(server: ScriptedServer) -> None:
    """The bundle of the ConfigMap, each time that it changes; while there is none, what was known stays."""
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    changes: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.query["fieldSelector"] == f"metadata.name={CA_NAME}"
        if "watch" not in request.query:
            return web.json_response(
                {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
            )
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            kind, body = await changes.get()
            await stream.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")

    server.answer = answer
    async with server.client() as client:
        following = asyncio.create_task(
            Reviews(client).authorities(
                lambda bundle: told.put_nowait(("found", bundle.decode())),
                lambda why: told.put_nowait(("kept", why)),
            )
        )
        async with asyncio.timeout(30):
            assert (await told.get())[0] == "kept"
            for change, want in (
                (("ADDED", _map("2", **{CA_KEY: "one"})), ("found", "one")),
                (("MODIFIED", _map("3", **{CA_KEY: "two"})), ("found", "two")),
                (("MODIFIED", _map("4")), ("kept", f"no {CA_KEY} in ConfigMap {CA_NAMESPACE}/{CA_NAME}")),
                (("DELETED", _map("5")), ("kept", f"no {CA_KEY} in ConfigMap {CA_NAMESPACE}/{CA_NAME}")),
            ):
                changes.put_nowait(change)
                assert await told.get() == want
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
