"""The answer of `berth simulate -o json` about a cluster. Field names are stable; fields may be added.

`Quality` says how well a cluster is used: shares taken, nodes in use, room that nobody can use, spread of the load.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.model.pod import Pod

Floats = NDArray[np.float64]
_AT_ONCE = 512
"""The number of distinct requests that are compared with all nodes at a time."""


class Quality(msgspec.Struct, rename="camel", frozen=True):
    """The quality of a placement. Shares are of what all nodes together have, 0 to 1, by resource."""

    nodes: int
    nodes_in_use: int
    pods: int
    allocated: dict[str, float]
    stranded: dict[str, float]
    """Room that is free and of no use: see `stranded`."""
    load_spread: dict[str, float]
    """Standard deviation over the nodes that have the resource of the share that is taken on each."""


class Mix:
    """The requests of the pods that the cluster is there for: each distinct one with how often it comes."""

    def __init__(self, pods: Iterable[Pod], resources: Sequence[str]) -> None:
        counts: dict[tuple[int, ...], int] = {}
        for pod in pods:
            asked = tuple(pod.shape.requests.get(name, 0) for name in resources)
            counts[asked] = counts.get(asked, 0) + 1
        self.resources = tuple(resources)
        self.requests: Ints = np.array(list(counts), dtype=np.int64).reshape(len(counts), len(resources))
        self.counts: Ints = np.array(list(counts.values()), dtype=np.int64)


def quality(cluster: Cluster, mix: Mix) -> Quality:
    """Return the figures of a cluster as it is."""
    nodes = cluster.nodes
    rows = np.flatnonzero(nodes.alive[: nodes.rows])
    total, free = rooms(cluster, mix.resources, rows)
    capacity = np.maximum(total.sum(axis=1), 1)
    lost = stranded(total, free, mix)
    pods = nodes.pods[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = np.where(total > 0, 1 - free / total, np.nan)
    spread = {name: float(np.nanstd(taken[i])) if np.any(total[i] > 0) else 0.0 for i, name in enumerate(mix.resources)}
    return Quality(
        nodes=len(rows),
        nodes_in_use=int(np.count_nonzero(pods)),
        pods=int(pods.sum()),
        allocated=_named(mix.resources, 1 - free.sum(axis=1) / capacity),
        stranded=_named(mix.resources, lost.sum(axis=1) / capacity),
        load_spread=spread,
    )


def stranded(total: Ints, free: Ints, mix: Mix) -> Floats:
    """Return float[resources, nodes]: the part of each node's free room that is expected to be of no use.

    Of the pods of the mix that ask for the resource and would fit on the node if it were empty: the share that does not
    fit now, for whichever resource, times what is free. After Weng et al., "Beware of Fragmentation" (USENIX ATC'23),
    which has it for GPUs. `total`, `free`: int[resources, nodes].
    """
    # Sums of whole numbers: they are exact, in whatever order a machine adds them.
    lost, weight = np.zeros(free.shape), np.zeros(free.shape)
    for start in range(0, len(mix.counts), _AT_ONCE):
        asked, counts = mix.requests[start : start + _AT_ONCE], mix.counts[start : start + _AT_ONCE]
        could = _fits(asked, total)
        wants = ((asked > 0) * counts[:, None]).T.astype(np.float64)
        weight += wants @ could.astype(np.float64)
        lost += wants @ (could & ~_fits(asked, free)).astype(np.float64)
    np.divide(lost, weight, out=lost, where=weight > 0)
    return lost * np.maximum(free, 0)


def _fits(asked: Ints, room: Ints) -> Bools:
    """Return bool[requests, nodes]. `asked`: int[requests, resources], `room`: int[resources, nodes]."""
    fits = np.ones((len(asked), room.shape[1]), dtype=np.bool_)
    for amounts, there in zip(asked.T, room, strict=True):
        fits &= there >= amounts[:, None]
    return fits


def totals(cluster: Cluster, resources: Sequence[str]) -> Mapping[str, int]:
    """Return the sum of each resource over all nodes."""
    nodes = cluster.nodes
    total, _ = rooms(cluster, resources, np.flatnonzero(nodes.alive[: nodes.rows]))
    return {name: int(amount) for name, amount in zip(resources, total.sum(axis=1), strict=True)}


def rooms(cluster: Cluster, resources: Sequence[str], rows: Ints) -> tuple[Ints, Ints]:
    """Return (allocatable, free), both int[resources, rows]."""
    nodes = cluster.nodes
    total = np.zeros((len(resources), len(rows)), dtype=np.int64)
    free = total.copy()
    for i, name in enumerate(resources):
        index = nodes.resources.get(name)
        if index is not None:
            total[i] = nodes.allocatable[index, rows]
            free[i] = total[i] - nodes.requested[index, rows]
    return total, free


def _named(names: Sequence[str], values: Iterable[float]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


LISTED = 10_000
"""The largest number of pods that are listed one by one; `workloads` has the numbers of all."""


class Placed(msgspec.Struct, rename="camel", frozen=True):
    """A pod that got a node; `was`: the one that it was drained from.

    `devices`: ResourceClaim → the devices that it would get, as driver/pool/device.
    """

    pod: str
    node: str
    was: str | None = None
    waits_for_volumes: bool = False
    devices: dict[str, list[str]] = {}


class Waiting(msgspec.Struct, rename="camel", frozen=True):
    """Equal pods that got no node, named by the first of them, and kube-scheduler's message.

    `was`: the node that it was drained from.
    """

    pod: str
    message: str
    pods: int = 1
    was: str | None = None


class Preempted(msgspec.Struct, rename="camel", frozen=True):
    """A pod that was removed for another."""

    pod: str
    node: str
    by: str


class Blocked(msgspec.Struct, rename="camel", frozen=True):
    """A pod that a drain can't evict, and the disruption budgets that forbid it."""

    pod: str
    node: str
    budgets: list[str]


class GroupOutcome(msgspec.Struct, rename="camel", frozen=True):
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


class WorkloadOutcome(msgspec.Struct, rename="camel", frozen=True):
    """The number of a workload's pods that got a node, and the nodes where they are."""

    workload: str
    wanted: int
    placed: int
    waiting: int
    nodes: dict[str, int]


class Others(msgspec.Struct, rename="camel", frozen=True):
    """Pods that waited before, and what became of them.

    `ready`: they would have been placed anyway, and were before anything else. `freed`: they got a node by what was
    simulated. `waiting`: they wait as before.
    """

    ready: list[Placed]
    freed: list[Placed]
    waiting: list[Waiting]


class Outcome(msgspec.Struct, rename="camel", frozen=True):
    """The outcome of a simulation. `placed`, `waiting` and `workloads` are about the files and the drains only."""

    profile: str
    placed: list[Placed]
    waiting: list[Waiting]
    workloads: list[WorkloadOutcome]
    preempted: list[Preempted]
    others: Others
    lost: list[str]
    """Pods of drained nodes that no controller creates again."""
    drained: list[str]
    blocked: list[Blocked]
    """Pods that stay on the drained nodes."""
    overdrawn: Mapping[str, list[str]]
    """Disruption budget → the pods that were removed although it forbids it."""
    not_simulated: list[str]
    before: Quality
    after: Quality
    notes: list[str]
    groups: list[GroupOutcome] = []
    """Pod groups of the files, and those that their pods name."""
    unlisted: int = 0
    """Placed pods that are not in `placed`."""

    @property
    def placed_in_all(self) -> int:
        """Return the number of pods of the files and drains that got a node."""
        return len(self.placed) + self.unlisted

    @property
    def waiting_in_all(self) -> int:
        """Return the number of those that got none."""
        return sum(each.pods for each in self.waiting)

    @property
    def good(self) -> bool:
        """Return whether everything that was asked for can be done."""
        return not (self.waiting or self.blocked or self.lost or self.not_simulated)
