"""Who else is in a run, besides the scheduler, and what happens to them: by a generator of their own.

A seed's scheduler sees the same happenings whether others are there or not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from podberth.model.pod_group import COSCHEDULING, NATIVE
from tests.storm.happenings import Happening, at

EVICTOR, POLICIES, DEVICES, GANGS = "evictor", "policies", "devices", "gangs"
HALF_WAY = ("kill", "kill", "unanswered", "member-gone", "node-gone", "room-taken")
CASTS: tuple[tuple[str, ...], ...] = ((), (), (EVICTOR,), (POLICIES,), (EVICTOR, POLICIES))
WEIGHTS = (3, 2, 3, 3, 1)
_FOR_EXTENDED: tuple[str, ...] = ("create resourceclaims", "patch resourceclaims/status", "patch resourceclaims")
_FOR_EXTENDED += ("delete resourceclaims", "patch pods/status", "create pods/binding")
_LOST: tuple[dict[str, Any], ...] = (
    {"code": 0},
    {"code": 0, "acted": True},
    {"code": 409},
    {"code": 403},
    {"code": 500, "acted": True},
)
_EVICTIONS = ("create pods/eviction",) * 4 + ("create events", "get", "list pods", "update leases", "watch")
_POLICIES = ("list metadatapolicies", "watch metadatapolicies", "patch metadatapolicies/status")


def cast(rng: Random) -> tuple[str, ...]:
    """Who is there."""
    return rng.choices(CASTS, WEIGHTS)[0]


def devices(rng: Random, nodes: int, storm: tuple[float, float]) -> list[Happening]:
    """Workloads whose pods claim devices, at times more than there are; deaths and lost answers at their writes."""
    found = []
    for i in range(rng.randint(1, 3)):
        given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": f"d{i}", "cpu": 50}
        given |= {"claims": rng.choice(("own", "own", "shared"))}
        found += [
            at(rng.uniform(1, storm[1]), "want", **given, replicas=rng.randint(1, nodes + 2))
            for _ in range(rng.randint(1, 3))
        ]
    for _ in range(rng.randint(1, 4)):
        effect = rng.choice(({"code": 0}, {"code": 0, "acted": True}, {"code": 409}, {"code": 500, "acted": True}))
        lasts = rng.choice((2.0, 8.0, 30.0))
        what = rng.choice(("patch resourceclaims", "patch resourceclaims/status", "create pods/binding"))
        found.append(at(rng.uniform(*storm), "requests", what=what, chance=0.5, seconds=lasts, **effect))
        found.append(at(rng.uniform(*storm), "delete-pods", count=rng.randint(1, 8)))
    if rng.random() < 0.5:
        found.append(at(rng.uniform(*storm), "kill", who=f"berth-{rng.choice('ab')}", seconds=rng.choice((1.0, 10.0))))
    return found


def extended(rng: Random, nodes: int, storm: tuple[float, float]) -> list[Happening]:
    """Workloads whose pods ask for a resource that devices serve; writes for them are lost or late, and leaders die."""
    found = []
    for i in range(rng.randint(1, 2)):
        given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": f"x{i}", "cpu": 50}
        found += [
            at(rng.uniform(1, storm[1]), "want", **given, claims="extended", replicas=rng.randint(1, nodes + 2))
            for _ in range(rng.randint(1, 3))
        ]
    for _ in range(rng.randint(1, 3)):
        what = rng.choice(_FOR_EXTENDED)
        found.append(at(rng.uniform(*storm), "requests", what=what, chance=0.5, seconds=8.0, **rng.choice(_LOST)))
        found.append(at(rng.uniform(*storm), "delete-pods", count=rng.randint(1, 8)))
    if rng.random() < 0.5:
        begin = rng.uniform(storm[0], storm[1] - 60.0)
        late: dict[str, Any] = {"chance": 0.5, "seconds": 10.0, "right": True, "after": rng.choice((20.0, 45.0))}
        found.append(at(begin, "requests", what=rng.choice(_FOR_EXTENDED), **late))
        found.append(at(begin + rng.uniform(0, 9), "delete-pods", count=rng.randint(3, 10)))
        found += [at(begin + rng.uniform(8, 12), "kill", who=f"berth-{one}", seconds=1.0) for one in "ab"]
    return found


def gangs(rng: Random, room: int, storm: tuple[float, float], *, devices: bool) -> list[Happening]:
    """Workloads whose pods start together, and what happens between their first Binding and their last."""
    found = []
    for i in range(rng.randint(1, 3)):
        least = rng.randint(2, 7)
        given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": f"g{i}"}
        given |= {"groups": rng.choice((NATIVE, NATIVE, COSCHEDULING)), "gang": least}
        given |= {"cpu": min(rng.choice((100, 250, 500, 1000)), room // least // 100 * 100)}
        if given["groups"] == COSCHEDULING:
            given["gives_up"] = rng.choice((0, 5, 30))
        if rng.random() < 0.2:
            given["priority"] = "high"
        if devices and rng.random() < 0.5:
            given["claims"] = "own"
        found.append(at(rng.uniform(1, 40), "want", **given, replicas=least + rng.choice((0, 0, 1, 3))))
        if rng.random() < 0.3:
            given["gang"] = least + rng.choice((-1, 1))
            found.append(at(rng.uniform(*storm), "want", **given, replicas=least + 1))
        part = {name: given[name] for name in ("namespace", "name", "groups")}
        for _ in range(rng.randint(1, 4)):
            what = rng.choice(HALF_WAY)
            lasts = round(rng.choice((2.0, 10.0, 30.0)) * rng.uniform(0.5, 1.0), 2)
            found.append(at(rng.uniform(*storm), "half-way", **part, what=what, seconds=lasts))
    if rng.random() < 0.5:
        found.append(at(rng.uniform(*storm), "delete-pods", count=rng.randint(1, 8)))
    return found


def replicas(who: tuple[str, ...]) -> list[str]:
    """The names of their processes."""
    names = ["evictor"] * (EVICTOR in who) + ["admission", "operator"] * (POLICIES in who)
    return [f"{name}-{machine}" for name in names for machine in "ab"]


def happenings(
    rng: Random,
    who: tuple[str, ...],
    nodes: list[str],
    storm: tuple[float, float],
    requests: Callable[[Random, tuple[str, ...]], dict[str, Any]],
) -> list[Happening]:
    """What happens because of them, and to them, between two times."""
    found: list[Happening] = []
    if EVICTOR in who:
        found += _promises(rng, nodes, storm)
    if POLICIES in who:
        found += _policies(rng, storm)
    if who:
        found += _faults(rng, who, storm, requests)
    return found


def _promises(rng: Random, nodes: list[str], storm: tuple[float, float]) -> list[Happening]:
    """Workloads that want a label to stay, and labels that don't."""
    found = []
    for i in range(rng.randint(1, 3)):
        count = rng.randint(1, 5)
        given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": f"p{i}", "replicas": count}
        given |= {"cpu": rng.choice((100, 250)), "promise": True}
        if rng.random() < 0.6:
            given["budget"] = rng.choice((count, max(count - 1, 1), max(count // 2, 1)))
        found.append(at(rng.uniform(1, 40), "want", **given))
    for _ in range(rng.randint(3, 8)):
        lasts = rng.choice((0.0, 0.0, 2.0, 10.0, 20.0, 60.0, 120.0))
        found.append(
            at(rng.uniform(*storm), "relabel", node=rng.choice(nodes), disk=rng.choice(("ssd", "hdd")), seconds=lasts)
        )
    return found


def _policies(rng: Random, storm: tuple[float, float]) -> list[Happening]:
    """Policies that come, change and go; some when all else is calm, and pods that are reviewed afterwards."""

    def one(moment: float) -> Happening:
        given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": f"m{rng.randint(0, 3)}"}
        given |= {"rule": rng.choice(("reject", "stamp", "stamp", "warn", "bad")), "app": f"w{rng.randint(0, 3)}"}
        return at(moment, "policy", **given, seconds=rng.choice((0.0, 0.0, 5.0, 30.0, 100.0)))

    found = [one(rng.uniform(1, storm[1])) for _ in range(rng.randint(3, 10))]
    found += [one(rng.uniform(storm[1], storm[1] + 15)) for _ in range(rng.randint(0, 2))]
    found += [at(rng.uniform(storm[1] + 125, storm[1] + 135), "delete-pods", count=rng.randint(3, 12))]
    return found


def _faults(
    rng: Random,
    who: tuple[str, ...],
    storm: tuple[float, float],
    requests: Callable[[Random, tuple[str, ...]], dict[str, Any]],
) -> list[Happening]:
    names = replicas(who)

    def lasts(most: float) -> float:
        return round(rng.choice((1.0, 8.0, 20.0, most)) * rng.uniform(0.5, 1.0), 2)

    wanted = (_EVICTIONS if EVICTOR in who else ()) + (_POLICIES if POLICIES in who else ())
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "requests": lambda: requests(rng, wanted),
        "pause": lambda: {"who": rng.choice(names), "seconds": lasts(60.0)},
        "kill": lambda: {"who": rng.choice(names), "seconds": lasts(30.0)},
        "power-off": lambda: {"who": rng.choice(names), "seconds": lasts(30.0)},
        "terminate": lambda: {"who": rng.choice(names)},
        "cut-off": lambda: {"who": rng.choice(names), "seconds": lasts(90.0)},
        "silence": lambda: {"who": rng.choice(names), "seconds": lasts(120.0), "part": rng.choice((0.3, 1.0))},
        "reset": lambda: {"who": rng.choice(names), "part": rng.choice((0.3, 1.0))},
        "cut-mid-line": lambda: {"who": rng.choice(names), "part": rng.choice((0.3, 1.0))},
        "slow-network": lambda: {"who": rng.choice(names), "most": rng.choice((0.5, 3.0)), "seconds": lasts(90.0)},
    }
    if POLICIES in who:
        plural = "metadatapolicies"
        kinds |= {
            "deny": lambda: {"plural": plural, "seconds": lasts(60.0)},
            "mute": lambda: {"plural": plural, "part": rng.choice((0.5, 1.0))},
            "watch-lines": lambda: {
                "plural": plural,
                "how": rng.choice(("lost", "twice", "older", "unknown")),
                "chance": rng.choice((0.3, 1.0)),
                "seconds": lasts(90.0),
            },
        }
    chosen = rng.choices(list(kinds), [4 if name == "requests" else 1 for name in kinds], k=rng.randint(0, 5))
    return [at(rng.uniform(*storm), name, **kinds[name]()) for name in chosen]
