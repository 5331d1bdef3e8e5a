"""What the evictor's readiness says: which kind it can't see, and that nobody looks while it stands by."""

from __future__ import annotations

from typing import Any, cast

from scheduler.controller.eviction.vitals import Post
from scheduler.controller.eviction.watcher import Watcher
from scheduler.kube.errors import ApiError
from scheduler.kube.lease import Elector
from scheduler.telemetry.health import answer
from tests.unit.controller.test_sight import FORBIDDEN, World


class Reached:
    """A Lease that can be read."""

    last_error = None
    reached = True
    leading = True


class Led:
    """A watcher with these eyes."""

    def __init__(self, world: World) -> None:
        self.sight = world.sight


def asked(post: Post) -> tuple[int, str]:
    """Of the readiness probe, with the notes."""
    return answer("/readyz", post.ready(), verbose=True, notes=post.notes())


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
