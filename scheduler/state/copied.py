"""A copy of a cluster for dry runs that take many turns: it follows the original, and pods may be left out of it.

In the cluster itself, a dry run has to put everything back before its turn ends. Here nobody else looks. Nodes, counts
and volumes are its own; everything else is the original's.
"""

from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct, field

from scheduler.model.volumes import NO_VOLUMES
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.rebuild import Rebuild

_ROWS = 16
"""How many rows are copied in one go."""
_A_ROW, _A_POD = 50, 10
"""Steps of copying a row, and each pod on it."""
_MOVED_AT_ONCE, _MOVED = 64, 10
"""How many pods are left out, or counted again, in one go; and the steps of each."""
_LOOKED_AT = 8
"""Pods in a step of which one sees whether they are left out already."""


class CopyWithVolumes(Rebuild):
    """Its storage knows the volumes of the pods that were copied: each row's are counted with the row."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._storage = cluster.storage.without_pods(self._nodes)

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


class _LeftOut(Struct, eq=False):
    """Pods that are left out together."""

    pods: Sequence[Placement] = ()
    there: dict[str, Placement] = field(default_factory=dict)
    """The pods that are left out by now, by UID."""
    complete: bool = False


class FollowingCopy(CopyWithVolumes):
    """Copied in parts, and brought up to date whenever it is asked for."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._made: Cluster | None = None
        self._namespaces = -1
        self._out: dict[Hashable, _LeftOut] = {}
        self._on_row: dict[int, dict[str, _LeftOut]] = {}
        """Row → UID → with whom a pod is left out."""
        self._steps = 0
        self._moved = 0

    def up_to_date(self) -> Cluster:
        """The copy. Raises SliceOver; asked again, it gets further."""
        cluster, effort = self._cluster, self._cluster.effort
        complete = False
        while not complete:
            complete = self.go_on(_ROWS)
            steps, self._steps = self._steps, 0
            if steps:
                effort.charge(steps)
        made = self._made
        if made is None:
            made = self._made = self.cluster()
            made.storage = self._storage
        if self._namespaces != cluster.incidence.pods.namespace_changes:
            self._namespaces = cluster.incidence.pods.namespace_changes
            made.incidence.pods.read_namespaces()
        return made

    def leave_out(self, pods: Mapping[Hashable, Sequence[Placement]]) -> None:
        """Have these pods left out, and no others: whoever goes together by one key. The same list means the same pods.

        To be called once the copy is up to date. Raises SliceOver; asked again, it gets further.
        """
        for key in [key for key in self._out if key not in pods]:
            self._put_back(self._out[key], ())
            del self._out[key]
        changed = []
        for key, together in pods.items():
            out = self._out.setdefault(key, _LeftOut())
            if not out.complete or out.pods is not together:
                self._put_back(out, together)
                changed.append(out)
        for out in changed:
            self._leave_out(out)

    def _put_back(self, out: _LeftOut, pods: Sequence[Placement]) -> None:
        """Count those again who do not go with the others any more. `pods`: who does."""
        made = self._made
        assert made is not None
        out.complete, out.pods = False, pods
        self._cluster.effort.count((len(out.there) + len(pods)) // _LOOKED_AT)
        wanted = {placement.pod.uid for placement in pods}
        for uid in [uid for uid in out.there if uid not in wanted]:
            placement = out.there.pop(uid)
            del self._on_row[placement.row][uid]
            made.put_back(placement)
            self._charge_move()

    def _leave_out(self, out: _LeftOut) -> None:
        made = self._made
        assert made is not None
        for placement in out.pods:
            uid = placement.pod.uid
            if uid not in out.there:
                made.leave_out(placement)
                out.there[uid] = placement
                self._on_row.setdefault(placement.row, {})[uid] = out
                self._charge_move()
        out.complete = True

    def _charge_move(self) -> None:
        self._moved += 1
        if self._moved == _MOVED_AT_ONCE:
            self._moved = 0
            self._cluster.effort.charge(_MOVED * _MOVED_AT_ONCE)

    def _copy(self, rows: list[int]) -> None:
        made, nodes = self._made, self._nodes
        moved: dict[int, list[str]] = {}
        for row in rows:
            for uid, out in self._on_row.pop(row, {}).items():
                assert made is not None
                made.put_back(out.there.pop(uid))
                out.complete = False
            if made is not None:
                node = self._kept.objects[row]
                moved[row] = nodes.topology_changes(row, {} if node is None else node.labels)
        super()._copy(rows)
        for row in rows:
            self._steps += _A_ROW + _A_POD * len(self._counted.get(row, ()))
        for row, keys in moved.items():
            if keys:
                self._incidence.relabel(row, keys, inhabited=True)
        if moved:
            nodes.rename(self._kept)
