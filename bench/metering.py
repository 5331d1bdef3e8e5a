"""What counting and timing costs a pod: the same backlog through the bare engine and through the meter, by turns.

`python -m bench.metering [--nodes N] [--pods N]`. CPU time of one process, no network; the least of several turns each.
The share is of a pod's whole CPU in `berth run`, which `bench.first_table` measures: give it with --pod-ms.
"""

from __future__ import annotations

import argparse
import time

from podberth.app.metrics import Meter
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind
from podberth.engine.stimuli import Bound, Cycle, Put
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from tests.builders import node, pod


def turn(nodes: int, pods: int, *, metered: bool) -> float:
    """Seconds of CPU for a backlog: watched, decided, bound, and seen bound."""
    frameworks = build(default_configuration(), registry())
    engine = Engine(frameworks)
    handle = Meter(engine, frameworks).handle if metered else engine.handle
    decoder = Decoder()
    for i in range(nodes):
        handle(Put(decoder.node(wire.encode(node(f"n{i}", zone=f"z{i % 10}")))), 0.0)
    waiting = [pod(f"p{i}", "10m") for i in range(pods)]
    decoded = [decoder.pod(wire.encode(one)) for one in waiting]
    bound = [decoder.pod(wire.encode({**one, "spec": {**one["spec"], "nodeName": "n0"}})) for one in waiting]
    began = time.process_time()
    for one in decoded:
        handle(Put(one, True), 0.0)
    for one in bound:
        (instruction,) = handle(Cycle(), 0.0)
        assert isinstance(instruction, Bind)
        handle(Bound(instruction.pod.uid), 0.0)
        handle(Put(one), 0.0)
    return time.process_time() - began


def main() -> None:
    """Take turns, and print both and the difference."""
    options = argparse.ArgumentParser(prog="python -m bench.metering", description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--pods", type=int, default=2000)
    options.add_argument("--turns", type=int, default=7)
    options.add_argument("--pod-ms", type=float, default=1.0, help="CPU of a pod in berth run, in milliseconds")
    chosen = options.parse_args()
    costs: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(chosen.turns):
        for metered, spent in costs.items():
            spent.append(turn(chosen.nodes, chosen.pods, metered=metered))
    bare, full = (1e6 * min(spent) / chosen.pods for spent in costs.values())
    print(f"bare engine {bare:.1f} µs a pod, metered {full:.1f}")
    more = full - bare
    print(f"metering {more:.1f} µs a pod: {more / 10 / chosen.pod_ms:.1f} % of {chosen.pod_ms:g} ms")


if __name__ == "__main__":
    main()
