"""Storage objects, the disks and claims that placed pods use, and the volumes that are attached to each node.

Mirrors the listers and indexes behind kube-scheduler `plugins/{volumerestrictions,volumebinding,volumezone}`, and what
`plugins/nodevolumelimits/csi.go` gathers per node and decision.
"""

import copy
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np

from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.model.metadata import ClusterScoped, Namespaced
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
from podberth.model.volumes import DRIVERS, NOT_TRANSLATED, Disk, DiskKey, Translated

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing", bound=ClusterScoped | Namespaced)


class Assumed(Generic[Key, Thing]):
    """Objects as the API has them, and our own versions of some of them that the API does not show yet.

    By key: a name, or (namespace, name). An assumption ends when the API shows another version. Mirrors kube-scheduler
    `plugins/volumebinding/passive_assume_cache.go`.
    """

    def __init__(self) -> None:
        self._stored: dict[Key, Thing] = {}
        self._assumed: dict[Key, Thing] = {}

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[Thing]:
        return iter(self._stored.values())

    def get(self, key: Key) -> Thing | None:
        """Return the assumed version, if there is one, else what the API has."""
        found = self._assumed.get(key)
        return self._stored.get(key) if found is None else found

    def stored(self, key: Key) -> Thing | None:
        """Return the object as the API has it."""
        return self._stored.get(key)

    @property
    def assumed(self) -> Mapping[Key, Thing]:
        """The assumed versions."""
        return self._assumed

    def put(self, key: Key, thing: Thing) -> Thing | None:
        """Add or update an object; return what the API had before."""
        old = self._stored.get(key)
        self._stored[key] = thing
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version != thing.resource_version:
            del self._assumed[key]
        return old

    def drop(self, key: Key) -> Thing | None:
        """Remove an object; return what the API had."""
        self._assumed.pop(key, None)
        return self._stored.pop(key, None)

    def assume(self, key: Key, thing: Thing) -> None:
        """Show our own version, which has to be made from the API's latest, until the API has a newer one."""
        self._assumed[key] = thing

    def restore(self, key: Key, resource_version: str) -> None:
        """Show the API's version again, unless what is assumed was made from another version than this."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version == resource_version:
            del self._assumed[key]


UNLIMITED = -1
NOT_INSTALLED = -2


class Numbers:
    """One number for each row, `default` where none was set."""

    __slots__ = ("_default", "_values")

    def __init__(self, default: int = 0) -> None:
        self._default = default
        self._values: Ints = np.full(64, default, dtype=np.int64)

    def set(self, row: int, value: int) -> None:
        """Write one row."""
        self._grow(row + 1)
        self._values[row] = value

    def of(self, rows: int) -> Ints:
        """Return int64[rows]."""
        self._grow(rows)
        return self._values[:rows]

    def _grow(self, rows: int) -> None:
        if rows > len(self._values):
            grown = np.full(2 * rows, self._default, dtype=np.int64)
            grown[: len(self._values)] = self._values
            self._values = grown


class _Counted:
    """The counts of a row: volumes of its pods, and volumes per driver with VolumeAttachments."""

    __slots__ = ("drivers", "volumes")

    def __init__(self, volumes: dict[str, str], drivers: Counter[str]) -> None:
        self.volumes = volumes
        self.drivers = drivers


class Attachments:
    """CSI volumes attached to each node, counted per driver, and how many each node can attach.

    A volume is `driver/handle`. A row is counted again only after something on it changed: its pods, their claims and
    volumes, its attachments or its CSINode.
    """

    def __init__(
        self,
        nodes: Nodes,
        volumes: Assumed[str, PersistentVolume],
        claims: Assumed[ClaimKey, PersistentVolumeClaim],
        classes: dict[str, StorageClass],
    ) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._claims = claims
        self._classes = classes
        self._has_csi_node = Numbers()
        self._limits: dict[str, Numbers] = {}
        self._migrated: dict[str, Numbers] = {}
        self._written: dict[int, CSINode] = {}
        self._pods: dict[int, dict[str, Pod]] = {}
        self._claim_rows: dict[ClaimKey, dict[int, int]] = {}
        self._made_for: dict[ClaimKey, dict[int, int]] = {}
        """The rows of pods that count a claim only if it was made for them; a table like `_claim_rows`."""
        self._claims_of: dict[str, set[ClaimKey]] = {}
        self._on_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._of_volume: dict[str, dict[str, VolumeAttachment]] = {}
        self._stale: set[int] = set()
        self._counted: dict[int, _Counted] = {}
        self._counts: dict[str, Numbers] = {}
        self._holders: dict[str, set[int]] = {}

    def follow(self, nodes: Nodes) -> None:
        """Look at these nodes from now on; they are the same on the same rows."""
        self._nodes = nodes

    def without_pods(self, nodes: Nodes) -> "Attachments":
        """Return the attachments of these nodes, which are on the same rows, without the volumes that their pods
        use.
        """
        made = copy.copy(self)
        made._nodes, made._pods, made._claim_rows, made._made_for = nodes, {}, {}, {}  # noqa: SLF001 (of another Attachments)
        made._counted, made._counts, made._holders = {}, {}, {}  # noqa: SLF001
        rows = (self._nodes.row_of(name) for name in self._on_node)
        made._stale = {row for row in rows if row is not None}  # noqa: SLF001
        return made

    def with_csi_node(self) -> Bools:
        """Return the rows that have a CSINode."""
        return self._has_csi_node.of(self._nodes.rows) > 0

    def limits(self, driver: str) -> Ints:
        """Return the number of volumes of a driver that each row can attach, or UNLIMITED, or NOT_INSTALLED."""
        found = self._limits.get(driver)
        return np.full(self._nodes.rows, NOT_INSTALLED) if found is None else found.of(self._nodes.rows)

    def migrated(self, plugin: str) -> Bools:
        """Return the rows whose CSINode says that the CSI driver took an in-tree plugin over."""
        found = self._migrated.get(plugin)
        return np.zeros(self._nodes.rows, dtype=np.bool_) if found is None else found.of(self._nodes.rows) > 0

    def counts(self, driver: str) -> Ints:
        """Return the number of volumes of a driver that each row has attached."""
        self._refresh()
        found = self._counts.get(driver)
        return np.zeros(self._nodes.rows, dtype=np.int64) if found is None else found.of(self._nodes.rows)

    def holders(self, volume: str) -> set[int]:
        """Return the rows on which a pod uses a volume."""
        self._refresh()
        return self._holders.get(volume, set())

    def of_claim(self, claim: PersistentVolumeClaim, *, with_csi_node: bool) -> tuple[str, str] | None:
        """Return (volume, driver) of a claim on nodes with or without a CSINode; None: it does not count there."""
        volume = self._volumes.stored(claim.volume_name) if claim.volume_name else None
        if volume is None:
            return self._of_class(claim, with_csi_node=with_csi_node)
        if volume.translated is not None:
            return of_translated(volume.translated) if with_csi_node else None
        return (f"{volume.driver}/{volume.handle}", volume.driver) if volume.driver and volume.handle else None

    def put_csi_node(self, name: str, csi_node: CSINode | None) -> None:
        """Bring a live row up to date with its CSINode (None: it has none)."""
        row = self._nodes.live_row(name)
        if row is None:
            return
        old = self._written.pop(row, None)
        for driver in old.drivers if old is not None else ():
            self._limits[driver].set(row, NOT_INSTALLED)
        for plugin in old.migrated if old is not None else ():
            self._migrated[plugin].set(row, 0)
        self._has_csi_node.set(row, int(csi_node is not None))
        if csi_node is not None:
            self._written[row] = csi_node
            for driver, limit in csi_node.drivers.items():
                numbers = self._limits.setdefault(driver, Numbers(NOT_INSTALLED))
                numbers.set(row, UNLIMITED if limit is None else limit)
            for plugin in csi_node.migrated:
                self._migrated.setdefault(plugin, Numbers()).set(row, 1)
        if (old is None) != (csi_node is None):
            self._stale.add(row)

    def node_changed(self, row: int) -> None:
        """Note that a node came to, or is about to leave, a row."""
        self._stale.add(row)

    def charge(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod with attachable volumes that came to (sign 1) or left (sign -1) a row."""
        volumes = pod.shape.volumes
        pods = self._pods.setdefault(row, {})
        if sign > 0:
            pods[pod.uid] = pod
        else:
            del pods[pod.uid]
            if not pods:
                del self._pods[row]
        for used in volumes.claims:
            if used.ephemeral:
                key = (pod.namespace, used.claim(pod.name))
                _count(self._claim_rows, key, row, sign)
                _count(self._made_for, key, row, sign)
            else:
                _count(self._claim_rows, (pod.namespace, used.name), row, sign)
        self._stale.add(row)

    def claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """Note that a claim came, changed or went, and count its nodes again if it counts there.

        Thousands of pods may share a claim, whose owner its tenant may change again and again.
        """
        if old is None or new is None or _counts_as(old) != _counts_as(new):
            for claim in filter(None, (old, new)):
                self._stale.update(self._claim_rows.get(claim.key, ()))
        elif old.owner != new.owner:
            self._stale.update(self._made_for.get(new.key, ()))
        if old is not None and old.volume_name:
            found = self._claims_of[old.volume_name]
            found.discard(old.key)
            if not found:
                del self._claims_of[old.volume_name]
        if new is not None and new.volume_name:
            self._claims_of.setdefault(new.volume_name, set()).add(new.key)

    def volume_changed(self, name: str) -> None:
        """Note that a volume came, changed or went."""
        for key in self._claims_of.get(name, ()):
            self._stale.update(self._claim_rows.get(key, ()))
        for attachment in self._of_volume.get(name, {}).values():
            self._touch(attachment.node)

    def class_changed(self) -> None:
        """Note that a storage class came, changed or went: claims without a volume count by their class."""
        self._stale.update(self._pods)

    def attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """Note that an attachment came, changed or went."""
        if old is not None:
            _remove(self._on_node, old.node, old.name)
            _remove(self._of_volume, old.volume, old.name)
            self._touch(old.node)
        if new is not None:
            self._on_node.setdefault(new.node, {})[new.name] = new
            self._of_volume.setdefault(new.volume, {})[new.name] = new
            self._touch(new.node)

    def _touch(self, node: str) -> None:
        row = self._nodes.row_of(node)
        if row is not None:
            self._stale.add(row)

    def _refresh(self) -> None:
        while self._stale:
            row = self._stale.pop()
            self._forget(row)
            if row < self._nodes.rows and self._nodes.alive[row]:
                self._count(row)

    def _forget(self, row: int) -> None:
        counted = self._counted.pop(row, None)
        if counted is None:
            return
        for volume in counted.volumes:
            rows = self._holders[volume]
            rows.discard(row)
            if not rows:
                del self._holders[volume]
        for driver in counted.drivers:
            self._counts[driver].set(row, 0)

    def _count(self, row: int) -> None:
        volumes: dict[str, str] = {}
        with_csi_node = row in self._written
        for pod in self._pods.get(row, {}).values():
            volumes.update(self.of_pod(pod, with_csi_node=with_csi_node))
        drivers = Counter(volumes.values())
        attached = self._attached(self._nodes.names[row] or "")
        drivers.update(driver for volume, driver in attached.items() if volume not in volumes)
        if not drivers:
            return
        self._counted[row] = _Counted(volumes, drivers)
        for volume in volumes:
            self._holders.setdefault(volume, set()).add(row)
        for driver, count in drivers.items():
            self._counts.setdefault(driver, Numbers()).set(row, count)

    def of_pod(self, pod: Pod, *, with_csi_node: bool) -> dict[str, str]:
        """Return volume → driver of a placed pod; claims that are not there, or another pod's, don't count."""
        volumes = pod.shape.volumes
        found: dict[str, str] = {}
        for used in volumes.claims:
            claim = self._claims.stored((pod.namespace, used.claim(pod.name)))
            if claim is None or (used.ephemeral and claim.owner != pod.uid):
                continue
            counted = self.of_claim(claim, with_csi_node=with_csi_node)
            if counted is not None:
                found[counted[0]] = counted[1]
        if with_csi_node:
            found.update(filter(None, (of_translated(disk) for _, disk in volumes.translated)))
        return found

    def _attached(self, node: str) -> dict[str, str]:
        """Return volume → driver of a node's VolumeAttachments (getNodeVolumeAttachmentInfo)."""
        found = {}
        for attachment in self._on_node.get(node, {}).values():
            volume = self._volumes.stored(attachment.volume) if attachment.attacher and attachment.volume else None
            if volume is not None and volume.driver:
                found[f"{attachment.attacher}/{volume.handle}"] = attachment.attacher
        return found

    def _of_class(self, claim: PersistentVolumeClaim, *, with_csi_node: bool) -> tuple[str, str] | None:
        """Return the volume and driver of a claim whose volume is still to be made: it counts under the claim's
        name.
        """
        found = self._classes.get(claim.storage_class) if claim.storage_class else None
        if found is None or found.provisioner in NOT_TRANSLATED:
            return None
        driver = found.provisioner
        if driver in DRIVERS:
            if not with_csi_node:
                return None
            driver = DRIVERS[driver]
        # No handle of a real volume begins like this.
        return (f"{driver}/\0{claim}", driver) if driver else None


def _counts_as(claim: PersistentVolumeClaim) -> tuple[ClaimKey, str, str]:
    """Return the fields of a claim that say which volume it is."""
    return claim.key, claim.volume_name, claim.storage_class


def of_translated(disk: Translated) -> tuple[str, str] | None:
    """Return (volume, driver) of an in-tree disk that its CSI driver attaches; None: it can't be translated."""
    if disk.problem is not None or not disk.handle:
        return None
    return f"{disk.driver}/{disk.handle}", disk.driver


def _count(counted: dict[ClaimKey, dict[int, int]], key: ClaimKey, row: int, sign: int) -> None:
    """Count one more use of a claim on a row, or one fewer."""
    rows = counted.get(key)
    if rows is None:
        counted[key] = {row: sign}
        return
    times = rows.get(row, 0) + sign
    if times:
        rows[row] = times
        return
    del rows[row]
    if not rows:
        del counted[key]


def _remove(index: dict[str, dict[str, VolumeAttachment]], key: str, name: str) -> None:
    found = index[key]
    del found[name]
    if not found:
        del index[key]


class _Users:
    """The users of a disk on one row."""

    __slots__ = ("exclusive", "shared")

    def __init__(self) -> None:
        self.shared = 0
        self.exclusive = 0


class Storage:
    """The storage objects with their indexes. Volumes and claims may be assumed."""

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
        """Return the same objects, for a dry run on these nodes, with no pod that uses any of them."""
        made = copy.copy(self)
        made._references, made._supposed, made._disks = Counter(), Counter(), {}  # noqa: SLF001 (of another Storage)
        made._nodes, made.attached = nodes, self.attached.without_pods(nodes)  # noqa: SLF001
        return made

    def volumes_of_class(self, name: str) -> list[PersistentVolume]:
        """Return the volumes that claims of a class may bind to, as assumed where they are."""
        found = (self.volumes.get(volume) for volume in self._by_class.get(name, ()))
        return [volume for volume in found if volume is not None]

    def capacities(self, storage_class: str) -> Collection[CSIStorageCapacity]:
        """Return the capacities that CSI drivers publish for a class."""
        return self._capacities.get(storage_class, {}).values()

    def in_use(self, claim: ClaimKey) -> bool:
        """Return whether any placed pod names a claim (IsPVCUsedByPods); claims made for a pod don't count."""
        return self._references[claim] > 0

    def supposed_users(self, claim: str) -> int:
        """Return by how many users a dry run changes claims of a name, whatever their namespace."""
        return self._supposed[claim]

    def conflicts(self, disks: Iterable[Disk]) -> Bools:
        """Return bool[rows] where a placed pod uses one of the disks in a way that excludes sharing."""
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
                capacity = self._drop_capacity(thing.key)
                self._class_of_capacity[thing.key] = thing.storage_class
                self._capacities.setdefault(thing.storage_class, {})[thing.key] = thing
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
        """Show our own version of a volume until the API has a newer one."""
        self.volumes.assume(volume.name, volume)
        self.version += 1

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Take an assumption back."""
        self.volumes.restore(volume.name, volume.resource_version)
        self.version += 1

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Show our own version of a claim until the API has a newer one."""
        self.claims.assume(claim.key, claim)
        self.version += 1

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take an assumption back."""
        self.claims.restore(claim.key, claim.resource_version)
        self.version += 1

    def node_came(self, name: str, row: int) -> None:
        """Note that a node object was put on a row."""
        self.attached.node_changed(row)
        self.attached.put_csi_node(name, self.csi_nodes.get(name))

    def node_goes(self, name: str, row: int) -> None:
        """Note that a node object is about to leave its row."""
        self.attached.put_csi_node(name, None)
        self.attached.node_changed(row)

    def place(self, pod: Pod, row: int, sign: int) -> None:
        """Count a placed pod that has volumes (sign 1), or take it back (-1)."""
        self._charge(pod, row, sign)
        for used in pod.shape.volumes.claims:
            if not used.ephemeral:
                key = (pod.namespace, used.name)
                times = self._references.get(key, 0) + sign
                if times:
                    self._references[key] = times
                else:
                    del self._references[key]

    def suppose(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod that has volumes in a dry run (sign 1), or take that back (-1)."""
        self._charge(pod, row, sign)
        for used in pod.shape.volumes.claims:
            if not used.ephemeral:
                self._supposed[used.name] += sign
                if not self._supposed[used.name]:
                    del self._supposed[used.name]

    @property
    def references(self) -> Mapping[ClaimKey, int]:
        """Return the number of times that placed pods name each claim."""
        return self._references

    def _charge(self, pod: Pod, row: int, sign: int) -> None:
        volumes = pod.shape.volumes
        for disk in volumes.disks:
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
        if volumes.attachable:
            self.attached.charge(pod, row, sign)

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
