"""Groups of a further kind: in one zone or in few, with shared claims, and with room kept for them.

By a generator of their own, as the others of `casting`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from podberth.model.pod_group import NATIVE
from tests import builders
from tests.storm.casting import DEVICES, HALF_WAY
from tests.storm.happenings import Happening, at

ZONES, ROOMS, PREFERENCES = "zones", "rooms", "preferences"
AFTER_SECONDS, FOR_SECONDS = 15, 60
"""So long a gang waits until room is kept for it, and so long it is kept."""


def profile(who: tuple[str, ...]) -> dict[str, Any]:
    """The profile with which Berth heeds them. Its topology is heeded wherever one of them is there."""
    if not {ZONES, ROOMS, PREFERENCES} & set(who):
        return builders.profile()
    gang: dict[str, Any] = {}
    if ROOMS in who:
        gang["reservation"] = {"afterSeconds": AFTER_SECONDS, "forSeconds": FOR_SECONDS, "percentageOfNodes": 100}
    levels = [builders.label("zone"), builders.label("host")] if PREFERENCES in who else []
    return builders.profile(
        plugins={"multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]}},
        TopologyPlacementGenerator={"levels": levels},
        GangScheduling=gang,
        DynamicResources={"featureGates": {"DRAWorkloadResourceClaims": DEVICES in who}},
    )


def groups(
    rng: Random, nodes: list[int], storm: tuple[float, float], *, devices: bool
) -> tuple[tuple[str, ...], list[Happening]]:
    """Who is there, and what happens. `nodes`: what each node has, in millicores."""
    who: tuple[str, ...] = rng.choice(((ZONES,), (ROOMS,)))
    room, found = sum(nodes), list[Happening]()
    if ZONES in who:
        for i in range(rng.randint(1, 2)):
            least = rng.randint(2, 5)
            found += _gang(rng, storm, f"z{i}", least, _cpu(rng, room // 2 // least), topology="zone")
    if ROOMS in who:
        found += _waits(rng, storm, room)
    if devices:
        least = rng.randint(2, 6)
        claims = rng.choice(("shared", "group") if who != (ROOMS,) else ("shared",))
        found += _gang(rng, storm, "s0", least, _cpu(rng, max(nodes) // (least + 1), 100), claims=claims)
        if rng.random() < 0.5:
            found += _late_from_the_dead(rng, storm)
    if ROOMS not in who and rng.random() < 0.4:
        who = (*who, PREFERENCES)
        least = rng.randint(2, 6)
        found += _gang(rng, storm, "p0", least, _cpu(rng, room // 2 // least), prefers=rng.choice(("zone", "host")))
    return who, found


def _cpu(rng: Random, most: int, *choice: int) -> int:
    return max(min(rng.choice(choice or (100, 250, 500)), most // 50 * 50), 50)


def _gang(rng: Random, storm: tuple[float, float], name: str, least: int, cpu: int, **more: Any) -> list[Happening]:
    """A gang, and what happens to it half way."""
    given: dict[str, Any] = {"namespace": rng.choice(("blue", "green")), "name": name, "groups": NATIVE, **more}
    found = [at(rng.uniform(1, 40), "want", **given, cpu=cpu, gang=least, replicas=least + rng.choice((0, 0, 1)))]
    part = {name: given[name] for name in ("namespace", "name", "groups")}
    for _ in range(rng.randint(1, 3)):
        lasts = round(rng.choice((2.0, 10.0, 30.0)) * rng.uniform(0.5, 1.0), 2)
        found.append(at(rng.uniform(*storm), "half-way", **part, what=rng.choice(HALF_WAY), seconds=lasts))
    return found


def _late_from_the_dead(rng: Random, storm: tuple[float, float]) -> list[Happening]:
    """Writes of claims are acted on when whoever sent them has died."""
    begin = rng.uniform(storm[0], storm[1] - 60.0)
    what = rng.choice(("patch resourceclaims/status", "patch resourceclaims"))
    late: dict[str, Any] = {"chance": 0.5, "seconds": 10.0, "right": True, "after": rng.choice((20.0, 45.0))}
    found = [at(begin, "requests", what=what, **late)]
    found.append(at(begin + rng.uniform(0, 9), "delete-pods", count=rng.randint(3, 10)))
    return found + [at(begin + rng.uniform(8, 12), "kill", who=f"berth-{one}", seconds=1.0) for one in "ab"]


def _waits(rng: Random, storm: tuple[float, float], room: int) -> list[Happening]:
    """Small pods that come again and again, and a gang that waits behind them."""
    found, small = [], rng.choice((250, 500))
    for i in range(2):
        given = {"namespace": rng.choice(("blue", "green")), "name": f"e{i}", "cpu": small}
        lasts = rng.choice((8, 20, 45))
        found.append(at(rng.uniform(1, 20), "want", **given, lasts=lasts, replicas=room // small // 2 + 1))
    least = rng.randint(2, 4)
    cpu = max(int(room * rng.uniform(0.2, 0.5)) // least // 100 * 100, 100)
    found += _gang(rng, storm, "r0", least, min(cpu, 1000))
    return found
