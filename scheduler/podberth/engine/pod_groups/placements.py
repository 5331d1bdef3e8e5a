"""Tries a group whose pods must be on the nodes of one placement on each candidate, and takes the best one.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupSchedulingPlacementAlgorithm, findBestPodGroupPlacement).
Where sums over the columns say what comes of a placement, it is not tried. Else the group is tried there, what comes of
it is noted, and all pods give back what they hold. The best placement is tried in the end, on the cluster as it is by
then, and is kept. The search has a cap: 5,000 pods on each of 5,000 nodes would take an hour.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.search_steps import CappedSearch, SearchCapError
from podberth.engine.pod_groups.attempt import (
    A_TRY,
    GROUP_UNSCHEDULABLE,
    MOST_STEPS,
    NOWHERE,
    Fitting,
    GroupAttempt,
    Outcome,
    Search,
    Turns,
    best_of,
    inhabited,
    running,
    unsatisfied,
)
from podberth.engine.pod_groups.ending import Endings
from podberth.engine.pod_groups.room import TRIED, Room, fill_order, rank, room_of_all
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import SchedulingCycle
from podberth.framework.decision import Rows
from podberth.framework.interface import Assignment, Placement
from podberth.framework.runtime import Framework, PlacementPlugins
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

_BY_SUMS = 30
"""Steps of a placement that is decided by sums, without a try."""
_AT_ONCE = 64
"""The number of such placements that are looked at in one turn."""
TryAll = Callable[[GroupAttempt], Turns[None]]
"""Tries all pods of a group on the current placement."""


class Placements:
    """Tries the placements of a group one after the other."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        endings: Endings,
        pick: Callable[[str, int], int],
    ) -> None:
        """`pick(group name, n)` returns the index of the one to take of n equally good placements."""
        self._cluster = cluster
        self._queue = queue
        self._scheduling = scheduling
        self._endings = endings
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
        by_name = {one.name: one for one in found}
        search = attempt.search = Search(by_name, deque(by_name), self._cluster.nodes.label_changes)
        if search.levels:
            attempt.members = dict(sorted(attempt.members.items(), key=lambda item: rank(item[1].queued.pod)))

    def within(self, attempt: GroupAttempt) -> Bools | None:
        """Return bool[rows]: the nodes of the current placement or domain, as they are now; None: all nodes."""
        search, nodes = attempt.search, self._cluster.nodes
        if search is None:
            return None
        if nodes.label_changes != search.labels:
            self._renew(attempt, search)
        rows = search.within
        if len(rows) == nodes.count:
            return None
        mask = np.zeros(nodes.rows, dtype=np.bool_)
        mask[rows] = True
        return mask

    def search(self, attempt: GroupAttempt, search: Search, try_all: TryAll) -> Turns[None]:
        """Try the group on one placement after the other, until it is tried on the best one or fits into none."""
        steps = self._cluster.search_steps.capped(f"a domain for podgroup {attempt.entry.key}", MOST_STEPS)
        if len(search.found) > 1:
            search.room = self._room(attempt, list(search.found.values()))
            if len(search.found) > _AT_ONCE:
                yield
        try:
            while (chosen := (yield from self._next(attempt, search, steps))) is not None:
                if attempt.ended is None:
                    tries = attempt.tries
                    yield from try_all(attempt)
                    steps.take(A_TRY * (attempt.tries - tries))
                if attempt.ended is Ended.BROKEN or self._is_best(attempt, search, chosen=chosen):
                    return
                yield from self._note(attempt, search)
                if attempt.ended is not None:
                    return
        except SearchCapError as error:
            attempt.break_off(str(error))

    def _next(self, attempt: GroupAttempt, search: Search, steps: CappedSearch) -> Turns[bool | None]:
        """Begin with the next placement to try; return whether it is the best one. None: the attempt is over."""
        needed, looked = self._needed(attempt), 0
        pods = [member.queued.pod for member in attempt.pods]
        while search.waiting and attempt.ended is None and not self._has_lower(search):
            name = search.waiting.popleft()
            steps.take(_BY_SUMS)
            room = None if search.room is None or not search.room.exact else search.room.most.get(name)
            if room is None and not self._ruled_out(attempt, search, name):
                self._start(attempt, search, name)
                return False
            if room is not None and room >= needed:
                placed = pods[:room]
                self._score(attempt, search, name, placed, self._order(attempt, search, name, len(placed))[1])
            looked += 1
            if looked % _AT_ONCE == 0:
                yield
        if attempt.ended is not None:
            return None
        if search.fitting:
            return self._choose(attempt, search)
        if search.first is None:
            self._start(attempt, search, search.said_of)  # for what is said
            return False
        self._fail(attempt, search, search.first)
        return None

    def _is_best(self, attempt: GroupAttempt, search: Search, *, chosen: bool) -> bool:
        """Return whether the group fits where it was tried, and no other placement can be better."""
        while search.waiting and self._ruled_out(attempt, search, search.waiting[0]):
            search.waiting.popleft()
        fits = attempt.enough or attempt.ended is Ended.WITH_NODES
        return fits and (chosen or not (search.fitting or self._waits_beside(search)))

    def _note(self, attempt: GroupAttempt, search: Search) -> Turns[None]:
        """Record the outcome on the current placement, and have all pods give back what they hold."""
        fits = attempt.enough or attempt.ended is Ended.WITH_NODES
        domains = self._in_domains(attempt, search) if fits else 0
        outcome = Outcome(attempt.members, GROUP_UNSCHEDULABLE if attempt.early else attempt.message)
        attempt.from_start()
        yield from self._endings.give_back(attempt, untold=True)
        attempt.noticed = False
        if fits:
            pods = [member.queued.pod for member in outcome.members.values() if member.fits]
            self._score(attempt, search, search.current, pods, domains)
        elif search.first is None or search.levels:
            search.first = outcome
        yield

    def _has_lower(self, search: Search) -> bool:
        """Return whether the group fits into a placement of a lower level than all that wait."""
        level = min((one.placement.level for one in search.fitting), default=None)
        return level is not None and search.found[search.waiting[0]].level > level

    def _waits_beside(self, search: Search) -> bool:
        """Return whether a placement waits that may be better than the current one."""
        level = search.found[search.current].level
        return any(search.found[name].level <= level for name in search.waiting)

    def _ruled_out(self, attempt: GroupAttempt, search: Search, name: str) -> bool:
        """Return whether a placement need not be tried: it takes too few pods, and the message is not about it.

        Where sums say nothing, neither are those of a level that has many: a broader one is tried.
        """
        if name == search.said_of:
            return False
        room = None if search.room is None else search.room.most.get(name)
        if room is not None:
            return room < self._needed(attempt)
        return search.levels and search.at_level[search.found[name].level] > TRIED

    def _needed(self, attempt: GroupAttempt) -> int:
        return attempt.group.needed - self._cluster.pod_groups.scheduled(attempt.entry.key)

    # -- the domains of one placement --------------------------------------------------------------------------------

    def _order(self, attempt: GroupAttempt, search: Search, name: str, count: int) -> tuple[list[Rows], int]:
        """Return the domains of a placement in the order in which they are filled, and how many of them `count` pods
        use.
        """
        most = None if search.room is None else search.room.most
        placement = search.found[name]
        there = running(attempt, self._cluster) if placement.domains else []
        here = {self._cluster.nodes.live_row(one.node) for one in there}
        return fill_order(placement, most, count, here)

    def _in_domains(self, attempt: GroupAttempt, search: Search) -> int:
        """Return the number of domains of the current placement in which the group has pods."""
        if not search.domains:
            return 0
        found = [self._cluster.placement(uid) for uid, member in attempt.members.items() if member.fits]
        return inhabited(search.domains, {placement.row for placement in found if placement is not None})

    def _score(self, attempt: GroupAttempt, search: Search, name: str, pods: list[Pod], domains: int) -> None:
        """Score a placement into which these pods of the group fit, in `domains` of its domains."""
        placement = search.found[name]
        assignment = Assignment(attempt.group, placement, pods, self._cluster.pod_groups.scheduled(attempt.entry.key))
        try:
            scores = self._framework(attempt).placements.scores(assignment, self._cluster)
            search.fitting.append(Fitting(placement, domains, scores))
        except PluginError as error:
            _broke(attempt, error)

    def _choose(self, attempt: GroupAttempt, search: Search) -> bool | None:
        """Begin with the best placement into which the group fits, and return what `_next` does."""
        try:
            best = best_of(search.fitting, self._framework(attempt).placements, attempt.entry.key, self._pick)
        except PluginError as error:
            _broke(attempt, error)
            return None
        self._start(attempt, search, search.fitting.pop(best).placement.name)
        return True

    def _start(self, attempt: GroupAttempt, search: Search, name: str) -> None:
        """Make a placement the current one, with its domains in the order in which they are filled."""
        search.current = name
        self._fill(attempt, search)
        why = unsatisfied(attempt.group, self._cluster.pod_groups.scheduled(attempt.entry.key), len(attempt.members))
        if why:
            attempt.fail(why, early=True)

    def _fill(self, attempt: GroupAttempt, search: Search) -> None:
        """Have the domains of the current placement filled from the first one on."""
        search.domains, _ = self._order(attempt, search, search.current, len(attempt.members))
        search.filled = 0

    def _fail(self, attempt: GroupAttempt, search: Search, outcome: Outcome) -> None:
        """End the attempt with the outcome of the first or the broadest placement: the group fits into none."""
        which = "broadest" if search.levels else "first"
        attempt.fail(
            f"0/{len(search.found)} placements are available, {which} placement status: {outcome.status}", early=True
        )
        attempt.untried = attempt.message
        attempt.members = {uid: outcome.members.get(uid, member) for uid, member in attempt.members.items()}

    def _generate(self, attempt: GroupAttempt, plugins: PlacementPlugins) -> list[Placement]:
        try:
            return plugins.generate(attempt.group, running(attempt, self._cluster), self._cluster)
        except PluginError as error:
            attempt.break_off(error.text)
            return []

    def _room(self, attempt: GroupAttempt, found: list[Placement]) -> Room | None:
        """Return how many pods each placement and domain takes. Those of one level have no node in common."""
        pods = [member.queued.pod for member in attempt.pods]
        if self._scheduling.extenders_about(pods) is not None:
            return None
        return room_of_all(found, pods, self._framework(attempt), self._cluster)

    def _renew(self, attempt: GroupAttempt, search: Search) -> None:
        """Generate the placements again after nodes came, went, or got other labels; new ones are tried too."""
        search.labels = self._cluster.nodes.label_changes
        found = {one.name: one for one in self._generate(attempt, self._framework(attempt).placements)}
        search.waiting.extend(name for name in found if name not in search.found)
        gone = {name: Placement(name, NOWHERE, one.level) for name, one in search.found.items() if name not in found}
        search.renew({name: found.get(name, gone.get(name, one)) for name, one in search.found.items()} | found)
        self._fill(attempt, search)

    def _framework(self, attempt: GroupAttempt) -> Framework:
        first = next(iter(attempt.members.values())).queued.pod
        return self._queue.frameworks[first.scheduler_name]


def _broke(attempt: GroupAttempt, error: PluginError) -> None:
    attempt.break_off(f'running PlacementScore plugins: plugin "{error.plugin}" failed with: {error.text}')
