"""What the evictor serves: readiness, with the kind it can't see, and what its page says of both."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, cast

from podberth.app.evictor.launch import Post
from podberth.app.evictor.watcher import Watcher
from podberth.kube.errors import ApiError
from podberth.kube.lease import Elector
from podberth.service.pages import health
from podberth.service.serving import Endpoints, Gate
from tests.unit.app.test_watch import FORBIDDEN, World
from tests.unit.service.test_serving import everybody, serving

PAGE = Path(__file__).parents[3] / "docs" / "evictor.md"


class Reached:
    """A Lease that can be read."""

    last_error = None
    reached = True
    leading = True


class Led:
    """A watcher with these eyes."""

    def __init__(self, world: World) -> None:
        self.freshness = world.freshness


def asked(post: Post) -> tuple[int, str]:
    """Of the readiness probe, with the notes."""
    return health("/readyz", post.ready(), verbose=True, notes=post.notes())


def test_readiness_names_what_is_not_seen() -> None:
    """Whoever leads is ready once all is listed, and not while a kind that every eviction needs can't be followed."""
    world = World()
    post = Post("evictor", cast(Elector, Reached()))
    assert asked(post)[0] == 200  # it stands by
    post.watcher = cast(Watcher, cast(Any, Led(world)))
    assert asked(post)[0] == 200
    world.nodes.refused = FORBIDDEN
    status, said = asked(post)
    assert status == 503
    assert "[-]watches failed: not allowed to follow Nodes: 403 Forbidden: no role" in said
    world.nodes.has_synced = False
    status, said = asked(post)
    assert status == 503
    assert "[-]informer-sync failed: not listed yet: Node (403 Forbidden: no role)" in said


def test_what_it_does_without_is_no_failure() -> None:
    """A forbidden kind that no eviction needs is a note of the answer, and a kind that does not exist is none."""
    world = World()
    post = Post("evictor", cast(Elector, Reached()), cast(Watcher, cast(Any, Led(world))))
    world.others.refused = FORBIDDEN
    status, said = asked(post)
    assert status == 200
    assert "[!]watches: not allowed to follow, and evicting without: Namespace (403 Forbidden: no role)" in said
    world.others.refused = ApiError(404, "NotFound", "no such kind")
    assert "[!]" not in asked(post)[1]


async def test_its_page_names_what_is_served() -> None:
    """The figures are served where the page says, and each check of the readiness is explained there."""
    section = PAGE.read_text().partition("## Metrics and health\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(/[^`]+)`", section)
    post = Post("evictor", cast(Elector, Reached()))
    endpoints = Endpoints(ready=post.ready(), notes=post.notes, instruments=post.instruments)
    async with serving(Gate(everybody), endpoints) as ask:
        answers = {path: await asyncio.to_thread(ask, path) for path in named}
    assert {path: status for path, (status, _) in answers.items() if status != 200} == {}
    assert 'leader_election_master_status{name="evictor"} 1' in answers["/metrics"][1]
    checks = re.findall(r"^\[\+\](\S+) ok$", answers["/readyz?verbose"][1], re.MULTILINE)
    assert set(post.ready()) <= set(checks) <= {*re.findall(r"`([a-z-]+)`", section), "ping", "event-loop"}
