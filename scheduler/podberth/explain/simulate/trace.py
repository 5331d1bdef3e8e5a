"""Plays a trace of a production cluster through the engine, and measures each profile on it.

The trace has the form of Alibaba's openb: two CSV files, nodes and pods. It is played as arrivals and departures, and
as arrivals until nothing fits; and the fewest nodes are found that hold its fullest moment.
"""

import csv
import io
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.explain.rejections import given_away
from podberth.explain.simulate.outcome import Floats, Mix, Quality, quality
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import PluginConfig, ProfileConfig, SchedulerConfiguration
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.wire import encode

GPU = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-model"
RESOURCES = ("cpu", "memory", GPU)
NODES_FILE, PODS_FILE = "openb_nodes.csv", "openb_pods.csv"
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
    "deletion_time",
)
_FOR_EVER = float("inf")


class Arrival(NamedTuple):
    """A pod of the trace. Times in seconds of the trace; `until` is infinite for one that never ends."""

    pod: dict[str, Any]
    at: float
    until: float


class Trace(NamedTuple):
    """Nodes and pods as API objects, pods by their arrival."""

    nodes: list[dict[str, Any]]
    arrivals: list[Arrival]


def read(nodes: bytes, pods: bytes) -> Trace:
    """Return the trace that the two files hold.

    Raises ObjectError, a line that names file, line and column.
    """
    return Trace(
        nodes=[_node(row) for row in _rows(nodes, NODES_FILE, _NODE_COLUMNS)],
        arrivals=sorted((_arrival(row) for row in _rows(pods, PODS_FILE, _POD_COLUMNS)), key=lambda each: each.at),
    )


class Model:
    """The trace's objects as the scheduler sees them, for one schedulerName."""

    def __init__(self, scheduler_name: str) -> None:
        self._name = scheduler_name
        self._decoder = Decoder()

    def node(self, document: Mapping[str, Any]) -> Node:
        return self._decoder.node(encode(document))

    def pod(self, document: Mapping[str, Any], suffix: str = "") -> Pod:
        """Return a pod that waits; `suffix` tells copies of one apart."""
        metadata = document["metadata"]
        name = metadata["name"] + suffix
        spec = {**document["spec"], "schedulerName": self._name}
        return self._decoder.pod(
            encode({**document, "metadata": {**metadata, "name": name, "uid": name}, "spec": spec})
        )


class _Row(NamedTuple):
    file: str
    line: int
    values: Mapping[str, str]

    def number(self, column: str, empty: float | None = None) -> float:
        """Return the text as a number of at least 0."""
        text = self.values[column].strip()
        if not text and empty is not None:
            return empty
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1e15:
            raise ObjectError(f"{self.file}, line {self.line}: {column}: {shown(text)}: expected a number, 0 or more")
        return found

    def whole(self, column: str) -> int:
        """Return the text as a whole number; an empty text is 0."""
        return int(self.number(column, 0.0))

    def name(self, column: str) -> str:
        """Return a name that is not empty."""
        text = self.values[column].strip()
        if not text:
            raise ObjectError(f"{self.file}, line {self.line}: {column}: Required value")
        return text


def _rows(content: bytes, file: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ObjectError(f"{file}: expected CSV in UTF-8: {error.reason} at byte {error.start}") from None
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise ObjectError(f"{file}, line 1: no column {', '.join(missing)}: expected {', '.join(columns)}")
    seen: set[str] = set()
    for number, values in enumerate(reader, start=2):
        if any(values[column] is None for column in columns):
            raise ObjectError(f"{file}, line {number}: expected {len(reader.fieldnames or ())} fields")
        row = _Row(file, number, values)
        name = row.name(columns[0])
        if name in seen:
            raise ObjectError(f"{file}, line {number}: {columns[0]}: {name} is there twice")
        seen.add(name)
        yield row


def _node(row: _Row) -> dict[str, Any]:
    name, model = row.name("sn"), row.values["model"].strip()
    room = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi", "pods": "1000"}
    labels = {"kubernetes.io/hostname": name}
    if row.whole("gpu"):
        room[GPU] = str(1000 * row.whole("gpu"))
        labels[MODEL] = model
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _arrival(row: _Row) -> Arrival:
    requests = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi"}
    gpus = row.whole("num_gpu")
    if gpus:
        requests[GPU] = str(gpus * (row.whole("gpu_milli") or 1000))
    resources = {"requests": requests} | ({"limits": {GPU: requests[GPU]}} if gpus else {})
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
    }
    models = [model for model in row.values["gpu_spec"].split("|") if model.strip()]
    if models:
        term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": row.name("name"), "namespace": "default"},
        "spec": spec,
    }
    return Arrival(pod, row.number("creation_time"), row.number("deletion_time", _FOR_EVER))


_STRATEGY = {
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": name, "weight": 1} for name in RESOURCES]}
}
TRACE_PROFILES = SchedulerConfiguration(
    profiles=[
        ProfileConfig(scheduler_name="default"),
        ProfileConfig(scheduler_name="packed", plugin_config=[PluginConfig("NodeResourcesFit", _STRATEGY)]),
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


def departures(trace: Trace, framework: Framework, progress: Progress) -> Run:
    """Play the trace with arrivals and departures at its times; a pod that fits no node waits for one."""
    model = Model(framework.profile.name)
    simulation = _simulation(trace, framework, model)
    pods = [model.pod(arrival.pod) for arrival in trace.arrivals]
    mix = Mix(pods, resources_of(trace))
    came = {pod.uid: arrival.at for pod, arrival in zip(pods, trace.arrivals, strict=True)}
    moments = sorted(
        [(arrival.at, 1, i) for i, arrival in enumerate(trace.arrivals)]
        + [(arrival.until, 0, i) for i, arrival in enumerate(trace.arrivals) if arrival.until != float("inf")]
    )
    points: list[Point] = []
    best: Quality | None = None
    waited: dict[str, float] = {}
    for number, (moment, arrives, i) in enumerate(moments):
        simulation.now = moment
        pod = pods[i]
        if arrives:
            simulation.put(pod)
        else:
            simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
        simulation.work()
        waited |= {uid: moment - came[uid] for uid in simulation.newly_bound()}
        if _look(number, len(moments)):
            seen = quality(simulation.cluster, mix)
            points.append(Point(moment, len(simulation.engine.queue), seen))
            best = seen if best is None or seen.pods > best.pods else best
            progress(f"{framework.profile.name}: arrivals and departures, {number + 1:,} of {len(moments):,}")
    return Run(len(pods), len(waited), points, best or quality(simulation.cluster, mix), _waits(waited.values()))


def saturation(trace: Trace, framework: Framework, load: float, progress: Progress) -> tuple[Run, list[Placement]]:
    """Play arrivals in the trace's order, repeated, without departures, until pods have asked for `load` times
    `measure`.

    Returns the run, and who went where, in the order of the decisions.
    """
    model = Model(framework.profile.name)
    simulation = _simulation(trace, framework, model)
    mix = _mix(trace)
    arriving = list(saturating(trace, load))
    points: list[Point] = []
    for number, (arrival, suffix, asked) in enumerate(arriving):
        simulation.put(model.pod(arrival.pod, suffix))
        simulation.work()
        if _look(number, len(arriving)):
            points.append(Point(asked, len(simulation.failed), quality(simulation.cluster, mix)))
            progress(f"{framework.profile.name}: saturation, {number + 1:,} of {len(arriving):,}")
    run = Run(len(arriving), len(simulation.bound), points, quality(simulation.cluster, mix))
    return run, [(pod.name, node) for pod, node in simulation.bound.values()]


def retrace(
    trace: Trace, framework: Framework, load: float, placements: Sequence[Placement], progress: Progress
) -> tuple[Run, Regret]:
    """Measure a saturation that another scheduler decided, and the points that each choice gave away.

    Each pod is scored on all nodes, by the plain way, as the cluster was when its turn came; the regret is the best
    total minus that of the node that was chosen.
    """
    model = Model(framework.profile.name)
    simulation = _simulation(trace, framework, model)
    mix = _mix(trace)
    arriving = {each[0].pod["metadata"]["name"] + each[1]: each for each in saturating(trace, load)}
    points: list[Point] = []
    total = missed = impossible = 0
    for number, (name, node) in enumerate(placements):
        arrival, suffix, asked = arriving[name]
        pod = model.pod(arrival.pod, suffix)
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


def saturating(trace: Trace, load: float) -> Iterable[tuple[Arrival, str, float]]:
    """Yield (arrival, suffix of its name, load with it) until all have asked for `load` times all there is of
    `measure`.
    """
    resource = measure(trace)
    if not resource:
        return
    demand, rooms = _demand(trace)
    column = RESOURCES.index(resource)
    asks, there = demand[:, column].tolist(), float(rooms[column])
    asked, turn = 0.0, 0
    while True:
        for arrival, amount in zip(trace.arrivals, asks, strict=True):
            if asked >= load * there:
                return
            asked += amount
            yield arrival, f"-{turn}" if turn else "", asked / there
        turn += 1


def resources_of(trace: Trace) -> tuple[str, ...]:
    """Return the resources that the trace has: those of which some node has any."""
    _, rooms = _demand(trace)
    return tuple(name for name, room in zip(RESOURCES, rooms.tolist(), strict=True) if room)


def measure(trace: Trace) -> str:
    """Return the resource by which the load is measured: GPUs if nodes have and pods ask for them, else CPU, else
    memory.
    """
    demand, rooms = _demand(trace)
    asked = demand.any(axis=0) & (rooms > 0)
    return next((name for name in (RESOURCES[2], *RESOURCES[:2]) if asked[RESOURCES.index(name)]), "")


def _waits(seconds: Iterable[float]) -> Waits:
    found = np.array(sorted(seconds), dtype=np.float64)
    if not len(found):
        return Waits(0, 0.0, 0.0, 0.0)
    median, p99 = np.percentile(found, (50, 99), method="inverted_cdf").tolist()
    return Waits(int(np.count_nonzero(found)), median, p99, float(found[-1]))


def stretched(trace: Trace, by: float) -> Trace:
    """Return the trace with every lifetime times `by`."""
    return Trace(trace.nodes, [each._replace(until=each.at + by * (each.until - each.at)) for each in trace.arrivals])


def stretch_to(trace: Trace, load: float) -> float:
    """Return the factor by which pods have to live longer so that at some moment they ask for `load` times what there
    is.

    What there is: of the resource that is short first. A published trace may be a sample of the pods beside all of the
    nodes, and leave these all but empty; 1.0 where the trace is as full as that by itself.
    """
    asks, there = _demand(trace)
    asks, there = asks[:, there > 0], there[there > 0]
    if not len(there):
        return 1.0
    at = np.array([each.at for each in trace.arrivals])
    lives = np.array([each.until for each in trace.arrivals]) - at

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


def compaction(trace: Trace, framework: Framework, progress: Progress) -> Compaction:
    """Return the fewest nodes that hold the pods of the trace's fullest moment, by bisection over one random order."""
    model = Model(framework.profile.name)
    nodes = [model.node(node) for node in trace.nodes]
    random.Random(0).shuffle(nodes)
    pods = [model.pod(arrival.pod) for arrival in fullest(trace.arrivals)]
    progress(f"{framework.profile.name}: do {len(pods):,} pods fit on all {len(nodes):,} nodes?")
    if not _hold(nodes, pods, framework):
        return Compaction(len(pods), None, len(nodes))
    too_few, enough = 0, len(nodes)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        progress(f"{framework.profile.name}: do {len(pods):,} pods fit on {middle:,} nodes?")
        if _hold(nodes[:middle], pods, framework):
            enough = middle
        else:
            too_few = middle
    return Compaction(len(pods), enough, len(nodes))


def fullest(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the pods that are there together when most are."""
    ends = sorted(arrival.until for arrival in arrivals)
    most, best, ended = 0, 0.0, 0
    for i, arrival in enumerate(arrivals):
        while ended < len(ends) and ends[ended] <= arrival.at:
            ended += 1
        if i + 1 - ended > most:
            most, best = i + 1 - ended, arrival.at
    return [arrival for arrival in arrivals if arrival.at <= best < arrival.until]


def _demand(trace: Trace) -> tuple[Floats, Floats]:
    """Return (what each arrival asks for, float[arrivals, resources]; what all nodes have)."""
    model = Model("")
    asks = [[model.pod(each.pod).shape.requests.get(name, 0) for name in RESOURCES] for each in trace.arrivals]
    nodes = [model.node(node) for node in trace.nodes]
    there = [sum(node.allocatable.get(name, 0) for node in nodes) for name in RESOURCES]
    return np.array(asks, dtype=np.float64).reshape(-1, len(RESOURCES)), np.array(there, dtype=np.float64)


def _hold(nodes: Sequence[Node], pods: Sequence[Pod], framework: Framework) -> bool:
    simulation = Simulation({framework.profile.name: framework})
    for node in nodes:
        simulation.put(node)
    for pod in pods:
        simulation.put(pod)
        simulation.work()
        if len(simulation.failed) > _TOLERATED * len(pods):
            return False
    return True


def _simulation(trace: Trace, framework: Framework, model: Model) -> Simulation:
    simulation = Simulation({framework.profile.name: framework})
    for node in trace.nodes:
        simulation.put(model.node(node))
    return simulation


def _mix(trace: Trace) -> Mix:
    model = Model("")
    return Mix((model.pod(arrival.pod) for arrival in trace.arrivals), resources_of(trace))


def _look(number: int, of: int) -> bool:
    return number + 1 == of or (number + 1) * POINTS // of != number * POINTS // of


class ProfileStudy(msgspec.Struct, rename="camel", frozen=True):
    """One profile's figures. Only a saturation is known of a scheduler that was recorded elsewhere."""

    profile: str
    saturation: Run
    regret: Regret
    departures: Run | None = None
    compaction: Compaction | None = None


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
    measure: str = GPU
    """The resource by which the load is measured; empty where pods ask for nothing that nodes have."""


class Recorded(msgspec.Struct, rename="camel", frozen=True):
    """A saturation that another scheduler decided, in the order of its bindings (`python -m bench.trace` makes one)."""

    scheduler: str
    load: float
    placements: list[Placement]


def study(trace: Trace, frameworks: Mapping[str, Framework], load: float, fill: float, progress: Progress) -> Study:
    """Play the trace. `load`: where the saturation ends. `fill`: lifetimes are stretched until the pods of some moment
    ask for this much of what there is; 0 plays them as they are.
    """
    by = stretch_to(trace, fill) if fill else 1.0
    longer = stretched(trace, by)
    found = []
    for name, framework in frameworks.items():
        run, placements = saturation(trace, framework, load, progress)
        _, regret = retrace(trace, framework, load, placements, progress)
        found.append(
            ProfileStudy(
                name, run, regret, departures(longer, framework, progress), compaction(longer, framework, progress)
            )
        )
    return Study(len(trace.nodes), len(trace.arrivals), len(fullest(trace.arrivals)), load, by, found, measure(trace))


def beside(trace: Trace, recorded: Iterable[Recorded], framework: Framework, progress: Progress) -> list[ProfileStudy]:
    """Return the results of other schedulers in the same terms; their regret is by the framework's scores."""
    found = []
    for each in recorded:
        run, regret = retrace(trace, framework, each.load, each.placements, progress)
        found.append(ProfileStudy(each.scheduler, run, regret))
    return found
