"""`python -m tests.native --seeds 0-199`: 25 requests for each seed; exit code 1 when one was answered otherwise."""

from __future__ import annotations

import argparse
import sys

from tests.controlplane.cluster import ControlPlane
from tests.differential.fuzz import seeds_of
from tests.native.judge import Town

AT_ONCE = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("0-19"), help="as in 0-199 or 1,4-6")
    seeds = parser.parse_args().seeds
    requests = wrong = stays = 0
    with ControlPlane() as cluster:
        for start in range(0, len(seeds), AT_ONCE):
            towns = [Town(cluster.api, seed) for seed in seeds[start : start + AT_ONCE]]
            for town in towns:
                town.open()
            for town in towns:
                town.wait()
                for line in town.differences():
                    print(line)
                    wrong += 1
                requests += len(town.requests)
                stays += len(town.compiled.webhook)
                town.close()
            print(f"{requests} requests, {wrong} differences, {stays} policies need the webhook", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
