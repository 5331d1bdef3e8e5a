"""Changes of a cluster that may make a waiting pod fit (kube-scheduler `framework/events.go`)."""

from enum import Flag, auto


class ClusterEvent(Flag):
    """One or several kinds of change. A plugin names those that may reverse its rejection."""

    NODE_ADDED = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_ALLOCATABLE = auto()
    NODE_FEATURES = auto()
    """Features that a node's kubelet declares."""
    NODE_ANNOTATIONS = auto()
    """Annotations of a node that a plugin reads."""
    NODE_GONE = auto()
    POD_PLACED = auto()
    """A pod arrived on a node (bound by anyone)."""
    POD_LABELS = auto()
    """A placed pod's labels changed, or annotations of it that a plugin reads."""
    POD_SHRUNK = auto()
    """A placed pod asks for less than before."""
    POD_GONE = auto()
    """A placed pod was deleted or finished, or Berth took its own assumption back."""
    OWN_LABELS = auto()
    OWN_TOLERATIONS = auto()
    OWN_REQUESTS = auto()
    OWN_GATES = auto()
    OWN_AFFINITY = auto()
    OWN_PROMISE = auto()
    OWN_CLAIMS = auto()
    """The waiting pod itself changed."""
    NAMESPACE = auto()
    SELECTING = auto()
    """A Service, ReplicaSet, StatefulSet or ReplicationController changed."""
    VOLUME_ADDED = auto()
    VOLUME_UPDATED = auto()
    CLAIM_ADDED = auto()
    CLAIM_UPDATED = auto()
    STORAGE_CLASS_ADDED = auto()
    STORAGE_CLASS_UPDATED = auto()
    CSI_NODE_ADDED = auto()
    CSI_NODE_UPDATED = auto()
    CSI_DRIVER_ADDED = auto()
    CSI_DRIVER_UPDATED = auto()
    CSI_CAPACITY_ADDED = auto()
    CSI_CAPACITY_UPDATED = auto()
    ATTACHMENT_GONE = auto()
    """A VolumeAttachment was deleted."""
    DEVICE_CLAIM_ADDED = auto()
    DEVICE_CLAIM_UPDATED = auto()
    DEVICE_CLAIM_GONE = auto()
    """A ResourceClaim was deleted, or our assumption of what it was given was taken back."""
    DEVICE_SLICE_ADDED = auto()
    DEVICE_SLICE_UPDATED = auto()
    """A ResourceSlice changed, or a taint rule that is about its devices."""
    DEVICE_CLASS_ADDED = auto()
    DEVICE_CLASS_UPDATED = auto()
    KEPT_ROOM_GONE = auto()
    """Room is kept for a pod group no longer. No hint is asked: it may help every pod that had to stay away."""
    SOURCE = auto()
    """Another value came from one of the plugin's own sources. No hint is asked."""
    NOTHING = 0
    NODE = NODE_ADDED | NODE_LABELS | NODE_TAINTS | NODE_ALLOCATABLE | NODE_FEATURES | NODE_ANNOTATIONS
    VOLUME = VOLUME_ADDED | VOLUME_UPDATED
    CLAIM = CLAIM_ADDED | CLAIM_UPDATED
    STORAGE_CLASS = STORAGE_CLASS_ADDED | STORAGE_CLASS_UPDATED
    CSI_NODE = CSI_NODE_ADDED | CSI_NODE_UPDATED
    CSI_DRIVER = CSI_DRIVER_ADDED | CSI_DRIVER_UPDATED
    CSI_CAPACITY = CSI_CAPACITY_ADDED | CSI_CAPACITY_UPDATED
    DEVICE_CLAIM = DEVICE_CLAIM_ADDED | DEVICE_CLAIM_UPDATED | DEVICE_CLAIM_GONE
    DEVICE_SLICE = DEVICE_SLICE_ADDED | DEVICE_SLICE_UPDATED
    DEVICE_CLASS = DEVICE_CLASS_ADDED | DEVICE_CLASS_UPDATED


ANY = ~ClusterEvent.NOTHING

NODE_EVENTS = ClusterEvent.NODE
"""Asked by `node_hint`."""
POD_EVENTS = ClusterEvent.POD_PLACED | ClusterEvent.POD_LABELS | ClusterEvent.POD_SHRUNK | ClusterEvent.POD_GONE
"""Asked by `pod_hint`."""
OTHER_EVENTS = (
    ClusterEvent.VOLUME
    | ClusterEvent.CLAIM
    | ClusterEvent.STORAGE_CLASS
    | ClusterEvent.CSI_NODE
    | ClusterEvent.CSI_DRIVER
    | ClusterEvent.CSI_CAPACITY
    | ClusterEvent.ATTACHMENT_GONE
    | ClusterEvent.DEVICE_CLAIM
    | ClusterEvent.DEVICE_SLICE
    | ClusterEvent.DEVICE_CLASS
)
"""Asked by `object_hint`."""

LABELS = {
    ClusterEvent.NODE_ADDED: "NodeAdd",
    ClusterEvent.NODE_LABELS: "NodeLabelUpdate",
    ClusterEvent.NODE_TAINTS: "NodeTaintUpdate",
    ClusterEvent.NODE_ALLOCATABLE: "NodeAllocatableUpdate",
    ClusterEvent.NODE_FEATURES: "NodeDeclaredFeatureUpdate",
    ClusterEvent.NODE_ANNOTATIONS: "NodeAnnotationUpdate",
    ClusterEvent.NODE_GONE: "NodeDelete",
    ClusterEvent.POD_PLACED: "AssignedPodAdd",
    ClusterEvent.POD_LABELS: "AssignedPodUpdate",
    ClusterEvent.POD_SHRUNK: "AssignedPodScaleDown",
    ClusterEvent.POD_GONE: "AssignedPodDelete",
    ClusterEvent.NAMESPACE: "NamespaceUpdate",
    ClusterEvent.SELECTING: "ServiceUpdate",
    ClusterEvent.VOLUME_ADDED: "PvAdd",
    ClusterEvent.VOLUME_UPDATED: "PvUpdate",
    ClusterEvent.CLAIM_ADDED: "PvcAdd",
    ClusterEvent.CLAIM_UPDATED: "PvcUpdate",
    ClusterEvent.STORAGE_CLASS_ADDED: "StorageClassAdd",
    ClusterEvent.STORAGE_CLASS_UPDATED: "StorageClassUpdate",
    ClusterEvent.CSI_NODE_ADDED: "CSINodeAdd",
    ClusterEvent.CSI_NODE_UPDATED: "CSINodeUpdate",
    ClusterEvent.CSI_DRIVER_ADDED: "CSIDriverAdd",
    ClusterEvent.CSI_DRIVER_UPDATED: "CSIDriverUpdate",
    ClusterEvent.CSI_CAPACITY_ADDED: "CSIStorageCapacityAdd",
    ClusterEvent.CSI_CAPACITY_UPDATED: "CSIStorageCapacityUpdate",
    ClusterEvent.ATTACHMENT_GONE: "VolumeAttachmentDelete",
    ClusterEvent.DEVICE_CLAIM_ADDED: "ResourceClaimAdd",
    ClusterEvent.DEVICE_CLAIM_UPDATED: "ResourceClaimUpdate",
    ClusterEvent.DEVICE_CLAIM_GONE: "ResourceClaimDelete",
    ClusterEvent.DEVICE_SLICE_ADDED: "ResourceSliceAdd",
    ClusterEvent.DEVICE_SLICE_UPDATED: "ResourceSliceUpdate",
    ClusterEvent.DEVICE_CLASS_ADDED: "DeviceClassAdd",
    ClusterEvent.DEVICE_CLASS_UPDATED: "DeviceClassUpdate",
    ClusterEvent.KEPT_ROOM_GONE: "KeptRoomDelete",
    ClusterEvent.SOURCE: "SourceUpdate",
}
"""Event labels as kube-scheduler's metrics spell them."""
