"""Kubernetes' own end-to-end tests with Berth as the default scheduler, and with kube-scheduler beside it.

`python -m tests.e2e --suites predicates,preemption`; all suites by default. A test that passes with kube-scheduler and
not with Berth fails the run. `--berth-alone` compares with what was recorded of kube-scheduler.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.controlplane.build import ROOT
from tests.controlplane.once import BuildError, UnreachableError, say
from tests.e2e import results
from tests.e2e.cluster import SCHEDULERS
from tests.e2e.run import PLACE, run
from tests.e2e.suites import ALL, SUITES

PAGE = ROOT / "docs" / "evidence" / "recorded-e2e.md"


def main() -> int:
    """Run, and print the table; exit code 1 if a test fails with Berth alone, 3 if what is wanted can't be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__)
    parser.add_argument("--suites", default=",".join(ALL), help=f"of {', '.join(SUITES)}; all but ci by default")
    parser.add_argument("--berth-alone", action="store_true", help="take kube-scheduler's results from the record")
    parser.add_argument("--record", action="store_true", help="keep the results in tests/e2e/record.json")
    given = parser.parse_args()
    unknown = [name for name in given.suites.split(",") if name not in SUITES]
    if unknown:
        parser.error(f"no suite is called {unknown[0]}; there are {', '.join(SUITES)}")
    if given.berth_alone and given.record:
        parser.error("--record wants both schedulers")
    schedulers = ["berth"] if given.berth_alone else list(SCHEDULERS)
    try:
        found = run([SUITES[name] for name in given.suites.split(",")], schedulers)
    except UnreachableError as error:
        say(f"Kubernetes' end-to-end tests can't be had here: {error}")
        return 3
    except BuildError as error:
        say(str(error))
        return 1
    return _tell(found, given.record)


def _tell(found: Mapping[str, Sequence[results.Row]], record: bool) -> int:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    today = datetime.date.today().isoformat()
    runs = [results.Recorded(suite, today, commit.stdout.strip(), those) for suite, those in found.items()]
    every = [row for those in found.values() for row in those]
    print("\n".join([*results.table(every), "", *results.summary(runs)]))
    if record:
        results.record(runs)
        PAGE.write_text(results.page(results.recorded()))
    faults = [row for row in every if row.fault]
    nothing = [suite for suite, those in found.items() if not those]
    for row in faults:
        say(f"FAILED with Berth alone ({row.berth.status}): {row.test}")
    for suite in nothing:
        say(f"FAILED: {suite} ran no test; what ginkgo said is in {PLACE}")
    return 1 if faults or nothing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
