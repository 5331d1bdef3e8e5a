"""A group whose pods have to be on the nodes of one placement: what each placement takes, and which is the best.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupSchedulingPlacementAlgorithm, findBestPodGroupPlacement).
Where sums over the columns say what comes of a placement, it is not tried. Else the group is tried there, what comes of
it is noted, and all pods give back what they hold. The best placement is tried in the end, on the cluster as it is by
then, and is kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scheduler.engine.attempts import Attempts
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import GROUP_UNSCHEDULABLE, GroupAttempt, Outcome, Search, unsatisfied
from scheduler.engine.pod_groups.room import Room, room_of
from scheduler.engine.queue import Queue
from scheduler.engine.turns import ORDINARY
from scheduler.framework.decision import Rows
from scheduler.framework.placement import Assignment, Placement, Running
from scheduler.framework.placement_plugins import PlacementPlugins
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools

GIVEN_BACK = 30
"""Steps of a pod that gives back what it holds."""
BY_SUMS = 30
"""Steps of a placement that need not be tried."""
PODS_PER_STEP = 4
"""So many pods count for one step when such a placement is scored."""
_NONE: Rows = np.zeros(0, dtype=np.intp)


class Placements:
    """Takes a group through its placements, a slice at a time."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        attempts: Attempts,
        binding: BindingCycles,
        pick: Callable[[str, int], int],
    ) -> None:
        """`pick`: as in `GroupCycles`."""
        self._cluster = cluster
        self._queue = queue
        self._attempts = attempts
        self._binding = binding
        self._pick = pick

    def begin(self, attempt: GroupAttempt) -> None:
        """Find the placements of a group, if its profile has a plugin for that. Without one, `search` stays None."""
        attempt.search = None
        plugins = self._framework(attempt).placements
        if not plugins.wanted:
            return
        found = self._generate(attempt, plugins)
        if attempt.ended is not None:
            return
        if not found:
            attempt.fail("no feasible placements found")
            attempt.untried = attempt.message
            return
        rows = {one.name: one.rows for one in found}
        room = self._room(attempt, rows) if len(rows) > 1 else None
        attempt.search = Search(rows, deque(rows), self._cluster.nodes.label_changes, room)

    def within(self, attempt: GroupAttempt) -> Bools | None:
        """bool[rows]: the nodes of the current placement, as they are now; None: all."""
        search, nodes = attempt.search, self._cluster.nodes
        if search is None:
            return None
        if nodes.label_changes != search.labels:
            self._renew(attempt, search)
        rows = search.rows.get(search.current, _NONE)
        if len(rows) == nodes.count:
            return None
        mask = np.zeros(nodes.rows, dtype=np.bool_)
        mask[rows] = True
        return mask

    def step(self, attempt: GroupAttempt, search: Search, now: float, most: int, *, quietly: bool) -> int:
        """Go on after the current placement was tried, or to the next one.

        Returns the steps that it took: not many more than `most`.
        """
        if search.between:
            return self._next(attempt, search, most)
        outcome = search.outcome
        if outcome is None:
            fits = attempt.enough or attempt.ended is Ended.WITH_NODES
            while search.waiting and self._ruled_out(attempt, search, search.waiting[0]):
                search.waiting.popleft()
            if fits and (search.chosen or not (search.waiting or search.fitting)):
                search.over = True
                return ORDINARY
            status = GROUP_UNSCHEDULABLE if attempt.early else attempt.message
            kept = {uid: replace(member) for uid, member in attempt.members.items()}
            outcome = search.outcome = Outcome(kept, status, fits)
        used = 0
        for uid, member in reversed(attempt.members.items()):
            if member.fits:
                if used >= most:
                    return used
                used += GIVEN_BACK
                member.fits = False
                self._binding.give_back(uid, now, quietly=quietly, untold=True)
        search.tried += 1
        search.outcome, search.between = None, True
        attempt.from_start()
        if outcome.fits:
            pods = [member.queued.pod for member in outcome.members.values() if member.fits]
            self._score(attempt, search, search.current, pods)
        elif search.first is None:
            search.first = outcome
        return used + ORDINARY

    def _next(self, attempt: GroupAttempt, search: Search, most: int) -> int:
        """Begin with the next placement that has to be tried; the steps that it took to find it, as in `step`."""
        used, first, needed = 0, next(iter(search.rows)), self._needed(attempt)
        pods = [member.queued.pod for member in attempt.pods]
        while search.waiting and used < most and attempt.ended is None:
            name = search.waiting.popleft()
            used += BY_SUMS
            room = None if search.room is None or not search.room.exact else search.room.most.get(name)
            if room is None:
                if self._ruled_out(attempt, search, name):
                    continue
                self._start(attempt, search, name)
                return used
            if room >= needed:
                self._score(attempt, search, name, pods[:room])
                used += room // PODS_PER_STEP
        if search.waiting or attempt.ended is not None:
            return used + BY_SUMS
        if search.fitting:
            self._choose(attempt, search)
        elif search.first is None:
            self._start(attempt, search, first)  # for what is said
        else:
            self._fail(attempt, search)
        return used + BY_SUMS

    def _ruled_out(self, attempt: GroupAttempt, search: Search, name: str) -> bool:
        """Whether a placement takes too few pods in any case, and nothing need be said of it."""
        room = None if search.room is None else search.room.most.get(name)
        return room is not None and room < self._needed(attempt) and name != next(iter(search.rows))

    def _needed(self, attempt: GroupAttempt) -> int:
        return attempt.group.needed - self._cluster.pod_groups.scheduled(attempt.entry.key)

    def _score(self, attempt: GroupAttempt, search: Search, name: str, pods: list[Pod]) -> None:
        """The group fits into a placement, with these pods."""
        placement = Placement(name, search.rows[name])
        assignment = Assignment(attempt.group, placement, pods, self._cluster.pod_groups.scheduled(attempt.entry.key))
        try:
            search.fitting.append((name, self._framework(attempt).placements.scores(assignment, self._cluster)))
        except PluginError as error:
            _broke(attempt, error)

    def _choose(self, attempt: GroupAttempt, search: Search) -> None:
        """Try the placement with the highest score, of those into which the group fits."""
        try:
            totals = self._framework(attempt).placements.totals([scores for _, scores in search.fitting])
        except PluginError as error:
            _broke(attempt, error)
            return
        best = [i for i, total in enumerate(totals) if total == max(totals)]
        name, _ = search.fitting.pop(best[self._pick(str(attempt.entry.key), len(best))])
        search.chosen = True
        self._start(attempt, search, name)

    def _start(self, attempt: GroupAttempt, search: Search, name: str) -> None:
        """Try the group on a placement."""
        search.current, search.between = name, False
        why = unsatisfied(attempt.group, self._cluster.pod_groups.scheduled(attempt.entry.key), len(attempt.members))
        if why:
            attempt.fail(why, early=True)

    def _fail(self, attempt: GroupAttempt, search: Search) -> None:
        """The group fits into no placement: what is said is what came of the first one."""
        outcome = search.first
        assert outcome is not None
        search.over = True
        attempt.fail(
            f"0/{len(search.rows)} placements are available, first placement status: {outcome.status}", early=True
        )
        attempt.untried = attempt.message
        attempt.members = {uid: outcome.members.get(uid, member) for uid, member in attempt.members.items()}

    def _generate(self, attempt: GroupAttempt, plugins: PlacementPlugins) -> list[Placement]:
        state, names = self._cluster.pod_groups.state(attempt.entry.key), self._cluster.nodes.names
        running = []
        for pod in () if state is None else state.with_node:
            placement = self._cluster.placement(pod.uid)
            if pod.uid not in attempt.members and placement is not None:
                running.append(Running(pod, names[placement.row] or ""))
        try:
            return plugins.generate(attempt.group, running, self._cluster)
        except PluginError as error:
            attempt.break_off(error.text)
            return []

    def _room(self, attempt: GroupAttempt, rows: dict[str, Rows]) -> Room | None:
        pods = [member.queued.pod for member in attempt.pods]
        if any(self._attempts.asks_extenders(pod) for pod in pods):
            return None
        try:
            return room_of(rows, pods, self._framework(attempt), self._cluster)
        except PluginError:
            return None  # the attempt itself will find out, and say so

    def _renew(self, attempt: GroupAttempt, search: Search) -> None:
        """Nodes came, went, or have other labels. Placements that are new are tried too."""
        search.labels = self._cluster.nodes.label_changes
        found = {one.name: one.rows for one in self._generate(attempt, self._framework(attempt).placements)}
        search.waiting.extend(name for name in found if name not in search.rows)
        search.rows = dict.fromkeys(search.rows, _NONE) | found

    def _framework(self, attempt: GroupAttempt) -> Framework:
        first = next(iter(attempt.members.values())).queued.pod
        return self._queue.frameworks[first.scheduler_name]


def _broke(attempt: GroupAttempt, error: PluginError) -> None:
    attempt.break_off(f'running PlacementScore plugins: plugin "{error.plugin}" failed with: {error.text}')
