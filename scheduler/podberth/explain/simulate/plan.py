"""Simulates pods that are created, and nodes that are added or drained, on a cluster as it is. Nothing is written.

`podberth.cli.simulate` calls this. What waits in the cluster comes first, as it would; what happens after that is
because of the files and the drains.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from msgspec.structs import replace

from podberth.engine.queue.queued import Place
from podberth.explain.gangs.gang import unheeded
from podberth.explain.objects.disruptions import UNGUARDED
from podberth.explain.objects.resource_claims import given
from podberth.explain.objects.world import World
from podberth.explain.simulate.arrivals import Batch, quota_notes
from podberth.explain.simulate.drain import Drain
from podberth.explain.simulate.outcome import (
    LISTED,
    GroupOutcome,
    Mix,
    Others,
    Outcome,
    Placed,
    Preempted,
    Waiting,
    WorkloadOutcome,
    quality,
)
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.runtime import Framework
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey, PodGroup

MEMBERS = 10_000
"""The largest number of pods of one workload that are created as members of a group: none of these can stand for the
others.
"""
_USUAL = "default-scheduler"
"""The scheduler whose pods take part too, since its decisions are the same."""
_GATED = "waits for its scheduling gates"
_NOT_TRIED = "was not tried"
_MIX = 1000
_PREEMPTIONS = 1000
"""The largest number of pods that are preempted for one workload: each takes a search of its own."""


def plan(
    world: World,
    framework: Framework,
    batches: Sequence[Batch],
    *,
    added: Iterable[Modelled] = (),
    drain: Sequence[str] = (),
    force: bool = False,
    not_simulated: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Outcome:
    """Add objects, drain nodes (all have to be there), create pods, and schedule until nothing moves.

    Pods of the world that wait already and name the profile, or default-scheduler, take part. `force`: drain in spite
    of disruption budgets.
    """
    name = framework.profile.name
    arriving = [(batch.pod(0), min(batch.count, _MIX)) for batch in batches if batch.count]
    several = chain.from_iterable(repeat(pod, times) for pod, times in arriving)
    mix = Mix(chain(several, world.placed.values()), _resources(pod for pod, _ in arriving))
    before = quality(world.cluster, mix)
    simulation, others = settled(world, framework)
    ready = _placed(simulation, others)
    things = list(added)
    simulation.put_all(things)
    for batch in batches:
        batch.find_nodes()
    refused = quota_notes(batches, world)
    drained = Drain(simulation, drain, name, force=force, only_wait={pod.uid for pod in others})
    _create(simulation, framework, batches)
    simulation.settle()
    while any(_go_on(simulation, framework, batch) for batch in batches):
        simulation.settle()
    then = {each.pod for each in ready}
    of_pods = [key for batch in batches if (key := group_of(simulation, batch)) is not None]
    keys = [*(thing.key for thing in things if isinstance(thing, PodGroup)), *of_pods]
    placed = _placed(simulation, drained.moved, drained.was)
    listed: list[Placed] = [*placed, *_listed(simulation, batches, LISTED - len(placed))]
    told = [_told(simulation, batch) for batch in batches]
    groups = map(simulation.cluster.pod_groups.get, dict.fromkeys(keys))
    said = [
        *notes,
        *unheeded(filter(None, groups), framework),
        *refused,
        *(note for batch in batches for note in batch.notes),
    ]
    said += [
        f"{batch.owner}: each of its pods is created when the one before it is ready: those after the first that waits "
        "are not created"
        for batch, of in zip(batches, told, strict=True)
        if batch.workload.in_turn and of.waiting > 1 and not batch.stopped
    ]
    if drained.leaving:
        first, more = drained.leaving[0], len(drained.leaving) - 1
        which = f"{first} and {more:,} more are" if more else f"{first} is"
        said.append(f"{which} being deleted already, and nothing is created instead")
    if drain and not world.cluster.selecting.get("PodDisruptionBudget"):
        said.insert(len(notes), UNGUARDED)
    return Outcome(
        profile=name,
        placed=listed,
        waiting=[*_waiting(simulation, drained.moved, drained.was), *_rest(simulation, batches)],
        workloads=told,
        preempted=[Preempted(v.key, node, by.key) for v, by, node in simulation.preempted.values()],
        others=Others(
            ready=ready,
            freed=[each for each in _placed(simulation, others) if each.pod not in then],
            waiting=list(_waiting(simulation, others)),
        ),
        lost=drained.lost,
        drained=list(drain),
        blocked=drained.blocked,
        overdrawn=drained.overdrawn,
        not_simulated=list(not_simulated),
        before=before,
        after=quality(world.cluster, mix),
        notes=list(dict.fromkeys(said)),
        groups=list(outcomes(simulation, keys)),
        unlisted=len(placed) + sum(each.placed for each in told) - len(listed),
    )


def settled(world: World, framework: Framework) -> tuple[Simulation, list[Pod]]:
    """Return the cluster once the pods that wait and take part were scheduled, as far as they fit; and these pods."""
    name = framework.profile.name
    simulation = Simulation({name: framework}, world.cluster)
    others = [
        replace(pod, scheduler_name=name) for pod in world.waiting.values() if pod.scheduler_name in (name, _USUAL)
    ]
    simulation.put_all(others)
    simulation.settle()
    return simulation, others


def _create(simulation: Simulation, framework: Framework, batches: Sequence[Batch]) -> None:
    """Create the pods of all workloads, in the order of the queue."""

    def place_in_queue(numbered: tuple[int, Batch]) -> tuple[object, ...]:
        number, batch = numbered
        return framework.sort_key(batch.pod(0), float(number)) if batch.count else ()

    groups: dict[GroupKey, list[Batch]] = {}
    for batch in batches:
        if (key := group_of(simulation, batch)) is not None:
            groups.setdefault(key, []).append(batch)
    for _, batch in sorted(((i, b) for i, b in enumerate(batches) if b.count), key=place_in_queue):
        key = group_of(simulation, batch)
        if key is None:
            _create_batch(simulation, framework, batch)
        else:
            create_together(simulation, groups.pop(key, ()))


def _create_batch(simulation: Simulation, framework: Framework, batch: Batch) -> None:
    """Create pods until one waits that stands for all that follow: they are its equals, and nothing changed."""
    batch.waits_as = None
    while batch.made < batch.count:
        if batch.made >= batch.most:
            batch.stop(f"stopped after deciding {batch.made:,} pods")
            return
        number = batch.made
        alike = batch.alike(number)
        simulation.put_all(batch.objects(number))
        pod = batch.pod(number)
        batch.made += 1
        victims = len(simulation.preempted)
        simulation.put(pod)
        simulation.work()
        if simulation.where(pod.uid) is not None:
            if batch.equal and pod.uid in simulation.bound:
                batch.made += simulation.repeat(pod, batch.equals(min(batch.count, batch.most)))
            continue
        batch.preempted += len(simulation.preempted) - victims
        if batch.preempted >= _PREEMPTIONS:
            batch.stop(f"stopped after preempting {batch.preempted:,} pods")
            return
        if alike and victims == len(simulation.preempted):
            batch.waits_as = pod.uid
            return


def _go_on(simulation: Simulation, framework: Framework, batch: Batch) -> bool:
    """Create the rest of a workload if the pod that stood for it got a node after all; return whether it did."""
    if batch.waits_as is None or batch.made == batch.count or simulation.where(batch.waits_as) is None:
        return False
    _create_batch(simulation, framework, batch)
    return True


def _placed(simulation: Simulation, pods: Iterable[Pod], was: dict[str, str] | None = None) -> list[Placed]:
    """Return the pods that have got a node."""
    return [each for pod in pods if (each := _place(simulation, pod, was or {})) is not None]


def _place(simulation: Simulation, pod: Pod, was: dict[str, str]) -> Placed | None:
    known = simulation.where(pod.uid)
    if known is None:
        return None
    devices = given(pod, simulation.cluster.devices) if pod.shape.claims or pod.shape.containers else {}
    told = {claim: [str(device.id) for device in those] for claim, those in devices.items()}
    return Placed(pod.key, known[1], was.get(pod.uid), pod.uid not in simulation.bound, told)


def _waiting(simulation: Simulation, pods: Iterable[Pod], was: dict[str, str] | None = None) -> Iterator[Waiting]:
    """Yield the pods that have no node, and the reasons."""
    was = was or {}
    for pod in pods:
        if simulation.where(pod.uid) is not None:
            continue
        if pod.uid in simulation.failed:
            yield Waiting(pod.key, simulation.failed[pod.uid][1], was=was.get(pod.uid))
        elif (queued := simulation.engine.queue.get(pod.uid)) is not None:
            why = _gate(simulation, queued.pod) if queued.place is Place.GATED else _NOT_TRIED
            yield Waiting(pod.key, why, was=was.get(pod.uid))


def _gate(simulation: Simulation, pod: Pod) -> str:
    """Return the reason that keeps a pod out of the queue."""
    framework = simulation.framework(pod)
    found = None if pod.gates else framework.pre_enqueue(pod, simulation.cluster)
    return _GATED if found is None else found[1].text


def _listed(simulation: Simulation, batches: Iterable[Batch], most: int) -> Iterator[Placed]:
    for batch in batches:
        for number in range(batch.made):
            if most <= 0:
                return
            placed = _place(simulation, batch.pod(number), {})
            if placed is not None:
                most -= 1
                yield placed


def _rest(simulation: Simulation, batches: Iterable[Batch]) -> Iterator[Waiting]:
    """Yield who waits of each workload; those that were not made are like the last one that was."""
    for batch in batches:
        found = list(_waiting(simulation, _without_node(simulation, batch)))
        left = batch.count - batch.made
        if left and (batch.stopped or not found):
            found.append(Waiting(batch.key(batch.made), _NOT_TRIED))
            left -= 1
        by_message: dict[str, Waiting] = {}
        for i, each in enumerate(found):
            more = left if i == len(found) - 1 else 0
            known = by_message.get(each.message)
            number = each.pods + more + (known.pods if known else 0)
            by_message[each.message] = Waiting(known.pod if known else each.pod, each.message, number)
        yield from by_message.values()


def _without_node(simulation: Simulation, batch: Batch) -> Iterator[Pod]:
    for number, uid in enumerate(batch.uids()):
        if simulation.where(uid) is None:
            yield batch.pod(number)


def _told(simulation: Simulation, batch: Batch) -> WorkloadOutcome:
    nodes = Counter(where[1] for uid in batch.uids() if (where := simulation.where(uid)) is not None)
    placed = nodes.total()
    return WorkloadOutcome(batch.owner, batch.count, placed, batch.count - placed, dict(nodes))


def _resources(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return CPU and memory, and whatever else the pods ask for."""
    asked = {name for pod in pods for name in pod.shape.requests}
    return ("cpu", "memory", *sorted(asked - {"cpu", "memory"}))


def group_of(simulation: Simulation, batch: Batch) -> GroupKey | None:
    """Return the group with which the pods of a workload are scheduled; None: each is by itself."""
    return simulation.cluster.pod_groups.of(batch.pod(0)) if batch.count else None


def create_together(simulation: Simulation, batches: Iterable[Batch]) -> None:
    """Create the pods of one group before any of them is tried."""
    for batch in batches:
        while batch.made < min(batch.count, MEMBERS):
            simulation.put_all(batch.objects(batch.made))
            simulation.put(batch.pod(batch.made))
            batch.made += 1
        if batch.made < batch.count:
            batch.notes.append(
                f"{batch.owner}: only {batch.made:,} of its pods were created, as those of a group are not just counted"
            )
    simulation.work()


def outcomes(simulation: Simulation, keys: Sequence[GroupKey]) -> Iterator[GroupOutcome]:
    """Yield what became of these groups."""
    groups = simulation.cluster.pod_groups
    for key in dict.fromkeys(keys):
        state = groups.state(key)
        group = None if state is None else state.object
        if state is None or group is None:
            continue
        starts = bool(state.scheduled) and state.scheduled >= group.needed
        message = "" if starts or not state.pods else _why(simulation, group, len(state.pods))
        yield GroupOutcome(
            str(key),
            key.api,
            group.min_count,
            len(state.pods),
            state.scheduled,
            len(state.unscheduled),
            starts,
            message,
        )


def _why(simulation: Simulation, group: PodGroup, pods: int) -> str:
    """Return the message for a group that does not start."""
    said = simulation.conditions.get(group.key)
    if said is not None:
        return said
    if group.gang and pods < group.needed:
        return f"{pods:,} of {group.needed:,} pods are there"
    return "it was not tried"
