"""Upstream: plugins/volumezone."""

from collections.abc import Collection

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT, Bools
from podberth.cache.nodes import Nodes
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, NODE, SKIPPABLE, VOLUMES, OtherObject, Plugin
from podberth.framework.status import Reject, Rejections, Unresolvable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from podberth.model.volumes import BETA_REGION, BETA_ZONE, NO_VOLUMES, REGION, ZONE, ZONE_DELIMITER

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
TODAY = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Topology = tuple[str, frozenset[str]]
"""(label of a volume, values of which a node must have one)."""


class VolumeZone(Plugin):
    """Keep a pod off nodes outside the zones and regions that its bound volumes are labelled with."""

    name = "VolumeZone"
    depends_on = NODE | VOLUMES
    events = (
        ClusterEvent.STORAGE_CLASS_ADDED
        | ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
    )
    elsewhere = Unresolvable("node(s) had no available volume zone")

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods without volumes."""
        return SKIPPABLE if shape.volumes is NO_VOLUMES else NO_POINTS

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose volumes can't be looked at: a claim, class or volume is missing."""
        _, problem = volumes_of(pod, cluster)
        return Reject(Unresolvable(problem)) if problem else None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that have any zone or region label, and not one that a volume asks for."""
        volumes, _ = volumes_of(pod, cluster)
        wanted = {topology for volume in volumes for topology in topologies_of(volume)}
        if not wanted:
            return ()
        nodes = cluster.nodes
        constrained = np.zeros(nodes.rows, dtype=np.bool_)
        for label in _LABELS:
            constrained |= nodes.label(label).codes[: nodes.rows] != ABSENT
        fits = np.ones(nodes.rows, dtype=np.bool_)
        for topology in wanted:
            fits &= within(topology, nodes)
        return ((self.elsewhere, constrained & ~fits),)

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """A class that waits for consumers, a claim of the pod, or a volume in other zones than before."""
        match new:
            case StorageClass():
                return new.binding_mode == WAIT_FOR_FIRST_CONSUMER
            case PersistentVolumeClaim():
                named = any(not used.ephemeral and used.name == new.name for used in pod.shape.volumes.claims)
                return named and new.namespace == pod.namespace
            case PersistentVolume():
                return not isinstance(old, PersistentVolume) or topologies_of(old) != topologies_of(new)
        return False


def volumes_of(pod: Pod, cluster: Cluster) -> tuple[list[PersistentVolume], str]:
    """(the bound volumes of a pod's claims, what is wrong with the first claim that can't be used); empty: nothing.

    Claims made for the pod are left out, as upstream does (getPVbyPod).
    """
    storage = cluster.storage
    found: list[PersistentVolume] = []
    for used in pod.shape.volumes.claims:
        if used.ephemeral:
            continue
        if not used.name:
            return found, "PersistentVolumeClaim had no name"
        claim = storage.claims.stored((pod.namespace, used.name))
        if claim is None:
            return found, f'persistentvolumeclaim "{used.name}" not found'
        if claim.volume_name:
            volume = storage.volumes.stored(claim.volume_name)
            if volume is None:
                return found, f'persistentvolume "{claim.volume_name}" not found'
            found.append(volume)
        elif problem := _unbound(claim, storage.classes):
            return found, problem
    return found, ""


def _unbound(claim: PersistentVolumeClaim, classes: dict[str, StorageClass]) -> str:
    """Return what is wrong with a claim that has no volume; nothing if its class waits for the pod."""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = classes.get(claim.storage_class)
    if found is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    if found.binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
    return "" if found.binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """The zones and regions of a volume; a label with an empty part is passed over."""
    found = []
    for label in _LABELS:
        text = volume.labels.get(label)
        if text is not None:
            values = frozenset(part.strip() for part in text.split(ZONE_DELIMITER))
            if "" not in values:
                found.append((label, values))
    return found


def within(topology: Topology, nodes: Nodes) -> Bools:
    """Nodes with one of the values; an old label of a volume is also met by today's label of a node without the old."""
    label, values = topology
    column = nodes.label(label)
    found = column.where(nodes.rows, topology, lambda value: value is not None and value in values)
    if label in TODAY:
        today = nodes.label(TODAY[label])
        otherwise = today.where(nodes.rows, topology, lambda value: value is not None and value in values)
        found = np.where(column.codes[: nodes.rows] == ABSENT, otherwise, found)
    return found
