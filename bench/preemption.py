"""Preemption in a stream, the engine alone: no sockets, CPU time.

`python -m bench.preemption [--nodes N] [--victims N] [--budgets N] [--preemptors N | --gang N] [--profile]`: full nodes
with four victims each, and one preemptor after the other that needs a whole node. Victims started at any time, and
leave some time after they were asked to; Bindings are confirmed later too. Printed are CPU and attempts for each
preemptor and the longest cycle, which is the first one: it tries every node. With `--gang`, the preemptors are one
gang; printed is what it takes until all of its victims are told to go. With `--budgets`, so many disruption budgets
select all victims, and let all of them go.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import deque
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction, PatchCondition, Preempt
from podberth.engine.stimuli import Bound, Cycle, Follows, Gone, Put, Tick
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, NATIVE_KIND
from podberth.plugins.registry import registry
from podberth.service.loop import collect_briefly
from tests.controlplane.api import Object
from tests.integration.objects import node, pod

SCHEDULER = "berth"
LEAVING = 40
"""So many victims are on their way out at a time."""
BINDING = 10
"""So many Bindings are not confirmed yet."""
SECONDS = 0.01
"""Between two preemptors, in engine time."""
_FIRST, _SPAN, _SCATTERED = datetime(2026, 1, 1), 20_000_000, 7_368_787
"""When the first victim may have started, in how many seconds the others did, and between one and the next."""


class Stream:
    """An engine, and the cluster that does what it says, late."""

    def __init__(self, nodes: int, victims: int, budgets: int = 0) -> None:
        self.engine = Engine(build(default_configuration(), registry()))
        self.now = 0.0
        self.attempts = self.bound = self.victims = 0
        self.longest = 0.0
        self._decoder = Decoder()
        self._leaving: deque[Pod] = deque()
        self._binding: deque[Bind] = deque()
        for i in range(nodes):
            made = node(f"node-{i}")
            made["metadata"]["uid"] = f"node-{i}"
            self.engine.handle(Put(self._decoder.node(msgspec.json.encode(made))), 0.0)
        for i in range(nodes * victims):
            made = pod(f"victim-{i}", SCHEDULER, cpu=f"{3600 // victims}m", nodeName=f"node-{i % nodes}")
            made["metadata"]["labels"] = {"app": "victim"}
            made["status"] = {"startTime": (_FIRST + timedelta(seconds=i * _SCATTERED % _SPAN)).isoformat() + "Z"}
            self._put(made)
        for i in range(budgets):
            self._put_budget(f"budget-{i}", allowed=nodes * victims)

    def run(self, preemptors: int) -> None:
        """One preemptor after the other, until all are bound."""
        for i in range(preemptors):
            self._put(pod(f"preemptor-{i}", SCHEDULER, cpu="3970m", priority=10))
            self._go_on(LEAVING, BINDING)
        while self.bound < preemptors:
            self.now += 1.0
            self._go_on(0, 0)

    def run_gang(self, count: int) -> None:
        """A gang comes, and is tried until all of its victims are told to go."""
        self.engine.handle(Follows(NATIVE, True), self.now)
        meta = {"name": "gang", "namespace": "bench", "uid": "gang"}
        group = {"metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}, "priority": 10}}
        self.engine.handle(Put(self._decoder.of_kind(NATIVE_KIND)(msgspec.json.encode(group))), self.now)
        named = {"podGroupName": "gang"}
        for i in range(count):
            self._put(pod(f"member-{i}", SCHEDULER, cpu="3970m", priority=10, schedulingGroup=named))
        self._cycles()

    def _go_on(self, leaving: int, binding: int) -> None:
        self.now += SECONDS
        self._heed(self.engine.handle(Tick(), self.now))
        self._cycles()
        while len(self._leaving) > leaving:
            victim = self._leaving.popleft()
            self._heed(self.engine.handle(Gone("Pod", victim.namespace, victim.name, victim.uid), self.now))
        while len(self._binding) > binding:
            bind = self._binding.popleft()
            self.engine.handle(Bound(bind.pod.uid), self.now)
            self.engine.handle(Put(replace(bind.pod, node_name=bind.node)), self.now)

    def _cycles(self) -> None:
        while self.engine.has_work:
            start = time.process_time()
            done = self.engine.handle(Cycle(), self.now)
            self.longest = max(self.longest, time.process_time() - start)
            self.attempts += 1
            self._heed(done)

    def _heed(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case Preempt():
                    self._leaving += one.victims
                    self.victims += len(one.victims)
                case PatchCondition(nominated=str(name)) if name:
                    self.engine.handle(Put(replace(one.pod, nominated_node_name=name)), self.now)
                case Bind():
                    self.bound += 1
                    self._binding.append(one)

    def _put_budget(self, name: str, *, allowed: int) -> None:
        budget = {
            "metadata": {"name": name, "namespace": "bench", "uid": name},
            "spec": {"selector": {"matchLabels": {"app": "victim"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.engine.handle(Put(self._decoder.of_kind("PodDisruptionBudget")(msgspec.json.encode(budget))), self.now)

    def _put(self, made: Object) -> None:
        made["metadata"] |= {"namespace": "bench", "uid": made["metadata"]["name"]}
        self.engine.handle(Put(self._decoder.pod(msgspec.json.encode(made))), self.now)


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--victims", type=int, default=4, help="on each node")
    parser.add_argument("--budgets", type=int, default=0, help="each selects all victims")
    parser.add_argument("--preemptors", type=int, default=200)
    parser.add_argument("--gang", type=int, help="so many preemptors are one gang")
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    stream = Stream(asked.nodes, asked.victims, asked.budgets)
    collect_briefly()  # as `berth run` does
    profile = cProfile.Profile()
    if asked.profile:
        profile.enable()
    start = time.process_time()
    if asked.gang is None:
        stream.run(asked.preemptors)
    else:
        stream.run_gang(asked.gang)
    taken = time.process_time() - start
    profile.disable()
    print(f"{asked.nodes} nodes with {asked.victims} victims each")
    if asked.gang is None:
        each, attempts = taken * 1000 / asked.preemptors, stream.attempts / asked.preemptors
        print(f"{asked.preemptors} preemptors: {each:.2f} ms of CPU and {attempts:.2f} attempts for each")
    else:
        print(f"a gang of {asked.gang}: {taken * 1000:.0f} ms of CPU, {stream.attempts} turns, {stream.victims} go")
    print(f"longest cycle {stream.longest * 1000:.0f} ms")
    if asked.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
