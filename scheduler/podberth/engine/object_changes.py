"""Nodes, namespaces, claims and other objects that come, change and go: what follows for the columns and the queue.

Mirrors the handlers of everything but pods in kube-scheduler `eventhandlers.go`; pods are `pod_changes`'.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.changes import device_changes, node_changes, storage_changes
from podberth.engine.nominator import Nominator
from podberth.engine.observers import Observer
from podberth.engine.queue import queueing_hints
from podberth.engine.queue.headroom import room_on
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import Gone
from podberth.framework.events import ClusterEvent
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
from podberth.model.storage import STORAGE_KINDS


class ObjectChanges:
    """Follows what the watches show of objects that are no pods."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        binding: BindingCycles,
        nominator: Nominator,
        observers: Sequence[Observer],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._nominator = nominator
        self._observers = observers

    def put(self, thing: Modelled, now: float) -> None:
        """An object was added or updated."""
        cluster, queue = self._cluster, self._queue
        match thing:
            case Pod():
                raise TypeError("pods are followed by PodChanges")
            case Node():
                old = cluster.put_node(thing)
                room = room_on(cluster, cluster.nodes.row_of(thing.name))
                changes = node_changes(old, thing)
                if changes:
                    self._binding.look_again(thing.name, now)
                queueing_hints.for_node(queue, changes, old, thing, now, room)
            case Namespace():
                if cluster.put_namespace(thing) != thing.labels:
                    queueing_hints.everyone(queue, ClusterEvent.NAMESPACE, now, thing)
            case SelectingObject():
                self._put_selecting(thing, now)
            case ResourceClaim() | ResourceSlice() | DeviceClass() | DeviceTaintRule():
                device = self._put_device(thing)
                queueing_hints.for_object(queue, device_changes(device, thing), device, thing, now)
            case PodGroup():
                group = cluster.pod_groups.put(thing)
                queue.groups.put(group, thing, now)
                self._binding.gathering.look(thing.key)
            case _:
                before = cluster.storage.put(thing)
                queueing_hints.for_object(queue, storage_changes(before, thing), before, thing, now)
        for observer in self._observers:
            observer.put(thing, now)

    def gone(self, gone: Gone, now: float) -> None:
        """An object was deleted."""
        cluster, queue = self._cluster, self._queue
        match gone.kind:
            case "Node":
                self._nominator.end_all(cluster.nominations.on(gone.name), gone.name, None, now)
                if cluster.drop_node(gone.name) is not None:
                    self._binding.look_again(gone.name, now)
                    queueing_hints.everyone(queue, ClusterEvent.NODE_GONE, now, gone)
            case "Namespace":
                cluster.drop_namespace(gone.name)
            case kind if kind in DEVICE_KINDS:
                unshown = cluster.devices.promised_to((gone.namespace, gone.name)) if kind == CLAIM else None
                device = self._drop_device(gone)
                if device is None and unshown is not None:
                    queueing_hints.everyone(queue, ClusterEvent.DEVICE_CLAIM_GONE, now, gone)
                real = not self._gives_back(device)
                queueing_hints.for_object(queue, device_changes(device, None), device, None, now, real=real)
            case kind if kind in POD_GROUP_KINDS:
                key = GroupKey(gone.namespace, gone.name, api_of_kind(kind))
                dropped = cluster.pod_groups.drop(key)
                if dropped is not None:
                    queue.groups.gone(dropped, now)
                    self._binding.gathering.look(key)
            case kind if kind in STORAGE_KINDS:
                before = cluster.storage.drop(kind, gone.namespace, gone.name)
                if kind == "VolumeAttachment":
                    queueing_hints.for_object(queue, ClusterEvent.ATTACHMENT_GONE, before, None, now)
            case kind:
                cluster.drop_selecting(kind, gone.namespace, gone.name)
                queueing_hints.everyone(queue, ClusterEvent.SELECTING, now, gone)
        for observer in self._observers:
            observer.gone(gone, now)

    def _put_selecting(self, thing: SelectingObject, now: float) -> None:
        self._cluster.put_selecting(thing)
        queueing_hints.everyone(self._queue, ClusterEvent.SELECTING, now, thing)

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
        """A claim that is about to be given something, as if it had that."""
        claim, flight = self._cluster.devices.claims.get(key), self._cluster.devices.promised_to(key)
        return None if claim is None or flight is None else replace(claim, allocation=flight.allocation)
