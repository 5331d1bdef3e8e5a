"""A cluster as it would be without some of its pods, for dry runs that take many turns.

It is rebuilt from the objects, some rows at a time, while the original changes. Then it stays as it is, and may be
changed at will: nobody else looks at it.
"""

from collections.abc import Callable

from podberth.cache.cluster import Cluster
from podberth.cache.rebuild import Rebuild
from podberth.model.pod import Pod
from podberth.model.volumes import NO_VOLUMES


class WithoutPods(Rebuild):
    """The same nodes on the same rows, without the pods that leave."""

    def __init__(self, cluster: Cluster, leaves: Callable[[Pod], bool]) -> None:
        super().__init__(cluster)
        self._storage = cluster.storage.without_pods(self._nodes)
        """It knows the volumes of the pods that were copied: each row's are counted with the row."""
        self._leaves = leaves
        self.left_out: dict[int, list[Pod]] = {}
        """Row → the pods that leave it."""
        self.pods_copied = 0
        """How many pods there were on the rows that the last call of `go_on` has copied."""

    def go_on(self, rows: int) -> bool:
        """Copy so many more rows, as `Rebuild.go_on` does; True when all are copied."""
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
                    self._storage.charge(pod, row, sign)
                    self._storage.refer(pod, sign)

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
        """The cluster without those pods. Pods can be assumed in it, and forgotten."""
        made = super().cluster()
        made.apart()
        made.storage = self._storage
        return made
