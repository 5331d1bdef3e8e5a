"""Backfill never delays a gang that has room kept for it: whole runs in virtual time, with and without small pods.

Pods end exactly when they have said. With the room kept, a gang starts no later beside small pods than it does if none
come at all; and the nodes are used nearly as much as without keeping any.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind
from podberth.engine.stimuli import Bound, Cycle, Follows, Gone, Put, Stimulus, Tick
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import NATIVE
from tests.builders import Object, configuration, profile
from tests.registered import registry

from .conftest import node
from .test_gangs import group, member
from .test_gangs_reserving import EPOCH, SOON, small, stamp

HORIZON = 600
"""Until then, it is counted how much the nodes were used."""


class Coming(NamedTuple):
    """A pod that comes at some time and runs for so many seconds."""

    at: int
    document: Object
    runs: int
    cores: int


@dataclass
class Story:
    """What happens in every run of one seed."""

    nodes: list[int]
    first: list[Coming]
    gang: list[Coming]
    small: list[Coming]


def story(seed: int, *, mixed: bool) -> Story:
    """A busy cluster, a gang that needs about half of it, and a stream of small pods that would fill it."""
    dice = Random(seed)
    nodes = [dice.choice((2, 4, 4, 8)) for _ in range(dice.randint(3, 6))]
    names = 0
    first: list[Coming] = []
    gang: list[Coming] = []
    for i, cores in enumerate(nodes):
        left = cores
        while left > 0 and dice.random() < 0.9:
            names += 1
            size, runs = dice.randint(1, left), dice.randint(50, 400)
            document = small(f"first-{names}", str(size), runs, nodeSelector={"kubernetes.io/hostname": f"n{i}"})
            first.append(Coming(0, document, runs, size))
            left -= size
    size, total = dice.choice((1, 2)), sum(nodes)
    while sum(one.cores for one in gang) < total // 2:
        cores = dice.choice((1, 2)) if mixed else size
        gang.append(Coming(10, member(f"train-{len(gang)}", str(cores)), 100, cores))
    stream = []
    for i in range(24):
        runs, cores = dice.choice((20, 60, 200, 500)), dice.randint(1, 2)
        known = runs if dice.random() < 0.6 else None
        stream.append(Coming(11 + 14 * i, small(f"small-{i}", str(cores), known), runs, cores))
    return Story(nodes, first, gang, stream)


@dataclass
class Run:
    """One run. `used`: core seconds until the horizon."""

    told: Story
    keeps: bool
    beside: bool
    """Small pods come."""
    now: int = 0
    moments: float = 0.0
    """Within one second; backoffs are shorter."""
    used: int = 0
    started: dict[str, int] = field(default_factory=dict)
    ends: list[tuple[int, str]] = field(default_factory=list)

    def go(self) -> int | None:
        """Until the horizon; when the gang started."""
        told = self.told
        args: dict[str, Any] = {"GangScheduling": {"reservation": {**SOON, "forSeconds": 3000}}} if self.keeps else {}
        self.engine = Engine(
            build(decode(configuration(profile(**args))), registry()), max_backoff=0.01, initial_backoff=0.01
        )
        self.engine.epoch = EPOCH
        self.decoder = Decoder()
        self.tell(Follows(NATIVE, True))
        for i, cores in enumerate(told.nodes):
            self.show(node(f"n{i}", str(cores)))
        self.show(group(min_count=len(told.gang)))
        coming = sorted([*told.first, *told.gang, *(told.small if self.beside else ())], key=lambda one: one.at)
        self.coming = {one.document["metadata"]["name"]: one for one in coming}
        times = sorted({one.at for one in coming})
        while times or self.ends:
            self.now = min([*times[:1], *(end for end, _ in self.ends[:1])])
            while self.ends and self.ends[0][0] == self.now:
                name = heappop(self.ends)[1]
                self.tell(Gone("Pod", "default", name, name))
            if times and times[0] == self.now:
                del times[0]
                for one in coming:
                    if one.at == self.now:
                        self.show(one.document)
            self.settle()
            self.moments = 0.0
        assert validate(self.engine.cluster) == []
        starts = [at for name, at in self.started.items() if name.startswith("train")]
        assert len(starts) in (0, len(told.gang)), "all or nothing"
        return max(starts, default=None)

    def settle(self) -> None:
        """Everything that is to be done now."""
        for moment in range(3):
            self.moments = 0.1 * moment
            self.tell(Tick())
            while self.engine.has_work:
                self.tell(Cycle())

    def show(self, document: Object) -> None:
        document["metadata"].setdefault("uid", document["metadata"]["name"])
        self.tell(Put(self.decoder.of_kind(document["kind"])(wire.encode(document))))

    def tell(self, stimulus: Stimulus) -> None:
        for one in self.engine.handle(stimulus, self.now + self.moments):
            if isinstance(one, Bind):
                self.bind(one.pod.name, one.node)

    def bind(self, name: str, where: str) -> None:
        one = self.coming[name]
        self.started[name] = self.now
        self.used += one.cores * max(min(self.now + one.runs, HORIZON) - self.now, 0)
        heappush(self.ends, (self.now + one.runs, name))
        document = {**one.document, "spec": {**one.document["spec"], "nodeName": where}}
        document["status"] = {"phase": "Running", "startTime": stamp(self.now)}
        self.tell(Bound(name))
        self.show(document)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_backfill_never_delays_the_gang(seed: int, mixed: bool) -> None:
    """Compared with a run without the small pods: it starts at the same time or before, if it starts at all."""
    starts = []
    for case in range(3):
        told = story(100 * seed + case, mixed=mixed)
        alone, kept = Run(told, True, False).go(), Run(told, True, True).go()
        starts.append(alone)
        if alone is not None:
            assert kept is not None, "small pods keep it from starting"
            assert kept <= alone, f"alone it starts at {alone}, beside small pods at {kept}"
    assert starts != [None] * 3, "a gang that never starts alone shows nothing"


def test_what_it_costs_and_what_it_brings() -> None:
    """Beside the same small pods: gangs start much sooner, and the nodes are used nearly as much."""
    waited = {True: 0, False: 0}
    used = {True: 0, False: 0}
    for seed in range(1, 9):
        told = story(seed, mixed=True)
        for keeps in (True, False):
            run = Run(told, keeps, True)
            start = run.go()
            assert start is not None
            waited[keeps] += start - 10
            used[keeps] += run.used
    assert waited[True] <= 0.5 * waited[False]
    assert used[True] >= 0.95 * used[False]
