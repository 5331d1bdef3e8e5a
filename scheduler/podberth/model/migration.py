"""In-tree volume sources as the CSI drivers that took over from them see them (csi-translation-lib `plugins/*.go`).

Complete for what kube-scheduler 1.37 translates: AWS EBS, GCE PD, Azure Disk, Cinder and Portworx. Azure File and
vSphere volumes are never translated by it and stay what they are.
"""

import re
from collections.abc import Sequence
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
