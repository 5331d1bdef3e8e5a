"""The scheduler's part: each scenario against an engine with the default profile, in a cluster of many tenants."""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import count

import msgspec

from bench.crowd import HOST, ZONE
from bench.hostile import town
from bench.hostile.isolated import isolated, resident
from bench.hostile.machine import Machine
from bench.hostile.meters import Cpu, Longest, Meter, Steps
from bench.hostile.row import Chosen, Row
from bench.hostile.scenario import ONE, Scenario, Write
from podberth.engine.engine import Engine
from podberth.engine.stimuli import Follows, Put
from podberth.framework.config import (
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from podberth.framework.profiles import annotated, build
from podberth.model.kinds import Decoder
from podberth.model.pod_group import NATIVE
from podberth.plugins.annotation_affinity import AnnotationAffinity
from podberth.plugins.dynamic_resources.selecting import EVALUATING
from podberth.plugins.registry import registry
from podberth.service.loop import collect_briefly
from podberth.testing.workloads.driver import quantile

API = 10.0
"""Milliseconds that an API server and its watch take of a pod's way from creation to binding."""
PATIENCE = 20.0
"""Seconds of CPU time that a row may take."""
TRIES = 3
"""A row that breaks a bound is measured anew: other work on the machine only ever adds."""


class Measured(msgspec.Struct):
    """One scenario at one size. Times in milliseconds of CPU."""

    turn: float = 0.0
    what: str = ""
    """What the longest turn did."""
    decode: float = 0.0
    """The longest decoding of a large object, beside the loop."""
    total: float = 0.0
    waits_p50: float = 0.0
    waits_p99: float = 0.0
    waits_most: float = 0.0
    bound: int = 0
    waiting: int = 0
    """Pods of others that were not bound."""
    memory: float = 0.0
    bytes: int = 0
    cut: bool = False
    """It took longer than it was given."""


class Town:
    """An engine that has seen a cluster of so many nodes."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        more = Plugins(multi_point=PluginSet(enabled=[PluginRef(AnnotationAffinity.name)]))
        profiles = [ProfileConfig(scheduler_name=town.SCHEDULER, plugins=more), _for_gangs()]
        frameworks = build(SchedulerConfiguration(profiles=profiles), registry())
        self.engine = Engine(frameworks)
        self.decoder = Decoder(annotated(frameworks))
        import_module(EVALUATING)  # as `berth run` does beside the loop, once it sees devices
        self.engine.epoch = 0.0  # room can only be kept where it is known when pods end
        self.engine.handle(Follows(NATIVE, followed=True), 0.0)
        for kind, raw in town.objects(nodes):
            self.engine.handle(Put(self.decoder.of_kind(kind)(raw)), 0.0)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)

    def measure(self, scenario: Scenario | None, seconds: float, every: float, meter: Meter | None = None) -> Measured:
        """Carry a scenario out in a copy of this process; None: others' pods alone, for so long."""
        trial = Trial(self, scenario, meter or Cpu())
        timed = not isinstance(meter, Steps)

        def run() -> Measured:
            collect_briefly()  # as `berth run` is, once it has listed everything
            return trial.run(seconds, every)

        return isolated(run, trial.so_far, Measured, PATIENCE, timed=timed)

    def profile(self, scenario: Scenario) -> None:
        """Print where the time of a scenario goes, and that of its longest turn."""
        watched, meter = cProfile.Profile(), Longest()

        def end() -> Measured:
            watched.disable()
            pstats.Stats(watched).sort_stats("tottime").print_stats(25)
            return Measured()

        def work() -> Measured:
            watched.enable()
            Trial(self, scenario, Cpu()).run(scenario.seconds, scenario.every)
            return end()

        def end_of_turns() -> Measured:
            pstats.Stats(meter.profile).sort_stats("cumulative").print_stats(40)
            return Measured()

        def turns() -> Measured:
            Trial(self, scenario, meter).run(scenario.seconds, scenario.every)
            return end_of_turns()

        isolated(work, end, Measured, PATIENCE, timed=True)
        print("### the longest turn", flush=True)
        isolated(turns, end_of_turns, Measured, PATIENCE, timed=True)


class Trial:
    """One scenario on one engine, which is not the same afterwards."""

    def __init__(self, made: Town, scenario: Scenario | None, meter: Meter) -> None:
        self._town, self._scenario = made, scenario
        self._machine = Machine(made.engine, made.decoder, meter)
        self._largest = 0
        self._before = 0.0

    def run(self, seconds: float, every: float) -> Measured:
        """All of it."""
        self._before = resident()
        self._machine.run(self._writes(), map(town.encoded, map(town.ordinary, count())), every, seconds)
        return self._result(cut=False)

    def so_far(self) -> Measured:
        """What there is when the time is over."""
        self._machine.interrupt()
        return self._result(cut=True)

    def _writes(self) -> Iterator[Write]:
        for write in self._scenario.writes(self._town.nodes) if self._scenario is not None else ():
            self._largest = max(self._largest, len(write.raw))
            yield write

    def _result(self, *, cut: bool) -> Measured:
        turns, waits = self._machine.turns, sorted(self._machine.waits)
        return Measured(
            turn=1000 * turns.longest,
            what=turns.what,
            decode=1000 * self._machine.beside.longest,
            total=1000 * (turns.total + self._machine.beside.total),
            waits_p50=1000 * (quantile(waits, 0.5) or 0.0),
            waits_p99=1000 * (quantile(waits, 0.99) or 0.0),
            waits_most=1000 * (waits[-1] if waits else 0.0),
            bound=len(waits),
            # A pod that came just before the row was cut has not waited for anybody.
            waiting=self._machine.waiting(ONE["others_ms"] / 1000 if cut else 0.0),
            memory=resident() - self._before,
            bytes=self._largest,
            cut=cut,
        )


def _for_gangs() -> ProfileConfig:
    points = [PluginRef("TopologyPlacementGenerator"), PluginRef("PodGroupPodsCount")]
    args: dict[str, town.Object] = {
        "GangScheduling": {"reservation": {"afterSeconds": 0, "percentageOfNodes": 100}},
        "TopologyPlacementGenerator": {"levels": [ZONE, "example.com/rack", HOST]},
    }
    return ProfileConfig(
        scheduler_name=town.GANGS,
        plugins=Plugins(multi_point=PluginSet(enabled=points)),
        plugin_config=[PluginConfig(name, its) for name, its in args.items()],
    )


def rows(chosen: Chosen, scenarios: Sequence[Scenario], say: Callable[[str], None]) -> Iterator[Row]:
    """Every scenario at every size; one row each, as soon as it is there."""
    wanted = [scenario for scenario in scenarios if chosen.wants(scenario.name)]
    if wanted:
        say(f"towns of {' and '.join(f'{nodes:,}' for nodes in chosen.nodes)} nodes")
    towns = [Town(nodes) for nodes in chosen.nodes] if wanted else []
    alone: dict[tuple[float, float], list[Measured]] = {}
    for scenario in wanted:
        pace = scenario.seconds, scenario.every
        if pace not in alone:
            alone[pace] = [made.measure(None, *pace) for made in towns]
        yield _row(scenario, towns, alone[pace])


def _row(scenario: Scenario, towns: list[Town], alone: list[Measured]) -> Row:
    row: Row | None = None
    for _ in range(TRIES):
        tried = _once(scenario, towns, alone)
        if row is None or tried.costs["turn_ms"] < row.costs["turn_ms"]:
            row = tried
        far_off = row.costs["turn_ms"] > 5 * scenario.bounds.get("turn_ms", 0.0)
        if row.held or far_off or "unbound_count" in row.broken:
            break
    assert row is not None
    return row


def _once(scenario: Scenario, towns: list[Town], alone: list[Measured]) -> Row:
    found = [made.measure(scenario, scenario.seconds, scenario.every) for made in towns]
    last, base = found[-1], alone[-1]
    first = max(found[0].total - alone[0].total, 0.0)
    total = max(last.total - base.total, 0.0)
    costs = {
        "turn_ms": last.turn,
        "decode_ms": last.decode,
        "total_ms": total,
        "each_ms": total / scenario.objects,
        "others_p50_ms": last.waits_p50,
        "others_p99_ms": last.waits_p99,
        "others_ms": last.waits_most,
        "p99_times": (last.waits_p99 + API) / (base.waits_p99 + API),
        "unbound_count": last.waiting,
        "memory_mb": last.memory,
        "growth_times": total / first if first > 1.0 else 0.0,
    }
    note = f"longest: {last.what}"
    if last.cut:
        note += f"; cut after {PATIENCE:g} s of CPU"
    bounds = {"unbound_count": 0.0, **scenario.bounds}
    return Row(
        "scheduler", scenario.kind, scenario.name, scenario.shape, last.bytes, scenario.objects, costs, bounds, note
    )


def profile(chosen: Chosen, scenarios: Sequence[Scenario]) -> None:
    """Print where the time of the chosen scenarios goes, at the largest size."""
    made = Town(chosen.nodes[-1])
    for scenario in scenarios:
        if chosen.wants(scenario.name):
            print(f"## {scenario.name}", flush=True)
            made.profile(scenario)
