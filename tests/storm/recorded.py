"""Records each life of the schedulers in long storms, and decides all of it again.

`python -m tests.storm.recorded [--seeds 4-9] [--hours 2] [--calm] [--keep DIR]`. A storm of hours is several plans one
after the other in one world, on virtual time. With `--calm` nothing ends a process or keeps it from the API server, so
that a life lasts for all of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path

from podberth.framework.config import SchedulerConfiguration
from podberth.framework.runtime import Framework
from podberth.kube.machine import Machine
from podberth.lab.recording.log import Limits
from podberth.lab.recording.reading import parts
from podberth.lab.recording.recorder import Recorder
from podberth.lab.recording.verify import verify
from tests.storm.__main__ import seeds_of
from tests.storm.happenings import Happening
from tests.storm.plan import CALM_SECONDS, REPLICAS, STORM_SECONDS, Plan, plan
from tests.storm.world import World

ENDS = frozenset(
    (
        *("kill", "power-off", "terminate", "pause", "cut-off", "silence", "freeze", "restart", "restore", "reset"),
        *("requests", "slow-network", "deny", "lease-gone", "wall-clock"),
    )
)
"""What ends a process, or has it lose its Lease."""
ANYWHERE = ENDS | {"want", "ungate", "delete-pods", "reload", "compare", "watch-lines"}
"""What may happen in a world of another plan."""


def lengthened(seed: int, seconds: float, *, calm: bool) -> Plan:
    """The plan of a seed, and then what happens in those of others, until it lasts for so long."""
    found, happenings = plan(seed), list[Happening]()
    times = ceil(seconds / STORM_SECONDS)
    for number in range(times):
        for each in (plan(f"{seed}/{number}") if number else found).happenings:
            who = dict(each.args).get("who", REPLICAS[0])
            if (each.kind in ANYWHERE or not number) and who in REPLICAS:
                happenings.append(replace(each, at=each.at + number * STORM_SECONDS))
    return replace(
        found,
        happenings=tuple(each for each in happenings if not (calm and each.kind in ENDS)),
        seconds=times * STORM_SECONDS + CALM_SECONDS,
    )


def recorded(given: Plan, home: Path) -> list[Path]:
    """The directories of the lives of both replicas, each closed."""
    recorders: list[Recorder] = []

    def follow(config: SchedulerConfiguration, frameworks: Mapping[str, Framework], machine: Machine) -> Recorder:
        directory = home / f"{len(recorders):03}"
        made = Recorder(directory, Limits(), config, frameworks, seed=1, machine=machine, patient=True)
        recorders.append(made)
        return made

    world = World(given)
    for berth in world.berths:
        berth.follower = follow
    world.run()
    for each in recorders:
        each.close()
    return sorted(home.iterdir())


def main() -> int:
    """Record, verify and say what came of it; 1 if something was decided otherwise."""
    options = argparse.ArgumentParser(prog="python -m tests.storm.recorded", description=(__doc__ or "").split("\n")[0])
    options.add_argument("--seeds", type=seeds_of, default=range(4, 10))
    options.add_argument("--hours", type=float, default=2.0)
    options.add_argument("--calm", action="store_true")
    options.add_argument("--keep", type=Path)
    chosen = options.parse_args()
    differ = 0
    for seed in chosen.seeds:
        with tempfile.TemporaryDirectory(prefix="berth-storm-") as directory:
            home = (chosen.keep or Path(directory)) / str(seed)
            home.mkdir(parents=True)
            given = lengthened(seed, 3600 * chosen.hours, calm=chosen.calm)
            lives = [part for path in recorded(given, home) for part in parts(path)]
            found = [verify(part) for part in lives]
            longest = max(event.at - part.head.at for part in lives for event in part.events())
        differ += sum(each.differ for each in found)
        print(
            f"seed {seed}: {sum(each.differ for each in found)} differ in {len(lives)} lives, the longest of "
            f"{longest:,.0f} s: {sum(each.stimuli for each in found):,} stimuli, "
            f"{sum(each.placed for each in found):,} placed, {sum(each.failed for each in found):,} failed, "
            f"{sum(each.preemptions for each in found)} preemptions",
            flush=True,
        )
        for each in found:
            for one in each.differences[:3]:
                print(f"  at {one.at} s: recorded {one.recorded}, decided {one.decided}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
