"""Volumes, claims, storage classes, and what CSI drivers say of nodes: the fields that the volume plugins read.

Mirrors component-helpers `storage/volume/{helpers,pv_helpers}.go` where they derive something from one object.
They are made from bytes in `podberth.model.storage_parse`.
"""

from collections.abc import Mapping
from typing import ClassVar, get_args

from msgspec import Struct

from podberth.model.quantity import units
from podberth.model.selectors import LabelSelector, NodeSelector, Requirement
from podberth.model.volumes import Translated

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

ClaimKey = tuple[str, str]
"""(namespace, name)."""
TopologyTerms = tuple[tuple[Requirement, ...], ...]
"""ORed terms of ANDed requirements."""


class ClaimRef(Struct, gc=False, frozen=True):
    """The claim that a volume is bound to, or meant for. An empty uid: any claim of that name."""

    namespace: str
    name: str
    uid: str


class PersistentVolume(Struct, gc=False):
    """A volume. Amounts are nano-units, so that they compare exactly."""

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    storage_class: str
    """The class by which claims find it: the beta annotation before the field."""
    spec_class: str
    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    claim: ClaimRef | None
    bound_by_controller: bool
    available: bool
    released: bool
    """The claim is gone that it was bound to, and nobody gets it until its claimRef is cleared."""
    terminating: bool
    affinity: NodeSelector | None
    """Nodes that reach it; None: all."""
    driver: str
    """The CSI driver; empty for a volume of another kind."""
    handle: str
    """The CSI driver's name of the volume."""
    translated: Translated | None
    """The same volume as its CSI driver knows it, if it is an in-tree one."""
    translated_affinity: NodeSelector | None

    namespace: ClassVar[str] = ""
    """Empty: volumes are cluster-scoped."""

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def size(self) -> int:
        """Bytes, rounded up."""
        return units(self.capacity)

    def is_for(self, claim: "PersistentVolumeClaim") -> bool:
        """Return whether the volume is bound to, or reserved for, a claim (IsVolumeBoundToClaim)."""
        ref = self.claim
        if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
            return False
        return not ref.uid or ref.uid == claim.uid


class PersistentVolumeClaim(Struct, gc=False):
    """A claim."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    storage_class: str
    """The beta annotation before the field; empty: none."""
    spec_class: str
    volume_name: str
    bind_completed: bool
    selected_node: str | None
    """The node for which its volume is to be provisioned (annotation selected-node); None: not said."""
    annotated: bool
    """Has any annotation."""
    lost: bool
    terminating: bool
    access_modes: tuple[str, ...]
    requested: int | None
    """Nano-bytes; None: it does not say."""
    volume_mode: str
    attributes_class: str
    selector: LabelSelector | None
    problem: str | None
    """Why its selector can't be used."""
    owner: str
    """UID of its controller."""

    @property
    def key(self) -> ClaimKey:
        """(namespace, name)."""
        return self.namespace, self.name

    @property
    def size(self) -> int:
        """Bytes asked for, rounded up."""
        return units(self.requested or 0)

    @property
    def bound(self) -> bool:
        """Return whether binding is complete in both directions (isPVCFullyBound)."""
        return bool(self.volume_name) and self.bind_completed

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class StorageClass(Struct, gc=False):
    """A storage class."""

    name: str
    uid: str
    resource_version: str
    provisioner: str
    binding_mode: str | None
    topologies: TopologyTerms | None
    """Topologies in which volumes may be provisioned; None: all. Terms that are empty or don't parse match no node."""
    default: bool = False
    """For claims that name no class."""

    namespace: ClassVar[str] = ""
    """Empty: classes are cluster-scoped."""

    @property
    def provisions(self) -> bool:
        """Return whether volumes are made on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)


class CSINode(Struct, gc=False):
    """The CSI drivers of a node, with how many volumes each can attach (None: no limit)."""

    name: str
    uid: str
    resource_version: str
    drivers: dict[str, int | None]
    migrated: frozenset[str]
    """In-tree plugins that CSI drivers have taken over on this node."""

    namespace: ClassVar[str] = ""
    """Empty: CSINodes are cluster-scoped."""


class CSIDriver(Struct, gc=False):
    """A CSI driver's wishes to schedulers."""

    name: str
    uid: str
    resource_version: str
    storage_capacity: bool
    """Look at CSIStorageCapacity before provisioning."""
    must_be_installed: bool
    """Keep pods off nodes that don't have the driver."""

    namespace: ClassVar[str] = ""
    """Empty: CSIDrivers are cluster-scoped."""


class CSIStorageCapacity(Struct, gc=False):
    """The room that there is for volumes of a class on the nodes that `topology` selects."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    storage_class: str
    limit: int | None
    """Bytes of the largest volume: maximumVolumeSize, else the capacity; None: not known."""
    capacity: int
    topology: LabelSelector | None
    """None: reachable from nowhere."""


class VolumeAttachment(Struct, gc=False):
    """A volume that is attached to a node, or being attached."""

    name: str
    uid: str
    resource_version: str
    attacher: str
    node: str
    volume: str
    """Empty for an inline volume."""

    namespace: ClassVar[str] = ""
    """Empty: attachments are cluster-scoped."""


StorageKind = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
STORAGE_KINDS = tuple(kind.__name__ for kind in get_args(StorageKind))
