"""Pods of groups that come to a simulated cluster, all of a group before any is tried, and what became of them."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.simulation import Simulation
from podberth.model.pod_group import GroupKey, PodGroup

MEMBERS = 10_000
"""Pods of one workload that are created as members of a group: of these, not one can stand for the others."""


class GroupOutcome(Struct, rename="camel", frozen=True):
    """The outcome for a pod group. `bound`: so many of its pods have a node, and as many as it needs, or none, do.

    `starts`: whether enough do. `message`: of its condition, or what its pods wait for; empty when it starts.
    """

    group: str
    api: str
    min_count: int | None
    pods: int
    bound: int
    waiting: int
    starts: bool
    message: str


def group_of(simulation: Simulation, batch: Batch) -> GroupKey | None:
    """The group with which the pods of a workload are scheduled; None: each is by itself."""
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
    """Return what is said of a group that does not start."""
    said = simulation.conditions.get(group.key)
    if said is not None:
        return said
    if group.gang and pods < group.needed:
        return f"{pods:,} of {group.needed:,} pods are there"
    return "it was not tried"
