"""`make as-created SEEDS=0-499`: what Berth says of generated files, and what a real cluster makes of them.

The exit code is 1 where something differs. That a change which Berth offers does not free its pod is told, and is none.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.as_created.act import Verdict, act
from tests.as_created.town import Town
from tests.differential.fuzz import seeds_of

_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and tell each difference when it is found."""
    parser = argparse.ArgumentParser(prog="python -m tests.as_created", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="0-49", metavar="0-499")
    seeds = parser.parse_args(arguments).seeds
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="berth-as-created-") as home, Town(Path(home)) as town:
        for seed in seeds:
            with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):  # how large each dump is
                verdict = act(town, seed, Path(home))
            verdicts.append(verdict)
            _tell(verdict, len(verdicts), len(seeds))
    _sum_up(verdicts)
    return 1 if any(verdict.differences for verdict in verdicts) else 0


def _tell(verdict: Verdict, number: int, of: int) -> None:
    for difference in verdict.differences:
        print(f"seed {verdict.seed}: {difference}", flush=True)
    if verdict.offer is not None and verdict.offer.wrong:
        print(f"seed {verdict.seed}: {verdict.offer.workload}: {verdict.offer.text}", flush=True)
        print("\n".join(f"    $ {command}" for command in verdict.offer.commands))
        print(f"    {verdict.offer.wrong}", flush=True)
    if number % 50 == 0 or number == of:
        print(f"{number} of {of} cases", flush=True)


def _sum_up(verdicts: Sequence[Verdict]) -> None:
    total: Counter[str] = Counter()
    for verdict in verdicts:
        total.update(verdict.counts)
    offers = [verdict.offer for verdict in verdicts if verdict.offer is not None]
    different = sum(bool(verdict.differences) for verdict in verdicts)
    print(f"{len(verdicts)} clusters with {total['nodes']:,} nodes, {total['files']:,} files; {different} differ")
    print(", ".join(f"{total[kind]:,} {kind}" for kind in _KINDS))
    print(
        f"{total['placed']:,} pods placed, {total['waiting']:,} waiting, {total['preempted']:,} preempted; pods of "
        f"{total['refused']:,} workloads refused, and of {total['kept by quotas']:,} not all created, for quotas; "
        f"{total['by another choice']:,} files ended as by another choice among equal nodes"
    )
    freed = sum(not offer.wrong for offer in offers)
    print(f"{len(offers):,} offers carried out, of which {freed:,} freed a pod")


if __name__ == "__main__":
    sys.exit(main())
