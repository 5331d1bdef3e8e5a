"""The volumes of a pod that matter to a scheduler: claims, disks that the pod names itself, inline CSI drivers.

Mirrors what kube-scheduler `plugins/volumerestrictions` and `plugins/nodevolumelimits` read of a pod. In-tree sources
are seen as the CSI drivers that took over from them see them (csi-translation-lib `plugins/*.go`). That is complete for
what kube-scheduler 1.37 translates: AWS EBS, GCE PD, Azure Disk, Cinder and Portworx. Azure File and vSphere volumes
are never translated by it and stay what they are.
"""

import re
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
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
    found = urlsplit(volume_id).path.strip("/")
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
    drivers: tuple[str, ...] = ()
    """CSI drivers of inline CSI volumes."""

    @property
    def ephemeral(self) -> bool:
        """Return whether a claim's name depends on the pod's."""
        return any(claim.ephemeral for claim in self.claims)

    @property
    def attachable(self) -> bool:
        """Return whether any volume may count against a node's limit."""
        return bool(self.claims or self.translated)


_Source = TypeVar("_Source")
_gce = msgspec.json.Decoder(wire.GCEDisk)
_volume_id = msgspec.json.Decoder(wire.VolumeID)
_iscsi = msgspec.json.Decoder(wire.ISCSI)
_rbd = msgspec.json.Decoder(wire.RBD)
_azure = msgspec.json.Decoder(wire.AzureDisk)
_csi = msgspec.json.Decoder(wire.CSIInline)


NO_VOLUMES = PodVolumes()


def read_volumes(volumes: Sequence[wire.Volume]) -> PodVolumes:
    """The volumes that matter; `NO_VOLUMES` itself when there are none."""
    claims: list[ClaimVolume] = []
    disks: list[Disk] = []
    translated: list[tuple[str, Translated]] = []
    drivers: list[str] = []
    restricted = False
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimVolume(volume.persistent_volume_claim.claim_name))
        elif wire.present(volume.ephemeral):
            claims.append(ClaimVolume(volume.name, ephemeral=True))
        else:
            restricted = _inline(volume, disks, translated, drivers) or restricted
    if not (claims or restricted or translated or drivers):
        return NO_VOLUMES
    return PodVolumes(tuple(claims), tuple(disks), restricted, tuple(translated), tuple(drivers))


def _inline(
    volume: wire.Volume, disks: list[Disk], translated: list[tuple[str, Translated]], drivers: list[str]
) -> bool:
    """Add what an inline volume is to these lists. Returns whether it is of a kind that can conflict."""
    if gce := _decoded(volume.gce_persistent_disk, _gce):
        disks.append(Disk(("gce", gce.pd_name), not gce.read_only))
        translated.append((volume.name, gce_disk(gce.pd_name)))
        return True
    if aws := _decoded(volume.aws_elastic_block_store, _volume_id):
        disks.append(Disk(("aws", aws.volume_id), exclusive=True))
        translated.append((volume.name, aws_volume(aws.volume_id)))
        return True
    if iscsi := _decoded(volume.iscsi, _iscsi):
        disks.append(Disk(("iscsi", iscsi.iqn), not iscsi.read_only))
        return True
    if rbd := _decoded(volume.rbd, _rbd):
        # Images are the same if the clusters share a monitor.
        monitors = sorted(set(rbd.monitors or ()))
        disks.extend(Disk(("rbd", monitor, rbd.pool, rbd.image), not rbd.read_only) for monitor in monitors)
        return True
    if azure := _decoded(volume.azure_disk, _azure):
        translated.append((volume.name, azure_disk(azure.uri, azure.kind)))
    elif cinder := _decoded(volume.cinder, _volume_id):
        translated.append((volume.name, Translated(CINDER, cinder.volume_id)))
    elif portworx := _decoded(volume.portworx_volume, _volume_id):
        translated.append((volume.name, Translated(PORTWORX, portworx.volume_id)))
    elif csi := _decoded(volume.csi, _csi):
        drivers.append(csi.driver)
    return False


def _decoded(raw: msgspec.Raw, decoder: msgspec.json.Decoder[_Source]) -> _Source | None:
    text = wire.present(raw)
    return decoder.decode(text) if text else None


def inline_disks(v: wire.Volume) -> tuple[bytes, ...]:
    """The volume sources that name a disk in the pod itself."""
    cloud = (v.gce_persistent_disk, v.aws_elastic_block_store, v.azure_disk, v.cinder, v.portworx_volume)
    return tuple(map(wire.present, (*cloud, v.iscsi, v.rbd, v.csi)))
