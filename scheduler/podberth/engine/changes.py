"""Which cluster events a change of an object amounts to (kube-scheduler `framework/events.go`, extractors)."""

from collections.abc import Mapping

from podberth.engine.stimuli import Gone
from podberth.framework.binding import ObjectKey
from podberth.framework.events import ANY, ClusterEvent
from podberth.model.devices import DeviceClass, DeviceKind, DeviceTaintRule, ResourceClaim, ResourceSlice
from podberth.model.kinds import Modelled
from podberth.model.namespaced import SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape
from podberth.model.storage import StorageKind

EventObject = Modelled | Gone
"""The object that an event is about, as it is now or, if it was deleted, as it was."""
_STORAGE = {
    "PersistentVolume": (ClusterEvent.VOLUME_ADDED, ClusterEvent.VOLUME_UPDATED),
    "PersistentVolumeClaim": (ClusterEvent.CLAIM_ADDED, ClusterEvent.CLAIM_UPDATED),
    "StorageClass": (ClusterEvent.STORAGE_CLASS_ADDED, ClusterEvent.STORAGE_CLASS_UPDATED),
    "CSINode": (ClusterEvent.CSI_NODE_ADDED, ClusterEvent.CSI_NODE_UPDATED),
    "CSIDriver": (ClusterEvent.CSI_DRIVER_ADDED, ClusterEvent.CSI_DRIVER_UPDATED),
    "CSIStorageCapacity": (ClusterEvent.CSI_CAPACITY_ADDED, ClusterEvent.CSI_CAPACITY_UPDATED),
}


def node_changes(old: Node | None, new: Node) -> ClusterEvent:
    """The events for a change of a node: those parts of it that a decision reads."""
    if old is None:
        return ClusterEvent.NODE_ADDED
    event = ClusterEvent.NOTHING
    if old.labels is not new.labels and old.labels != new.labels:
        event |= ClusterEvent.NODE_LABELS
    if old.taints != new.taints or old.unschedulable != new.unschedulable:
        event |= ClusterEvent.NODE_TAINTS
    if old.allocatable != new.allocatable or old.allowed_pods != new.allowed_pods:
        event |= ClusterEvent.NODE_ALLOCATABLE
    if old.features != new.features:
        event |= ClusterEvent.NODE_FEATURES
    if old.annotations != new.annotations:
        event |= ClusterEvent.NODE_ANNOTATIONS
    return event


def placed_pod_changes(old: Pod, new: Pod) -> ClusterEvent:
    """The events for a change of a placed pod that may help others."""
    event = ClusterEvent.NOTHING
    if old.labels is not new.labels and old.labels != new.labels:
        event |= ClusterEvent.POD_LABELS
    if old.shape is not new.shape and old.annotations != new.annotations:
        event |= ClusterEvent.POD_LABELS
    if _shrunk(old.shape.requests, new.shape.requests):
        event |= ClusterEvent.POD_SHRUNK
    return event


def waiting_pod_changes(old: Pod, new: Pod) -> ClusterEvent:
    """The events for a change of a waiting pod that may help the pod itself."""
    event = ClusterEvent.NOTHING
    if old.labels is not new.labels and old.labels != new.labels:
        event |= ClusterEvent.OWN_LABELS
    if len(new.gates) < len(old.gates):
        event |= ClusterEvent.OWN_GATES
    if old.made_claims != new.made_claims:
        event |= ClusterEvent.OWN_CLAIMS
    return event if old.shape is new.shape else event | _shape_changes(old.shape, new.shape)


def _shape_changes(old: PodShape, new: PodShape) -> ClusterEvent:
    event = ClusterEvent.NOTHING
    if old.tolerations != new.tolerations:
        event |= ClusterEvent.OWN_TOLERATIONS
    if _shrunk(old.requests, new.requests):
        event |= ClusterEvent.OWN_REQUESTS
    if old.promise != new.promise:
        event |= ClusterEvent.OWN_PROMISE
    if not _same_wants(old, new):
        # It asks for other nodes or neighbours (by annotation, or while it was gated): all verdicts may change.
        event = ANY
    return event


def _same_wants(one: PodShape, other: PodShape) -> bool:
    """Return whether two shapes ask for the same affinity, and say the same to plugins by annotation."""
    if (one.node_selector, one.annotation_problem) != (other.node_selector, other.annotation_problem):
        return False
    if one.annotations != other.annotations:
        return False
    return _terms(one) == _terms(other)


def _terms(shape: PodShape) -> tuple[object, ...]:
    return shape.required_node_affinity, shape.affinity_terms, shape.anti_affinity_terms


def storage_changes(old: StorageKind | None, new: StorageKind) -> ClusterEvent:
    """The events for an added or updated storage object."""
    added, updated = _STORAGE.get(type(new).__name__, (ClusterEvent.NOTHING, ClusterEvent.NOTHING))
    return added if old is None else updated


def device_changes(old: DeviceKind | None, new: DeviceKind | None) -> ClusterEvent:
    """Return what the coming, changing or going (new is None) of a claim, slice, device class or
    taint rule may help.
    """
    match new:
        case ResourceClaim():
            return ClusterEvent.DEVICE_CLAIM_ADDED if old is None else ClusterEvent.DEVICE_CLAIM_UPDATED
        case ResourceSlice():
            return ClusterEvent.DEVICE_SLICE_ADDED if old is None else ClusterEvent.DEVICE_SLICE_UPDATED
        case DeviceClass():
            return ClusterEvent.DEVICE_CLASS_ADDED if old is None else ClusterEvent.DEVICE_CLASS_UPDATED
        case DeviceTaintRule():
            return ClusterEvent.DEVICE_SLICE_UPDATED  # it changes the taints of slices
    match old:
        case ResourceClaim():
            return ClusterEvent.DEVICE_CLAIM_GONE
        case DeviceTaintRule():
            return ClusterEvent.DEVICE_SLICE_UPDATED
    return ClusterEvent.NOTHING


def key_of(thing: Modelled) -> ObjectKey:
    """The key under which a pod may wait for a change of an object."""
    kind = thing.kind if isinstance(thing, (SelectingObject, PodGroup)) else type(thing).__name__
    return kind, thing.namespace, thing.name


def named(about: EventObject) -> str:
    """Return how a pod's story calls the object that an event was about: "Node n4", "Pod default/web"."""
    kind, namespace, name = (about.kind, about.namespace, about.name) if isinstance(about, Gone) else key_of(about)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _shrunk(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    return old is not new and any(new.get(name, 0) < amount for name, amount in old.items())
