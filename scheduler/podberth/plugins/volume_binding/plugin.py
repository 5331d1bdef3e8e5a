"""Upstream: plugins/volumebinding (volume_binding.go, scorer.go). What it finds and assumes is in binder.py."""

from collections.abc import Collection
from typing import Any, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.volumes import Storage
from podberth.framework.binding import AssumedPod, Wait
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, NO_POINTS, NODE, SKIPPABLE, VOLUMES, OtherObject, Plugin
from podberth.framework.status import PluginError, Reject, Rejections, Unresolvable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from podberth.model.volumes import NO_VOLUMES
from podberth.plugins.node_volume_limits import not_owner
from podberth.plugins.shape_score import ShapePoint, broken_linear, check_shape
from podberth.plugins.volume_binding.binder import (
    NONE,
    AssumedVolumes,
    Claims,
    Found,
    MatchingError,
    assume,
    claims_of,
    find,
    restore,
    still_unbound,
)


class VolumeBindingArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """A limit on the time of binding, and a shape that makes a score of the share of storage that is asked for."""

    bind_timeout_seconds: int = 600
    """Seconds that a pod waits for its claims to be bound."""
    shape: list[ShapePoint] = []
    """The score by the share of a volume's capacity that is requested; empty: 0 percent give 10 points and 100 give
    0."""

    def defaulted(self) -> Self:
        """Return a copy with the shape that stands for none: the less of a volume's room is asked for, the better."""
        return replace(self, shape=self.shape or [ShapePoint(0, 10), ShapePoint(100, 0)])


class VolumeBinding(Plugin):
    """Keep a pod where its volumes can be: bound ones are reachable, others are there to bind or can be made."""

    name = "VolumeBinding"
    depends_on = NODE | VOLUMES
    Args = VolumeBindingArgs
    events = (
        ClusterEvent.STORAGE_CLASS
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
        | ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.CSI_NODE
        | ClusterEvent.CSI_DRIVER_UPDATED
        | ClusterEvent.CSI_CAPACITY
    )
    unbound = Unresolvable("pod has unbound immediate PersistentVolumeClaims")
    unreachable = Unresolvable("node(s) didn't match PersistentVolume's node affinity")
    unmatched = Unresolvable("node(s) didn't find available persistent volumes to bind")
    full = Unresolvable("node(s) did not have enough free storage")
    lost = Unresolvable("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")

    def __init__(self, args: VolumeBindingArgs) -> None:
        self._found: tuple[Pod, tuple[Storage, int, int, int], Found] | None = None
        self._timeout = float(args.bind_timeout_seconds)
        self._shape = [(point.utilization, point.score * (MAX_SCORE // 10)) for point in args.defaulted().shape]

    @staticmethod
    def check(args: VolumeBindingArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateVolumeBindingArgs)."""
        errors = check_shape(args.shape, f"{path}.shape") if args.shape else []
        if args.bind_timeout_seconds < 0:
            errors.insert(
                0,
                f"{path}.bindTimeoutSeconds: Invalid value: {args.bind_timeout_seconds}: "
                "invalid BindTimeoutSeconds, should not be a negative value",
            )
        return errors

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods without volumes."""
        return SKIPPABLE if shape.volumes is NO_VOLUMES else NO_POINTS

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose claims are not there, not its own, on their way out, or for others to bind."""
        if not pod.shape.volumes.claims:
            return None
        problem = _problem(pod, cluster)
        if problem is not None:
            return Reject(Unresolvable(problem))
        return Reject(self.unbound) if self._claims(pod, cluster).immediate else None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that can't reach a bound volume, and those where an unbound claim finds none."""
        if not pod.shape.volumes.claims:
            return ()
        found = self.find(pod, cluster)
        return (
            (self.unreachable, found.unreachable),
            (self.unmatched, found.unmatched),
            (self.full, found.full),
            (self.lost, found.lost),
        )

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int | None:
        """Score by how much of the volumes, or of the room for them, the claims ask for: mean over storage classes."""
        if not pod.shape.volumes.claims:
            return None
        found = self.find(pod, cluster)
        if not found.static_bindings and not found.dynamic_provisions:
            return 0
        usage = _Usage(len(feasible))
        static = np.zeros(len(feasible), dtype=np.bool_)
        for binding in found.static_bindings:
            chosen = binding.chosen[feasible]
            static |= chosen != NONE
            sizes = np.array([*(volume.size for volume in binding.volumes), 0], dtype=np.int64)[chosen]
            classes = sorted({volume.spec_class for volume in binding.volumes})
            codes = np.array([*(classes.index(volume.spec_class) for volume in binding.volumes), NONE])[chosen]
            for code, name in enumerate(classes):
                rows = codes == code
                usage.add(name, rows, binding.claim.size, sizes)
        # Volumes that are to be made count only on nodes where none is there already.
        for provision in found.dynamic_provisions:
            room = provision.room[feasible]
            rows = provision.rows[feasible] & ~static & (room != NONE)
            usage.make(provision.claim.spec_class, rows, provision.claim.size, room)
        return usage.score(self._shape)

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """Any volume, a claim of the pod, and what of classes, drivers and nodes lets volumes be made elsewhere."""
        match new:
            case PersistentVolumeClaim():
                names = (used.claim(pod.name) for used in pod.shape.volumes.claims)
                return new.namespace == pod.namespace and new.name in names
            case StorageClass():
                return not isinstance(old, StorageClass) or old.topologies != new.topologies
            case CSINode():
                return not isinstance(old, CSINode) or old.migrated != new.migrated
            case CSIDriver():
                return isinstance(old, CSIDriver) and old.storage_capacity and not new.storage_capacity
            case CSIStorageCapacity():
                if not isinstance(old, CSIStorageCapacity):
                    return True
                return new.limit is not None and (old.limit is None or new.limit > old.limit)
        return True

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> AssumedVolumes | None:
        """Take the volumes, and the claims to provision for, before the next pod is decided."""
        if not pod.shape.volumes.claims:
            return None
        return assume(self.find(pod, cluster), cluster, row) or None

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> None:
        """Give back what was not written."""
        if assumed.reserved is not None:
            restore(assumed.reserved, assumed.written, cluster.storage)

    def pre_bind(self, assumed: AssumedPod, cluster: Cluster) -> Wait | None:
        """Write claimRefs and selected nodes, then wait until the claims are bound."""
        taken: AssumedVolumes | None = assumed.reserved
        if taken is None:
            return None
        if taken.writes and not taken.asked:
            taken.asked = True
            return Wait(self._timeout, taken.writes, note=str(taken))
        try:
            wanted = still_unbound(assumed, cluster)
        except MatchingError as error:
            raise PluginError(self.name, f"binding volumes: {error}", "PreBind") from None
        expired = "binding volumes: context deadline exceeded"
        return Wait(self._timeout, on=wanted, expired=expired) if wanted else None

    def _claims(self, pod: Pod, cluster: Cluster) -> Claims:
        try:
            return claims_of(pod, cluster)
        except MatchingError as error:
            raise PluginError(self.name, str(error)) from None

    def find(self, pod: Pod, cluster: Cluster) -> Found:
        """Return what was found last, if it was for this pod and nothing has changed since: Filter, Score and Reserve
        ask.
        """
        storage, nodes = cluster.storage, cluster.nodes
        state = (storage, storage.version, nodes.label_changes, nodes.rows)
        if self._found is None or self._found[0] is not pod or self._found[1] != state:
            try:
                self._found = (pod, state, find(pod, cluster))
            except MatchingError as error:
                raise PluginError(self.name, str(error)) from None
        return self._found[2]


def _problem(pod: Pod, cluster: Cluster) -> str | None:
    """Return what is wrong with the first claim that can't be used (podHasPVCs)."""
    for used in pod.shape.volumes.claims:
        name = used.claim(pod.name)
        claim = cluster.storage.claims.stored((pod.namespace, name))
        if claim is None and used.ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.lost:
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        if claim.terminating:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if used.ephemeral and claim.owner != pod.uid:
            return not_owner(claim, pod)
    return None


class _Usage:
    """Bytes asked for and bytes there, by storage class and row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._classes: dict[str, tuple[Bools, Ints, Ints]] = {}

    def add(self, storage_class: str, rows: Bools, asked: int, there: Ints) -> None:
        """Volumes of these sizes, by row, serve a claim on these rows."""
        present, requested, capacity = self._of(storage_class)
        present |= rows
        requested[rows] += asked
        capacity[rows] += there[rows]

    def make(self, storage_class: str, rows: Bools, asked: int, room: Ints) -> None:
        """A volume is made out of the room on these rows, which all volumes of the class share."""
        present, requested, capacity = self._of(storage_class)
        present |= rows
        requested[rows] += asked
        capacity[rows] = room[rows]

    def score(self, shape: list[tuple[int, int]]) -> Ints:
        """The mean over the classes of each row, rounded half up (buildScorerFunction)."""
        total = np.zeros(self._rows, dtype=np.int64)
        count = np.zeros(self._rows, dtype=np.int64)
        for present, requested, capacity in self._classes.values():
            # Beyond 100, shapes are flat; and 100 times what many claims ask for may be more than an int64 holds.
            utilization = np.minimum(requested, capacity) * 100 // np.maximum(capacity, 1)
            utilization[capacity == 0] = 100
            total += np.where(present, broken_linear(utilization, shape), 0)
            count += present
        mean: Ints = (2 * total + count) // (2 * np.maximum(count, 1))
        return mean

    def _of(self, storage_class: str) -> tuple[Bools, Ints, Ints]:
        found = self._classes.get(storage_class)
        if found is None:
            zeros = np.zeros(self._rows, dtype=np.int64)
            found = self._classes[storage_class] = (np.zeros(self._rows, dtype=np.bool_), zeros, zeros.copy())
        return found
