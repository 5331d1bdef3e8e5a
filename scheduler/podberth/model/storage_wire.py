"""The storage kinds' JSON, decoded into the fields that a decision reads; other kinds are in `podberth.model.wire`."""

from msgspec import field

from podberth.model.wire import (
    Amount,
    Amounts,
    AzureDisk,
    GCEDisk,
    LabelSelector,
    NodeSelector,
    Object,
    ObjectMeta,
    VolumeID,
)


class Annotations(Object, gc=False):
    """The annotations that are read; absent is None."""

    bind_completed: str | None = field(default=None, name="pv.kubernetes.io/bind-completed")
    bound_by_controller: str | None = field(default=None, name="pv.kubernetes.io/bound-by-controller")
    selected_node: str | None = field(default=None, name="volume.kubernetes.io/selected-node")
    beta_class: str | None = field(default=None, name="volume.beta.kubernetes.io/storage-class")
    migrated_plugins: str | None = field(default=None, name="storage.alpha.kubernetes.io/migrated-plugins")
    default_class: str | None = field(default=None, name="storageclass.kubernetes.io/is-default-class")
    beta_default_class: str | None = field(default=None, name="storageclass.beta.kubernetes.io/is-default-class")


class ClaimReference(Object, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSISource(Object, gc=False):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Object, gc=False):
    required: NodeSelector | None = None


class VolumeSpec(Object, gc=False):
    capacity: Amounts | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: VolumeID | None = None
    gce_persistent_disk: GCEDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeID | None = None
    portworx_volume: VolumeID | None = None


class Phase(Object, gc=False):
    phase: str = ""


class PersistentVolume(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeSpec = field(default_factory=VolumeSpec)
    status: Phase = field(default_factory=Phase)


class ClaimResources(Object, gc=False):
    requests: Amounts | None = None


class ClaimSpec(Object, gc=False):
    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: Phase = field(default_factory=Phase)


class TopologyRequirement(Object, gc=False):
    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Object, gc=False):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class NodeResources(Object, gc=False):
    count: int | None = None


class CSINodeDriver(Object, gc=False):
    name: str = ""
    allocatable: NodeResources | None = None


class CSINodeSpec(Object, gc=False):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(Object, gc=False):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    storage_class_name: str = ""
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None
    node_topology: LabelSelector | None = None


class AttachmentSource(Object, gc=False):
    persistent_volume_name: str | None = None


class AttachmentSpec(Object, gc=False):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = field(default_factory=AttachmentSource)


class VolumeAttachment(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: AttachmentSpec = field(default_factory=AttachmentSpec)
