"""Reservations of room on nodes for pod groups that have waited long; other pods may use that room until then.

As batch systems do (EASY backfill): a pod may go where room is kept if it ends in time, or if there is room for it
beside all pods of the group once those have ended whose end is waited for.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from podberth.cache.column import Bools, Ints
from podberth.cache.groups import PodGroups
from podberth.cache.nodes import Nodes, capped
from podberth.model.node import Node
from podberth.model.pod import Pod, since_epoch
from podberth.model.pod_group import GroupKey

_AT_ONCE = 64
"""The number of pods of the group, or of rows, that are gone through in one go."""
_A_ROW = 4
"""Steps for each of them, and one more for each pod on a row."""


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


def ends_at(pod: Pod, wall: float, *, trusting: bool) -> float | None:
    """Return the latest end of a pod (seconds since the epoch); None: not known.

    One that has not started yet starts now, at `wall`. `trusting`: what is only expected counts.
    """
    seconds = None if pod.lasts is None else pod.lasts.seconds(trusting=trusting)
    if seconds is None:
        return None
    started = None if pod.started is None else since_epoch(pod.started)
    return (wall if started is None else started) + seconds


def _offer(node: Node | None) -> object:
    """Return what decides, beside amounts, whether the group's pods may be on a node; None: it is gone."""
    return None if node is None else (node.name, node.labels, node.taints, node.unschedulable, node.features)


class ReservedRoom(Struct, eq=False):
    """The room that is kept for one group."""

    group: GroupKey
    plugin: str
    """The plugin that asks for it: other pods wait under its name."""
    priority: int
    planned: Mapping[str, str]
    """UID of a pod of the group → the node on which it would start."""
    until: float | None
    """Seconds since the epoch by which the group has room; None: not known."""
    draining: Collection[str]
    """UIDs of the pods on these nodes that end before the group starts."""
    whole: bool
    """True if more than amounts decides about the group's pods: others stay off these nodes unless they end in time."""
    trusting: bool
    """True if the expected duration of other pods counts like one that is enforced."""
    since: float
    """Engine time at which the room was reserved."""
    found: float
    """Engine time at which it was looked for."""
    expires: float
    """Engine time at which the room is given up, whatever has become of the group."""
    expires_text: str
    """`expires` as people read it."""
    objects: Mapping[int, Node | None]
    """Row → its node, as it was when room was looked for."""
    names: Sequence[str] = ()
    rows: Ints = field(default_factory=_no_rows)
    at: dict[int, int] = field(default_factory=dict)
    """Row → its index in `rows`."""
    there: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """bool for each of `rows`: its node is still there. Another one may have come to be on the row."""
    lost: bool = False
    """True if one of its nodes is gone, or has other labels, taints or features: its pods may not be allowed there."""
    seen: int = -1
    """The version of the nodes' log at which `ending` was added up."""
    ending_pods: Ints = field(default_factory=_no_rows)
    share_pods: Ints = field(default_factory=_no_rows)
    shares: dict[str, Ints] = field(default_factory=dict)
    """Resource → amount that the group's pods take of each of the rows."""
    ending: dict[str, Ints] = field(default_factory=dict)
    """Resource → amount that pods take which end in time."""

    def prepare(
        self, pods: Sequence[tuple[Pod, int]], nodes: Nodes, pods_on: Callable[[int], list[Pod]], wall: float
    ) -> Iterator[int]:
        """Reserve room for these pods of the group on these rows; yields about how many steps each part took.

        Changes that happen meanwhile are applied by `follow`.
        """
        rows = sorted({row for _, row in pods})
        self.at = {row: i for i, row in enumerate(rows)}
        self.rows = np.array(rows, dtype=np.int64)
        self.names = [nodes.names[row] or "" for row in rows]
        self.there = np.ones(len(rows), dtype=np.bool_)
        self.share_pods = np.zeros(len(rows), dtype=np.int64)
        for start in range(0, len(pods), _AT_ONCE):
            some = pods[start : start + _AT_ONCE]
            self._share_out(some)
            yield _A_ROW * len(some)
        self._start(nodes.log.version)
        for start in range(0, len(rows), _AT_ONCE):
            found = 0
            for row in rows[start : start + _AT_ONCE]:
                found += self._add_up(row, nodes, pods_on(row), wall)
            yield _A_ROW * _AT_ONCE + found

    def _share_out(self, pods: Sequence[tuple[Pod, int]]) -> None:
        at, shares = self.at, self.shares
        for pod, row in pods:
            self.share_pods[at[row]] += 1
            for name, amount in pod.shape.requests.items():
                if amount > 0:
                    shares.setdefault(name, np.zeros(len(self.rows), dtype=np.int64))[at[row]] += amount

    def follow(self, nodes: Nodes, pods_on: Callable[[int], list[Pod]], wall: float) -> None:
        """Add up again what ends in time on the rows that have changed."""
        log = nodes.log
        if self.seen == log.version:
            return
        changed = log.since(self.seen)
        if changed is None:
            self._start(log.version)
        self.seen = log.version
        for row in self.at if changed is None else changed & self.at.keys():
            self._add_up(row, nodes, pods_on(row), wall)

    def _start(self, version: int) -> None:
        self.seen = version
        self.ending_pods = np.zeros(len(self.rows), dtype=np.int64)
        self.ending = {name: np.zeros(len(self.rows), dtype=np.int64) for name in self.shares}

    def _add_up(self, row: int, nodes: Nodes, there: list[Pod], wall: float) -> int:
        """Add up what ends in time on a row; return the number of pods there."""
        i = self.at[row]
        self.there[i] = nodes.names[row] == self.names[i]
        if _offer(nodes.objects[row]) != _offer(self.objects[row]):
            self.lost = True
        self.ending_pods[i] = 0
        for amounts in self.ending.values():
            amounts[i] = 0
        for pod in there:
            if self._ends_in_time(pod, wall):
                self.ending_pods[i] += 1
                for name, amounts in self.ending.items():
                    amounts[i] = capped(amounts.item(i) + pod.shape.requests.get(name, 0))
        return len(there)

    def _ends_in_time(self, pod: Pod, wall: float) -> bool:
        if pod.uid in self.draining:
            return True
        if self.until is None:
            return False
        end = ends_at(pod, wall, trusting=self.trusting)
        return end is not None and end <= self.until

    def holds(self, nodes: Nodes) -> bool:
        """Return whether the group's pods have room on their rows once all pods that end in time have ended."""
        if self.lost or np.any(self._left_pods(nodes) < 0):
            return False
        return not any(np.any(left < 0) for _, left in self._left(nodes, self.shares))

    def _left_pods(self, nodes: Nodes) -> Ints:
        """Return the number of pods that each row takes beside the group."""
        left: Ints = (nodes.allowed_pods - nodes.pods)[self.rows] + self.ending_pods - self.share_pods
        return left

    def _left(self, nodes: Nodes, names: Collection[str]) -> Iterator[tuple[str, Ints]]:
        """Yield (resource, amount left beside the group) for each resource of which the group takes some."""
        for name, share in self.shares.items():
            index = nodes.resources.get(name)
            if name in names and index is not None:
                free = nodes.allocatable[index, self.rows] - nodes.requested[index, self.rows]
                yield name, free + self.ending[name] - share

    def from_pod(self, pod: Pod, groups: PodGroups, nodes: Nodes, wall: float) -> Bools | None:
        """Return bool[rows]: the nodes that a pod may not use because of this reservation; None: it may use all."""
        if pod.priority > self.priority or (pod.scheduling_group is not None and groups.of(pod) == self.group):
            return None
        if self.until is not None:
            end = ends_at(pod, wall, trusting=self.trusting)
            if end is not None and end <= self.until:
                return None
        if self.whole:
            kept = self.there
        else:
            short = self._left_pods(nodes) < 1
            for name, left in self._left(nodes, pod.shape.requests.keys()):
                amount = pod.shape.requests[name]
                if amount > 0:
                    short |= left < amount
            kept = short & self.there
        if not kept.any():
            return None
        mask = np.zeros(nodes.rows, dtype=np.bool_)
        mask[self.rows[kept]] = True
        return mask


class Reservations:
    """The reservations, at most one for each profile."""

    def __init__(self) -> None:
        self.by_profile: dict[str, ReservedRoom] = {}
        self.version = 0
        """A number that differs after each change."""

    def __bool__(self) -> bool:
        return bool(self.by_profile)

    def put(self, profile: str, room: ReservedRoom) -> None:
        """Reserve room for a group of a profile, instead of any other group."""
        self.by_profile[profile] = room
        self.version += 1

    def drop(self, profile: str) -> None:
        """Drop the reservation of a profile."""
        del self.by_profile[profile]
        self.version += 1

    def of(self, group: GroupKey) -> ReservedRoom | None:
        """Return the reservation of a group; None: it has none."""
        return next((room for room in self.by_profile.values() if room.group == group), None)
