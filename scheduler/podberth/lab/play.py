"""Runs a world on virtual time: pods come, wait, are bound, last and end, while other things change."""

import heapq
from collections import deque
from math import inf
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.column import Ints
from podberth.engine.observers import Observer
from podberth.engine.queue.queued import Heap, Queued, QueuedGroup, QueuedPod
from podberth.explain.judging.schema import shown
from podberth.explain.simulate.outcome import Floats, rooms, stranded
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import ConfigError, SchedulerConfiguration
from podberth.framework.decision import Decision
from podberth.framework.profiles import annotated, build
from podberth.framework.runtime import Framework
from podberth.lab.gpus import Fragmentation, GPUShare, plugins, typical
from podberth.lab.result import COLUMNS, Result
from podberth.lab.world import Decoded, Key, World
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

LOOKS = 100
"""The number of equal distances at which a run is measured."""
_PATIENCE = 60.0
"""Seconds without a binding, after all that a world has has happened, after which the run ends."""
_UNITS = {"cpu": "millicores", "memory": "bytes", "ephemeral-storage": "bytes"}


def run(
    world: World,
    configuration: SchedulerConfiguration,
    *,
    profile: str | None = None,
    seed: int = 0,
    looks: int = LOOKS,
) -> Result:
    """Return what becomes of the world's pods if this configuration schedules them.

    All pods are scheduled by one profile, the first one unless it is named. `seed` chooses among nodes that are equally
    good. Utilisation and fragmentation are measured at so many (`looks`) equal distances until the world's horizon, or
    once at the end where that is 0. Nothing but the arguments is read: no clock, no network, no file; HTTP extenders
    are not asked. A pod that is preempted comes again at once if it has a controller, under its old name, and lasts its
    whole time again.

    Raises ConfigError for a configuration that can't be used or a profile that it does not have, ObjectError for a
    world's object that can't be read.
    """
    frameworks = build(configuration, plugins())
    if not frameworks:
        raise ConfigError("profiles: expected one at least")
    name = next(iter(frameworks)) if profile is None else profile
    if name not in frameworks:
        raise ConfigError(f"profile: {shown(name)}: expected one of {', '.join(frameworks)}")
    framework = frameworks[name]
    simulation = Simulation(
        {name: framework},
        seed=seed,
        initial_backoff=configuration.pod_initial_backoff_seconds,
        max_backoff=configuration.pod_max_backoff_seconds,
    )
    simulation.engine.queue.places.flush = _Unflushed()
    found = world.decoded(annotated(frameworks))
    course = _Course(simulation, world, found, framework)
    simulation.engine.observe(course)
    course.play(looks)
    notes = [f"the HTTP extender {each.url_prefix} is not asked" for each in configuration.extenders]
    if simulation.undecided:
        count, message = len(simulation.undecided), next(iter(simulation.undecided.values()))
        notes.append(f"pods that a plugin failed to decide: {count:,}, the first of them: {message}")
    return Result(world.name, name, seed, course.ended, course.columns(), tuple(notes))


class _Unflushed(Heap):
    """Tries no pod again because it has waited for five minutes: no event is lost here, and without one nothing else
    would come of it. Groups are, as some of them give up what they hold.
    """

    def push(self, order: Any, queued: Queued) -> None:
        """Keep a group."""
        if isinstance(queued, QueuedGroup):
            super().push(order, queued)


class _Life(Struct, eq=False):
    """A pod from its arrival to its end. Times in seconds."""

    number: int
    pod: Pod
    lasts: float
    arrived: float
    node: str | None = None
    bound: float | None = None
    ended: float | None = None
    attempts: int = 0
    feasible: int | None = None
    moved_from: str | None = None
    """The node that it was evicted from at its arrival."""


class _Look(NamedTuple):
    """One look at the world. Amounts are int[resources]."""

    at: float
    used: Ints
    allocatable: Ints
    stranded: Floats
    nodes_in_use: int
    waiting: int


class _Course(Observer):
    """The way of a world from its begin to its end, and what is seen of it."""

    def __init__(self, simulation: Simulation, world: World, found: Decoded, framework: Framework) -> None:
        self._simulation, self._world, self._found = simulation, world, found
        self._profile = framework.profile.name
        gpus = framework.plugin(GPUShare.name)
        self._gpus = gpus if isinstance(gpus, GPUShare) and gpus.resource in found.mix.resources else None
        self._fragmentation = Fragmentation([] if self._gpus is None else typical(found.arrivals, self._gpus.resource))
        self._lives: list[_Life] = []
        self._living: dict[str, _Life] = {}
        """By UID."""
        self._uids: dict[str, str] = {}
        """Pod → UID, of all that came or were there."""
        self._ends: list[tuple[float, int, _Life]] = []
        self._evicted: list[Pod] = []
        """Pods that lost their node just now."""
        self._preemptions: list[tuple[float, Pod, str, Pod]] = []
        self._looks: list[_Look] = []
        self._due: deque[float] = deque()
        """The times at which to look at the world."""
        self._told = True
        """Whether the engine may have something to do later."""
        self.ended = 0.0
        """The last time at which anything but a retry happened."""

    # -- what the engine tells ----------------------------------------------------------------------------------------

    def assumed(self, queued: QueuedPod, node: str, decision: Decision, now: float) -> None:
        life = self._living.get(queued.pod.uid)
        if life is not None:
            life.feasible = decision.fitting
            life.attempts = queued.attempts

    def bound(self, queued: QueuedPod, node: str, by: str, now: float) -> None:
        life = self._living.get(queued.pod.uid)
        if life is not None:
            self._bound(life, node)

    def _bound(self, life: _Life, node: str) -> None:
        now = self.ended = self._simulation.now
        life.node, life.bound = node, now
        if life.lasts != inf:
            heapq.heappush(self._ends, (now + life.lasts, life.number, life))

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], group: PodGroup | None, now: float) -> None:
        self._preemptions += [(now, victim, node, pod) for victim in victims]
        self._evicted += victims

    # -- what happens -------------------------------------------------------------------------------------------------

    def play(self, looks: int) -> None:
        """Play the world to its end."""
        world, simulation = self._world, self._simulation
        for thing in self._found.objects:
            simulation.put(self._as_scheduled(thing))
            if isinstance(thing, Pod):
                self._uids[thing.key] = thing.uid
        arrivals = deque(zip(world.arrivals, self._found.arrivals, strict=True))
        changes = deque(zip(world.changes, self._found.changes, strict=True))
        moments = [world.horizon * i / looks for i in range(looks + 1)] if looks and world.horizon else []
        self._due = deque(moments)
        while True:
            moment = min(
                arrivals[0][0].at if arrivals else inf,
                changes[0][0].at if changes else inf,
                self._ends[0][0] if self._ends else inf,
            )
            tick = simulation.engine.next_tick() if self._told else None
            if moment == inf and (tick is None or tick > self.ended + _PATIENCE):
                break
            self._told = tick is not None
            if tick is not None and tick <= moment:
                moment = tick
            self._look_before(moment)
            if moment == tick:
                simulation.wait_until(moment)
            simulation.now = moment
            while self._ends and self._ends[0][0] <= moment:
                life = heapq.heappop(self._ends)[2]
                if life.ended is None:
                    self._gone(life.pod)
            while changes and changes[0][0].at <= moment:
                self._change(changes.popleft()[1])
            coming: list[_Life] = []
            while arrivals and arrivals[0][0].at <= moment:
                arrival, pod = arrivals.popleft()
                coming.append(self._born(pod, arrival.lasts))
            self._come(coming)
            while self._evicted:
                self._come(self._again())
        self._look_before(inf)
        if not self._looks:
            self._looks.append(self._seen(self.ended))

    def _as_scheduled(self, thing: Modelled) -> Modelled:
        """Return a pod that waits as one of the profile that is run."""
        if isinstance(thing, Pod) and not thing.node_name:
            return replace(thing, scheduler_name=self._profile)
        return thing

    def _born(self, pod: Pod, lasts: float, moved_from: str | None = None) -> _Life:
        now = self.ended = self._simulation.now
        if pod.scheduler_name != self._profile:
            pod = replace(pod, scheduler_name=self._profile)
        life = _Life(len(self._lives), pod, lasts, now, moved_from=moved_from)
        self._lives.append(life)
        self._living[pod.uid] = life
        self._uids[pod.key] = pod.uid
        return life

    def _come(self, coming: list[_Life]) -> None:
        """Have pods come that come at one moment.

        While no other pod could be tried, each is placed at once, in the order of the queue: most pods of most worlds
        come when there is room, and that takes half as long as the way through the queue and the binding cycle.
        """
        simulation = self._simulation
        if not simulation.engine.has_work:
            if len(coming) > 1:
                framework, now = simulation.framework(coming[0].pod), simulation.now
                coming.sort(key=lambda life: framework.sort_key(life.pod, now))
            for i, life in enumerate(coming):
                decision = simulation.place(life.pod)
                if decision is None:
                    coming = coming[i:]
                    break
                life.attempts, life.feasible = 1, decision.fitting
                self._bound(life, simulation.bound[life.pod.uid][1])
            else:
                return
        self._told = True
        for life in coming:
            simulation.put(life.pod)
        simulation.work()

    def _gone(self, pod: Pod) -> None:
        self.ended = self._simulation.now
        self._told = self._told or len(self._simulation.engine.queue) > 0
        self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
        self._end(pod.uid)

    def _end(self, uid: str) -> _Life | None:
        life = self._living.pop(uid, None)
        if life is not None:
            life.ended = self._simulation.now
        return life

    def _again(self) -> list[_Life]:
        """Return the pods that come again as they lost their nodes: those that a controller makes."""
        found: list[_Life] = []
        evicted, self._evicted = self._evicted, []
        for pod in evicted:
            life = self._end(pod.uid)
            if self._world.controllers and pod.owner is not None and not pod.belongs_to_node:
                for _, made in pod.made_claims:
                    claim = self._found.claims.get((pod.namespace, made or ""))
                    if claim is not None:
                        self._simulation.put(claim)
                again = replace(pod, node_name="", nominated_node_name="", started=None)
                found.append(self._born(again, inf if life is None else life.lasts, pod.node_name))
        return found

    def _change(self, change: Modelled | Key) -> None:
        self.ended = self._simulation.now
        self._told = True
        if isinstance(change, tuple):
            kind, namespace, name = change
            if kind == "Pod":
                uid = self._uids.pop(f"{namespace}/{name}", None)
                if uid is not None:
                    self._simulation.gone(kind, namespace, name, uid)
                    self._end(uid)
                return
            if kind == "Node":
                self._empty(name)
            self._simulation.gone(kind, namespace, name, "")
        else:
            self._simulation.put(self._as_scheduled(change))
            if isinstance(change, Pod):
                self._uids[change.key] = change.uid

    def _empty(self, node: str) -> None:
        """Have the pods of a node go with it."""
        cluster = self._simulation.cluster
        row = cluster.nodes.live_row(node)
        for pod in [] if row is None else cluster.pods_on(row):
            self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
            self._evicted.append(pod)

    # -- what is seen -------------------------------------------------------------------------------------------------

    def _look_before(self, moment: float) -> None:
        """Look at the world for each of the times that are due before a moment: nothing has happened between them."""
        seen: _Look | None = None
        while self._due and self._due[0] < moment:
            at = self._due.popleft()
            seen = self._seen(at) if seen is None else seen._replace(at=at)
            self._looks.append(seen)

    def _seen(self, at: float) -> _Look:
        cluster, mix = self._simulation.cluster, self._found.mix
        nodes = cluster.nodes
        rows = np.flatnonzero(nodes.alive[: nodes.rows])
        total, free = rooms(cluster, mix.resources, rows)
        lost = stranded(total, free, mix).sum(axis=1)
        if self._gpus is not None:  # single devices are known, and so is what of each is of no use
            lost[mix.resources.index(self._gpus.resource)] = self._gpus.fragmented(cluster, self._fragmentation)
        return _Look(
            at,
            (total - free).sum(axis=1),
            total.sum(axis=1),
            lost,
            int(np.count_nonzero(nodes.pods[rows])),
            len(self._simulation.engine.queue),
        )

    # -- what came of it ----------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, dict[str, list[Any]]]:
        """Return the tables' columns."""
        for life in self._living.values():
            queued = self._simulation.engine.queue.get(life.pod.uid)
            if queued is not None:
                life.attempts = queued.attempts
        rows: dict[str, list[tuple[Any, ...]]] = {
            "decisions": [
                (
                    life.pod.name,
                    life.pod.namespace,
                    life.pod.priority,
                    "" if life.pod.scheduling_group is None else life.pod.scheduling_group.name,
                    life.node,
                    life.arrived,
                    life.bound,
                    life.ended,
                    None if life.bound is None else life.bound - life.arrived,
                    life.attempts,
                    life.feasible,
                )
                for life in self._lives
            ],
            "utilisation": [
                (look.at, name, _unit(name), int(used), int(there), look.nodes_in_use, look.waiting)
                for look in self._looks
                for name, used, there in zip(self._found.mix.resources, look.used, look.allocatable, strict=True)
            ],
            "fragmentation": [
                (look.at, name, _unit(name), int(there - used), float(lost))
                for look in self._looks
                for name, used, there, lost in zip(
                    self._found.mix.resources, look.used, look.allocatable, look.stranded, strict=True
                )
            ],
            "preemptions": [
                (at, victim.key, victim.priority, node, pod.key, pod.priority)
                for at, victim, node, pod in self._preemptions
            ],
            "moves": [
                (life.arrived, life.pod.key, life.moved_from, life.node, life.bound)
                for life in self._lives
                if life.moved_from is not None
            ],
        }
        return {
            table: dict(zip(names, map(list, zip(*rows[table], strict=True)), strict=True))
            if rows[table]
            else {name: [] for name in names}
            for table, names in COLUMNS.items()
        }


def _unit(resource: str) -> str:
    return _UNITS.get(resource, "devices")
