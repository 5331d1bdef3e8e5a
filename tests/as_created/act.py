"""A case, from its cluster to what differs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.as_created.foretold import dump, foretold, key_of
from tests.as_created.generate import case
from tests.as_created.moments import as_made, course, said_in, version
from tests.as_created.offers import Offer, try_one
from tests.as_created.seen import differences, made_all, pods_there, seen
from tests.as_created.town import Town
from tests.controlplane.api import ApiError, Object
from tests.differential.generate.dice import Dice

_SETTLES = 20.0
"""Seconds that a cluster has to become what was foretold; one that does is it much earlier."""


class Verdict(NamedTuple):
    """What came of a seed. `counts`: of objects and pods, for the record."""

    seed: int
    differences: list[str]
    counts: Counter[str]
    offer: Offer | None
    seconds: float


def act(town: Town, seed: int, home: Path) -> Verdict:
    """Build the cluster of a case, create its files one after the other, and compare each with what is foretold."""
    began = time.monotonic()
    made = case(seed)
    spaces = [space["metadata"]["name"] for space in made.namespaces]
    found: list[str] = []
    counts: Counter[str] = Counter()
    try:
        town.build(made.namespaces, made.inside, made.nodes, made.usual)
        for file in made.files:
            found += _file(town, spaces, file, home, counts)
            if found:
                break
        offer = None if found else try_one(town, spaces, home, Dice(f"offer {seed}"), _wait)
    finally:
        town.clear(spaces, made.usual)
    counts["nodes"] += len(made.nodes)
    return Verdict(seed, found, counts, offer, time.monotonic() - began)


def _file(town: Town, spaces: list[str], file: list[Object], home: Path, counts: Counter[str]) -> list[str]:
    dumped = home / "dump.json"
    since = version(town)
    dump(town.kubeconfig, dumped)
    earlier = pods_there(town, spaces)
    waiting = {key for key, of in earlier.items() if any(not pod["spec"].get("nodeName") for pod in of)}
    told = foretold(dumped, town.berth.config, file, waiting)
    refusals: dict[str, str] = {}
    for each in file:
        try:
            town.put(each)
        except ApiError as error:
            refusals[key_of(each)] = error.message
            continue
        _wait(lambda each=each: made_all(each, told, seen(town, spaces, file, earlier)) and town.still())
    ends = [next(told.ends)]
    last: list[str] = []

    def as_foretold() -> bool:
        now = seen(town, spaces, file, earlier)
        for end in ends:
            last[:] = differences(town, file, told, end, now, refusals)
            if not last:
                return True
        end = next(told.ends, None)
        if end is not None and end not in ends:
            ends.append(end)
        return False

    _wait(lambda: town.still() and as_foretold())
    now = seen(town, spaces, file, earlier)
    if last:
        events = course(town, since)
        said = said_in(town, dumped, events)
        if any(each["kind"] == "DaemonSet" for each in file):
            ends += foretold(as_made(dumped, events), town.berth.config, file, waiting).ends
        found = [list(differences(town, file, told, end, now, refusals, said)) for end in ends]
        last[:] = next((each for each in found if not each), found[0])
    counts["files"] += 1
    counts["by another choice"] += not last and len(ends) > 1
    counts["refused"] += len(told.refused)
    counts["kept by quotas"] += len(told.limits)
    counts["preempted"] += len(now.end.preempted)
    for each in file:
        counts[each["kind"]] += 1
        fate = now.end.fates[key_of(each)]
        counts["placed"] += sum(fate.nodes.values())
        counts["waiting"] += sum(fate.waiting.values())
    return last


def _wait(probe: object) -> bool:
    """Whether it became true in time."""
    assert callable(probe)
    deadline = time.monotonic() + _SETTLES
    while not probe():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True
