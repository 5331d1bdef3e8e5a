"""Simulates pods that are created, and nodes that are added or drained, on a cluster as it is. Nothing is written.

`scheduler.cli.simulate` calls this. Controllers are taken to create drained pods again; disruption budgets, which would
only delay that, are left out.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from scheduler.engine.queued import Place
from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.whatif.quality import Mix, Quality, quality
from scheduler.whatif.simulation import Simulation
from scheduler.whatif.world import World

_STAY = ("DaemonSet", "Node")
"""Controllers whose pods a drain leaves: the node's own, and those that tolerate it."""

_GATED = "waits for its scheduling gates"


class Placed(msgspec.Struct, rename="camel", frozen=True):
    """A pod that got a node; `was`: the one that it was drained from."""

    pod: str
    node: str
    was: str | None = None
    waits_for_volumes: bool = False


class Waiting(msgspec.Struct, rename="camel", frozen=True):
    """A pod that got no node, and kube-scheduler's message."""

    pod: str
    message: str


class Preempted(msgspec.Struct, rename="camel", frozen=True):
    """A pod that was removed for another."""

    pod: str
    node: str
    by: str


class Outcome(msgspec.Struct, rename="camel", frozen=True):
    """What would happen."""

    profile: str
    placed: list[Placed]
    waiting: list[Waiting]
    preempted: list[Preempted]
    lost: list[str]
    """Pods of drained nodes that no controller creates again."""
    drained: list[str]
    before: Quality
    after: Quality
    notes: list[str]


def plan(
    world: World, framework: Framework, pods: Iterable[Pod], drain: Sequence[str] = (), notes: Sequence[str] = ()
) -> Outcome:
    """Create these pods, drain these nodes (all have to be there), and let the profile schedule until nothing moves.

    Pods of the world that wait already and name the profile take part.
    """
    name = framework.profile.name
    arriving = [replace(pod, scheduler_name=name) for pod in pods]
    mix = Mix([*arriving, *world.placed.values()], _resources(arriving))
    before = quality(world.cluster, mix)
    simulation = Simulation({name: framework}, world.cluster)
    was, lost = _drain(simulation, drain, name)
    for pod in (*world.waiting.values(), *arriving):
        if pod.scheduler_name == name:
            simulation.put(pod)
    simulation.settle()
    placed = [Placed(pod.key, node, was.get(pod.uid)) for pod, node in simulation.bound.values()] + [
        Placed(pod.key, node, was.get(uid), True) for uid, (pod, node) in simulation.preparing.items()
    ]
    gated = [Waiting(queued.pod.key, _GATED) for queued in simulation.engine.queue if queued.place is Place.GATED]
    return Outcome(
        profile=name,
        placed=placed,
        waiting=[*(Waiting(pod.key, message) for pod, message in simulation.failed.values()), *gated],
        preempted=[Preempted(v.key, node, by.key) for v, by, node in simulation.preempted.values()],
        lost=lost,
        drained=list(drain),
        before=before,
        after=quality(world.cluster, mix),
        notes=list(notes),
    )


def _drain(simulation: Simulation, names: Sequence[str], scheduler_name: str) -> tuple[Mapping[str, str], list[str]]:
    """Cordon the nodes and take their pods off; (uid → node that it was on, keys of pods that do not come back)."""
    was: dict[str, str] = {}
    lost = []
    nodes = simulation.cluster.nodes
    rows = {name: nodes.live_row(name) for name in names}
    for row in rows.values():
        assert row is not None
        node = nodes.objects[row]
        assert node is not None
        simulation.put(replace(node, unschedulable=True))
    for name, row in rows.items():
        assert row is not None
        for pod in simulation.cluster.pods_on(row):
            if pod.owner is not None and pod.owner[0] in _STAY:
                continue
            simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
            if pod.owner is None:
                lost.append(pod.key)
                continue
            again = replace(pod, node_name="", nominated_node_name="", scheduler_name=scheduler_name, terminating=False)
            was[pod.uid] = name
            simulation.put(again)
    return was, lost


def _resources(pods: Iterable[Pod]) -> tuple[str, ...]:
    """CPU and memory, and whatever else the pods ask for."""
    asked = {name for pod in pods for name in pod.shape.requests}
    return ("cpu", "memory", *sorted(asked - {"cpu", "memory"}))
