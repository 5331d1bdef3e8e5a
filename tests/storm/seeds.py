"""Holes that are open, scenes that provoke one thing each, and what catches each mutant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.storm import scenes_gangs, scenes_groups
from tests.storm.casting import DEVICES, EVICTOR, POLICIES
from tests.storm.found import FOUND
from tests.storm.happenings import Happening, at
from tests.storm.plan import Plan
from tests.storm.towns import scene


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
    "withdrawn": scene(
        "withdrawn",
        at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=3.0, code=429, retry_after=30),
        _pods(51.0, "first", 1),
        _pods(53.5, "later", 8),
        *(at(56.0, "cordon", node=node, seconds=300.0) for node in ("n0", "n1", "n2")),
    ),
    "compacted": scene(
        "compacted", _pods(10.0, "w", 6), at(100.0, "compact"), at(101.0, "reset", who="berth-a", part=1.0)
    ),
    "muted": scene("muted", _pods(10.0, "w", 6), at(100.0, "mute", plural="", part=1.0)),
    "denied": scene("denied", at(100.0, "deny", plural="nodes", seconds=150.0), _pods(220.0, "w", 6)),
    "older": scene(
        "older",
        at(40.0, "watch-lines", plural="nodes", how="older", chance=1.0, seconds=200.0),
        _pods(50.0, "w", 6),
        at(100.0, "shrink-node", node="n0", seconds=120.0, part=0.5),
        at(100.1, "cordon", node="n0", seconds=100.0),
    ),
    "fewer": scene("fewer", _pods(10.0, "w", 12), _pods(100.0, "w", 3)),
    "promises": scene(
        "promises",
        at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
        at(6.0, "want", namespace="green", name="p2", cpu=250, replicas=4, promise=True, budget=3),
        at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
        at(100.0, "relabel", node="n1", disk="hdd", seconds=90.0),
        at(130.0, "relabel", node="n0", disk="hdd", seconds=0.0),
        at(250.0, "relabel", node="n2", disk="hdd", seconds=0.0),
        cast=(EVICTOR,),
    ),
    "label lost": scene(
        "label lost",
        at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
        at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
        at(101.0, "watch-lines", plural="nodes", how="lost", chance=1.0, seconds=30.0),
        *(at(100.0, "relabel", node=node, disk="hdd", seconds=2.0) for node in ("n1", "n2")),
        cast=(EVICTOR,),
    ),
    "evictor dies": scene(
        "evictor dies",
        at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
        at(60.0, "relabel", node="n3", disk="ssd", seconds=0.0),
        at(100.0, "relabel", node="n1", disk="hdd", seconds=90.0),
        *(at(120.0, "kill", who=f"evictor-{machine}", seconds=2.0) for machine in "ab"),
        at(122.0, "relabel", node="n2", disk="hdd", seconds=0.0),
        cast=(EVICTOR,),
    ),
    "policies": scene(
        "policies",
        at(3.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
        _pods(10.0, "w", 6),
        at(60.0, "policy", namespace="blue", name="m1", rule="reject", app="w", seconds=60.0),
        at(70.0, "delete-pods", count=3),
        at(150.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
        *(at(when, "delete-pods", count=6) for when in (140.0, 170.0, 200.0)),
        at(345.0, "policy", namespace="blue", name="m2", rule="bad", app="w", seconds=0.0),
        cast=(POLICIES,),
    ),
    "cold": scene(
        "cold",
        at(3.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
        _pods(10.0, "w", 6),
        at(99.0, "requests", what="list metadatapolicies", chance=1.0, seconds=60.0, right=True, late=4.0),
        *(at(100.0, "kill", who=f"admission-{machine}", seconds=1.0) for machine in "ab"),
        *(at(101.2 + i / 2, "delete-pods", count=6) for i in range(8)),
        cast=(POLICIES,),
    ),
    "devices": scene(
        "devices",
        at(3.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
        at(4.0, "want", namespace="green", name="d1", cpu=50, claims="shared", replicas=3),
        at(40.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=20.0, code=0, acted=True),
        at(41.0, "delete-pods", count=5),
        at(60.0, "requests", what="create pods/binding", chance=0.5, seconds=20.0, code=500),
        *(at(62.0 + 5 * i, "delete-pods", count=4) for i in range(6)),
        at(64.0, "kill", who="berth-a", seconds=2.0),
        at(80.0, "kill", who="berth-b", seconds=2.0),
        cast=(DEVICES,),
    ),
    **scenes_gangs.SCENES,
    **scenes_groups.SCENES,
    **{found.scene.seed: found.scene for found in FOUND},
}
"""Small worlds that provoke one thing each, for mutants that few seeds meet."""

UNCAUGHT: dict[str, str] = {}
"""Mutant → why nothing catches it yet. To be kept empty."""

CAUGHT_BY: dict[str, int | str] = {
    "no-uid": 0,
    "forgets-on-timeout": 10,
    "hopes-on-timeout": 43,
    "settles-at-once": "orphans",
    "assumptions-expire": "orphans",
    "counts-404-as-bound": 63,
    "ignores-409": 63,
    "swallows-refusals": 10,
    "double-event": 0,
    "leaks-a-slot": 1,
    "renews-late": "paused",
    "takes-it-back": "paused",
    "no-relist-repair": 8,
    "never-checks": "lost",
    "keeps-deleted-nodes": "node gone",
    "reads-nodes-once": "cordoned",
    "ignores-cordons": "cordoned",
    "wakes-nobody": "room again",
    "no-fence": "paused",
    "withdraws-nothing": "withdrawn",
    "decides-blindly": "denied",
    "ignores-410": "compacted",
    "waits-for-ever": "muted",
    "takes-older-events": "older",
    "ignores-deletions": "fewer",
    "evicts-any-uid": "promises",
    "evicts-without-grace": "promises",
    "deletes-outright": "promises",
    "looks-once": "label lost",
    "spares-nobody": "promises",
    "forgets-the-past": "evictor dies",
    "follows-nobody": "promises",
    "keeps-deleted-policies": "policies",
    "reads-policies-once": "policies",
    "answers-cold": "cold",
    "checks-no-policies": "policy lost",
    "ignores-changes": "policies",
    "forgets-devices": "devices",
    "reserves-for-nobody": "devices",
    "binds-the-part-that-fits": "gang too large",
    "keeps-what-it-holds": "gang too large",
    "forgets-who-runs": "gang half way",
    "waits-for-the-others": "gang gives up",
    "goes-anywhere": "one zone",
    "begins-elsewhere": "one zone",
    "insists-on-preferences": "one zone if possible",
    "trusts-its-group": "shared claim",
    "waits-for-no-write": "refused while leaving",
    "trusts-earlier-leaders": "late from the dead",
    "lets-allocations-arrive": "allocated by the dead",
    "believes-its-watch": "unlisted heir2",
    "compares-nothing": "lost heir12",
    "frees-what-is-reserved": "bound by the dead",
    "never-tires": "claims answered 500",
    "takes-refusals-for-news": "victims answered 403",
    "lets-anybody-in": "behind small pods",
    "keeps-room-for-ever": "behind long pods",
    "keeps-no-room": "behind small pods",
}
"""Mutant → the seed or the scene that catches it, as `make storm MUTANTS=1` prints."""
