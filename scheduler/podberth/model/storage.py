"""Volumes, claims, storage classes, and facts about nodes from CSI drivers: the fields that the volume plugins read.

Mirrors component-helpers `storage/volume/{helpers,pv_helpers}.go` where they derive something from one object.
`READERS` make them from an object's JSON.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from podberth.model import storage_wire, wire
from podberth.model.limits import LIMITS, Count, Limits
from podberth.model.metadata import ClusterScoped, Namespaced
from podberth.model.pod import Interner
from podberth.model.quantity import QuantityError, parse_nano, units
from podberth.model.selectors import (
    LabelSelector,
    NodeSelector,
    Requirement,
    SelectorError,
    parse_label_selector,
    parse_node_selector,
    parse_requirement,
)
from podberth.model.volumes import BETA_ZONE, ZONE, Translated, csi_affinity, translated

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_FILESYSTEM = "Filesystem"
_NO_ANNOTATIONS = storage_wire.Annotations()
_REMEMBERED_BYTES = 4096
"""Longer selectors are not worth remembering: whoever may write a volume may write a megabyte."""
_selectors = msgspec.json.Decoder(wire.NodeSelector)
_notes = msgspec.json.Decoder(storage_wire.Annotations)

ClaimKey = tuple[str, str]
"""(namespace, name)."""
TopologyTerms = tuple[tuple[Requirement, ...], ...]
"""ORed terms of ANDed requirements."""


class ClaimRef(Struct, gc=False, frozen=True):
    """The claim that a volume is bound to, or meant for. An empty uid: any claim of that name."""

    namespace: str
    name: str
    uid: str


class PersistentVolume(ClusterScoped, gc=False, frozen=True):
    """A volume. Amounts are nano-units, so that they compare exactly."""

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


class PersistentVolumeClaim(Namespaced, gc=False, frozen=True):
    """A claim."""

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
    def size(self) -> int:
        """Bytes asked for, rounded up."""
        return units(self.requested or 0)

    @property
    def bound(self) -> bool:
        """Return whether binding is complete in both directions (isPVCFullyBound)."""
        return bool(self.volume_name) and self.bind_completed


class StorageClass(ClusterScoped, gc=False, frozen=True):
    """A storage class."""

    provisioner: str
    binding_mode: str | None
    topologies: TopologyTerms | None
    """Topologies in which volumes may be provisioned; None: all. Terms that are empty or don't parse match no node."""
    default: bool = False
    """Claims that name no class get this one."""

    @property
    def provisions(self) -> bool:
        """Return whether volumes are made on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)


class CSINode(ClusterScoped, gc=False, frozen=True):
    """The CSI drivers of a node, with how many volumes each can attach (None: no limit)."""

    drivers: dict[str, int | None]
    migrated: frozenset[str]
    """In-tree plugins that CSI drivers have taken over on this node."""


class CSIDriver(ClusterScoped, gc=False, frozen=True):
    """A CSI driver's wishes to schedulers."""

    storage_capacity: bool
    """Look at CSIStorageCapacity before provisioning."""
    must_be_installed: bool
    """Keep pods off nodes that don't have the driver."""


class CSIStorageCapacity(Namespaced, gc=False, frozen=True):
    """The room that there is for volumes of a class on the nodes that `topology` selects."""

    storage_class: str
    limit: int | None
    """Bytes of the largest volume: maximumVolumeSize, else the capacity; None: not known."""
    capacity: int
    topology: LabelSelector | None
    """None: reachable from nowhere."""


class VolumeAttachment(ClusterScoped, gc=False, frozen=True):
    """A volume that is attached to a node, or being attached."""

    attacher: str
    node: str
    volume: str
    """Empty for an inline volume."""


StorageKind = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


def _annotations(meta: wire.ObjectMeta) -> storage_wire.Annotations:
    text = wire.present(meta.annotations)
    return _notes.decode(text) if text else _NO_ANNOTATIONS


def _nano(quantity: wire.Amount | None) -> int | None:
    """A quantity as the API server has let it pass; what is none counts as not said."""
    if quantity is None:
        return None
    try:
        return parse_nano(quantity)
    except QuantityError:
        return None


def _volume(wired: storage_wire.PersistentVolume, interner: Interner) -> PersistentVolume:
    meta, spec = wired.metadata, wired.spec
    notes = _annotations(meta)
    labels = interner.labels(meta.labels)
    required = spec.node_affinity.required if spec.node_affinity else None
    moved_to = None if spec.csi is not None else translated(spec, labels.get(BETA_ZONE) or labels.get(ZONE, ""))
    ref = spec.claim_ref
    affinity = _affinity(required)
    moved = csi_affinity(moved_to.plugin, required, labels) if moved_to else required
    return PersistentVolume(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=labels,
        storage_class=spec.storage_class_name if notes.beta_class is None else notes.beta_class,
        spec_class=spec.storage_class_name,
        capacity=_nano((spec.capacity or {}).get("storage")) or 0,
        access_modes=frozenset(spec.access_modes or ()),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        claim=None if ref is None else ClaimRef(ref.namespace, ref.name, ref.uid),
        bound_by_controller=notes.bound_by_controller is not None,
        available=wired.status.phase == "Available",
        released=wired.status.phase == "Released",
        terminating=meta.deletion_timestamp is not None,
        affinity=affinity,
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else "",
        translated=moved_to,
        translated_affinity=affinity if moved is required else _affinity(moved),
    )


def _affinity(required: wire.NodeSelector | None) -> NodeSelector | None:
    """The selector, one object for all volumes that share it."""
    if required is None:
        return None
    text = msgspec.json.encode(required)
    return _selector(text) if len(text) <= _REMEMBERED_BYTES else _selector.__wrapped__(text)


@lru_cache(maxsize=16_384)
def _selector(text: bytes) -> NodeSelector:
    return parse_node_selector(_selectors.decode(text), "spec.nodeAffinity.required")


def _claim(wired: storage_wire.PersistentVolumeClaim, interner: Interner) -> PersistentVolumeClaim:
    meta, spec = wired.metadata, wired.spec
    notes = _annotations(meta)
    selector, problem = _label_selector(spec.selector, "spec.selector", interner.limits)
    requests = (spec.resources.requests if spec.resources else None) or {}
    return PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        storage_class=(spec.storage_class_name or "") if notes.beta_class is None else notes.beta_class,
        spec_class=spec.storage_class_name or "",
        volume_name=spec.volume_name,
        bind_completed=notes.bind_completed is not None,
        selected_node=notes.selected_node,
        annotated=wire.present(meta.annotations) not in (b"", b"{}"),
        lost=wired.status.phase == "Lost",
        terminating=meta.deletion_timestamp is not None,
        access_modes=tuple(spec.access_modes or ()),
        requested=_nano(requests.get("storage")),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=selector,
        problem=problem,
        owner=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
    )


def _label_selector(
    selector: wire.LabelSelector | None, path: str, limits: Limits = LIMITS
) -> tuple[LabelSelector | None, str | None]:
    if selector is None:
        return None, None
    count = Count(limits)
    if not count.allows_selector(selector, path):
        return None, str(count.excess)
    try:
        return parse_label_selector(selector, path), None
    except SelectorError as error:
        return None, str(error)


def _storage_class(wired: storage_wire.StorageClass, interner: Interner) -> StorageClass:
    meta = wired.metadata
    topologies = tuple(filter(None, map(_topology_term, wired.allowed_topologies or ())))
    notes = _annotations(meta)
    return StorageClass(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        provisioner=wired.provisioner,
        binding_mode=wired.volume_binding_mode,
        topologies=topologies if wired.allowed_topologies else None,
        default="true" in (notes.default_class, notes.beta_default_class),
    )


def _topology_term(term: storage_wire.TopologyTerm) -> tuple[Requirement, ...]:
    """The requirements; none for a term that matches no node (MatchTopologySelectorTerms)."""
    try:
        return tuple(
            parse_requirement(r.key, "In", r.values or (), "allowedTopologies")
            for r in term.match_label_expressions or ()
        )
    except SelectorError:
        return ()


def _csi_node(wired: storage_wire.CSINode, interner: Interner) -> CSINode:
    meta = wired.metadata
    drivers = {d.name: d.allocatable.count if d.allocatable else None for d in wired.spec.drivers or ()}
    migrated = _annotations(meta).migrated_plugins
    plugins = frozenset(migrated.split(",")) if migrated else frozenset()
    return CSINode(meta.name, meta.uid, meta.resource_version, drivers, plugins)


def _csi_driver(wired: storage_wire.CSIDriver, interner: Interner) -> CSIDriver:
    meta, spec = wired.metadata, wired.spec
    return CSIDriver(
        meta.name,
        meta.uid,
        meta.resource_version,
        storage_capacity=bool(spec.storage_capacity),
        must_be_installed=bool(spec.prevent_pod_scheduling_if_missing),
    )


def _csi_capacity(wired: storage_wire.CSIStorageCapacity, interner: Interner) -> CSIStorageCapacity:
    meta = wired.metadata
    capacity, maximum = _nano(wired.capacity), _nano(wired.maximum_volume_size)
    limit = capacity if maximum is None else maximum
    topology, _ = _label_selector(wired.node_topology, "nodeTopology")
    return CSIStorageCapacity(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        storage_class=wired.storage_class_name,
        limit=None if limit is None else units(limit),
        capacity=units(capacity or 0),
        topology=topology,
    )


def _attachment(wired: storage_wire.VolumeAttachment, interner: Interner) -> VolumeAttachment:
    meta, spec = wired.metadata, wired.spec
    volume = spec.source.persistent_volume_name or ""
    return VolumeAttachment(meta.name, meta.uid, meta.resource_version, spec.attacher, spec.node_name, volume)


READERS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, Interner], StorageKind]]] = {
    "PersistentVolume": (msgspec.json.Decoder(storage_wire.PersistentVolume), _volume),
    "PersistentVolumeClaim": (msgspec.json.Decoder(storage_wire.PersistentVolumeClaim), _claim),
    "StorageClass": (msgspec.json.Decoder(storage_wire.StorageClass), _storage_class),
    "CSINode": (msgspec.json.Decoder(storage_wire.CSINode), _csi_node),
    "CSIDriver": (msgspec.json.Decoder(storage_wire.CSIDriver), _csi_driver),
    "CSIStorageCapacity": (msgspec.json.Decoder(storage_wire.CSIStorageCapacity), _csi_capacity),
    "VolumeAttachment": (msgspec.json.Decoder(storage_wire.VolumeAttachment), _attachment),
}
"""Kind → the decoder of its wire form, and what makes the model of it."""
STORAGE_KINDS = tuple(READERS)
