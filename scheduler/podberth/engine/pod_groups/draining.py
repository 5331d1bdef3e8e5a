"""Finds out when and where a group would have room if running pods ended as they say and nobody else took their place.

Batch systems call this the "shadow time" of the job at the head of their queue (EASY backfill). On a copy of the
cluster, pods are removed in the order of their ends, and a binary search finds the fewest with which the group fits.
"""

from collections.abc import Collection, Generator, Mapping
from heapq import merge
from math import inf

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import SupposedDevices
from podberth.cache.reservations import ends_at
from podberth.engine.pod_groups.planning import Planning
from podberth.engine.pod_groups.trial import Assigned
from podberth.framework.status import PluginError
from podberth.model.pod import Pod, since_epoch

OVERDUE = 30.0
"""Seconds that are given to a pod whose end is overdue: its kubelet is about to stop it."""
_MOVED = 20
"""Steps that it takes to put a pod back into the copy, or to remove it again."""
_AT_ONCE = 100
_SORTED, _SORTED_AT_ONCE = 4, 256
"""Steps of each pod that is sorted by its end."""
Leaving = tuple[float, float, str, int, Pod]
"""When a pod ends, what orders pods whose end nobody knows, its UID, its row, and the pod."""


class Drained(Struct, frozen=True):
    """Where and when a group would have room."""

    assigned: Assigned
    """The group's pods, with their rows."""
    until: float | None
    """When there is room at the latest (seconds since the epoch); None: nobody knows."""
    draining: Collection[str]
    """UIDs of the pods on these rows whose end is waited for."""
    version: int
    """The version of the log of the nodes for which this was found."""


class Draining(Planning[Drained | str]):
    """The search, for one attempt; a text says why nothing was found."""

    what = "room"

    def _made(self) -> Generator[int, None, Drained | str]:
        try:
            return (yield from self._searched())
        except PluginError as error:
            return str(error)

    def _searched(self) -> Generator[int, None, Drained | str]:
        thought, left_out, version = yield from self._without(self._ends)
        if thought is None:
            return "no running pod is known to end"
        leaving, ends = yield from self._in_order(left_out)
        if isinstance(thought.devices, SupposedDevices):
            for i, (_, _, uid, _, _) in enumerate(leaving):
                thought.devices.leave(uid)
                if i % _AT_ONCE == 0:
                    yield _AT_ONCE
        walk, _ = self._walk(thought, once=True)
        why, assigned = yield from walk.run()
        if why:
            return "there is too little room even if all pods end that may"
        first, last, gone = 0, len(ends) - 1, len(leaving)
        while first < last:
            middle = (first + last) // 2
            gone = yield from self._move(thought, leaving, gone, ends[middle])
            why, found = yield from walk.run()
            if why:
                first = middle + 1
            else:
                last, assigned = middle, found
        rows = {row for _, row in assigned}
        end = leaving[ends[last] - 1][0]
        waited_for: set[str] = set()
        for start in range(0, ends[last], _SORTED_AT_ONCE):
            some = leaving[start : min(start + _SORTED_AT_ONCE, ends[last])]
            waited_for.update(uid for _, _, uid, row, _ in some if row in rows)
            yield len(some)
        return Drained(assigned, None if end == inf else end, waited_for, version)

    def _in_order(self, left_out: Mapping[int, list[Pod]]) -> Generator[int, None, tuple[list[Leaving], list[int]]]:
        """The pods by their ends, and how many have ended after each moment."""
        parts: list[list[Leaving]] = [[]]
        for row, pods in left_out.items():
            parts[-1] += ((*self._end(pod), pod.uid, row, pod) for pod in pods)
            if len(parts[-1]) >= _SORTED_AT_ONCE:
                parts[-1].sort()
                yield _SORTED * len(parts[-1])
                parts.append([])
        parts[-1].sort()
        leaving: list[Leaving] = []
        ends: list[int] = []
        for one in merge(*parts):
            if leaving and leaving[-1][:2] != one[:2]:
                ends.append(len(leaving))
            leaving.append(one)
            if len(leaving) % _SORTED_AT_ONCE == 0:
                yield _SORTED * _SORTED_AT_ONCE
        return leaving, [*ends, len(leaving)]

    def _move(self, thought: Cluster, leaving: list[Leaving], gone: int, wanted: int) -> Generator[int, None, int]:
        """Have the first `wanted` pods left out, instead of the first `gone`."""
        for i, (_, _, uid, row, pod) in enumerate(leaving[min(gone, wanted) : max(gone, wanted)]):
            if wanted < gone:
                thought.assume(pod, row)
            else:
                thought.forget(uid)
            if isinstance(thought.devices, SupposedDevices):
                (thought.devices.come_back if wanted < gone else thought.devices.leave)(uid)
            if i % _AT_ONCE == 0:
                yield _MOVED * _AT_ONCE
        return wanted

    def _ends(self, pod: Pod) -> bool:
        """Return whether a pod ends without being removed."""
        mine = pod.scheduling_group is not None and self._cluster.pod_groups.of(pod) == self._attempt.entry.key
        return (pod.lasts is not None or pod.terminating) and not mine

    def _end(self, pod: Pod) -> tuple[float, float]:
        """Return when a pod ends. If nobody knows, the youngest pod comes first: most pods run for a short time, and
        one that has run for long is likely to go on.
        """
        wall = self._cluster.devices.wall
        if pod.terminating:
            return wall + OVERDUE, 0.0
        end = ends_at(pod, wall, trusting=True)
        if end is None:
            return inf, -((pod.started and since_epoch(pod.started)) or wall)
        return end if end > wall else wall + OVERDUE, 0.0
