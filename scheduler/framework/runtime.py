"""One profile at work: its plugins, and the pipeline filter → score over all nodes at once.

Mirrors kube-scheduler `schedule_one.go` (schedulePod, findNodesThatFitPod, prioritizeNodes) and
`framework/runtime/framework.go`, with every node scored.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scheduler.framework.decision import Decision, PluginScores, Rejected, Rows
from scheduler.framework.events import ANY, ClusterEvent
from scheduler.framework.foreign import Foreign
from scheduler.framework.guard import Asked, Guard, Spans
from scheduler.framework.memo import Memos
from scheduler.framework.permit import WaitingPods
from scheduler.framework.plugin import Plugin, PostFilterResult
from scheduler.framework.quick import SUCCESS, Reached, decide_by
from scheduler.framework.reservation import Reservation, way
from scheduler.framework.sampling import ALL_NODES, Rotation, nodes_to_find, sample
from scheduler.framework.spare import Spare, spare
from scheduler.framework.status import Reason, Reject, Rejections
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools
from scheduler.state.view import row_with

UNSCHEDULABLE, UNRESOLVABLE = "Unschedulable", "UnschedulableAndUnresolvable"


@dataclass(frozen=True, slots=True)
class Profile:
    """A schedulerName and its plugins by extension point, in the order they run."""

    name: str
    points: dict[str, tuple[Plugin, ...]]
    weights: dict[str, int]
    percentage: int = ALL_NODES
    """Of the nodes, how many feasible ones are enough (percentageOfNodesToScore)."""

    args: Mapping[str, Any] = field(default_factory=dict)
    """In-tree plugin → what it was made with."""

    def plugins(self, point: str) -> tuple[Any, ...]:
        """The plugins of one point."""
        return self.points.get(point, ())

    def apart(self) -> "Profile":
        """The same with in-tree plugins of its own, which know nothing yet.

        Third-party ones stay: what they remember may be more than what saves them work.
        """
        made: dict[str, Plugin] = {}

        def own(plugin: Any) -> Plugin:
            if plugin.name not in made:
                made[plugin.name] = type(plugin)(self.args[plugin.name]) if plugin.name in self.args else plugin
            return made[plugin.name]

        return replace(self, points={point: tuple(map(own, plugins)) for point, plugins in self.points.items()})


class Framework:
    """Runs one profile's plugins. Holds no state between pods."""

    def __init__(self, profile: Profile, guard: Guard | None = None) -> None:
        self.profile = profile
        self.guard = Guard() if guard is None else guard
        self._reached: Reached = _unheard
        self._pre_filters: tuple[Any, ...] = profile.plugins("pre_filter")
        self._filters: tuple[Any, ...] = profile.plugins("filter")
        self._scorers = [
            (plugin, profile.weights.get(plugin.name, 1), getattr(plugin, "normalize", None))
            for plugin in profile.plugins("score")
        ]
        self._memos = Memos(self._pre_filters, self._filters, self._scorers, self.guard)
        self._way = way(profile.points)
        self._by_name = {plugin.name: plugin for plugins in profile.points.values() for plugin in plugins}
        for plugin in self._by_name.values():
            if isinstance(plugin, Foreign):
                plugin.guard = self.guard
        self._local = _looks_at_one_node(profile)
        self._wakes = {name: getattr(plugin, "wakes_on", ANY) for name, plugin in self._by_name.items()}

    def apart(self) -> "Framework":
        """The same profile with nothing kept, asked under the same guard."""
        return Framework(self.profile.apart(), self.guard)

    def listen(self, timed: Asked | None, reached: Reached, spans: Spans) -> None:
        """Have each call of a plugin made by `timed` (None: just made), and hear of each extension point that is done.

        That is how time is measured: nothing here has a clock, who listens may have one.
        """
        self.guard.timed = timed
        self.guard.spans = spans
        self._reached = reached

    @property
    def computed(self) -> int:
        """How many decisions found nothing kept for their pod's shape."""
        return self._memos.computed

    def plugin(self, name: str) -> Plugin | None:
        """A plugin of this profile by name."""
        return self._by_name.get(name)

    def wakes(self, plugin: str) -> ClusterEvent:
        """The events that may reverse a plugin's rejection."""
        return self._wakes.get(plugin, ANY)

    def looks_at_one_node(self, plugin: str) -> bool:
        """Whether all that a plugin has against a pod is about single nodes, and follows from the pod's shape and them.

        And nobody makes room but by removing pods of lower priority.
        """
        return plugin in self._local

    def rejects(self, pod: Pod, plugins: Collection[str], view: Cluster) -> bool:
        """Whether one of the named filters, of those that go by the pod's shape and the node, rejects the only row.

        Raises PluginError when a plugin fails.
        """
        for plugin in self._filters:
            if plugin.name not in plugins or not getattr(plugin, "by_shape", False):
                continue
            if hasattr(plugin, "passes_on"):
                if not self.guard(plugin, plugin.passes_on, pod, view.nodes, 0):
                    return True
            elif any(rejected[0] for _, rejected in self.guard(plugin, plugin.filter, pod, view)):
                return True
        return False

    def pre_enqueue(self, pod: Pod) -> tuple[str, Reason] | None:
        """As `held_by`, on the pod's way into the queue."""
        spans = self.guard.spans
        if spans is None:
            return self.held_by(pod)
        spans.begin()
        held = self.held_by(pod)
        spans.end("PreEnqueue", SUCCESS if held is None else UNRESOLVABLE)
        return held

    def held_by(self, pod: Pod) -> tuple[str, Reason] | None:
        """(plugin, reason) of the first plugin that holds the pod out of the queue."""
        for plugin in self.profile.plugins("pre_enqueue"):
            reason = self.guard(plugin, plugin.pre_enqueue, pod)
            if reason is not None:
                return plugin.name, reason
        return None

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """The place of a pod in the active queue, smallest first."""
        plugin = self.profile.plugins("queue_sort")[0]
        key: tuple[Any, ...] = self.guard(plugin, plugin.queue_sort, pod, queued_at)
        return key

    def decide_quickly(self, pod: Pod, cluster: Cluster, rotation: Rotation | None = None) -> Decision:
        """As `decide`, by way of what is known of the pod's shape; without the parts that only an explanation needs.

        A pod that finds no node is decided the plain way, for its message. Raises PluginError when a plugin fails.
        """
        sampled = rotation is not None and self.profile.percentage
        if not (pod.node_name or pod.shape.preferred_error is not None or sampled) and cluster.nodes.count:
            memos = self._memos
            memo = memos.get(pod, cluster)
            kept = self._nominated_row(pod, cluster)
            shut = self._shut(pod, cluster, memo.passes) if cluster.nominations else []
            if shut is not None:
                decision = decide_by(memo, memos, pod, cluster, self.guard, self._reached, kept=kept, shut=shut)
                if decision is not None:
                    return decision
        return self.decide(pod, cluster, rotation)

    def _shut(self, pod: Pod, cluster: Cluster, passes: Bools) -> list[int] | None:
        """Of the rows that pass, those where a pod does not fit beside the nominated ones that it has to yield to.

        None: that can't be told row by row.
        """
        ahead = {}
        for name, pods in cluster.nominations.ahead_of(pod):
            row = cluster.nodes.live_row(name)
            if row is not None and passes[row]:
                ahead[row] = pods
        if not ahead:
            return []
        others = (other for pods in ahead.values() for other in pods)
        if not self.by_shape(pod) or self.reads_other_rows(pod, cluster, others):
            return None
        names = [plugin.name for plugin in self._filters if not getattr(plugin, "ignores_usage", False)]
        return [row for row, pods in ahead.items() if self.rejects(pod, names, row_with(cluster, row, (), pods))]

    def decide(
        self, pod: Pod, cluster: Cluster, rotation: Rotation | None = None, *, score_always: bool = False
    ) -> Decision:
        """Filter and score all nodes for one pod. A single feasible node is not scored unless asked for.

        `rotation`: with it, no more nodes are scored than the profile's percentage asks for.
        Raises PluginError when a plugin fails.
        """
        decision = self.find(pod, cluster, rotation, nominated=not score_always)
        if len(decision.feasible) > 1 or (score_always and len(decision.feasible)):
            self.rank(decision, cluster)
        return decision

    def find(self, pod: Pod, cluster: Cluster, rotation: Rotation | None = None, *, nominated: bool = True) -> Decision:
        """Filter all nodes for one pod; the feasible ones are not scored yet.

        `nominated`: a node that was kept for the pod is the only feasible one if it fits.
        Raises PluginError when a plugin fails.
        """
        nodes = cluster.nodes
        decision = Decision(pod, nodes.count, _NO_ROWS)
        if not nodes.count:
            return decision
        alive: Bools = nodes.alive[: nodes.rows].copy()
        if not self._pre_filter(pod, cluster, decision, alive):
            self._reached("PreFilter", _rejection(decision))
            return decision
        self._reached("PreFilter", SUCCESS)
        candidates = alive
        alive, decision.rejected = self.passing(pod, cluster, alive)
        self._reached("Filter", SUCCESS)
        kept = self._nominated_row(pod, cluster) if nominated else None
        if kept is not None and alive[kept]:
            # Room was made for the pod there: it takes the node if it fits (evaluateNominatedNode).
            decision.feasible = np.array([kept], dtype=np.intp)
            return decision
        decision.feasible = np.flatnonzero(alive)
        if rotation is not None and self.profile.percentage and candidates.any():
            decision.feasible = self._sampled(decision.feasible, candidates, cluster, rotation)
        return decision

    def _sampled(self, feasible: Rows, candidates: Bools, cluster: Cluster, rotation: Rotation) -> Rows:
        wanted = nodes_to_find(self.profile.percentage, int(np.count_nonzero(candidates))) if self._scorers else 1
        return sample(feasible, candidates, wanted, cluster.nodes.count, rotation)

    def passing(self, pod: Pod, cluster: Cluster, among: Bools) -> tuple[Bools, list[Rejected]]:
        """(nodes of `among` that pass all filters, who rejected the rest), yielding to nominated pods.

        A node that is kept for pods of equal or higher priority has to pass with them and without
        them (RunFilterPluginsWithNominatedPods).
        """
        passed, rejected = self._filter(pod, cluster, among)
        if not cluster.nominations:
            return passed, rejected
        kept = {}
        for name, pods in cluster.nominations.ahead_of(pod):
            row = cluster.nodes.live_row(name)
            if row is not None and among[row]:
                kept[row] = pods
        if not kept:
            return passed, rejected
        apart = self.reads_other_rows(pod, cluster, (other for pods in kept.values() for other in pods))
        usage_only = not apart and self.by_shape(pod)
        for rows in [[row] for row in kept] if apart else [list(kept)]:
            mask = np.zeros(len(among), dtype=np.bool_)
            mask[rows] = True
            with cluster.supposing(((other, row) for row in rows for other in kept[row]), usage_only=usage_only):
                with_them, also = self._filter(pod, cluster, mask)
            failed = mask & ~with_them
            if failed.any():
                passed = passed & ~failed
                rejected = [_without(one, failed) for one in rejected] + also
        return passed, rejected

    def reads_other_rows(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Whether any filter lets what happens to `others` on one node change its verdict on another."""
        others = list(others)
        for plugin in self._filters:
            asks = getattr(plugin, "reads_other_rows", None)
            if asks is None or self.guard(plugin, asks, pod, cluster, others):
                return True
        return False

    def by_shape(self, pod: Pod) -> bool:
        """Whether, unless it reads other rows, the verdict on a node follows from the pod's shape and that node."""
        return not pod.node_name and all(
            getattr(plugin, "by_shape", False)
            or getattr(plugin, "else_by_shape", False)
            or (hasattr(plugin, "concerns") and not plugin.concerns(pod.shape))
            for plugin in self._filters
        )

    def spare(self, pod: Pod, cluster: Cluster) -> Spare:
        """What is left on each node of all that filters count: whom to preempt is found by sums, wholly or in part."""
        return spare(self._filters, pod, cluster, self.guard)

    def post_filter_result(self, pod: Pod, cluster: Cluster, decision: Decision) -> PostFilterResult:
        """What the PostFilter plugins make of a pod that found no node: the first that offers a node wins."""
        texts = []
        in_the_way: frozenset[str] = frozenset()
        for plugin in self.profile.plugins("post_filter"):
            result: PostFilterResult = self.guard(plugin, plugin.post_filter, pod, cluster, decision, self)
            if result.node is not None:
                self._reached("PostFilter", SUCCESS if result.node else UNSCHEDULABLE)
                return result
            texts.append(result.text)
            in_the_way |= result.in_the_way
        self._reached("PostFilter", UNSCHEDULABLE)
        return PostFilterResult(", ".join(text for text in texts if text), in_the_way=in_the_way)

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision) -> str:
        """The end of the FailedScheduling message."""
        return self.post_filter_result(pod, cluster, decision).text

    def reservation(
        self, pod: Pod, row: int, node: str, waiting: WaitingPods, binders: tuple[Any, ...] = ()
    ) -> Reservation:
        """The plugins' part from Reserve on, for a pod that was decided to go to a node.

        `binders`: who is asked to bind it before the Bind plugins are.
        """
        ahead = self._way
        if binders:
            ahead = way({**self.profile.points, "bind": (*binders, *self.profile.plugins("bind"))})
        return Reservation(ahead, self.guard, pod, (row, node), waiting)

    def reserved(self, status: str) -> None:
        """The Reserve plugins are done with a pod."""
        self._reached("Reserve", status)

    def _nominated_row(self, pod: Pod, cluster: Cluster) -> int | None:
        name = cluster.nominations.node_of(pod.uid) or pod.nominated_node_name
        return cluster.nodes.live_row(name) if name else None

    def _filter(self, pod: Pod, cluster: Cluster, alive: Bools) -> tuple[Bools, list[Rejected]]:
        rejected: list[Rejected] = []
        for plugin in self._filters:
            found: Rejections = self.guard(plugin, plugin.filter, pod, cluster)
            if not found:
                continue
            reasons = []
            survivors = alive
            before: Bools | None = None
            here = alive
            for reason, mask in found:
                if mask is not before:  # one array may come with thousands of reasons
                    before, here = mask, mask & alive
                    survivors = survivors & ~here
                if here.any():
                    reasons.append((reason, here))
            if reasons:
                rejected.append(Rejected(plugin.name, reasons))
                alive = survivors
                if not alive.any():
                    break
        return alive, rejected

    def _pre_filter(self, pod: Pod, cluster: Cluster, decision: Decision, alive: Bools) -> bool:
        """Run PreFilter; False when the pod is rejected as a whole. Clears `alive` where nodes are left out."""
        names: frozenset[str] | None = None
        narrowed_by: tuple[str, ...] = ()
        for plugin in self._pre_filters:
            outcome = self.guard(plugin, plugin.pre_filter, pod, cluster)
            if outcome is None:
                continue
            if isinstance(outcome, Reject):
                decision.verdict = (plugin.name, outcome.reason)
                return False
            narrowed_by += (plugin.name,)
            names = outcome.names if names is None else names & outcome.names
            decision.narrowed_by = narrowed_by
            if not names:
                text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed_by))}] simultaneously"
                if len(narrowed_by) == 1:
                    text = f"node(s) didn't satisfy plugin {narrowed_by[0]}"
                decision.verdict = ("", Reason(text, unresolvable=True))
                return False
        if names is None:
            return True
        decision.narrowed = names
        only = np.zeros(len(alive), dtype=np.bool_)
        only[[row for row in map(cluster.nodes.live_row, names) if row is not None]] = True
        decision.left_out = alive & ~only
        alive &= only
        return True

    def rank(self, decision: Decision, cluster: Cluster) -> None:
        """Score the feasible nodes.

        Raises PluginError when a plugin fails.
        """
        pod, feasible = decision.pod, decision.feasible
        totals = np.zeros(len(feasible), dtype=np.int64)
        for plugin, weight, normalize in self._scorers:
            raw = self.guard(plugin, plugin.score, pod, cluster, feasible)
            if raw is None:
                continue
            if isinstance(raw, int):
                raw = np.full(len(feasible), raw, dtype=np.int64)
            weighted = (
                raw if normalize is None else self.guard(plugin, normalize, raw, pod, cluster, feasible)
            ) * weight
            totals += weighted
            decision.scores.append(PluginScores(plugin.name, weight, raw, weighted))
        decision.totals = totals
        self._reached("Score", SUCCESS)


def _looks_at_one_node(profile: Profile) -> frozenset[str]:
    if not all(getattr(plugin, "removes_lower_only", False) for plugin in profile.plugins("post_filter")):
        return frozenset()
    filters = {plugin.name: plugin for plugin in profile.plugins("filter")}
    elsewhere = {
        plugin.name for point in ("pre_enqueue", "pre_filter", "reserve", "permit") for plugin in profile.plugins(point)
    }
    return frozenset(
        name for name, plugin in filters.items() if getattr(plugin, "by_shape", False) and name not in elsewhere
    )


_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


def _without(rejected: Rejected, rows: Bools) -> Rejected:
    """The same rejections, less those of some rows."""
    return Rejected(rejected.plugin, [(reason, where & ~rows) for reason, where in rejected.reasons])


def _rejection(decision: Decision) -> str:
    resolvable = decision.verdict is None or not decision.verdict[1].unresolvable
    return UNSCHEDULABLE if resolvable else UNRESOLVABLE


def _unheard(point: str, status: str) -> None:
    """Nobody listens."""
