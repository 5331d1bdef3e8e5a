"""The attempt to schedule a pod group, as far as it has come: its pods, its placements, its plan, and what is said.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupAlgorithmResult, submitPodGroupAlgorithmResult) and
`framework/plugins/gangscheduling` (PlacementFeasible). An attempt is done in turns, generators that stop wherever other
pods may be tried. What such a generator needs to know when it goes on is here: the time, and what extenders have said.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field

from podberth.cache.cluster import Cluster
from podberth.engine.extender_calls import ExtenderCall
from podberth.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE
from podberth.engine.pod_groups.room import Room, foreign, plain
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.queued import QueuedGroup, QueuedPod
from podberth.framework.binding import Write
from podberth.framework.decision import Decision, Rows
from podberth.framework.extenders import NodesAnswer, Question, VictimsAnswer
from podberth.framework.interface import Placement, Running
from podberth.framework.runtime import Framework, PlacementPlugins
from podberth.framework.status import PluginError
from podberth.model.pod import Pod, empty_like
from podberth.model.pod_group import COSCHEDULING, GroupKey, PodGroup

Found = TypeVar("Found")
Turns = Generator[None, None, Found]
Answer = tuple[ExtenderCall, NodesAnswer | VictimsAnswer | str]
"""A question to extenders and their answer; the answer is a text if an extender failed."""
A_TRY = 250
"""Steps that each try of a member costs. A step is about a microsecond of one core."""
MOST_STEPS = 16_000_000
"""Steps that one search may take: for victims of a group, for room that is kept for it, or for its domain."""
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
NOWHERE: Rows = np.zeros(0, dtype=np.intp)
"""An empty set of nodes."""


class Plan(Struct):
    """The outcome of a search for victims: the pods to remove, the nodes to nominate, and the end of the message."""

    said: str = ""
    """The end of the group's message."""
    waits: bool = False
    """The group waits for victims to leave."""
    nominated: dict[str, str] = field(default_factory=dict)
    """UID → node for which a pod of the group is nominated."""
    victims: list[Pod] = field(default_factory=list)
    """The most important first."""
    groups: int = 0
    """The number of groups that go as a whole."""
    violations: int = 0
    """The number of victims that overdraw a disruption budget."""
    error: str = ""
    """The message of a plugin that failed; empty: none did."""
    writes: list[tuple[Pod, Write]] = field(default_factory=list)
    """Writes that plugins want, so that the group fits later."""
    stale: bool = False
    """Others were tried since plugins were asked what they want written: they are asked again."""
    misbehaved: list[PluginError] = field(default_factory=list)
    """Plugins that failed, so that they could do nothing for the group."""

    def node_for(self, pod: Pod) -> str | None:
        """The node for which a pod of the group is nominated; None: its nomination stays as it is."""
        return self.nominated.get(pod.uid) if self.waits else None


class Member(Struct, eq=False):
    """One pod of the group that is being tried."""

    queued: QueuedPod
    fits: bool = False
    """The pod is assumed on a node, and its Reserve plugins have let it go on."""
    reason: str = ""
    """Unschedulable or SchedulerError, if the pod found no node. Empty: it fits, or was not tried."""
    message: str = ""
    plugins: frozenset[str] = frozenset()
    decision: Decision | None = None
    nominated: str | None = None
    """The node to nominate the pod for, as in `Outbox.failed`."""


class Outcome(Struct, eq=False):
    """The outcome of trying the group on one placement."""

    members: dict[str, Member]
    status: str
    """The reason for which the group does not fit there."""


class Fitting(NamedTuple):
    """A placement into which the group fits."""

    placement: Placement
    domains: int
    """The number of domains of the placement in which the group has pods; 0 if the placement has no domains."""
    scores: tuple[int, ...]
    """The score that each plugin gives it."""


def best_of(
    fitting: Sequence[Fitting], plugins: PlacementPlugins, group: GroupKey, pick: Callable[[str, int], int]
) -> int:
    """Return the index of the best placement: lower levels come first, then fewer domains, then the higher score.

    `pick` chooses one of several equally good ones. Raises PluginError.
    """
    least = min((one.placement.level, one.domains) for one in fitting)
    closest = [i for i, one in enumerate(fitting) if (one.placement.level, one.domains) == least]
    totals = plugins.totals([fitting[i].scores for i in closest])
    best = [i for i, total in zip(closest, totals, strict=True) if total == max(totals)]
    return best[pick(str(group), len(best))]


def inhabited(domains: Iterable[Rows], rows: Set[int]) -> int:
    """Return the number of domains that have one of these rows."""
    return sum(not rows.isdisjoint(domain.tolist()) for domain in domains)


class Search(Struct, eq=False):
    """The placements of the group that is being tried."""

    found: dict[str, Placement]
    """The placements by name. One without rows is not there any more."""
    waiting: deque[str]
    """The names of the placements that were not tried yet."""
    labels: int
    """`Nodes.label_changes` when the placements were generated."""
    room: Room | None = None
    """The numbers of pods that the placements take, if sums tell that."""
    said_of: str = ""
    """The placement about which the message says why the group does not fit: the first one, or the broadest one."""
    at_level: Counter[int] = field(default_factory=Counter)
    """The number of placements that each level has."""
    current: str = ""
    domains: list[Rows] = field(default_factory=list)
    """Parts of the current placement in the order in which the group fills them."""
    filled: int = 0
    """The number of domains that take no more pods. The next pod is tried in the one after them, or in the placement.

    One more than there are domains: the placement takes no more either, and pods are tried in the broadest one.
    """
    fitting: list[Fitting] = field(default_factory=list)
    """Placements into which the group fits."""
    first: Outcome | None = None
    """The outcome of the first placement into which the group does not fit, or of the last one if there are levels."""

    def __post_init__(self) -> None:
        self.renew(self.found)

    def renew(self, found: dict[str, Placement]) -> None:
        """Replace the placements by these, and recompute the levels."""
        self.found = found
        self.at_level = Counter([placement.level for placement in found.values()])
        broadest = max(self.at_level)
        self.said_of = next(name for name, placement in found.items() if placement.level == broadest)

    @property
    def levels(self) -> bool:
        """Return whether some placements are tried only if the group fits into no other."""
        return len(self.at_level) > 1

    @property
    def within(self) -> Rows:
        """The nodes on which the next pod is tried; empty: the placement is gone."""
        if self.filled < len(self.domains):
            return self.domains[self.filled]
        placement = self.found.get(self.current if self.filled == len(self.domains) else self.said_of)
        return NOWHERE if placement is None else placement.rows

    def fill_next(self, *, enough: bool) -> bool:
        """Move on to the next domain after a pod that fits nowhere in the current one; return False if there is none
        left.

        `enough`: the group starts without it. A preference keeps no pod waiting, so the broadest placement comes last.
        """
        last = len(self.domains) + (enough and self.levels and self.current != self.said_of)
        more = self.filled < last
        self.filled += more
        return more


class GroupAttempt(Struct, eq=False):
    """The attempt to schedule a group, as far as it has come."""

    entry: QueuedGroup
    group: PodGroup
    members: dict[str, Member]
    """The pods by UID, in the order in which they are tried."""
    began: float = 0.0
    decided_at: float = 0.0
    """The times at which it began and was decided, by the clock of the attempts' record."""
    now: float = 0.0
    """Engine time of the turn that is under way."""
    next: int = 0
    """The number of members that were tried so far."""
    lost: bool = False
    """True if a pod that was tried has gone since, or the profiles have changed: all are tried from the start."""
    tries: int = 0
    """The number of tries, on all placements together, since they were charged last."""
    ended: Ended | None = None
    decided: bool = False
    """True once the outcome for the group is final, and not only that on one of its placements."""
    reasons: list[str] = field(default_factory=list)
    """The reasons for which the attempt failed."""
    early: bool = False
    """True if the attempt failed before any pod was tried, or found no node for any pod."""
    asking: Question | None = None
    """The question that extenders are being asked: until they answer, nothing is done."""
    answer: Answer | None = None
    """The answer that they have given."""
    plan: Plan | None = None
    """The outcome of the search for victims."""
    kept: bool = False
    """True once it is known if room is kept for the group."""
    of_room: str = ""
    """The part of the message about the room that is kept for the group; empty: none is."""
    said: bool = False
    """True once the outcome for the group was reported."""
    told: int = 0
    """The number of pods that were gone through to report the ones that have no node."""
    missed: bool = False
    """True if an event that may help the group happened during the attempt."""
    outdated: bool = False
    """True once its object asks for something else than when the attempt was decided, or the profiles have changed."""
    noticed: bool = False
    """True if other pods were tried while pods of this group were assumed."""
    events: int = 0
    """The number of the last event before others had a turn."""
    short: bool = False
    """True if the group has too few pods, and is tried only so that it gives up the nodes that are nominated for it."""
    untried: str = ""
    """The message for pods that were not tried."""
    enough: bool = False
    """True if the attempt failed only because no pod found a node, while enough pods of the group run already."""
    search: Search | None = None
    """The placements, if the group is tried on one after the other."""
    only_places: bool | None = None
    """True if a pod that stands in for one of the group (`StandIns`) matters to others only by the place that it takes.
    None: not known yet."""
    looked_at: int = -1
    """`left_deciding` of the binding cycles when all pods were found that should be assumed."""
    _listed: tuple[dict[str, Member], int, list[Member]] = field(default_factory=lambda: ({}, 0, []))
    """A cache for `pods`: the dict of members, its length, and the list made from it."""

    @property
    def pods(self) -> list[Member]:
        """The pods, in the order in which they are tried. Do not change the list."""
        members, count, pods = self._listed
        if members is not self.members or count != len(members):
            pods = list(self.members.values())
            self._listed = self.members, len(pods), pods
        return pods

    @property
    def wants_room(self) -> bool:
        """Return whether room is to be made or kept for the group: it found too few nodes, and asks for them still."""
        return self.ended is Ended.REJECTED and bool(self.members) and not (self.short or self.outdated)

    def leave_out(self, uids: Collection[str]) -> None:
        """Remove these pods from the attempt: they were bound, requeued or deleted."""
        if uids:
            self.told = sum(uid not in uids for uid in islice(self.members, self.told))
            self.members = {uid: member for uid, member in self.members.items() if uid not in uids}

    def fail(self, reason: str, *, early: bool = False) -> None:
        """End the attempt: not enough pods can find a node."""
        self.ended, self.reasons, self.early = Ended.REJECTED, [reason] if reason else [], early
        self.enough = False

    def fail_at_once(self, reason: str) -> None:
        """End the attempt before any of its pods is tried; all of them get the same message."""
        self.fail(reason, early=True)
        self.untried = self.message

    def from_start(self) -> None:
        """Reset the attempt to its first pod. Pods that are assumed have to give back what they hold."""
        self.ended, self.reasons, self.early, self.enough = None, [], False, False
        self.next, self.untried, self.lost = 0, "", False
        self.members = {uid: Member(member.queued) for uid, member in self.members.items()}

    def answered(self) -> Answer:
        """Take the answer of the extenders to the question that the attempt asked last."""
        answer, self.answer = self.answer, None
        assert answer is not None
        return answer

    def break_off(self, message: str) -> None:
        """End the attempt with an error, whatever came of it before."""
        self.ended, self.reasons, self.early = Ended.BROKEN, [message], False

    @property
    def message(self) -> str:
        """The message of the group's condition, and of pods without one of their own."""
        return ", ".join([GROUP_UNSCHEDULABLE, *self.reasons] if self.early else self.reasons)

    @property
    def of_those_that_fit(self) -> str:
        """The message for pods that found a node in vain."""
        return f"{GROUP_UNSCHEDULABLE}, {self.message}"


def unsatisfied(group: PodGroup, scheduled: int, remaining: int) -> str:
    """Return the message that minCount cannot be reached with the remaining pods; empty: it can (PlacementFeasible)."""
    if scheduled + remaining >= group.needed:
        return ""
    return f"minCount ({group.needed}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


def verdict(attempt: GroupAttempt, member: Member) -> tuple[str, str, str | None]:
    """Return (reason, message, nomination) for a pod of a group that failed, or that found no node itself."""
    plan = attempt.plan or Plan()
    if attempt.ended is Ended.BROKEN:
        own = member.reason == SCHEDULER_ERROR
        return SCHEDULER_ERROR, member.message if own else attempt.message, ""
    nominated = plan.node_for(member.queued.pod)
    if member.fits:
        if plan.waits:
            return UNSCHEDULABLE, attempt.message, nominated
        return UNSCHEDULABLE, attempt.of_those_that_fit, ""
    message = ", ".join(filter(None, (member.message or attempt.untried, attempt.of_room)))
    if member.reason:
        return member.reason, message, member.nominated if nominated is None else nominated
    return UNSCHEDULABLE, message, "" if attempt.short else nominated


def running(attempt: GroupAttempt, cluster: Cluster) -> list[Running]:
    """Return the pods of the group that have a node, and not by this attempt."""
    state, names = cluster.pod_groups.state(attempt.entry.key), cluster.nodes.names
    found = []
    for pod in () if state is None else state.with_node:
        placement = cluster.placement(pod.uid)
        if pod.uid not in attempt.members and placement is not None:
            found.append(Running(pod, names[placement.row] or ""))
    return found


class StandIns:
    """Supplies the pods that stand in for nominated pods of the group that is tried, and hold their nodes against its
    other pods.

    kube-scheduler looks for a nominated pod in its queue (`nominatedPodToInfo`). The pods of the group that is being
    tried are not there, and an empty pod of priority 0 is taken for each. It takes a place on its node, and nothing
    else. While the pod itself is assumed anywhere, its nomination does not count.
    """

    def __init__(self, attempt: GroupAttempt, cluster: Cluster, framework: Framework, at_once: int) -> None:
        """`at_once` is the number of the group's pods that are tried until it is asked again."""
        self._cluster = cluster
        self._at_once = at_once
        self._none = attempt.group.key.api == COSCHEDULING
        if attempt.only_places is None:
            shapes = {id(pod.shape): pod.shape for pod in (member.queued.pod for member in attempt.pods)}.values()
            attempt.only_places = not foreign(framework) and all(map(plain, shapes))
        self._only_places = attempt.only_places

    def of(self, pod: Pod, node: str) -> Pod | None:
        """Return the pod that stands in for `pod` on the node; None: nothing stands in, as it could not change any
        decision.
        """
        if self._none or pod.priority > 0:
            return None  # pods of a higher priority pass it
        cluster = self._cluster
        row = cluster.nodes.live_row(node)
        if row is None:
            return None
        places = cluster.nodes.allowed_pods[row] - cluster.nodes.pods[row]
        if self._only_places and places > cluster.nominations.number_on(node) + self._at_once:
            return None
        return empty_like(pod)


def dismiss(
    attempt: GroupAttempt, cluster: Cluster, assigned: Sequence[tuple[Pod, int]], victims: Mapping[int, Sequence[Pod]]
) -> None:
    """Drop the nominations of the group's pods if each row has places for all its assigned pods and possible returns.

    `victims`: row → those that may be put back there. Then sums say which of them can stay.
    """
    nodes, nominations = cluster.nodes, cluster.nominations
    for row, count in Counter(row for _, row in assigned).items():
        places = nodes.allowed_pods[row] - nodes.pods[row] - nominations.number_on(nodes.names[row] or "")
        if not attempt.only_places or places < count + len(victims.get(row, ())):
            return
    for pod, _ in assigned:
        nominations.drop(pod.uid)
