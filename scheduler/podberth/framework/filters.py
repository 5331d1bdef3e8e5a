"""The filter plugins of one profile, and what preemption, queueing hints and nominated pods ask of them.

Mirrors kube-scheduler `framework/runtime/framework.go` (RunFilterPluginsWithNominatedPods), over all nodes at once.
Upstream runs all filters once more for each node with nominated pods. Anyone who may write pods/status can nominate
thousands of pods, so the amounts that filters count are added up for all nodes at once.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.kept_results import Bounded, ChangeLog, KeptResult
from podberth.cache.nodes import capped
from podberth.cache.view import row_with, some_rows
from podberth.framework.decision import Rejected, Rows
from podberth.framework.declaration import Foreign, declared
from podberth.framework.guard import Guard
from podberth.framework.interface import PODS_HERE, Profile, RemovedPods, Spare
from podberth.framework.result_cache import rows_passing
from podberth.framework.status import PluginError, Reason, Rejections
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

_KINDS = 16
"""The number of sets of things that are counted whose amounts are kept."""
_THRESHOLDS = 4
"""The number of priorities, from which on nominated pods count, whose nodes are kept."""


class _Taken(KeptResult[set[str]]):
    """Amounts that nominated pods take of each thing that some pods need."""

    def __init__(self, sums: Callable[..., list[int]]) -> None:
        self.amounts: Ints = np.zeros((0, 0), dtype=np.int64)
        """int64[needs, nodes with nominated pods]."""
        self._sums = sums

    def changes(self, log: ChangeLog[str], asked: Any) -> set[str] | None:
        """Return the nodes whose nominated pods changed."""
        return log.since(self.version)

    def apply(self, changes: set[str], asked: Any) -> None:
        """Add up for these nodes."""
        plugins, pod, found = asked
        more = len(found.pods) - self.amounts.shape[1]
        if more:
            room = np.zeros((len(self.amounts), more), dtype=np.int64)
            self.amounts = np.concatenate((self.amounts, room), axis=1)
        known: dict[PodShape, list[int]] = {}
        for i in {found.place[name] for name in changes if name in found.place}:
            self.amounts[:, i] = self._sums(plugins, pod, found.pods[i], known)

    def compute(self, asked: Any) -> None:
        """Add up for all nodes."""
        plugins, pod, found = asked
        known: dict[PodShape, list[int]] = {}
        self.amounts = np.array([self._sums(plugins, pod, pods, known) for pods in found.pods], dtype=np.int64).T


class _FromPriority(KeptResult[set[str]]):
    """Nodes for which pods of some priority or a higher one are nominated, and these pods."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.place: dict[str, int] = {}
        """Node → its place in the lists. It stays when no pod is nominated for the node any more."""
        self.rows: Rows = np.zeros(0, dtype=np.intp)
        self.pods: list[list[Pod]] = []
        self.taken: Bounded[Hashable, _Taken] = Bounded(_KINDS)
        """By what is counted: nearly all pods need the same things, if more or less of them."""
        self.any: Bools = np.zeros(0, dtype=np.bool_)
        """For which of the nodes any pod is nominated."""

    def follow(self, cluster: Cluster) -> None:
        """Bring it up to date."""
        nodes, nominations = cluster.nodes, cluster.nominations
        self.renew((nodes, nodes.label_changes), nominations.log, (nominations, nodes))

    def changes(self, log: ChangeLog[str], asked: Any) -> set[str] | None:
        """Return the nodes whose nominated pods changed."""
        return log.since(self.version)

    def apply(self, changes: set[str], asked: Any) -> None:
        """Look at these nodes again."""
        nominations, nodes = asked
        rows = []
        for name in changes:
            pods = nominations.above(name, self.threshold)
            place = self.place.get(name)
            if place is not None:
                self.pods[place] = pods
                self.any[place] = bool(pods)
            elif pods and (row := nodes.live_row(name)) is not None:
                self.place[name] = len(self.pods)
                self.pods.append(pods)
                rows.append(row)
        if rows:
            self.rows = np.concatenate((self.rows, np.array(rows, dtype=np.intp)))
            self.any = np.concatenate((self.any, np.ones(len(rows), dtype=np.bool_)))

    def compute(self, asked: Any) -> None:
        """Look at all nodes for which any pod is nominated."""
        nominations, nodes = asked
        live = [(name, row) for name in nominations.nodes() if (row := nodes.live_row(name)) is not None]
        self.place = {name: i for i, (name, _) in enumerate(live)}
        self.rows = np.array([row for _, row in live], dtype=np.intp)
        self.pods = [nominations.above(name, self.threshold) for name in self.place]
        self.any = np.array([bool(pods) for pods in self.pods], dtype=np.bool_)


class NominatedNodes(Struct):
    """Nodes with nominated pods that come before some pod; `rows` and `pods` are parallel."""

    rows: Rows
    pods: list[list[Pod]]
    found: _FromPriority
    own: int | None
    """The place of the node for which the pod itself is nominated."""

    @property
    def for_others(self) -> Bools:
        """Return bool[len(rows)]: the nodes for which pods other than the one in question are nominated."""
        if self.own is None or self.pods[self.own]:
            return self.found.any
        others = self.found.any.copy()
        others[self.own] = False
        return others


class NominatedPods:
    """The nominated pods as one profile's filters see them."""

    def __init__(self, counting: Sequence[Any], ask: Callable[..., Any]) -> None:
        """`counting`: the filters that say what a pod needs, what a node has left, and what a placed pod takes."""
        self._counting = counting
        self._ask = ask
        self._by_threshold: Bounded[int, _FromPriority] = Bounded(_THRESHOLDS)

    def before(self, pod: Pod, cluster: Cluster) -> NominatedNodes | None:
        """Return the nodes with nominated pods that come before a pod; None: there are none."""
        nominations = cluster.nominations
        threshold = nominations.threshold(pod)
        if threshold is None or (len(nominations) == 1 and nominations.counts(pod.uid)):
            return None  # nobody is nominated, or nobody else
        found = self._by_threshold.recall(threshold)
        if found is None:
            self._by_threshold.keep(threshold, found := _FromPriority(threshold))
        found.follow(cluster)
        own, pods = found.place.get(nominations.node_of.get(pod.uid) or ""), found.pods
        if own is not None:
            pods = list(pods)
            pods[own] = [other for other in pods[own] if other.uid != pod.uid]
        return NominatedNodes(found.rows, pods, found, own) if len(found.rows) else None

    def short(self, pod: Pod, cluster: Cluster, nodes: NominatedNodes) -> Bools:
        """Return bool[len(nodes.rows)]: the nodes with too little left for the pod of what filters count."""
        plugins = [plugin for plugin in self._counting if "filter" not in plugin.skips(pod.shape)]
        if not plugins:
            return np.zeros(len(nodes.rows), dtype=np.bool_)
        taken = self._taken(plugins, pod, cluster, nodes.found)
        if nodes.own is not None:
            taken = taken.copy()
            taken[:, nodes.own] = self._sums(plugins, pod, nodes.pods[nodes.own], {})
        needs = np.array([need for plugin in plugins for need in self._ask(plugin, plugin.needs, pod)], dtype=np.int64)
        free = np.concatenate(
            [self._ask(plugin, plugin.free, pod, cluster.nodes, nodes.rows) for plugin in plugins], dtype=np.int64
        )
        short: Bools = np.any(free - taken < needs[:, np.newaxis], axis=0)
        return short

    def _taken(self, plugins: list[Any], pod: Pod, cluster: Cluster, found: _FromPriority) -> Ints:
        """Return int64[needs, nodes with nominated pods]: the amounts that these take; do not change it."""
        kind = tuple([(plugin.name, self._ask(plugin, plugin.counted, pod.shape)) for plugin in plugins])
        taken = found.taken.recall(kind)
        if taken is None:
            taken = _Taken(self._sums)
            if not pod.shape.heavy:
                found.taken.keep(kind, taken)
        taken.renew((found.computed,), cluster.nominations.log, (plugins, pod, found))
        return taken.amounts

    def _sums(self, plugins: list[Any], pod: Pod, others: Iterable[Pod], known: dict[PodShape, list[int]]) -> list[int]:
        """Return what others take of each thing that a pod needs."""
        sums: list[int] | None = None
        for other in others:
            takes = known.get(other.shape)
            if takes is None:
                amounts = (self._ask(plugin, plugin.takes, pod, other.shape) for plugin in plugins)
                takes = known[other.shape] = [max(amount, 0) for some in amounts for amount in some]
            sums = takes if sums is None else [capped(a + b) for a, b in zip(sums, takes, strict=True)]
        return [0] * sum(len(self._ask(plugin, plugin.needs, pod)) for plugin in plugins) if sums is None else sums


class FilterPlugins:
    """A profile's filters, in the order in which they run."""

    def __init__(self, profile: Profile, guard: Guard) -> None:
        self.plugins = plugins = profile.plugins("filter")
        self._ask = guard
        self._declared = [(plugin, declared(plugin)) for plugin in plugins]
        counting = [plugin for plugin, its in self._declared if its.counts]
        self._nominated = NominatedPods(counting, guard)
        self._by_pods = [
            its
            for plugin, its in self._declared
            if its.depends_on & PODS_HERE and not its.counts and (its.on_node or isinstance(plugin, Foreign))
        ]
        """The filters that do not say what they count: they may look at the pods of a node."""
        self.go_by_usage = not self._by_pods
        """Filters go by what the pods of a node use, volumes included."""
        counts = [its.counts for _, its in self._declared]
        self._counting_first = not any(
            its.may_look_elsewhere and any(counts[i:]) for i, (_, its) in enumerate(self._declared)
        )
        """Every filter that counts comes before all filters that may look beyond one node."""

    def run(
        self,
        pod: Pod,
        cluster: Cluster,
        among: Bools,
        *,
        trying: bool = False,
        removed: RemovedPods | None = None,
    ) -> tuple[Bools, list[Rejected]]:
        """Return the rows of `among` that pass, and which plugin was the first to reject each other one.

        `trying`: in a dry run, a node that a plugin fails on is only no candidate. `removed`: pods that are gone from
        the rows of `among`, for plugins that can tell what this changes. Raises PluginError.
        """
        alive, rejected = among, []
        for plugin, its in self._declared:
            found: Rejections
            if removed is not None and "filter_removed" in its.methods:
                found = self._ask(plugin, plugin.filter_removed, pod, cluster, removed)
            else:
                found = self._ask(plugin, plugin.filter, pod, cluster)
            if not found:
                continue
            reasons: list[tuple[Reason, Bools]] = []
            survivors = alive
            for reason, mask in found:
                here = mask & alive
                if np.count_nonzero(here):
                    if reason.broken and not trying:
                        raise PluginError(plugin.name, reason.text_on(int(here.argmax())), "Filter")
                    survivors = survivors & ~here
                    reasons.append((reason, here))
            if reasons:
                rejected.append(Rejected(plugin.name, reasons))
                alive = survivors
                if not alive.any():
                    break
        return alive, rejected

    def passing(
        self,
        pod: Pod,
        cluster: Cluster,
        among: Bools,
        *,
        trying: bool = False,
        removed: RemovedPods | None = None,
    ) -> tuple[Bools, list[Rejected]]:
        """Ask the filters as `run` does, with nominated pods taken into account.

        A node for which pods of equal or higher priority are nominated has to pass with these pods and without them.
        """
        passed, rejected = self.run(pod, cluster, among, trying=trying, removed=removed)
        if not cluster.nominations:
            return passed, rejected
        nominated = self._nominated.before(pod, cluster)
        if nominated is None:
            return passed, rejected
        here = among[nominated.rows] & nominated.for_others
        here &= ~self._by_node_alone(rejected, len(among))[nominated.rows]
        if not here.any():
            return passed, rejected
        ahead = {int(nominated.rows[i]): nominated.pods[i] for i in np.flatnonzero(here).tolist()}
        attempts = [(list(ahead), self.go_by_usage and self.goes_by_shape(pod))]
        if self.affected_by(pod, cluster, [other for pods in ahead.values() for other in pods]):
            # One row after the other, except where the amounts alone reject the row.
            short = here & self._nominated.short(pod, cluster, nominated) if self._counting_first else here & False
            attempts = [([row], False) for row in nominated.rows[here & ~short].tolist()]
            if short.any():
                attempts.append((nominated.rows[short].tolist(), True))
        for rows, usage_only in attempts:
            mask = np.zeros(len(among), dtype=np.bool_)
            mask[rows] = True
            with cluster.supposing(((other, row) for row in rows for other in ahead[row]), usage_only=usage_only):
                with_them, also = self.run(pod, cluster, mask, trying=trying)
            failed = mask & ~with_them
            if failed.any():
                passed = passed & ~failed
                rejected = [left for one in rejected if (left := _without(one, failed)) is not None] + also
        return passed, rejected

    def passing_removed(
        self, pod: Pod, cluster: Cluster, among: Bools, removed: RemovedPods
    ) -> tuple[Bools, list[Rejected]]:
        """Ask as `run` does, but only the filters that can tell what the removal of pods changes."""
        alive, rejected = among, []
        for plugin, its in self._declared:
            if "filter_removed" not in its.methods or self._skipped(plugin, pod.shape):
                continue
            found = self._ask(plugin, plugin.filter_removed, pod, cluster, removed)
            reasons = [(reason, here) for reason, mask in found if (here := mask & alive).any()]
            if reasons:
                rejected.append(Rejected(plugin.name, reasons))
                for _, here in reasons:
                    alive = alive & ~here
        return alive, rejected

    def _by_node_alone(self, rejected: Sequence[Rejected], rows: int) -> Bools:
        """Return the rows that the first filters reject, which look at the node only, whatever pods are there."""
        found = np.zeros(rows, dtype=np.bool_)
        by_name = {one.plugin: one for one in rejected}
        for plugin, its in self._declared:
            if not its.static:
                break
            if plugin.name in by_name:
                for _, where in by_name[plugin.name].reasons:
                    found |= where
        return found

    def yielding(self, pod: Pod, cluster: Cluster, passes: Bools) -> list[int] | None:
        """Return the rows that pass, but where the pod does not fit beside the nominated pods that come before it.

        None: that can't be decided row by row. Raises PluginError.
        """
        nominated = self._nominated.before(pod, cluster)
        if nominated is None:
            return []
        here = passes[nominated.rows] & nominated.for_others
        if not here.any():
            return []
        short = here & self._nominated.short(pod, cluster, nominated)
        found: list[int] = nominated.rows[short].tolist()
        left = np.flatnonzero(here & ~short).tolist()
        if not left:
            return found
        others = [other for i in left for other in nominated.pods[i]]
        if not self.goes_by_shape(pod) or self.affected_by(pod, cluster, others):
            return None
        if self.go_by_usage:
            return found
        if not all(its.on_node for its in self._by_pods):
            return None
        names = [plugin.name for plugin, its in self._declared if not its.static]
        ahead = ((int(nominated.rows[i]), nominated.pods[i]) for i in left)
        return found + [row for row, pods in ahead if self.rejecting(pod, row_with(cluster, row, (), pods), names)]

    def affected_by(self, pod: Pod, cluster: Cluster, others: Sequence[Pod]) -> bool:
        """Return whether any filter's verdict on some node may change when `others` are placed on another node."""
        for plugin, its in self._declared:
            if its.may_look_elsewhere:
                asks = plugin.affected_by if "affected_by" in its.methods else plugin.looks_elsewhere
                if self._ask(plugin, asks, pod, cluster, others):
                    return True
        return False

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod], *, removed: bool = False) -> bool:
        """Return whether what happens to `others` on one node may change any filter's verdict on another node.

        `removed`: leave out filters that can tell what the removal of pods changes (`Plugin.filter_removed`).
        """
        others = list(others)
        for plugin, its in self._declared:
            if removed and "filter_removed" in its.methods:
                continue
            if its.may_look_elsewhere and self._ask(plugin, plugin.looks_elsewhere, pod, cluster, others):
                return True
        return False

    def goes_by_shape(self, pod: Pod) -> bool:
        """Return whether verdicts on a node depend on the pod's shape and that node only, unless a filter looks
        elsewhere.
        """
        return not pod.node_name and all(
            its.on_node_unless_elsewhere or self._skipped(plugin, pod.shape) for plugin, its in self._declared
        )

    def spare(self, pod: Pod, cluster: Cluster) -> Spare:
        """Return what each node has left of everything that filters count: preemption finds victims
        by these amounts.
        """
        plain, counting = [], []
        exact = True
        for plugin, its in self._declared:
            if self._skipped(plugin, pod.shape):
                continue
            if its.static:
                plain.append(plugin)
            elif its.counts:
                counting.append(plugin)
            elif not its.static_unless_elsewhere:
                exact = False
            elif not self._ask(plugin, plugin.looks_elsewhere, pod, cluster, ()):
                plain.append(plugin)
        nodes = cluster.nodes
        allowed = rows_passing(plain, pod, cluster, nodes.alive[: nodes.rows], self._ask)
        return Spare(pod, cluster, tuple(counting), allowed, self._ask, exact=exact)

    def takes(self, pod: Pod, cluster: Cluster, row: int) -> bool:
        """Return whether a row passes all filters. Filters on one node look at this row only. Raises PluginError."""
        view: Cluster | None = None
        for plugin, its in self._declared:
            if self._skipped(plugin, pod.shape):
                continue
            if its.on_node and "filter_one" in its.methods:
                if not self._ask(plugin, plugin.filter_one, pod, cluster.nodes, row):
                    return False
                continue
            if its.on_node:
                view = some_rows(cluster, np.array([row])) if view is None else view
            where, here = (view, 0) if its.on_node else (cluster, row)
            if any(rejected[here] for _, rejected in self._ask(plugin, plugin.filter, pod, where)):
                return False
        return True

    def rejecting(self, pod: Pod, view: Cluster, plugins: Collection[str] | None = None) -> str | None:
        """Return the first filter that rejects the only row of a view, among those that look at one node at a time.

        `plugins`: the names of those that are asked; None: all. Raises PluginError.
        """
        for plugin, its in self._declared:
            if (plugins is not None and plugin.name not in plugins) or not its.on_node:
                continue
            name: str = plugin.name
            if "filter_one" in its.methods:
                if not self._ask(plugin, plugin.filter_one, pod, view.nodes, 0):
                    return name
            elif any(rejected[0] for _, rejected in self._ask(plugin, plugin.filter, pod, view)):
                return name
        return None

    def on_node(self) -> frozenset[str]:
        """Return the names of the filters that look at one node at a time."""
        return frozenset(plugin.name for plugin, its in self._declared if its.on_node)

    @staticmethod
    def _skipped(plugin: Any, shape: PodShape) -> bool:
        return "filter" in plugin.skips(shape)


def _without(rejected: Rejected, rows: Bools) -> Rejected | None:
    """Return the same rejections without those of some rows; None: there are no others."""
    left = [(reason, where) for reason, before in rejected.reasons if (where := before & ~rows).any()]
    return Rejected(rejected.plugin, left) if left else None
