"""Asks an API server that enforces by itself, one that asks the webhook, and the evaluator: three ways, one answer.

`python -m tests.native --seeds 0-199` makes 25 requests for each seed, `--recorded` those of the examples and of the
recorded QoS classes, `--cases FILE` those of a file for `berth policy eval --cases`; `--no-stamp` all of these where
pods are not stamped. Each request is sent to both
namespaces of its set. Exit code 1 when one was answered otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.differential.fuzz import seeds_of
from tests.integration.admission import Policed
from tests.native import questions
from tests.native.questions import Asked
from tests.native.town import Town, enforce_natively, native_name

AT_ONCE = 20


def start(policed: Policed, sets: list[Asked], *, stamp: bool) -> None:
    """Start the admission server, which is not asked about the namespaces in which the API server enforces by itself,
    and let that one do so.
    """
    options = ["--stamp" if stamp else "--no-stamp"]
    policed.prepare()
    policed.start(*options, *(f"--exempt-namespace={native_name(one)}" for one in sets))
    policed.wait_registered()
    enforce_natively(policed.api, stamp=stamp)


def main() -> int:
    """Ask, print what differs, and count."""
    parser = argparse.ArgumentParser(prog="python -m tests.native", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=[], help="as in 0-199 or 1,4-6")
    parser.add_argument("--recorded", action="store_true", help="the examples, and the recorded QoS classes")
    parser.add_argument("--cases", type=Path, help="JSON lines")
    parser.add_argument("--no-stamp", action="store_true", help="where pods do not get their class as an annotation")
    given = parser.parse_args()
    sets = questions.generated(given.seeds)
    sets += [*questions.examples(), questions.classes()] if given.recorded else []
    sets += questions.of_file(given.cases) if given.cases else []
    sets = sets or questions.generated(range(20))
    requests = wrong = stays = 0
    with tempfile.TemporaryDirectory() as home, ControlPlane() as cluster:
        policed = Policed(cluster, Path(home))
        start(policed, sets, stamp=not given.no_stamp)
        for first in range(0, len(sets), AT_ONCE):
            towns = [Town(policed, one, not given.no_stamp) for one in sets[first : first + AT_ONCE]]
            for town in towns:
                town.open()
            policed.wait_known()
            for town in towns:
                for line in town.run():
                    print(line)
                    wrong += 1
                requests += len(town.requests)
                stays += len(town.stays)
            print(f"{requests} requests three ways, {wrong} differences, {stays} policies left out", file=sys.stderr)
        policed.unregister()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
