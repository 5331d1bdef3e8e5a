"""Handle what the watches show: an object that comes, changes or goes changes the columns, and may wake pods.

Mirrors kube-scheduler `eventhandlers.go`, and `framework/events.go` (the extractors at the end). Next stage:
`podberth.engine.queue.scheduling_queue` asks the plugins whom a change may help.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import Event
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.observers import Observers
from podberth.engine.pod_groups.cycle import GroupCycles
from podberth.engine.preemption import Nominator, Victims
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import Gone, key_of
from podberth.framework.events import ANY, ClusterEvent
from podberth.model.devices import (
    CLAIM,
    DEVICE_KINDS,
    ClaimKey,
    DeviceClass,
    DeviceKind,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from podberth.model.kinds import Modelled
from podberth.model.namespaced import Namespace, SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import POD_GROUP_KINDS, GroupKey, PodGroup, api_of_kind
from podberth.model.shape import PodShape
from podberth.model.storage import STORAGE_KINDS, StorageKind

_STORAGE = {
    "PersistentVolume": (ClusterEvent.VOLUME_ADDED, ClusterEvent.VOLUME_UPDATED),
    "PersistentVolumeClaim": (ClusterEvent.CLAIM_ADDED, ClusterEvent.CLAIM_UPDATED),
    "StorageClass": (ClusterEvent.STORAGE_CLASS_ADDED, ClusterEvent.STORAGE_CLASS_UPDATED),
    "CSINode": (ClusterEvent.CSI_NODE_ADDED, ClusterEvent.CSI_NODE_UPDATED),
    "CSIDriver": (ClusterEvent.CSI_DRIVER_ADDED, ClusterEvent.CSI_DRIVER_UPDATED),
    "CSIStorageCapacity": (ClusterEvent.CSI_CAPACITY_ADDED, ClusterEvent.CSI_CAPACITY_UPDATED),
}


class EventHandlers:
    """Follows pods, nodes and all other objects."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        binding: BindingCycles,
        groups: GroupCycles,
        extender_calls: ExtenderCalls,
        nominator: Nominator,
        victims: Victims,
        observers: Observers,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._groups = groups
        self._extender_calls = extender_calls
        self._nominator = nominator
        self._victims = victims
        self._observers = observers
        self.undone = False
        """True if a placed pod was shown without a node since this was last set to False."""

    def put(self, thing: Modelled, now: float) -> None:
        """Follow an object that was added or updated."""
        if isinstance(thing, Pod):
            self._put_pod(thing, now)
        else:
            self._put_object(thing, now)
        if self._binding.waits:
            self._binding.changed(key_of(thing), now)

    def gone(self, gone: Gone, now: float) -> None:
        """Follow the deletion of an object."""
        if gone.kind == "Pod":
            self._pod_gone(gone.uid, now, "deleted")
        else:
            self._object_gone(gone, now)
        if self._binding.waits:
            self._binding.changed((gone.kind, gone.namespace, gone.name), now)

    def change_groups(self, api: str, now: float, *, followed: bool) -> None:
        """Have pods leave and come again whose group becomes known, or unknown, with the PodGroups of an API group."""
        for pod in self._cluster.pod_groups.follow(api, followed=followed):
            self._leave(pod, now)
            self._put_pod(pod, now)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod, now: float) -> None:
        """A pod was added or updated.

        No pod leaves its node. One that has done so is shown from a backup, in which it was not bound yet, and which
        has passed the versions that were known, so that nobody has noticed.
        """
        if not pod.node_name and self._cluster.is_confirmed(pod.uid):
            self.undone = True
            self._pod_gone(pod.uid, now, "its binding was undone by a restore of etcd")
        if pod.finished:
            self._pod_gone(pod.uid, now, "finished")
        elif pod.node_name:
            self._put_placed(pod, now)
        elif pod.scheduler_name in self._queue.frameworks:
            self._put_waiting(pod, now)
        elif pod.shape.claims:
            self._cluster.devices.rivals.has_pod(self._cluster.devices.wall)

    def _tried(self, uid: str) -> QueuedPod | None:
        """Return a pod that is being tried with its group, or waits for extenders."""
        tried = self._groups.trying(uid) if self._groups.attempt is not None else None
        asked = self._extender_calls.waiting.get(uid) if self._extender_calls.waiting else None
        return asked.queued if tried is None and asked is not None else tried

    def _leave(self, pod: Pod, now: float) -> None:
        """Take a pod out of the queue, or out of its attempt: it comes again as a member of another group or none."""
        if self._groups.trying(pod.uid) is not None:
            self._take_out(pod.uid)
            self._binding.give_back(pod.uid, now, quietly=False)
        else:
            self._take_out(pod.uid)
        self._nominator.end(pod, now)

    def _take_out(self, uid: str) -> QueuedPod | None:
        """Return a pod that waited, or was tried with its group, and does so no more."""
        tried = self._groups.drop(uid) if self._groups.attempt is not None else None
        asked = self._extender_calls.drop(uid) if self._extender_calls.waiting else None
        return self._queue.remove(uid) or asked or tried

    def _put_placed(self, pod: Pod, now: float) -> None:
        if pod.uid in self._victims.told:
            pod = self._victims.shown(pod)
        group = self._cluster.pod_groups.members.get(pod.uid)
        self._take_out(pod.uid)
        ours = self._binding.may_be_bound(pod.uid)
        self._binding.happens(pod.uid, Event.PLACED, pod, now)
        before = self._cluster.put_pod(pod)
        if pod.uid in self._cluster.nominations.node_of:
            self._nominator.end(pod, now)
        if before is None:
            self._binding.look_again(pod.node_name, now)
        for hear in self._observers.placed:
            hear(pod, before, now, ours)
        if pod.shape.anti_affinity_terms or pod.shape.spread or pod.scheduler_name not in self._queue.frameworks:
            for hear_conflict in self._observers.may_conflict:
                hear_conflict(pod, before, now)
        confirmed = before is None or before.assumed
        if confirmed:
            self._queue.wake_for_pod(ClusterEvent.POD_PLACED, pod, now)
            if pod.uid in self._binding.gathering.came_for:
                self._binding.gathering.leaves(pod.uid)
        joins = before is None or group != pod.scheduling_group
        if pod.scheduling_group is not None and (confirmed or joins):
            self._binding.gathering.look(pod.scheduling_group)
            self._queue.groups.changed(pod.scheduling_group, now, helps=joins)
        row = self._cluster.nodes.row_of(pod.node_name)
        if before is not None:
            changes = placed_pod_changes(before.pod, pod)
            if changes:
                self._queue.wake_for_pod(changes, pod, now, row)
        if before is not None and before.row != row:
            # We had chosen another node for it.
            self._queue.wake_for_room(before.pod, before.row, now)

    def _put_waiting(self, pod: Pod, now: float) -> None:
        group = self._cluster.pod_groups.members.get(pod.uid)
        queued, tried = self._queue.get(pod.uid), self._tried(pod.uid)
        waits = queued or tried
        if waits is not None and waits.pod.scheduling_group != pod.scheduling_group:
            self._leave(waits.pod, now)
            queued = tried = None
        known = queued or tried or self._binding.queued(pod.uid)
        before = pod if known is None else known.pod
        changes = waiting_pod_changes(before, pod)
        if changes and queued is None:
            self._queue.events.add(changes, real=True)  # its attempt may have failed by what it was before
        placement = self._cluster.placement(pod.uid)
        moves = group != pod.scheduling_group
        if (pod.scheduling_group is not None or group is not None) and not (moves and placement is not None):
            self._cluster.pod_groups.waits(pod)  # one that we chose a node for is bound with the group that it was in
            if moves and group is not None:
                self._queue.groups.changed(group, now, helps=True)
        if tried is not None:
            tried.update(pod)
        if pod.terminating:
            self._groups.drop(pod.uid)
        if self._binding.happens(pod.uid, Event.TERMINATING if pod.terminating else Event.UPDATED, pod, now):
            return
        if pod.terminating:
            if placement is None:
                self._left_unbound(pod, now)
            self._take_out(pod.uid)
            self._left(pod.uid, "terminating", now)
            self._nominator.end(pod, now)
        elif queued is not None:
            self._queue.update(pod, changes, now)
            self._nominator.follow(queued, before, now)
        elif tried is not None:
            self._nominator.follow(tried, before, now)
        elif placement is None:
            if pod.nominated_node_name:
                self._cluster.nominations.put(pod, pod.nominated_node_name)
            self._queue.add(pod, now)
            if pod.scheduling_group is not None:
                self._queue.groups.changed(pod.scheduling_group, now, helps=True)

    def _pod_gone(self, uid: str, now: float, why: str) -> None:
        """A pod is gone, or finished."""
        group = self._cluster.pod_groups.members.get(uid)
        waiting = self._take_out(uid)
        self._victims.gone(uid)
        self._binding.happens(uid, Event.GONE, None, now)
        self._left(uid, why, now)
        placement = self._cluster.drop_pod(uid)
        self._binding.gathering.leaves(uid)
        if group is not None:
            self._queue.groups.changed(group, now, helps=True)
        if placement is not None:
            self._queue.wake_for_room(placement.pod, placement.row, now)
        elif waiting is not None:
            self._nominator.end(waiting.pod, now)
        else:
            self._cluster.nominations.drop(uid)
        unbound = waiting or (placement if placement is not None and placement.assumed else None)
        if unbound is not None:
            self._left_unbound(unbound.pod, now)

    def _left_unbound(self, pod: Pod, now: float) -> None:
        for hear in self._observers.left_unbound:
            hear(pod, now)

    def _left(self, uid: str, why: str, now: float) -> None:
        for hear in self._observers.left:
            hear(uid, why, now)

    # -- other objects -----------------------------------------------------------------------------------------------

    def _put_object(self, thing: Modelled, now: float) -> None:
        """An object was added or updated."""
        cluster, queue = self._cluster, self._queue
        match thing:
            case Pod():
                raise TypeError("a pod is no other object")
            case Node():
                old = cluster.put_node(thing)
                changes = node_changes(old, thing)
                if changes:
                    self._binding.look_again(thing.name, now)
                    queue.wake_for_node(changes, old, thing, now, cluster.nodes.row_of(thing.name))
            case Namespace():
                if cluster.put_namespace(thing) != thing.labels:
                    queue.wake_everyone(ClusterEvent.NAMESPACE, now, thing)
            case SelectingObject():
                cluster.put_selecting(thing)
                queue.wake_everyone(ClusterEvent.SELECTING, now, thing)
            case ResourceClaim() | ResourceSlice() | DeviceClass() | DeviceTaintRule():
                device = self._put_device(thing)
                queue.wake_for_object(device_changes(device, thing), device, thing, now)
            case PodGroup():
                queue.groups.put(cluster.pod_groups.put(thing), thing, now)
                self._binding.gathering.look(thing.key)
            case _:
                before = cluster.storage.put(thing)
                queue.wake_for_object(storage_changes(before, thing), before, thing, now)
        for hear in self._observers.put:
            hear(thing, now)

    def _object_gone(self, gone: Gone, now: float) -> None:
        """An object was deleted."""
        cluster, queue = self._cluster, self._queue
        match gone.kind:
            case "Node":
                self._nominator.end_all(cluster.nominations.on(gone.name), gone.name, None, now)
                if cluster.drop_node(gone.name) is not None:
                    self._binding.look_again(gone.name, now)
                    queue.wake_everyone(ClusterEvent.NODE_GONE, now, gone)
            case "Namespace":
                cluster.drop_namespace(gone.name)
            case kind if kind in DEVICE_KINDS:
                unshown = cluster.devices.promised_to((gone.namespace, gone.name)) if kind == CLAIM else None
                device = self._drop_device(gone)
                if device is None and unshown is not None:
                    queue.wake_everyone(ClusterEvent.DEVICE_CLAIM_GONE, now, gone)
                real = not self._gives_back(device)
                queue.wake_for_object(device_changes(device, None), device, None, now, real=real)
            case kind if kind in POD_GROUP_KINDS:
                key = GroupKey(gone.namespace, gone.name, api_of_kind(kind))
                dropped = cluster.pod_groups.drop(key)
                if dropped is not None:
                    queue.groups.gone(dropped, now)
                    self._binding.gathering.look(key)
            case kind if kind in STORAGE_KINDS:
                before = cluster.storage.drop(kind, gone.namespace, gone.name)
                if kind == "VolumeAttachment":
                    queue.wake_for_object(ClusterEvent.ATTACHMENT_GONE, before, None, now)
            case kind:
                cluster.drop_selecting(kind, gone.namespace, gone.name)
                queue.wake_everyone(ClusterEvent.SELECTING, now, gone)
        for hear in self._observers.gone:
            hear(gone, now)

    def _put_device(self, thing: DeviceKind) -> DeviceKind | None:
        """Return what was there before; a claim whose promise this ends with what it was promised,
        which is free now.
        """
        promised = self._promised(thing.key) if isinstance(thing, ResourceClaim) else None
        before = self._cluster.put_device(thing)
        return before if promised is None or self._cluster.devices.promised_to(promised.key) else promised

    def _drop_device(self, gone: Gone) -> DeviceKind | None:
        """Return what was there; a claim with what it was promised."""
        promised = self._promised((gone.namespace, gone.name)) if gone.kind == CLAIM else None
        found = self._cluster.drop_device(gone.kind, gone.namespace, gone.name)
        return found if promised is None else promised

    def _gives_back(self, gone: DeviceKind | None) -> bool:
        """Return whether a claim was made for a pod that still waits: an attempt has ended, and nothing else has
        changed.
        """
        owner = gone.owner if isinstance(gone, ResourceClaim) else None
        return owner is not None and (owner[1] in self._queue or self._binding.state(owner[1]) is not None)

    def _promised(self, key: ClaimKey) -> ResourceClaim | None:
        """Return a claim with the devices that are being written for it, as if it had them; None: none are."""
        claim, flight = self._cluster.devices.claims.get(key), self._cluster.devices.promised_to(key)
        return None if claim is None or flight is None else replace(claim, allocation=flight.allocation)


def node_changes(old: Node | None, new: Node) -> ClusterEvent:
    """Return the events for a change of a node: of those parts of it that a decision reads."""
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
    """Return the events for a change of a placed pod that may help others."""
    event = ClusterEvent.NOTHING
    if old.labels is not new.labels and old.labels != new.labels:
        event |= ClusterEvent.POD_LABELS
    if old.shape is not new.shape and old.annotations != new.annotations:
        event |= ClusterEvent.POD_LABELS
    if _shrunk(old.shape.requests, new.shape.requests):
        event |= ClusterEvent.POD_SHRUNK
    return event


def waiting_pod_changes(old: Pod, new: Pod) -> ClusterEvent:
    """Return the events for a change of a waiting pod that may help the pod itself."""
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
    """Return the events for an added or updated storage object."""
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
        case ResourceSlice() | DeviceTaintRule():
            return ClusterEvent.DEVICE_SLICE_UPDATED  # the rest of its pool may be whole now
        case DeviceClass():
            return ClusterEvent.DEVICE_CLASS_UPDATED  # an older one serves its extended resource now
    return ClusterEvent.NOTHING


def _shrunk(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    return old is not new and any(new.get(name, 0) < amount for name, amount in old.items())
