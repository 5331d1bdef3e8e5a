"""Looking further than kube-scheduler: other orders of a group's pods, and other nodes for them, after its own failed.

kube-scheduler tries the pods in one order and takes the best node for each, so it misses what another order would find
(its KEP says so of groups whose pods differ). The argument `furtherOrders` of GangScheduling says how many other ones
are tried, one after the other, in the same attempt. Each pod takes the fullest node that takes it; or the roomiest,
since others may have to go where the first one has gone, as they share a claim with it; or that of the best score,
while the pod that found no node goes first. Where all of that repeats itself, orders follow that are drawn by lot.
"""

import zlib
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.attempts import Attempts
from scheduler.engine.budget import ORDINARY
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import Further, GroupAttempt, Member, Takes
from scheduler.engine.pod_groups.room import foreign, plain
from scheduler.engine.queue import Queue
from scheduler.framework.decision import Decision
from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

Floats = NDArray[np.float64]
_NOT_DRAWN = (Takes.BEST, Takes.FULLEST, Takes.ROOMIEST)


class FurtherOrders:
    """Says which order comes next, and gives the first one's words back if none is any better."""

    def __init__(self, queue: Queue, attempts: Attempts, most_steps: int) -> None:
        """`most_steps`: what an attempt may cost, with all its orders."""
        self._queue = queue
        self._attempts = attempts
        self._most_steps = most_steps

    def another(self, attempt: GroupAttempt) -> bool:
        """The group did not fit in this order: whether to give back what is held, and go on otherwise."""
        further = attempt.further
        if further is None:
            if attempt.ended is not Ended.REJECTED or attempt.early or not attempt.next:
                return False
            if attempt.search is not None or attempt.tree is not None:
                return False
            framework = self._queue.frameworks.get(next(iter(attempt.members.values())).queued.pod.scheduler_name)
            most = 0 if framework is None else framework.profile.further_orders
            if framework is None or not most or self._no_other(attempt, framework):
                return False
            further = attempt.further = Further(attempt.members, list(attempt.reasons), most)
        elif attempt.ended not in (Ended.REJECTED, Ended.TOO_COSTLY):
            return False
        further.over = attempt.ended is Ended.TOO_COSTLY or not self._next(attempt, further)
        attempt.ended, attempt.again = None, True
        attempt.holding = [uid for uid, member in attempt.members.items() if member.fits]
        return True

    def _no_other(self, attempt: GroupAttempt, framework: Framework) -> bool:
        """Whether no order can be better than another.

        All pods are equal, and only amounts and node objects decide: each node takes as many of them in any order.
        """
        pods = [member.queued.pod for member in attempt.members.values()]
        first = pods[0]
        return (
            not self._queue.cluster.kept_room
            and plain(first.shape)
            and all(_kind(pod) == _kind(first) for pod in pods)
            and not self._attempts.asks_extenders(first)
            and not foreign(framework)
        )

    def begin(self, attempt: GroupAttempt, further: Further) -> None:
        """Nothing is held any more: begin with the next order, or end as the first one did."""
        there = attempt.members
        if not further.over:
            attempt.members = {uid: Member(there[uid].queued) for uid in further.order if uid in there}
            attempt.from_start()
            return
        attempt.members = {uid: member for uid, member in further.first.items() if uid in there}
        attempt.next = len(attempt.members)
        attempt.fail(", ".join([*further.reasons, f"{further.tried} other orders of its pods do not fit either"]))
        attempt.untried = ", ".join(further.reasons)

    def _next(self, attempt: GroupAttempt, further: Further) -> bool:
        """Have the next order, unless all are used up or the attempt has cost too much."""
        cost = ORDINARY * len(attempt.members)
        if further.tried >= further.most or attempt.spent + cost >= self._most_steps:
            return False
        attempt.spent += cost
        order = tuple(attempt.members)
        kinds = {uid: _kind(attempt.members[uid].queued.pod) for uid in order}

        def seen(uids: tuple[str, ...], takes: Takes) -> Any:
            """A key that is equal for orders in which only equal pods change places, unless nodes are drawn by lot."""
            return uids if takes is Takes.DRAWN else tuple([kinds[uid] for uid in uids]), takes

        if not further.seen:
            further.seen.add(seen(order, Takes.BEST))
        failed = [uid for uid in order if attempt.members[uid].reason]
        forward = (*failed, *(uid for uid in order if uid not in failed))
        beside = ((order, Takes.FULLEST), (order, Takes.ROOMIEST), *((forward, takes) for takes in _NOT_DRAWN))
        for wanted in beside:
            if seen(*wanted) not in further.seen:
                break
        else:
            dice = Random(zlib.crc32(f"{attempt.group.uid}/{further.tried}".encode()))
            mixed = list(order)
            dice.shuffle(mixed)
            wanted = tuple(mixed), tuple(Takes)[further.tried % len(Takes)]
            if seen(*wanted) in further.seen:
                wanted = tuple(mixed), Takes.DRAWN
        further.seen.add(seen(*wanted))
        further.order, further.takes = wanted
        further.tried += 1
        return True


def _kind(pod: Pod) -> tuple[Any, ...]:
    """A key that is equal for pods which may change places in an order: then only who of them is where changes."""
    return id(pod.shape), pod.made_claims, pod.nominated_node_name


def other_row(decision: Decision, cluster: Cluster, further: Further) -> int | None:
    """Where a pod is to go that has found nodes; None: to the node of the best score."""
    rows = decision.feasible
    match further.takes:
        case Takes.BEST:
            return None
        case Takes.FULLEST:
            return int(rows[int(_left(decision, cluster).argmin())])
        case Takes.ROOMIEST:
            return int(rows[int(_like_it(decision, cluster).argmax())])
        case Takes.DRAWN:
            return int(Random(zlib.crc32(f"{decision.pod.uid}/{further.tried}".encode())).choice(rows))


def _left(decision: Decision, cluster: Cluster) -> Floats:
    """What each node has left of what the pod asks for, as a multiple of that."""
    rows, nodes = decision.feasible, cluster.nodes
    left = np.zeros(len(rows), dtype=np.float64)
    for index, amount in _asked(decision.pod, cluster):
        left += (nodes.allocatable[index][rows] - nodes.requested[index][rows]) / amount
    return left


def _like_it(decision: Decision, cluster: Cluster) -> Floats:
    """How many pods each node takes that ask for as much."""
    rows, nodes = decision.feasible, cluster.nodes
    most = (nodes.allowed_pods[rows] - nodes.pods[rows]).astype(np.float64)
    for index, amount in _asked(decision.pod, cluster):
        most = np.minimum(most, (nodes.allocatable[index][rows] - nodes.requested[index][rows]) / amount)
    return most


def _asked(pod: Pod, cluster: Cluster) -> list[tuple[int, int]]:
    """(index of a resource, amount) of what the pod asks for."""
    resources = cluster.nodes.resources
    return [(resources[name], amount) for name, amount in pod.shape.requests.items() if amount and name in resources]
