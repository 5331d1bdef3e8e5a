"""What VolumeRestrictions says of a node that it rejects, and what would help."""

from collections.abc import Sequence

from podberth.explain.plugins.volume_claims import ClaimsExplainer, users_of
from podberth.framework.changes import Fix, FreeClaim, MovePod
from podberth.framework.explaining import Detail, Inquiry
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from podberth.model.storage import READ_WRITE_ONCE_POD
from podberth.plugins.volume_restrictions import VolumeRestrictions, exclusive_claims

_HOLDERS = 2
"""Pods that are offered to go together, at most."""


class VolumeRestrictionsExplainer(ClaimsExplainer):
    """Says of a node that VolumeRestrictions rejects: who uses the claim or the disk."""

    plugin: VolumeRestrictions

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return who holds the claim, or the disk, and where."""
        if reason != self.plugin.claim_in_use:
            held = _disk_holders(inquiry, row)
            text = "; ".join(f"the disk {disk} is used by {pod.key} here" for pod, disk in held)
            return text, {"disks": [{"disk": disk, "pod": pod.key} for pod, disk in held]}
        users = [
            (claim, user)
            for claim in sorted(exclusive_claims(inquiry.pod, inquiry.cluster))
            for user in users_of(inquiry, claim)
        ]
        text = "; ".join(
            f"claim {claim} may be used by one pod only ({READ_WRITE_ONCE_POD}): {pod.key} on {node} holds it"
            for claim, (pod, node) in users
        )
        return text, {"claims": [{"claim": claim, "pod": pod.key, "node": node} for claim, (pod, node) in users]}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Have those go that hold the claim or the disk."""
        free: dict[str, MovePod] = {}
        if self.plugin.no_disk in reasons:
            node = inquiry.node(row).name
            free |= {pod.key: MovePod(pod.key, node) for pod, _ in _disk_holders(inquiry, row)}
        if self.plugin.claim_in_use in reasons:
            for claim in sorted(exclusive_claims(inquiry.pod, inquiry.cluster)):
                users = users_of(inquiry, claim)
                free |= {pod.key: FreeClaim(pod.key, node, claim) for pod, node in users}
        return [tuple(free.values())] if 0 < len(free) <= _HOLDERS else []


def _disk_holders(inquiry: Inquiry, row: int) -> list[tuple[Pod, str]]:
    """The pods on a node that use a disk of the pod so that it can't be shared, and the disk."""
    found = []
    for pod in inquiry.cluster.pods_on(row):
        theirs = {disk.key: disk for disk in pod.shape.volumes.disks}
        for disk in inquiry.pod.shape.volumes.disks:
            other = theirs.get(disk.key)
            if other is not None and (disk.exclusive or other.exclusive):
                found.append((pod, " ".join(disk.key)))
    return found
