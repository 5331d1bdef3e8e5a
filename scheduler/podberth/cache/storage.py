"""Storage objects, and which placed pods use which disks and claims: what the volume plugins look at.

Mirrors the listers and indexes behind kube-scheduler `plugins/{volumerestrictions,volumebinding,volumezone}`.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from podberth.cache.assumed import Assumed
from podberth.cache.attachments import Attachments
from podberth.cache.column import Bools
from podberth.cache.nodes import Nodes
from podberth.model.pod import Pod
from podberth.model.storage import (
    ClaimKey,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageKind,
    VolumeAttachment,
)
from podberth.model.volumes import NO_VOLUMES, Disk, DiskKey


class _Users:
    """Users of a disk on one row."""

    __slots__ = ("exclusive", "shared")

    def __init__(self) -> None:
        self.shared = 0
        self.exclusive = 0


class Storage:
    """Every storage object, indexed. Volumes and claims may be assumed."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.volumes: Assumed[str, PersistentVolume] = Assumed()
        self.claims: Assumed[ClaimKey, PersistentVolumeClaim] = Assumed()
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.attachments: dict[str, VolumeAttachment] = {}
        self.attached = Attachments(nodes, self.volumes, self.claims, self.classes)
        self._capacities: dict[str, dict[ClaimKey, CSIStorageCapacity]] = {}
        self._class_of_capacity: dict[ClaimKey, str] = {}
        self._by_class: dict[str, dict[str, None]] = {}
        self._references: Counter[ClaimKey] = Counter()
        self._supposed: Counter[str] = Counter()
        self._disks: dict[DiskKey, dict[int, _Users]] = {}
        self.version = 0
        """Counts every change, assumptions included."""

    def follow(self, nodes: Nodes) -> None:
        """Look at these nodes from now on; they are the same on the same rows."""
        self._nodes = nodes
        self.attached.follow(nodes)

    def without_pods(self, nodes: Nodes) -> "Storage":
        """The same objects, for a dry run on these nodes, with no pod that uses any of them."""
        made = copy.copy(self)
        made._references, made._supposed, made._disks = Counter(), Counter(), {}  # noqa: SLF001 (of another Storage)
        made._nodes, made.attached = nodes, self.attached.without_pods(nodes)  # noqa: SLF001
        return made

    def volumes_of_class(self, name: str) -> list[PersistentVolume]:
        """Volumes that claims of a class may bind to, as assumed where they are."""
        found = (self.volumes.get(volume) for volume in self._by_class.get(name, ()))
        return [volume for volume in found if volume is not None]

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """Return what CSI drivers say of the room for a class."""
        return self._capacities.get(storage_class, {}).values()

    def in_use(self, claim: ClaimKey) -> bool:
        """Return whether any placed pod names a claim (IsPVCUsedByPods); claims made for a pod don't count."""
        return self._references[claim] > 0

    def supposed_users(self, claim: str) -> int:
        """Return how many more (or fewer) users a dry run supposes for claims of a name, whatever their namespace."""
        return self._supposed[claim]

    def conflicts(self, disks: Iterable[Disk]) -> Bools:
        """bool[rows] where a placed pod uses one of the disks in a way that excludes sharing."""
        found = np.zeros(self._nodes.rows, dtype=np.bool_)
        for disk in disks:
            for row, users in self._disks.get(disk.key, {}).items():
                if users.exclusive or disk.exclusive:
                    found[row] = True
        return found

    def put(self, thing: StorageKind) -> StorageKind | None:
        """Add or update an object; returns what was there before."""
        self.version += 1
        match thing:
            case PersistentVolume():
                return self._put_volume(thing)
            case PersistentVolumeClaim():
                claim = self.claims.put(thing.key, thing)
                self.attached.claim_changed(claim, thing)
                return claim
            case StorageClass():
                found = self.classes.get(thing.name)
                self.classes[thing.name] = thing
                if found is None or found.provisioner != thing.provisioner:
                    self.attached.class_changed()
                return found
            case CSINode():
                node = self.csi_nodes.get(thing.name)
                self.csi_nodes[thing.name] = thing
                self.attached.put_csi_node(thing.name, thing)
                return node
            case CSIDriver():
                driver = self.drivers.get(thing.name)
                self.drivers[thing.name] = thing
                return driver
            case CSIStorageCapacity():
                capacity = self._drop_capacity((thing.namespace, thing.name))
                key = (thing.namespace, thing.name)
                self._class_of_capacity[key] = thing.storage_class
                self._capacities.setdefault(thing.storage_class, {})[key] = thing
                return capacity
            case VolumeAttachment():
                attachment = self.attachments.get(thing.name)
                self.attachments[thing.name] = thing
                self.attached.attachment_changed(attachment, thing)
                return attachment

    def drop(self, kind: str, namespace: str, name: str) -> StorageKind | None:
        """Remove an object; returns what was there."""
        self.version += 1
        match kind:
            case "PersistentVolume":
                return self._drop_volume(name)
            case "PersistentVolumeClaim":
                claim = self.claims.drop((namespace, name))
                if claim is not None:
                    self.attached.claim_changed(claim, None)
                return claim
            case "StorageClass":
                found = self.classes.pop(name, None)
                self.attached.class_changed()
                return found
            case "CSINode":
                self.attached.put_csi_node(name, None)
                return self.csi_nodes.pop(name, None)
            case "CSIDriver":
                return self.drivers.pop(name, None)
            case "CSIStorageCapacity":
                return self._drop_capacity((namespace, name))
        attachment = self.attachments.pop(name, None)
        if attachment is not None:
            self.attached.attachment_changed(attachment, None)
        return attachment

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Show our own version of a volume until the API has a newer one.

        Raises OutOfSyncError.
        """
        self.volumes.assume(volume.name, volume)
        self.version += 1

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Take an assumption back."""
        self.volumes.restore(volume.name, volume.resource_version)
        self.version += 1

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Show our own version of a claim until the API has a newer one.

        Raises OutOfSyncError.
        """
        self.claims.assume(claim.key, claim)
        self.version += 1

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take an assumption back."""
        self.claims.restore(claim.key, claim.resource_version)
        self.version += 1

    def node_came(self, name: str, row: int) -> None:
        """A node object was put on a row."""
        self.attached.node_changed(row)
        self.attached.put_csi_node(name, self.csi_nodes.get(name))

    def node_goes(self, name: str, row: int) -> None:
        """A node object is about to leave its row."""
        self.attached.put_csi_node(name, None)
        self.attached.node_changed(row)

    def charge(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod's disks and volumes on a row (sign 1), or no longer (-1)."""
        volumes = pod.shape.volumes
        if volumes is NO_VOLUMES:
            return
        for disk in volumes.disks:
            self._charge_disk(disk, row, sign)
        self.attached.charge(pod, row, sign)

    def refer(self, pod: Pod, sign: int) -> None:
        """Note that a placed pod names its claims (sign 1), or no longer does (-1)."""
        for used in pod.shape.volumes.claims:
            if not used.ephemeral:
                key = (pod.namespace, used.name)
                times = self._references.get(key, 0) + sign
                if times:
                    self._references[key] = times
                else:
                    del self._references[key]

    def suppose(self, pod: Pod, sign: int) -> None:
        """A dry run supposes a pod with its claims (sign 1), or takes a supposition back (-1)."""
        for used in pod.shape.volumes.claims:
            if not used.ephemeral:
                self._supposed[used.name] += sign
                if not self._supposed[used.name]:
                    del self._supposed[used.name]

    @property
    def references(self) -> Mapping[ClaimKey, int]:
        """Return how often placed pods name each claim."""
        return self._references

    def _charge_disk(self, disk: Disk, row: int, sign: int) -> None:
        rows = self._disks.setdefault(disk.key, {})
        users = rows.setdefault(row, _Users())
        if disk.exclusive:
            users.exclusive += sign
        else:
            users.shared += sign
        if not users.exclusive and not users.shared:
            del rows[row]
            if not rows:
                del self._disks[disk.key]

    def _put_volume(self, volume: PersistentVolume) -> PersistentVolume | None:
        old = self.volumes.put(volume.name, volume)
        if old is None or old.storage_class != volume.storage_class:
            if old is not None:
                self._leave_class(old)
            self._by_class.setdefault(volume.storage_class, {})[volume.name] = None
        self.attached.volume_changed(volume.name)
        return old

    def _drop_volume(self, name: str) -> PersistentVolume | None:
        old = self.volumes.drop(name)
        if old is not None:
            self._leave_class(old)
            self.attached.volume_changed(name)
        return old

    def _leave_class(self, volume: PersistentVolume) -> None:
        found = self._by_class[volume.storage_class]
        del found[volume.name]
        if not found:
            del self._by_class[volume.storage_class]

    def _drop_capacity(self, key: ClaimKey) -> CSIStorageCapacity | None:
        storage_class = self._class_of_capacity.pop(key, None)
        if storage_class is None:
            return None
        found = self._capacities[storage_class]
        old = found.pop(key)
        if not found:
            del self._capacities[storage_class]
        return old
