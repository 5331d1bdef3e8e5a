"""What VolumeZone says of a node that it rejects, and what would help."""

from collections.abc import Sequence
from functools import partial

from podberth.explain.plugins.volume_claims import ClaimsExplainer, class_for_new_volume
from podberth.framework.changes import Fix
from podberth.framework.explaining import Detail, Inquiry, domain
from podberth.framework.status import Reason
from podberth.framework.storage_changes import ReplaceVolume
from podberth.model.storage import PersistentVolume
from podberth.plugins.volume_zone import TODAY, Topology, VolumeZone, topologies_of, volumes_of, within


class VolumeZoneExplainer(ClaimsExplainer):
    """Says of a node that VolumeZone rejects: where the volumes are, and where the node is."""

    plugin: VolumeZone

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return which volume of which claim is where, and where the node is."""
        labels = inquiry.node(row).labels
        parts, data = [], []
        for volume, topologies in self._elsewhere(inquiry, row):
            claim = volume.claim.name if volume.claim is not None else ""
            for key, values in topologies:
                key = TODAY.get(key, key)
                where = " or ".join(domain(key, value) for value in sorted(values))
                has = labels.get(key)
                here = f"is in {domain(key, has)}" if has else f"has no label {key}"
                parts.append(f"claim {claim} has the volume {volume.name} in {where}: the node {here}")
                data.append({"claim": claim, "volume": volume.name, "key": key, "values": sorted(values), "has": has})
        return "; ".join(parts), {"volumes": data}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Give up the volumes that are elsewhere."""
        plan = []
        for volume, _ in self._elsewhere(inquiry, row):
            if volume.claim is not None:
                of_class = class_for_new_volume(inquiry.cluster.storage, volume.storage_class)
                if of_class is None:
                    return []
                plan.append(ReplaceVolume(volume.claim.namespace, volume.claim.name, of_class, volume.name))
        return [tuple(plan)] if plan else []

    def _elsewhere(self, inquiry: Inquiry, row: int) -> list[tuple[PersistentVolume, list[Topology]]]:
        """The bound volumes that are not where the node is."""
        found = []
        nodes = inquiry.cluster.nodes
        for volume, _ in volumes_of(inquiry.pod, inquiry.cluster):
            if volume is not None:
                missed = [
                    topology
                    for topology in topologies_of(volume)
                    if not inquiry.once(topology, partial(within, topology, nodes))[row]
                ]
                if missed:
                    found.append((volume, missed))
        return found
