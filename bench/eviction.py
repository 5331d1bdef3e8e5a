"""What one node's change costs the evictor: 2,000 nodes, 20,000 pods with promises; CPU milliseconds, no network.

`python -m bench.eviction [--nodes N] [--pods N] [--requirements N]`. A change is a label's new value, from the decoded
node to the list of pods that no longer fit; the next line is the same for a mass change, and the last what follows
for each pod: second observation, gates, and the proof that another node takes it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from podberth.engine.stimuli import Put
from podberth.evictor.evictor import Evictor
from podberth.evictor.gates import Settings
from podberth.evictor.messages import Answered, Evict, Look, Read, WasRead
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.promise import ANNOTATION
from podberth.plugins.registry import registry
from tests import builders

GOAL_MS = 5.0
OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--requirements", type=int, default=200, help="distinct promises among the pods")
    given = parser.parse_args()
    decoder = Decoder()
    decode = {kind: decoder.of_kind(kind) for kind in ("Node", "Pod")}

    def node(i: int, generation: str) -> Any:
        body = builders.node(f"n{i}", "32", "128Gi", zone=f"z{i % 10}", labels={"generation": generation})
        return decode["Node"](wire.encode(body))

    def pod(i: int) -> Any:
        body = builders.pod(f"p{i}", "100m", "100Mi", on=f"n{i % given.nodes}")
        values = [f"g{i % given.requirements}", "new"] if given.requirements > 1 else ["new"]
        selector = {"matchExpressions": [{"key": "generation", "operator": "In", "values": values}]}
        text = wire.encode({"nodeSelectorTerms": [selector]}).decode()
        body["metadata"] |= {"annotations": {ANNOTATION: text}, "ownerReferences": [OWNER]}
        return decode["Pod"](wire.encode(body))

    evictor = Evictor(
        build(default_configuration(), registry()),
        Settings(changed_share=1.0, node_burst=9999, namespace_burst=9999, cluster_burst=9999),
        lambda: 0.5,
        0.0,
    )
    started = time.process_time()
    for i in range(given.nodes):
        evictor.handle(Put(node(i, "new")), 0.0)
    for i in range(given.pods):
        evictor.handle(Put(pod(i)), 0.0)
    while evictor.observed.has_news:
        evictor.handle(Look(True), 0.0)
    print(f"first list: {given.nodes} nodes and {given.pods} pods in {time.process_time() - started:.2f} s of CPU")

    costs, broken = [], 0
    for i in range(100):
        there, back = node(i, "old"), node(i, "new")
        before = time.process_time()
        evictor.handle(Put(there), 1.0)
        evictor.handle(Look(True), 1.0)
        costs.append(1e3 * (time.process_time() - before))
        broken += evictor.waiting()["grace"]
        evictor.handle(Put(back), 1.0)
        evictor.handle(Look(True), 1.0)
    goal = f"(goal: under {GOAL_MS:g} ms)"
    print(f"one node's change: median {statistics.median(costs):.2f} ms, worst of 100 {max(costs):.2f} ms {goal};")
    print(f"  {broken / 100:.0f} of {given.pods} pods no longer fit, {given.requirements} distinct promises")

    half = [node(i, "old") for i in range(given.nodes // 2)]
    before = time.process_time()
    for one in half:
        evictor.handle(Put(one), 2.0)
    evictor.handle(Look(True), 2.0)
    print(f"{len(half)} nodes' change: {1e3 * (time.process_time() - before):.0f} ms")

    spent, evicted = 0.0, 0
    reads = [one for one in evictor.handle(Look(True), 60.0) if isinstance(one, Read)]
    for read in reads[:20]:
        pods = {uid: one.pod for uid, one in evictor.observed.followed.items() if one.pod.node_name == read.node}
        row = evictor.observed.cluster.nodes.row_of(read.node)
        assert row is not None
        before = time.process_time()
        for done in evictor.handle(WasRead(read.node, evictor.observed.cluster.nodes.objects[row], pods), 60.0):
            if isinstance(done, Evict):
                evicted += 1
                evictor.handle(Answered(done.pod.uid, 201, asked_at="2026-01-01T00:00:00Z"), 60.0)
        spent += time.process_time() - before
    print(f"the second half of one eviction, with its proof: {1e3 * spent / max(evicted, 1):.2f} ms, mean of {evicted}")


if __name__ == "__main__":
    main()
