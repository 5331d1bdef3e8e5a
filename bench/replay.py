"""`make replay`: kube-scheduler places mixed pods on a real API server; each of its decisions is put to Berth.

Prints one line of figures, and each difference. Exit code 0: none; 1: some.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.integration import replay
from tests.integration.volumes import Disks

PATIENCE = 1800.0
NAME = "kube-replay"


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random, began = Random(chosen.seed), time.monotonic()
    with ControlPlane() as cluster:
        disks = Disks(cluster, namespaces.create(cluster.api))
        disks.make_class()
        replay.furnish(cluster.api, disks.namespace, NAME)
        room = replay.nodes(chosen.nodes, "node")
        cluster.api.create_many("/api/v1/nodes", room)
        bodies = replay.pods(chosen.pods, NAME, random)
        replay.with_volumes(disks, bodies, [one["metadata"]["name"] for one in room], random)
        outcome = replay.watch(cluster, disks, bodies, PATIENCE)
    print(
        f"seed {chosen.seed}: {chosen.pods:,} pods on {chosen.nodes} nodes in {time.monotonic() - began:.0f} s: "
        f"{outcome.bound:,} bound, each to one of Berth's best nodes ({outcome.ties:,} had several), "
        f"{outcome.refused:,} cycles without a node and {outcome.pending:,} pods pending at the end; "
        f"{len(outcome.differences)} differences"
    )
    for line in outcome.differences:
        print(line)
    return 1 if outcome.differences or outcome.bound + outcome.pending != chosen.pods else 0


if __name__ == "__main__":
    sys.exit(main())
