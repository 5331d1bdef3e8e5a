"""Plays a trace through the engine with each profile, and measures how well the profiles use the cluster.

A trace is played as arrivals and departures, and as arrivals until nothing fits; the fewest nodes are found that hold
its fullest moment; and where GPUs are shared, the trace is inflated as Weng et al. do (`inflation`).
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.explain.rejections import given_away
from podberth.explain.simulate.outcome import Floats, Mix, Quality, quality
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import PluginConfig, PluginRef, Plugins, PluginSet, ProfileConfig, SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.lab.gpus import SHARED_GPU, Fragmentation, GPUShare, typical
from podberth.lab.world import Arrival, Decoded, World
from podberth.model.annotated import NOTHING_READ
from podberth.model.kinds import Modelled
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape

RESOURCES = ("cpu", "memory", SHARED_GPU)


def _filling(resources: Iterable[str]) -> PluginConfig:
    weights = [{"name": name, "weight": 1} for name in resources]
    return PluginConfig("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": weights}})


TRACE_PROFILES = SchedulerConfiguration(
    profiles=[
        ProfileConfig(scheduler_name="default"),
        ProfileConfig(scheduler_name="packed", plugin_config=[_filling(RESOURCES)]),
    ]
)
"""`packed` fills the nodes that are the fullest, by CPU, memory and GPU alike; all else is as in `default`."""


POINTS = 160
"""The number of moments at which a run is measured."""
_TOLERATED = 0.002
"""Part of the pods that may stay out when fewer nodes hold the rest; Verma et al. (EuroSys'15) use the same."""
_LONGEST = 1e6
"""The largest factor by which lifetimes are stretched."""

Progress = Callable[[str], None]
Placement = tuple[str, str]
"""A pod's name and its node's."""


class Point(msgspec.Struct, rename="camel", frozen=True):
    """One look at a run. `x`: seconds of the trace, or in a saturation the load: what was asked for of `measure`."""

    x: float
    waiting: int
    quality: Quality


class Waits(msgspec.Struct, rename="camel", frozen=True):
    """The time for which pods that got a node have waited for it, in seconds of the trace; `waited`: how many did at
    all."""

    waited: int
    median: float
    p99: float
    longest: float


class Run(msgspec.Struct, rename="camel", frozen=True):
    """One way through the trace. `placed` counts pods that got a node, at whatever time."""

    arrived: int
    placed: int
    points: list[Point]
    end: Quality
    """The last look at a saturation; for arrivals and departures, the look at which there were most pods."""
    waits: Waits | None = None
    """The waiting times; None for a saturation."""


class Regret(msgspec.Struct, rename="camel", frozen=True):
    """The points that decisions gave away against the best total over all nodes, in points of the profile's scores."""

    decisions: int
    total: int
    missed: int
    """The number of decisions that did not take a best node."""
    impossible: int
    """The number of decisions for a node that is not feasible when they are replayed in the order in which we saw
    them.
    """


class Compaction(msgspec.Struct, rename="camel", frozen=True):
    """`nodes` of `of` are the fewest, taken in one random order, that hold the pods; None: not even all of them do."""

    pods: int
    nodes: int | None
    of: int


class Played:
    """A world as one profile schedules it."""

    def __init__(self, world: World, framework: Framework) -> None:
        self._name = framework.profile.name
        self._framework = framework
        self.world = world
        self.found: Decoded = world.decoded(annotated({self._name: framework}))
        self.nodes = [thing for thing in self.found.objects if isinstance(thing, Node)]
        self.pods = self.found.arrivals

    def pod(self, number: int, suffix: str = "") -> Pod:
        """Return an arrival's pod as it waits; `suffix` tells copies of one apart."""
        pod = self.pods[number]
        return replace(pod, name=pod.name + suffix, uid=pod.uid + suffix, scheduler_name=self._name)

    def simulation(self, *, gangs: bool = False, seed: int = 0) -> Simulation:
        """Return a simulation with all that is there at the begin; `gangs`: and the groups of pods that come later."""
        simulation = Simulation({self._name: self._framework}, seed=seed)
        simulation.put_all(self.found.objects)
        if gangs:
            simulation.put_all(thing for thing in self.found.changes if isinstance(thing, PodGroup))
        return simulation

    @property
    def mix(self) -> Mix:
        """Return the requests of all pods, for the resources that nodes have."""
        return Mix(self.pods, resources_of(self.world))


def departures(world: World, framework: Framework, progress: Progress) -> Run:
    """Play the trace with arrivals and departures at its times; a pod that fits no node waits for one."""
    played = Played(world, framework)
    simulation = played.simulation()
    pods = [played.pod(number) for number in range(len(played.pods))]
    mix = played.mix
    came = {pod.uid: arrival.at for pod, arrival in zip(pods, world.arrivals, strict=True)}
    moments = sorted(
        [(arrival.at, 2, i) for i, arrival in enumerate(world.arrivals)]
        + [(change.at, 1, i) for i, change in enumerate(world.changes)]
        + [(_until(arrival), 0, i) for i, arrival in enumerate(world.arrivals) if _until(arrival) != inf]
    )
    points: list[Point] = []
    best: Quality | None = None
    waited: dict[str, float] = {}
    for number, (moment, kind, i) in enumerate(moments):
        simulation.now = moment
        if kind == 2:
            simulation.put(pods[i])
        elif kind == 0:
            simulation.gone("Pod", pods[i].namespace, pods[i].name, pods[i].uid)
        else:
            change = played.found.changes[i]
            if isinstance(change, tuple):
                simulation.gone(*change, "")
            else:
                simulation.put(change)
        simulation.work()
        waited |= {uid: moment - came[uid] for uid in simulation.newly_bound()}
        if _look(number, len(moments)):
            seen = quality(simulation.cluster, mix)
            points.append(Point(moment, len(simulation.engine.queue), seen))
            best = seen if best is None or seen.pods > best.pods else best
            progress(f"{framework.profile.name}: arrivals and departures, {number + 1:,} of {len(moments):,}")
    return Run(len(pods), len(waited), points, best or quality(simulation.cluster, mix), _waits(waited.values()))


def saturation(world: World, framework: Framework, load: float, progress: Progress) -> tuple[Run, list[Placement]]:
    """Play arrivals in the trace's order, repeated, without departures, until pods have asked for `load` times
    `measure`.

    Returns the run, and who went where, in the order of the decisions.
    """
    played = Played(world, framework)
    simulation, mix = played.simulation(gangs=True), played.mix
    arriving = list(saturating(world, load))
    points: list[Point] = []
    for number, (which, suffix, asked) in enumerate(arriving):
        simulation.put(played.pod(which, suffix))
        simulation.work()
        if _look(number, len(arriving)):
            points.append(Point(asked, len(simulation.failed), quality(simulation.cluster, mix)))
            progress(f"{framework.profile.name}: saturation, {number + 1:,} of {len(arriving):,}")
    run = Run(len(arriving), len(simulation.bound), points, quality(simulation.cluster, mix))
    return run, [(pod.name, node) for pod, node in simulation.bound.values()]


def retrace(
    world: World, framework: Framework, load: float, placements: Sequence[Placement], progress: Progress
) -> tuple[Run, Regret]:
    """Measure a saturation that another scheduler decided, and the points that each choice gave away.

    Each pod is scored on all nodes, by the plain way, as the cluster was when its turn came; the regret is the best
    total minus that of the node that was chosen.
    """
    played = Played(world, framework)
    simulation, mix = played.simulation(gangs=True), played.mix
    arriving = {played.pods[each[0]].name + each[1]: each for each in saturating(world, load)}
    points: list[Point] = []
    total = missed = impossible = 0
    for number, (name, node) in enumerate(placements):
        which, suffix, asked = arriving[name]
        pod = played.pod(which, suffix)
        decision = framework.decide(pod, simulation.cluster, score_always=True)
        lost = given_away(decision, simulation.cluster.nodes.row_of(node))
        if lost is None:
            impossible += 1
        else:
            total += lost
            missed += lost > 0
        simulation.put(replace(pod, node_name=node))
        if _look(number, len(placements)):
            points.append(Point(asked, 0, quality(simulation.cluster, mix)))
            progress(f"{framework.profile.name}: looking at {number + 1:,} of {len(placements):,} decisions")
    run = Run(len(arriving), len(placements), points, quality(simulation.cluster, mix))
    return run, Regret(len(placements), total, missed, impossible)


def saturating(world: World, load: float) -> Iterator[tuple[int, str, float]]:
    """Yield (number of the arrival, suffix of its pod's name, load with it) until all have asked for `load` times all
    there is of `measure`.
    """
    resource = measure(world)
    if not resource:
        return
    demand, rooms = _demand(world)
    column = _resources(world).index(resource)
    asks, there = demand[:, column].tolist(), float(rooms[column])
    asked, turn = 0.0, 0
    while True:
        for number, amount in enumerate(asks):
            if asked >= load * there:
                return
            asked += amount
            yield number, f"-{turn}" if turn else "", asked / there
        turn += 1


def resources_of(world: World) -> tuple[str, ...]:
    """Return the resources that the trace has: those of which some node has any."""
    _, rooms = _demand(world)
    return tuple(name for name, room in zip(_resources(world), rooms.tolist(), strict=True) if room)


def measure(world: World) -> str:
    """Return the resource by which the load is measured: GPUs if nodes have and pods ask for them, else CPU, else
    memory.
    """
    demand, rooms = _demand(world)
    names = _resources(world)
    asked = dict(zip(names, (demand.any(axis=0) & (rooms > 0)).tolist(), strict=True))
    return next((name for name in (*(name for name in names if "gpu" in name), *names) if asked[name]), "")


def _waits(seconds: Iterable[float]) -> Waits:
    found = np.array(sorted(seconds), dtype=np.float64)
    if not len(found):
        return Waits(0, 0.0, 0.0, 0.0)
    median, p99 = np.percentile(found, (50, 99), method="inverted_cdf").tolist()
    return Waits(int(np.count_nonzero(found)), median, p99, float(found[-1]))


def stretched(world: World, by: float) -> World:
    """Return the trace with every lifetime times `by`."""
    return replace(world, arrivals=tuple(replace(each, lasts=by * each.lasts) for each in world.arrivals))


def stretch_to(world: World, load: float) -> float:
    """Return the factor by which pods have to live longer so that at some moment they ask for `load` times what there
    is.

    What there is: of the resource that is short first. A published trace may be a sample of the pods beside all of the
    nodes, and leave these all but empty; 1.0 where the trace is as full as that by itself.
    """
    asks, there = _demand(world)
    asks, there = asks[:, there > 0], there[there > 0]
    if not len(there):
        return 1.0
    at = np.array([each.at for each in world.arrivals])
    lives = np.array([each.lasts for each in world.arrivals])

    def highest(stretch: float) -> float:
        flow = np.concatenate((asks, -asks))[np.argsort(np.concatenate((at, at + stretch * lives)), kind="stable")]
        return float((flow.cumsum(axis=0).max(axis=0) / there).max())

    low, high = 1.0, 1.0
    while highest(high) < load and high < _LONGEST:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if highest(middle) >= load else (middle, high)
    return high


def compaction(world: World, framework: Framework, progress: Progress) -> Compaction:
    """Return the fewest nodes that hold the pods of the trace's fullest moment, by bisection over one random order."""
    played = Played(world, framework)
    others = [thing for thing in (*played.found.objects, *played.found.changes) if isinstance(thing, PodGroup)]
    nodes = list(played.nodes)
    random.Random(0).shuffle(nodes)
    pods = [played.pod(number) for number in fullest(world.arrivals)]
    progress(f"{framework.profile.name}: do {len(pods):,} pods fit on all {len(nodes):,} nodes?")
    if not _hold([*others, *nodes], pods, framework):
        return Compaction(len(pods), None, len(nodes))
    too_few, enough = 0, len(nodes)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        progress(f"{framework.profile.name}: do {len(pods):,} pods fit on {middle:,} nodes?")
        if _hold([*others, *nodes[:middle]], pods, framework):
            enough = middle
        else:
            too_few = middle
    return Compaction(len(pods), enough, len(nodes))


def fullest(arrivals: Sequence[Arrival]) -> list[int]:
    """Return the numbers of the arrivals whose pods are there together when most are."""
    ends = sorted(_until(arrival) for arrival in arrivals)
    most, best, ended = 0, 0.0, 0
    for i, arrival in enumerate(arrivals):
        while ended < len(ends) and ends[ended] <= arrival.at:
            ended += 1
        if i + 1 - ended > most:
            most, best = i + 1 - ended, arrival.at
    return [number for number, arrival in enumerate(arrivals) if arrival.at <= best < _until(arrival)]


def _until(arrival: Arrival) -> float:
    """Return when a pod ends as published, whenever it gets a node here."""
    return arrival.at + arrival.lasts


def _resources(world: World) -> tuple[str, ...]:
    return world.decoded(NOTHING_READ).mix.resources


def _demand(world: World) -> tuple[Floats, Floats]:
    """Return (what each arrival asks for, float[arrivals, resources]; what all nodes have)."""
    found = world.decoded(NOTHING_READ)
    names = found.mix.resources
    asks = [[pod.shape.requests.get(name, 0) for name in names] for pod in found.arrivals]
    nodes = [thing for thing in found.objects if isinstance(thing, Node)]
    there = [sum(node.allocatable.get(name, 0) for node in nodes) for name in names]
    return np.array(asks, dtype=np.float64).reshape(-1, len(names)), np.array(there, dtype=np.float64)


def _hold(things: Iterable[Modelled], pods: Sequence[Pod], framework: Framework) -> bool:
    simulation = Simulation({framework.profile.name: framework})
    simulation.put_all(things)
    for pod in pods:
        simulation.put(pod)
        simulation.work()
        if len(simulation.failed) > _TOLERATED * len(pods):
            return False
    return True


def _look(number: int, of: int) -> bool:
    return number + 1 == of or (number + 1) * POINTS // of != number * POINTS // of


class ProfileStudy(msgspec.Struct, rename="camel", frozen=True):
    """One profile's figures. Only a saturation is known of a scheduler that was recorded elsewhere."""

    profile: str
    saturation: Run
    regret: Regret
    departures: Run | None = None
    compaction: Compaction | None = None


class SharesRun(msgspec.Struct, rename="camel", frozen=True):
    """The inflations of one profile, one for each seed. Shares are of all GPUs of nodes that have any."""

    profile: str
    pods: list[int]
    """The number of pods that came."""
    placed: list[int]
    allocated: list[float]
    fragmented: list[float]
    """The share of GPUs that is idle and that the typical task is expected not to be able to use, at the end."""


class Study(msgspec.Struct, rename="camel", frozen=True):
    """A trace, how it was played, and what came of it."""

    nodes: int
    pods: int
    together: int
    """The number of pods at the trace's fullest moment, as it was published."""
    load: float
    """The end of the saturation: what was asked for of `measure`, over what is there."""
    stretch: float
    """The factor by which lifetimes were multiplied for arrivals and departures, and for the compaction."""
    profiles: list[ProfileStudy]
    measure: str = SHARED_GPU
    """The resource by which the load is measured; empty where pods ask for nothing that nodes have."""
    shares: list[SharesRun] = []
    """The inflations of each profile; empty where no GPUs are shared."""


class Recorded(msgspec.Struct, rename="camel", frozen=True):
    """A saturation that another scheduler decided, in the order of its bindings (`python -m bench.trace` makes one)."""

    scheduler: str
    load: float
    placements: list[Placement]


def study(world: World, frameworks: Mapping[str, Framework], load: float, fill: float, progress: Progress) -> Study:
    """Play the trace. `load`: where the saturation ends. `fill`: lifetimes are stretched until the pods of some moment
    ask for this much of what there is; 0 plays them as they are.
    """
    by = stretch_to(world, fill) if fill else 1.0
    longer = stretched(world, by)
    found = []
    for name, framework in frameworks.items():
        run, placements = saturation(world, framework, load, progress)
        _, regret = retrace(world, framework, load, placements, progress)
        found.append(
            ProfileStudy(
                name, run, regret, departures(longer, framework, progress), compaction(longer, framework, progress)
            )
        )
    played = Played(world, next(iter(frameworks.values())))
    together = len(fullest(world.arrivals))
    return Study(len(played.nodes), len(played.pods), together, load, by, found, measure(world))


def beside(world: World, recorded: Iterable[Recorded], framework: Framework, progress: Progress) -> list[ProfileStudy]:
    """Return the results of other schedulers in the same terms; their regret is by the framework's scores."""
    found = []
    for each in recorded:
        run, regret = retrace(world, framework, each.load, each.placements, progress)
        found.append(ProfileStudy(each.scheduler, run, regret))
    return found


def share_profiles(profiles: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the profiles as they are where pods get parts of single GPUs: each with the plugin GPUShare."""
    return replace(profiles, profiles=[_with_shares(profile) for profile in profiles.profiles])


def gpu_profiles(world: World) -> SchedulerConfiguration:
    """Return TRACE_PROFILES with GPUShare, and two profiles that score by what is left of single GPUs and nothing else.

    `packed-gpus` prefers GPUs and nodes in use, `fragmentation` what fragments the GPUs the least for the typical tasks
    of the world.
    """
    tasks = [msgspec.to_builtins(task) for task in typical(world.decoded(NOTHING_READ).arrivals)]
    mine = [
        ProfileConfig(
            scheduler_name=name,
            plugins=Plugins(score=PluginSet([PluginRef(GPUShare.name)], [PluginRef("*")])),
            plugin_config=[PluginConfig(GPUShare.name, {"strategy": strategy, "tasks": tasks})],
        )
        for name, strategy in (("packed-gpus", "Packed"), ("fragmentation", "FragmentationGradient"))
    ]
    return share_profiles(replace(TRACE_PROFILES, profiles=[*TRACE_PROFILES.profiles, *mine]))


def _with_shares(profile: ProfileConfig) -> ProfileConfig:
    """Return a profile with GPUShare, unless it has it."""
    points = profile.plugins
    if any(ref.name == GPUShare.name for ref in points.multi_point.enabled):
        return profile
    more = replace(points.multi_point, enabled=[*points.multi_point.enabled, PluginRef(GPUShare.name)])
    return replace(profile, plugins=replace(points, multi_point=more))


def shares_gpus(world: World) -> bool:
    """Return whether pods ask for parts of GPUs, and nodes have some."""
    return measure(world) == SHARED_GPU


def inflation(world: World, framework: Framework, load: float, seed: int, progress: Progress) -> SharesRun:
    """Let tasks come until they have asked for `load` times all GPUs, and return what became of these.

    As Weng et al. measure it: on the nodes that have GPUs; each task of the trace once, in a random order, then tasks
    drawn from the trace with replacement; nobody leaves.
    """
    played = Played(world, framework)
    gpus = framework.plugin(GPUShare.name)
    assert isinstance(gpus, GPUShare)
    simulation = Simulation({framework.profile.name: framework}, seed=seed)
    simulation.put_all(node for node in played.nodes if node.allocatable.get(SHARED_GPU))
    dice = random.Random(seed)
    order = list(range(len(played.pods)))
    dice.shuffle(order)
    there = sum(node.allocatable.get(SHARED_GPU, 0) for node in played.nodes)
    asks = [pod.shape.requests.get(SHARED_GPU, 0) for pod in played.pods]
    asked = sum(asks)
    while asked + asks[drawn := dice.randrange(len(asks))] <= load * there:
        asked += asks[drawn]
        order.append(drawn)
    hopeless: set[tuple[PodShape, int]] = set()
    for number, which in enumerate(order):
        pod = played.pod(which, f"-{number}" if number >= len(asks) else "")
        if (pod.shape, pod.priority) not in hopeless:  # nobody leaves: what did not fit once never will
            simulation.put(pod)
            simulation.work()
            if pod.uid in simulation.failed:
                hopeless.add((pod.shape, pod.priority))
        if _look(number, len(order)):
            progress(f"{framework.profile.name}: inflation {seed}, {number + 1:,} of {len(order):,}")
    nodes = simulation.cluster.nodes
    left, cpu = gpus.devices(simulation.cluster), nodes.resources["cpu"]
    idle = nodes.allocatable[cpu, : nodes.rows] - nodes.requested[cpu, : nodes.rows]
    wasted = Fragmentation(typical(played.pods)).of(idle, left).sum()
    placed = len(simulation.bound)
    return SharesRun(
        framework.profile.name, [len(order)], [placed], [1 - int(left.sum()) / there], [float(wasted) / there]
    )


def inflations(
    world: World, frameworks: Mapping[str, Framework], load: float, seeds: int, progress: Progress
) -> list[SharesRun]:
    """Return the inflations of each profile with the seeds from 0 on. The world's GPUs are shared."""
    found = []
    for name, framework in frameworks.items():
        runs = [inflation(world, framework, load, seed, progress) for seed in range(seeds)]
        figures = ([getattr(run, field)[0] for run in runs] for field in SharesRun.__struct_fields__[1:])
        found.append(SharesRun(name, *figures))
    return found
