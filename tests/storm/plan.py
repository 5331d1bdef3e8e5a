"""From a seed to a run: how large the world is, who acts in it, and what happens when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.storm import casting, casting_groups
from tests.storm.happenings import Happening, at
from tests.storm.process import Clock

STORM_SECONDS = 330.0
"""Faults begin and end within this time,"""
CALM_SECONDS = 270.0
"""and then there are none for so long."""
FIRST_SECONDS = 20.0
EXTENDED_SHARE = 0.1
"""Of the runs, in which pods ask for a resource that devices serve."""
DEVICES_SHARE = 0.3
"""Of the runs, in which pods claim devices."""
GANGS_SHARE = 0.3
"""Of the runs, in which pods start together or not at all."""
GROUPS_SHARE = 0.3
"""Of the runs, in which such pods are in one zone, share claims, or have room kept for them."""
MISTYPED_SHARE = 0.1
"""Of the runs, in which a proxy changes fields of answers."""
STUCK_SHARE = 0.1
"""Of the runs, in which one kind of writes gets the same answer for a while, whatever it says."""
NAMESPACES = ("blue", "green")
REPLICAS = ("berth-a", "berth-b")
KINDS = ("pods", "nodes", "")


@dataclass(frozen=True)
class Plan:
    """What a run is made of. `shrink` leaves happenings out."""

    seed: str
    nodes: tuple[tuple[str, int, int, str], ...]
    clocks: tuple[Clock, ...]
    rival_every: float
    happenings: tuple[Happening, ...]
    cast: tuple[str, ...] = ()
    """Who else is there, besides the scheduler (`casting`)."""
    seconds: float = STORM_SECONDS + CALM_SECONDS


def plan(seed: int | str) -> Plan:
    """The plan of a seed."""
    rng = Random(f"plan/{seed}")
    nodes = tuple(
        (f"n{i}", rng.choice((1000, 2000, 2000, 4000)), rng.choice((6, 12, 110)), "ab"[i % 2])
        for i in range(rng.randint(4, 8))
    )
    clocks = tuple(
        Clock(
            rng.uniform(0, 1e6), 1 + rng.choice((0, 0, 1e-3, -1e-3, 5e-3)), rng.choice((0.0, 0.0, 3600.0, -3600.0, 7.0))
        )
        for _ in REPLICAS
    )
    found = _work(rng, len(nodes), sum(cpu for _, cpu, _, _ in nodes))
    found += _faults(rng, [name for name, *_ in nodes])
    rival_every = rng.choice((3.0, 8.0, 20.0))
    others = Random(f"cast/{seed}")
    who = casting.cast(others)
    found += casting.happenings(others, who, [name for name, *_ in nodes], (FIRST_SECONDS, STORM_SECONDS), _requests)
    claiming = Random(f"devices/{seed}")
    if claiming.random() < DEVICES_SHARE:
        who = (*who, casting.DEVICES)
        found += casting.devices(claiming, len(nodes), (FIRST_SECONDS, STORM_SECONDS))
    extending = Random(f"extended/{seed}")
    if extending.random() < EXTENDED_SHARE:
        who = (*dict.fromkeys((*who, casting.DEVICES)),)
        found += casting.extended(extending, len(nodes), (FIRST_SECONDS, STORM_SECONDS))
    gathering = Random(f"gangs/{seed}")
    if gathering.random() < GANGS_SHARE:
        room = sum(cpu for _, cpu, _, _ in nodes)
        found += casting.gangs(gathering, room, (FIRST_SECONDS, STORM_SECONDS), devices=casting.DEVICES in who)
        who = (*who, casting.GANGS)
    grouping = Random(f"groups/{seed}")
    if grouping.random() < GROUPS_SHARE:
        sizes = [cpu for _, cpu, _, _ in nodes]
        more, made = casting_groups.groups(
            grouping, sizes, (FIRST_SECONDS, STORM_SECONDS), devices=casting.DEVICES in who
        )
        who = (*dict.fromkeys((*who, casting.GANGS, *more)),)
        found += made
    typing = Random(f"mistyped/{seed}")
    if typing.random() < MISTYPED_SHARE:
        found += _mistyped(typing)
    sticking = Random(f"stuck/{seed}")
    if sticking.random() < STUCK_SHARE:
        found.append(_stuck(sticking))
    found.sort(key=lambda happening: happening.at)
    return Plan(str(seed), nodes, clocks, rival_every, tuple(found), who)


def _stuck(rng: Random) -> Happening:
    """Who sends such a write again at once does so for long."""
    what = rng.choice(_STUCK)
    effect = rng.choice(({"code": 500}, {"code": 0}, {"code": 403}, {"code": 409}, {"code": 422}, {"code": 503}))
    return at(rng.uniform(1, STORM_SECONDS - 40.0), "requests", what=what, chance=1.0, seconds=40.0, **effect)


_STUCK: tuple[str, ...] = (
    "create pods/binding",
    "patch pods/status",
    "delete pods",
    "create events",
    "patch resourceclaims",
)
_STUCK += ("create resourceclaims", "patch podgroups/status", "create pods/eviction", "patch metadatapolicies/status")


def _work(rng: Random, nodes: int, room: int) -> list[Happening]:
    """Workloads that come, grow, shrink, and come again: at times more than there is room for."""
    found = []
    asked = rng.choice((0.5, 0.9, 1.0, 1.1, 1.4)) * room
    for i in range(8):
        if asked <= 0:
            break
        given: dict[str, Any] = {"namespace": rng.choice(NAMESPACES), "name": f"w{i}"}
        given |= {"cpu": rng.choice((100, 250, 500, 500, 1000, 1500))}
        if rng.random() < 0.25:
            given["zone"] = rng.choice("ab")
        if rng.random() < 0.2:
            given["priority"] = "high"
        if rng.random() < 0.15:
            given["scheduler"] = "rival"
        if rng.random() < 0.15:
            given["apart"] = True
        if rng.random() < 0.15:
            given["gated"] = True
        replicas = 0
        for _ in range(rng.randint(1, 3)):
            when = rng.uniform(1, FIRST_SECONDS) if rng.random() < 0.5 else rng.uniform(1, STORM_SECONDS)
            replicas = rng.randint(1, nodes if given.get("apart") else 10)
            found.append(at(when, "want", **given, replicas=replicas))
        asked -= replicas * given["cpu"]
    found.append(at(rng.uniform(FIRST_SECONDS, STORM_SECONDS), "ungate"))
    found += [
        at(rng.uniform(FIRST_SECONDS, STORM_SECONDS), "delete-pods", count=rng.randint(1, 8))
        for _ in range(rng.randint(2, 8))
    ]
    return found


def _brief(rng: Random, most: float = 90.0) -> float:
    """Seconds that something lasts: mostly short, sometimes long."""
    return round(rng.choice((1.0, 3.0, 8.0, 20.0, 45.0, most)) * rng.uniform(0.5, 1.0), 2)


_ANSWERS: tuple[dict[str, Any], ...] = (
    {"code": 0},
    {"code": 0, "acted": True},
    {"code": 0, "acted": True, "after": 1.0},
    {"code": -1},
    {"code": -1, "acted": True},
    {"code": 409},
    {"code": 422},
    {"code": 410},
    {"code": 429, "retry_after": 1},
    {"code": 429, "retry_after": 30},
    {"code": 503, "retry_after": 3600},
    {"code": 200, "page": True, "strange": True},
    {"code": 200, "page": True, "strange": True, "acted": True},
    {"code": 503, "retry_after": 5},
    {"code": 503},
    {"code": 500},
    {"code": 504},
    {"code": 500, "acted": True},
    {"code": 502, "acted": True},
    {"code": 504, "acted": True, "late": 5.0},
    {"right": True, "late": 2.0},
    {"right": True, "after": 3.0},
    {"right": True, "after": 20.0},
    {"right": True, "after": 45.0},
    {"orphan": 0.5},
    {"orphan": 4.0},
    {"orphan": 15.0},
    {"right": True, "late": 40.0},
)
_VERBS = ("create pods/binding",) * 4 + (
    "patch pods/status",
    "delete pods",
    "create events",
    "list",
    "watch",
    "get",
    "update leases",
    "",
    "",
)


def _requests(rng: Random, verbs: tuple[str, ...] = _VERBS) -> dict[str, Any]:
    effect = rng.choice(_ANSWERS)
    return {"what": rng.choice(verbs), "chance": rng.choice((0.1, 0.5, 1.0)), "seconds": _brief(rng), **effect}


def _mistyped(rng: Random) -> list[Happening]:
    """A proxy that gives a field of the answer another type."""
    verbs = ("", "get", "get leases", "update leases", "patch")
    return [
        at(
            rng.uniform(FIRST_SECONDS, STORM_SECONDS),
            "requests",
            what=rng.choice(verbs),
            chance=rng.choice((0.1, 0.5, 1.0)),
            seconds=_brief(rng),
            right=True,
            mistyped=True,
        )
        for _ in range(rng.randint(1, 4))
    ]


def _faults(rng: Random, nodes: list[str]) -> list[Happening]:
    """A few kinds of trouble, each some times: runs differ more so than if each had a little of everything."""

    def who() -> str:
        return rng.choice(REPLICAS)

    def node() -> str:
        return rng.choice(nodes)

    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "requests": lambda: _requests(rng),
        "cordon": lambda: {"node": node(), "seconds": _brief(rng)},
        "delete-node": lambda: {"node": node(), "seconds": _brief(rng), "part": rng.choice((0.5, 1.0, 1.0))},
        "shrink-node": lambda: {"node": node(), "seconds": _brief(rng), "part": rng.choice((0.3, 0.5, 0.8))},
        "delete-namespace": lambda: {"namespace": rng.choice(NAMESPACES), "seconds": _brief(rng, 30.0)},
        "pause": lambda: {"who": who(), "seconds": _brief(rng, 60.0)},
        "kill": lambda: {"who": who(), "seconds": _brief(rng, 30.0)},
        "power-off": lambda: {"who": who(), "seconds": _brief(rng, 30.0)},
        "terminate": lambda: {"who": who()},
        "reload": lambda: {"who": who()},
        "compare": lambda: {"who": who()},
        "wall-clock": lambda: {"who": who(), "jump": rng.choice((3600.0, -3600.0, 30.0))},
        "cut-off": lambda: {"who": who(), "seconds": _brief(rng)},
        "silence": lambda: {"who": who(), "seconds": _brief(rng, 120.0), "part": rng.choice((0.2, 0.5, 1.0))},
        "reset": lambda: {"who": who(), "part": rng.choice((0.2, 1.0))},
        "cut-mid-line": lambda: {"who": who(), "part": rng.choice((0.3, 1.0))},
        "slow-network": lambda: {"who": who(), "most": rng.choice((0.05, 0.5, 3.0)), "seconds": _brief(rng)},
        "restart": lambda: {"seconds": _brief(rng, 60.0)},
        "freeze": lambda: {"seconds": _brief(rng, 40.0)},
        "restore": lambda: {"back": rng.choice((5.0, 30.0, 60.0)), "seconds": _brief(rng, 10.0)},
        "compact": dict,
        "deny": lambda: {
            "plural": rng.choice(("pods", "nodes", "persistentvolumes", "namespaces")),
            "seconds": _brief(rng),
        },
        "watch-lines": lambda: {
            "plural": rng.choice(KINDS),
            "how": rng.choice(("lost", "twice", "older", "unknown", "bookmarks-lost")),
            "chance": rng.choice((0.05, 0.3, 1.0)),
            "seconds": _brief(rng),
        },
        "error-event": lambda: {"code": rng.choice((410, 429, 500, 504)), "part": rng.choice((0.3, 1.0))},
        "mute": lambda: {"plural": rng.choice(KINDS), "part": rng.choice((0.5, 1.0))},
        "lease-gone": dict,
    }
    names = list(kinds)
    weights = [4 if name == "requests" else 0.4 if name in ("restore", "lease-gone") else 1 for name in names]
    chosen = list(dict.fromkeys(rng.choices(names, weights, k=rng.randint(2, 7))))
    found = [
        at(rng.uniform(FIRST_SECONDS, STORM_SECONDS), name, **kinds[name]())
        for name in chosen
        for _ in range(rng.randint(1, 6 if name == "requests" else 3))
    ]
    for one in list(found):
        given = dict(one.args)
        if given.get("what") == "create pods/binding":  # there are to be some
            found.append(at(one.at + given["seconds"] * rng.random() / 2, "delete-pods", count=rng.randint(1, 12)))
    return found
