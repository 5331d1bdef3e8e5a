"""What `berth simulate -o json` prints of a cluster. Field names are stable; fields may be added."""

from collections.abc import Mapping

import msgspec

from podberth.explain.gangs.arriving import GroupOutcome
from podberth.explain.quality import Quality

LISTED = 10_000
"""Pods that are listed one by one; of more than these, `workloads` has the numbers."""


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


class WorkloadOutcome(msgspec.Struct, rename="camel", frozen=True):
    """How many pods of a workload got a node, and on which nodes they are."""

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
    """What would happen. `placed`, `waiting` and `workloads` are about the files and the drains only."""

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
        """Return how many of the pods in question got a node."""
        return len(self.placed) + self.unlisted

    @property
    def waiting_in_all(self) -> int:
        """Return how many did not."""
        return sum(each.pods for each in self.waiting)

    @property
    def good(self) -> bool:
        """Return whether all that was asked for can be done."""
        return not (self.waiting or self.blocked or self.lost or self.not_simulated)
