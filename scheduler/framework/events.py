"""What can happen in a cluster that may make a waiting pod fit (kube-scheduler `framework/events.go`)."""

from enum import Flag, auto


class ClusterEvent(Flag):
    """One or several kinds of change. A plugin names those that may reverse its rejection."""

    NODE_ADDED = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_ALLOCATABLE = auto()
    NODE_GONE = auto()
    POD_PLACED = auto()
    """A pod arrived on a node (bound by anyone)."""
    POD_LABELS = auto()
    """A placed pod's labels changed."""
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
    NOTHING = 0
    NODE = NODE_ADDED | NODE_LABELS | NODE_TAINTS | NODE_ALLOCATABLE


ANY = ~ClusterEvent.NOTHING

NODE_EVENTS = ClusterEvent.NODE
"""Asked by `node_hint`."""
POD_EVENTS = ClusterEvent.POD_PLACED | ClusterEvent.POD_LABELS | ClusterEvent.POD_SHRUNK | ClusterEvent.POD_GONE
"""Asked by `pod_hint`."""
OTHER_EVENTS = (
    ClusterEvent.VOLUME_ADDED
    | ClusterEvent.VOLUME_UPDATED
    | ClusterEvent.CLAIM_ADDED
    | ClusterEvent.CLAIM_UPDATED
    | ClusterEvent.STORAGE_CLASS_ADDED
    | ClusterEvent.STORAGE_CLASS_UPDATED
    | ClusterEvent.CSI_NODE_ADDED
    | ClusterEvent.CSI_NODE_UPDATED
    | ClusterEvent.CSI_DRIVER_ADDED
    | ClusterEvent.CSI_DRIVER_UPDATED
    | ClusterEvent.CSI_CAPACITY_ADDED
    | ClusterEvent.CSI_CAPACITY_UPDATED
    | ClusterEvent.ATTACHMENT_GONE
)
"""Asked by `object_hint`."""

LABELS = {
    ClusterEvent.NODE_ADDED: "NodeAdd",
    ClusterEvent.NODE_LABELS: "NodeLabelUpdate",
    ClusterEvent.NODE_TAINTS: "NodeTaintUpdate",
    ClusterEvent.NODE_ALLOCATABLE: "NodeAllocatableUpdate",
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
}
"""Event labels as kube-scheduler's metrics spell them."""
