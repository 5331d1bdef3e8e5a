"""Rebuilds a cluster from its objects: every column, count and index of nodes and pods, on the same rows.

The columns that are kept up to date event by event can be compared with it, or replaced by it. Storage objects,
nominations and objects with selectors are shared. It costs a few microseconds for each node and each placed pod.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from podberth.cache.affinity_counts import AffinityCounts
from podberth.cache.cluster import Cluster
from podberth.cache.kept_results import RowLog
from podberth.cache.nodes import Nodes
from podberth.cache.row_counts import let_go
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.volumes import NO_VOLUMES


def rebuilt(cluster: Cluster) -> Cluster:
    """Return a cluster with the same nodes and pods on the same rows, rebuilt from their objects.

    Changes of one cluster's nodes and pods do not show in the other.
    """
    rebuild = Rebuild(cluster)
    rebuild.go_on(cluster.nodes.rows)
    return rebuild.cluster()


class Rebuild:
    """A cluster that is being rebuilt from another one, some rows at a time, while that one changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept = cluster.nodes
        self._version = cluster.nodes.log.version
        self._left = dict.fromkeys(range(cluster.nodes.rows))
        """Rows that still have to be copied, in order."""
        self._nodes = Nodes()
        self._nodes.served = cluster.nodes.served
        self._affinity = AffinityCounts(self._nodes, cluster.namespaces)
        self._counted: dict[int, list[Pod]] = {}
        """Row → the pods that were counted there."""

    @property
    def lost(self) -> bool:
        """Return whether the original has other columns now, or has changed too much: then the rebuild has to start
        again.
        """
        kept = self._cluster.nodes
        return kept is not self._kept or kept.log.since(self._version) is None

    def go_on(self, rows: int) -> bool:
        """Copy this many rows. Return True once all rows are copied; that holds until the original changes."""
        log = self._kept.log
        if log.version != self._version:
            self._left |= dict.fromkeys(log.since(self._version) or ())
            self._version = log.version
        for row in range(self._nodes.rows, self._kept.rows):
            self._left[row] = None
            self._nodes.ensure_row(_nameless(row))
        some = list(islice(self._left, rows))
        for row in some:
            del self._left[row]
        self._copy(some)
        return not self._left

    def _copy(self, rows: list[int]) -> None:
        nodes, affinity = self._nodes, self._affinity
        alike: dict[tuple[PodShape, int, bool], tuple[Pod, list[int]]] = {}
        for row in rows:
            for pod in self._counted.pop(row, ()):
                nodes.charge(row, pod.shape, -1)
                affinity.remove(pod, row)
            node = self._kept.objects[row]
            nodes.put_labels(row, None if node is None else node.labels)
            nodes.put(row, node)
            there = self._pods_on(row)
            if there:
                self._counted[row] = there
            for pod in there:
                key = (pod.shape, id(pod.labels), pod.terminating)
                found = alike.get(key)
                if found is None:
                    alike[key] = (pod, [row])
                else:
                    found[1].append(row)
        nodes.suppose_all(((row, pod.shape) for pod, of_pods in alike.values() for row in of_pods), 1)
        for pod, of_pods in alike.values():
            for row, amount in Counter(of_pods).items():
                affinity.add(pod, row, amount)

    def end(self) -> Iterator[int]:
        """Free what was rebuilt in steps (`let_go`): to free all of it at once takes long. It can't be used
        afterwards.
        """
        yield from let_go(self._counted)
        yield from self._affinity.pods.end()

    def _pods_on(self, row: int) -> list[Pod]:
        """Return the pods that are counted on a row."""
        return self._cluster.pods_on(row)

    def cluster(self) -> Cluster:
        """Return the rebuilt cluster, once `go_on` has returned True. Call it once."""
        cluster, nodes, kept = self._cluster, self._nodes, self._kept
        nodes.rename(kept)
        self._affinity.pods.read_namespaces()
        # Readers remember versions of the original's logs. These logs start later, so every reader computes all rows.
        nodes.log = RowLog(kept.log.version + 1)
        nodes.object_log = RowLog(kept.object_log.version + 1)
        nodes.population_changes = kept.population_changes + 1
        nodes.label_changes = kept.label_changes + 1
        made = copy.copy(cluster)
        made.nodes, made.affinity = nodes, self._affinity
        made.supposed, made.supposed_leaving = {}, {}
        return made


def differing(kept: Nodes, anew: Nodes, rows: NDArray[np.intp]) -> Iterator[str]:
    """Return one line for each number of these rows that differs between the kept columns and the objects."""
    for row in map(int, rows):
        where = f"node {anew.names[row]}"
        for what in ("alive", "unschedulable", "pods", "allowed_pods"):
            yield from _told(where, what, getattr(kept, what)[row], getattr(anew, what)[row])
        for name, index in kept.resources.items():
            other = anew.resources.get(name)
            for what in ("allocatable", "requested"):
                should = 0 if other is None else getattr(anew, what)[other, row]
                yield from _told(where, f"{what} {name}", getattr(kept, what)[index, row], should)
        for index, name in enumerate(("cpu", "memory")):
            yield from _told(where, f"nonzero {name}", kept.nonzero[index, row], anew.nonzero[index, row])
        yield from _told(where, "taints", kept.taints.get(row), anew.taints.get(row))


def _told(where: str, what: str, has: object, should: object) -> Iterator[str]:
    if has != should:
        yield f"{where}: {what} kept as {has}, should be {should}"


def _nameless(row: int) -> str:
    """Return the name of a row before its real name is known."""
    return f"\0{row}"


class WithoutPods(Rebuild):
    """A cluster as it would be without some of its pods, for dry runs: the same nodes on the same rows.

    It is rebuilt some rows at a time, while the original changes. Then it stays as it is, and may be changed at will:
    nobody else looks at it.
    """

    def __init__(self, cluster: Cluster, leaves: Callable[[Pod], bool]) -> None:
        super().__init__(cluster)
        self._storage = cluster.storage.without_pods(self._nodes)
        """The storage objects, with the volumes of the copied pods: each row's are counted with the row."""
        self._leaves = leaves
        self.left_out: dict[int, list[Pod]] = {}
        """Row → the pods that leave it."""
        self.pods_copied = 0
        """The number of pods that were on the rows that the last call of `go_on` has copied."""

    def go_on(self, rows: int) -> bool:
        """Copy this many more rows, as `Rebuild.go_on` does; return True when all are copied."""
        self.pods_copied = 0
        return super().go_on(rows)

    def _copy(self, rows: list[int]) -> None:
        self._count_volumes(rows, -1)
        super()._copy(rows)
        self._count_volumes(rows, 1)
        for row in rows:
            self._storage.attached.node_changed(row)

    def _count_volumes(self, rows: list[int], sign: int) -> None:
        for row in rows:
            for pod in self._counted.get(row, ()):
                if pod.shape.volumes is not NO_VOLUMES:
                    self._storage.place(pod, row, sign)

    def _pods_on(self, row: int) -> list[Pod]:
        staying: list[Pod] = []
        leaving: list[Pod] = []
        for pod in self._cluster.pods_on(row):
            self.pods_copied += 1
            (leaving if self._leaves(pod) else staying).append(pod)
        if leaving:
            self.left_out[row] = leaving
        else:
            self.left_out.pop(row, None)
        return staying

    def cluster(self) -> Cluster:
        """Return the cluster without those pods. Pods can be assumed in it, and forgotten."""
        made = super().cluster()
        made.apart(self._storage, self._counted)
        return made
