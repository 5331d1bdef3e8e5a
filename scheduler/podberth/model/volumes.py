"""What a pod's `spec.volumes` mean to a scheduler: claims, disks named in the pod itself, inline CSI drivers.

Mirrors what kube-scheduler `plugins/volumerestrictions` and `plugins/nodevolumelimits` read of a pod.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from podberth.model import wire
from podberth.model.migration import CINDER, PORTWORX, Translated, aws_volume, azure_disk, gce_disk

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
