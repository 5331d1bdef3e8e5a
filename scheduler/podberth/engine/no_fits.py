"""Attempts that found no node, kept for equal pods: until something changes, an equal pod finds no node either.

A Deployment that is too large leaves thousands of equal pods without a node. What the first of them has found (the
message, the plugins that rejected it, what preemption said) holds for all others, so that each of them costs a look-up.
All of it holds until the first change of the cluster: no attempt to tell which changes matter is made here.
"""

from podberth.cache.cluster import Cluster
from podberth.engine.queue.unschedulable import alike
from podberth.framework.decision import AttemptRecord, Decision, fit_error, points
from podberth.framework.interface import PostFilterResult
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod

MOST = 512
"""Attempts that are kept. Each is a message and a few names."""


class NoFit:
    """An attempt that found no node."""

    __slots__ = ("decision", "message", "plugins", "points", "result", "taken_over")

    def __init__(self, decision: Decision, result: PostFilterResult) -> None:
        self.decision = decision
        self.result = result
        self.plugins = decision.unschedulable_plugins()
        """The plugins that rejected the pod."""
        self.message = fit_error(decision, result.text)
        self.points: tuple[tuple[str, str], ...] = ()
        """The extension points that the attempt passed, with their status, where it is one that was kept."""
        self.taken_over = False
        """True if this is what an equal pod has found."""

    @property
    def waits_for(self) -> frozenset[str]:
        """The plugins whose events may help the pod."""
        return self.plugins | self.result.in_the_way

    def of(self, pod: Pod) -> "NoFit":
        """Return this outcome for another pod, without who rejected which node: its message says what is known."""
        found = NoFit.__new__(NoFit)
        found.decision = Decision(pod, self.decision.nodes, self.decision.feasible, quick=True)
        found.result, found.plugins, found.message, found.points = self.result, self.plugins, self.message, self.points
        found.taken_over = True
        return found


class NoFits:
    """The attempts that are kept, for the versions of the cluster of which they were made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.kept: dict[object, NoFit] = {}
        """By what equal pods share."""
        self._as_of = cluster.versions()
        self.used = 0
        """The number of pods that were told what an equal one had found."""

    def find(self, pod: Pod, framework: Framework, record: AttemptRecord) -> NoFit | None:
        """Return what an equal pod found; None: the pod has to be decided. `record`: of its attempt."""
        kept = self.known(pod, framework)
        if kept is None:
            return None
        self.used += 1
        for point, status in kept.points:
            record.reached(point, status)
        return kept.of(pod)

    def known(self, pod: Pod, framework: Framework) -> NoFit | None:
        """Return what an equal pod found, with that pod's decision; None: it is not known, or does
        not hold any more.
        """
        if not self.kept:
            return None
        if self._as_of != self._cluster.versions():
            self.kept.clear()
            return None
        key = self._key(pod, framework)
        return None if key is None else self.kept.get(key)

    def keep(self, found: NoFit, framework: Framework, record: AttemptRecord) -> None:
        """Keep what an attempt has found, if it is the same for every equal pod."""
        pod, result = found.decision.pod, found.result
        if result.node or result.writes or result.candidates:
            return
        key = self._key(pod, framework)
        if key is None:
            return
        as_of = self._cluster.versions()
        if self._as_of != as_of or len(self.kept) >= MOST:
            self.kept.clear()
            self._as_of = as_of
        kept = self.kept[key] = found.of(pod)
        kept.points = tuple([(point, status) for point, status, _ in points(record.trace)])

    def _key(self, pod: Pod, framework: Framework) -> object | None:
        """Pods with the same key find the same; None: the pod may have no equals, or plugins may go by anything."""
        cluster, shape = self._cluster, pod.shape
        if (
            framework.goes_by_anything
            or shape.heavy
            or shape.claims
            or shape.volumes.ephemeral
            or pod.made_claims
            or pod.scheduling_group is not None
            or pod.node_name
            or pod.nominated_node_name
            or pod.uid in cluster.nominations.node_of
            or not cluster.devices.served.isdisjoint(shape.requests)
        ):
            return None
        return framework, alike(pod), pod.owner, pod.lasts
