"""Upstream: plugins/nodevolumelimits (csi.go). What is attached where is counted in `podberth.cache.volumes`."""

from collections.abc import Collection
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.volumes import NOT_INSTALLED, of_translated
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, PODS_HERE, SKIPPABLE, VOLUMES, OtherObject, Plugin
from podberth.framework.status import Reason, Rejections, Unresolvable, Unschedulable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from podberth.model.volumes import NO_VOLUMES


class NodeVolumeLimits(Plugin):
    """Keep a pod off nodes that can't attach as many volumes of a CSI driver as it needs, or lack a required driver."""

    name = "NodeVolumeLimits"
    depends_on = PODS_HERE | VOLUMES
    events = ClusterEvent.CSI_NODE | ClusterEvent.POD_GONE | ClusterEvent.CLAIM_ADDED | ClusterEvent.ATTACHMENT_GONE
    too_many = Unschedulable("node(s) exceed max volume count")

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods without volumes."""
        return SKIPPABLE if shape.volumes is NO_VOLUMES else NO_POINTS

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes without a driver that must be installed, then those whose limit the pod would break."""
        volumes = pod.shape.volumes
        if not volumes.attachable:
            return ()
        unusable = _unusable_claim(pod, cluster)
        if unusable is not None:
            return ((unusable, np.ones(cluster.nodes.rows, dtype=np.bool_)),)
        attached = cluster.storage.attached
        # In-tree volumes count only on nodes that have a CSINode.
        known = attached.with_csi_node()
        wanted = self.wanted(pod, cluster)
        untranslated = _untranslated(pod)
        if untranslated is not None:
            # Upstream fails the whole attempt when it comes to such a node.
            return ((untranslated, known),)
        found = self._not_installed(cluster, wanted, known)
        exceeded = np.zeros(cluster.nodes.rows, dtype=np.bool_)
        for driver, its_volumes in wanted.with_csi_node.items():
            limits = attached.limits(driver)
            limited = limits >= 0
            if not limited.any():
                continue
            more: Any = len(its_volumes)  # of each row, or of all where none of them is attached yet
            for volume in its_volumes:
                if rows := attached.holders(volume):
                    here = np.zeros(cluster.nodes.rows, dtype=np.int64)
                    here[list(rows)] = 1
                    more = more - here
            exceeded |= limited & (more > 0) & (attached.counts(driver) + more > limits)
        for _, rejected in found:
            exceeded &= ~rejected
        return [*found, (self.too_many, exceeded)]

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod that went and had volumes attached."""
        return other.shape.volumes.attachable

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """A CSINode with a new driver or a higher limit, a claim of the pod, or an attachment that went."""
        volumes = pod.shape.volumes
        match new if new is not None else old:
            case CSINode() as node:
                return not isinstance(old, CSINode) or _allows_more(old, node)
            case PersistentVolumeClaim() as claim:
                names = (used.claim(pod.name) for used in volumes.claims)
                return claim.namespace == pod.namespace and claim.name in names
            case VolumeAttachment() as attachment:
                drivers = (disk.driver for _, disk in volumes.translated)
                return bool(volumes.claims) or attachment.attacher in drivers
        return False

    def wanted(self, pod: Pod, cluster: Cluster) -> "_Wanted":
        """Return what the pod would attach."""
        storage, volumes = cluster.storage, pod.shape.volumes
        wanted = _Wanted()
        for _, disk in volumes.translated:
            wanted.add(of_translated(disk), None)
        for used in volumes.claims:
            claim = storage.claims.stored((pod.namespace, used.claim(pod.name)))
            if claim is not None:
                of_claim = storage.attached.of_claim
                wanted.add(of_claim(claim, with_csi_node=True), of_claim(claim, with_csi_node=False))
        return wanted

    def _not_installed(self, cluster: Cluster, wanted: "_Wanted", known: Bools) -> list[tuple[Reason, Bools]]:
        """Nodes without a driver that must be installed, each for the first such driver by name."""
        drivers = cluster.storage.drivers
        its = wanted.with_csi_node.keys() | wanted.without
        required = sorted(one for one in its if one in drivers and drivers[one].must_be_installed)
        if not required:
            return []
        found = []
        left = np.ones(cluster.nodes.rows, dtype=np.bool_)
        for driver in required:
            lacks = cluster.storage.attached.limits(driver) == NOT_INSTALLED
            needs = known if driver not in wanted.without else np.ones_like(known)
            rows = left & lacks & needs
            found.append((Unschedulable(f"{driver} CSI driver is not installed on the node"), rows))
            left &= ~rows
        return found


class _Wanted:
    """The volumes that a pod would attach."""

    def __init__(self) -> None:
        self.with_csi_node: dict[str, dict[str, None]] = {}
        """Driver → volumes, on nodes that have a CSINode."""
        self.without: set[str] = set()
        """Drivers, on nodes that have none."""

    def add(self, with_csi_node: tuple[str, str] | None, without: tuple[str, str] | None) -> None:
        """One more: (volume, driver) of both kinds of nodes, None where it does not count."""
        if with_csi_node is not None:
            self.with_csi_node.setdefault(with_csi_node[1], {})[with_csi_node[0]] = None
        if without is not None:
            self.without.add(without[1])


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """A claim that was not made for the pod whose ephemeral volume it is named after (VolumeIsForPod)."""
    return f"PVC {claim} was not created for pod {pod.key} (pod is not owner)"


def _untranslated(pod: Pod) -> Reason | None:
    """The first inline disk that a CSI driver can't attach."""
    for name, disk in pod.shape.volumes.translated:
        if disk.problem is not None:
            return Unresolvable(f"converting volume({name}) from inline to csi: {disk.problem}")
    return None


def _unusable_claim(pod: Pod, cluster: Cluster) -> Reason | None:
    """The first claim that is not there, or is another pod's."""
    for used in pod.shape.volumes.claims:
        name = used.claim(pod.name)
        claim = cluster.storage.claims.stored((pod.namespace, name))
        if claim is None:
            return Unresolvable(f'looking up PVC {pod.namespace}/{name}: persistentvolumeclaim "{name}" not found')
        if used.ephemeral and claim.owner != pod.uid:
            return Unresolvable(not_owner(claim, pod))
    return None


def _allows_more(old: CSINode, new: CSINode) -> bool:
    """Return whether a driver is new or may attach more than before. Upstream overlooks limits that are lifted."""
    for driver, limit in new.drivers.items():
        before = old.drivers.get(driver)
        if driver not in old.drivers or (limit or 0) > (before or 0) or (limit is None and before is not None):
            return True
    return False
