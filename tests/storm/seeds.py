"""What seeds have found: holes that are open, and plans that failed once and must not again.

A seed means another run whenever the planner changes, so what it found is kept as a scene: a small fixed world, and the
few happenings that `shrink` left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.storm.berth import Clock
from tests.storm.happenings import Happening, at
from tests.storm.plan import Plan

TOWN = (("n0", 2000, 110, "a"), ("n1", 2000, 110, "b"), ("n2", 2000, 110, "a"), ("n3", 1000, 6, "b"))


def scene(seed: str, *happenings: Happening, rival_every: float = 8.0) -> Plan:
    """These happenings in a small town with right clocks."""
    right = Clock(0.0, 1.0, 0.0)
    return Plan(seed, TOWN, (right, right), rival_every, happenings)


@dataclass(frozen=True)
class Hole:
    """Something that Berth does not survive yet: a run that fails may fail for it."""

    name: str
    why: str
    causes: Callable[[Happening], bool]
    example: Plan
    """Fails as long as the hole is open."""


OPEN: tuple[Hole, ...] = ()
"""To be kept empty."""


@dataclass(frozen=True)
class Found:
    """What a seed found, and what mended it."""

    name: str
    cause: str
    scene: Plan


FOUND: tuple[Found, ...] = (
    Found(
        "restored from a backup",
        "a watch went on from a version in the future, and the server said nothing until it was past it",
        scene(
            "restored",
            at(100.0, "want", namespace="blue", name="w1", cpu=100, replicas=5),
            at(131.0, "want", namespace="green", name="w2", cpu=100, replicas=5),
            at(148.0, "restore", back=60.0, seconds=0.5),
        ),
    ),
    Found(
        "events lost",
        "nothing compared the cache with the cluster, so a lost event was never made up for",
        scene(
            "lost",
            at(125.8, "watch-lines", plural="pods", how="lost", chance=1.0, seconds=11.0),
            at(133.7, "want", namespace="blue", name="w1", cpu=250, replicas=7),
        ),
    ),
    Found(
        "a Binding is stored, and answered 500",
        "500, 502 and 504 counted as a refusal, though the server may have acted",
        scene(
            "answered 500",
            at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=20.0, code=500, acted=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "a page in answer to a Binding",
        "200 with a proxy's page counted as yes, and the pod was assumed for ever",
        scene(
            "page for a Binding",
            at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="create pods/binding", chance=0.5, seconds=20.0, code=200, page=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "a Binding lands after the pod was asked for",
        "one look at a pod that was not bound counted as a refusal, though the Binding was still on its way",
        scene(
            "orphan",
            *(at(when, "want", namespace="blue", name=f"w{when:.0f}", cpu=500, replicas=9) for when in (1.0, 2.0)),
            at(50.0, "requests", what="create pods/binding", chance=0.5, seconds=60.0, orphan=4.0),
            *(at(when, "delete-pods", count=9) for when in (55.0, 65.0, 75.0, 85.0, 95.0)),
        ),
    ),
    Found(
        "a maintenance page that asks for an hour",
        "Retry-After was obeyed up to 3,600 s, and the lists of a restarted replica waited for it",
        scene(
            "an hour",
            at(11.6, "want", namespace="blue", name="w2", cpu=500, gated=True, replicas=10),
            at(71.7, "requests", what="", chance=0.5, seconds=44.1, code=503, retry_after=3600),
            at(78.4, "ungate"),
        ),
    ),
    Found(
        "a page in place of the Lease",
        "200 with HTML, from a proxy, raised DecodeError out of the election and ended the process",
        scene("page", at(24.1, "requests", what="", chance=1.0, seconds=84.2, code=200, page=True, acted=True)),
    ),
    Found(
        "a former leader has bound the pod",
        "both replicas choose alike, so the 409 was taken for the answer to a Binding of our own, and announced again",
        scene(
            "twice0",
            at(73.9, "want", namespace="green", name="w1", cpu=1000, apart=True, replicas=5),
            at(90.8, "lease-gone"),
            at(91.6, "delete-pods", count=7),
        ),
    ),
)


def without_holes(plan: Plan) -> Plan:
    """The same run without what an open hole does not survive."""
    kept = tuple(one for one in plan.happenings if not any(hole.causes(one) for hole in OPEN))
    return replace(plan, happenings=kept)


def _pods(moment: float, name: str, replicas: int, cpu: int = 100) -> Happening:
    return at(moment, "want", namespace="blue", name=name, cpu=cpu, replicas=replicas)


SCENES: dict[str, Plan] = {
    "cordoned": scene("cordoned", at(50.0, "cordon", node="n0", seconds=250.0), _pods(200.0, "w", 12)),
    "node gone": scene("node gone", at(50.0, "delete-node", node="n0", seconds=270.0, part=1.0), _pods(200.0, "w", 12)),
    "room again": scene(
        "room again", _pods(10.0, "low", 13, 500), _pods(270.0, "more", 6, 500), _pods(300.0, "low", 3, 500)
    ),
    "paused": scene(
        "paused",
        at(99.0, "requests", what="update leases", chance=1.0, seconds=140.0, right=True, late=2.0),
        *(at(when, "pause", who=who, seconds=25.0) for when, who in ((100.0, "berth-a"), (200.0, "berth-b"))),
        *(at(when, "pause", who=who, seconds=4.0) for when, who in ((123.0, "berth-b"), (223.0, "berth-a"))),
        *(_pods(when, f"w{when:.0f}", 9) for when in (1.0, 124.0, 224.0)),
    ),
    "orphans": scene(
        "orphans0",
        *(_pods(1.0 + i, f"w{i}", 9, 500) for i in range(2)),
        at(50.0, "requests", what="create pods/binding", chance=0.4, seconds=200.0, orphan=4.0),
        *(at(55.0 + 10 * i, "delete-pods", count=9) for i in range(16)),
    ),
    **{found.scene.seed: found.scene for found in FOUND},
}
"""Small worlds that provoke one thing each, for mutants that few seeds meet."""

UNCAUGHT: dict[str, str] = {
    "no-fence": "whoever keeps the Lease ends the work in the same turn",
    "withdraws-nothing": "a Binding has to wait for its turn for longer than news may take",
    "decides-blindly": "what a replica decides without sight is mostly right, or refused by the API server",
    "ignores-410": "the comparison with a list repairs it",
    "waits-for-ever": "the comparison with a list repairs it",
    "takes-older-events": "the comparison with a list repairs it",
    "ignores-deletions": "the comparison with a list repairs it",
}
"""Mutant → why nothing catches it yet. To be emptied."""

CAUGHT_BY: dict[str, int | str] = {
    "no-uid": 0,
    "forgets-on-timeout": 10,
    "hopes-on-timeout": 16,
    "settles-at-once": "orphans",
    "assumptions-expire": 11,
    "counts-404-as-bound": 63,
    "ignores-409": 63,
    "swallows-refusals": 10,
    "double-event": 0,
    "leaks-a-slot": 1,
    "renews-late": "paused",
    "takes-it-back": 0,
    "no-relist-repair": 13,
    "never-checks": "lost",
    "keeps-deleted-nodes": "node gone",
    "reads-nodes-once": "cordoned",
    "ignores-cordons": "cordoned",
    "wakes-nobody": "room again",
}
"""Mutant → the seed or the scene that catches it, as `make storm MUTANTS=1` prints."""
