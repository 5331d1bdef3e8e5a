"""The volumes of a pod that matter to a scheduler: claims, and disks that the pod names itself.

Mirrors what kube-scheduler `plugins/volumerestrictions` and `plugins/nodevolumelimits` read of a pod. In-tree sources
are seen as the CSI drivers that took over from them see them (csi-translation-lib `plugins/*.go`). That is complete for
what kube-scheduler 1.37 translates: AWS EBS, GCE PD, Azure Disk, Cinder and Portworx. Azure File and vSphere volumes
are never translated by it and stay what they are.
"""

import re
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from podberth.model import wire
from podberth.model.selectors import Labels

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
CINDER = "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"

DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin → the CSI driver that took over from it."""
NOT_TRANSLATED = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))
"""Plugins with a CSI successor whose volumes the scheduler leaves alone all the same (isCSIMigrationOn)."""
_ZONE_KEYS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}

_AWS_VOLUME = re.compile(r"vol-[^/]*")
_UNSPECIFIED = "UNSPECIFIED"


class Translated(Struct, frozen=True):
    """A volume under the name its CSI driver knows it by. `problem`: why it can't be translated."""

    plugin: str
    handle: str
    problem: str | None = None

    @property
    def driver(self) -> str:
        """The CSI driver that took over."""
        return DRIVERS[self.plugin]


def aws_volume(volume_id: str) -> Translated:
    """An EBS volume: `vol-…`, `aws:///vol-…` or `aws://ZONE/vol-…` (KubernetesVolumeIDToEBSVolumeID)."""
    if not volume_id.startswith("aws://"):
        return Translated(AWS_EBS, volume_id)
    try:
        found = urlsplit(volume_id).path.strip("/")
    except ValueError:  # no URL, such as aws://[
        found = ""
    if not _AWS_VOLUME.fullmatch(found):
        problem = f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        return Translated(AWS_EBS, "", problem)
    return Translated(AWS_EBS, found)


def gce_disk(name: str, zones_label: str = "") -> Translated:
    """A persistent disk; a volume's zone label says whether it is zonal or regional."""
    zones = zones_label.split(ZONE_DELIMITER)
    if len(zones) == 1:
        return Translated(GCE_PD, f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}")
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            text = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            return Translated(GCE_PD, "", f"failed to get region from zones: {text}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        text = f"multiple or no regions gotten from zones, got: {sorted(regions)}"
        return Translated(GCE_PD, "", f"failed to get region from zones: {text}")
    return Translated(GCE_PD, f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}")


def azure_disk(uri: str, kind: str | None) -> Translated:
    """An Azure disk, if it is a managed one."""
    if kind is not None and kind.lower() != "managed":
        return Translated(AZURE_DISK, "", f"kind({kind}) is not supported in csi migration")
    return Translated(AZURE_DISK, uri)


class InTree(Protocol):
    """The in-tree sources of a volume, in a pod or by itself, that a CSI driver took over. At most one is there."""

    aws_elastic_block_store: wire.VolumeID | None
    gce_persistent_disk: wire.GCEDisk | None
    azure_disk: wire.AzureDisk | None
    cinder: wire.VolumeID | None
    portworx_volume: wire.VolumeID | None


def translated(source: InTree, zones: str = "") -> Translated | None:
    """The volume as its CSI driver knows it; None: it is no in-tree one. `zones`: its zone label."""
    if aws := source.aws_elastic_block_store:
        return aws_volume(aws.volume_id)
    if gce := source.gce_persistent_disk:
        return gce_disk(gce.pd_name, zones)
    if azure := source.azure_disk:
        return azure_disk(azure.uri, azure.kind)
    if cinder := source.cinder:
        return Translated(CINDER, cinder.volume_id)
    if portworx := source.portworx_volume:
        return Translated(PORTWORX, portworx.volume_id)
    return None


def csi_affinity(plugin: str, affinity: wire.NodeSelector | None, labels: Labels) -> wire.NodeSelector | None:
    """A volume's required node affinity in its CSI driver's terms (translateTopologyFromInTreeToCSI)."""
    zone_key = _ZONE_KEYS.get(plugin)
    if zone_key is None:
        return affinity
    terms = [term or wire.NodeSelectorTerm() for term in (affinity.node_selector_terms or ())] if affinity else []
    keys = {r.key for term in terms for r in term.match_expressions or ()}
    beta = ZONE not in keys and (BETA_ZONE in keys or (ZONE not in labels and BETA_ZONE in labels))
    zone_label = BETA_ZONE if beta else ZONE
    renamed = {}
    added: list[str] = []
    if _has_values(terms, zone_label):
        renamed[zone_label] = zone_key
    elif zone_label in labels:
        added = sorted({zone.strip() for zone in labels[zone_label].split(ZONE_DELIMITER)} - {""})
    if beta and _has_values(terms, BETA_REGION):
        renamed[BETA_REGION] = REGION
    if not renamed and not added:
        return affinity
    more = [wire.Requirement(zone_key, "In", added)] if added else []
    return wire.NodeSelector(
        [
            wire.NodeSelectorTerm(
                [
                    wire.Requirement(renamed.get(r.key, r.key), r.operator, r.values)
                    for r in (*(term.match_expressions or ()), *more)
                ],
                term.match_fields,
            )
            for term in terms or ([wire.NodeSelectorTerm()] if added else [])
        ]
    )


def _has_values(terms: Sequence[wire.NodeSelectorTerm], key: str) -> bool:
    return any(r.key == key and r.values for term in terms for r in term.match_expressions or ())


DiskKey = tuple[str, ...]
"""A disk's kind, and what identifies it among the disks of that kind."""


class ClaimVolume(Struct, frozen=True):
    """A volume behind a claim. `ephemeral`: the claim is made for the pod, and `name` is the volume's."""

    name: str
    ephemeral: bool = False

    def claim(self, pod: str) -> str:
        """The name of the PersistentVolumeClaim for a pod of this name (VolumeClaimName)."""
        return f"{pod}-{self.name}" if self.ephemeral else self.name


class Disk(Struct, frozen=True):
    """A disk named in the pod. Two users of it conflict unless neither is `exclusive`."""

    key: DiskKey
    exclusive: bool


class PodVolumes(Struct, frozen=True):
    """The volumes of a pod that decide where it may go, in the order of the spec."""

    claims: tuple[ClaimVolume, ...] = ()
    disks: tuple[Disk, ...] = ()
    restricted: bool = False
    """Has an inline disk of a kind that can conflict (needsRestrictionsCheck)."""
    translated: tuple[tuple[str, Translated], ...] = ()
    """(volume name, what it is to its CSI driver) of inline in-tree disks that have one."""

    @property
    def ephemeral(self) -> bool:
        """Return whether a claim's name depends on the pod's."""
        return any(claim.ephemeral for claim in self.claims)

    @property
    def attachable(self) -> bool:
        """Return whether any volume may count against a node's limit."""
        return bool(self.claims or self.translated)


NO_VOLUMES = PodVolumes()


def read_volumes(volumes: Sequence[wire.Volume]) -> PodVolumes:
    """The volumes that matter; `NO_VOLUMES` itself when there are none."""
    claims: list[ClaimVolume] = []
    disks: list[Disk] = []
    in_tree: list[tuple[str, Translated]] = []
    restricted = False
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimVolume(volume.persistent_volume_claim.claim_name))
        elif wire.present(volume.ephemeral):
            claims.append(ClaimVolume(volume.name, ephemeral=True))
        else:
            found = _disks(volume)
            restricted = restricted or found is not None
            disks += found or ()
            if moved := translated(volume):
                in_tree.append((volume.name, moved))
    if not (claims or restricted or in_tree):
        return NO_VOLUMES
    return PodVolumes(tuple(claims), tuple(disks), restricted, tuple(in_tree))


def _disks(volume: wire.Volume) -> list[Disk] | None:
    """The disks that an inline volume is; None: it is of a kind that can't conflict."""
    if gce := volume.gce_persistent_disk:
        return [Disk(("gce", gce.pd_name), not gce.read_only)]
    if aws := volume.aws_elastic_block_store:
        return [Disk(("aws", aws.volume_id), exclusive=True)]
    if iscsi := volume.iscsi:
        return [Disk(("iscsi", iscsi.iqn), not iscsi.read_only)]
    if rbd := volume.rbd:
        # Images are the same if the clusters share a monitor.
        monitors = sorted(set(rbd.monitors or ()))
        return [Disk(("rbd", monitor, rbd.pool, rbd.image), not rbd.read_only) for monitor in monitors]
    return None
