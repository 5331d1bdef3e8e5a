"""How many more pods with volumes each node can attach, where what is made for one pod is no other's.

Each pod has claims of its own whose volumes are still to be made, or shares volumes that count against no limit. Then
only the number of volumes that a node can attach goes by how many of the pods it has.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.storage import ClaimKey
from podberth.plugins.volume_binding.plugin import VolumeBinding

PLENTY = 1 << 60
"""More pods than any node takes."""
_ONE_POD = "ReadWriteOncePod"


def attachable(pod: Pod, framework: Framework, cluster: Cluster, own: Collection[ClaimKey]) -> Ints | None:
    """int64[rows]; None where one pod may take a volume, or the room for it, from another.

    `own`: the pod's claims of which each of its equals has one, too; they are there. Raises PluginError.
    """
    volumes, storage = pod.shape.volumes, cluster.storage
    binding = framework.plugin("VolumeBinding")
    if volumes.disks or volumes.restricted or volumes.translated or volumes.drivers:
        return None
    if not isinstance(binding, VolumeBinding) or binding.shares_room(pod, cluster):
        return None
    attached = storage.attached
    known = attached.with_csi_node()
    of_driver: Counter[str] = Counter()
    for used in volumes.claims:
        key = (pod.namespace, used.claim(pod.name))
        claim = storage.claims.stored(key)
        if claim is None or (key not in own and _ONE_POD in claim.access_modes):
            return None
        counted = attached.of_claim(claim, with_csi_node=True)
        if counted is None:
            continue
        if key not in own and (attached.limits(counted[1]) >= 0).any():
            return None  # the first pod on a node attaches it for those that follow
        of_driver[counted[1]] += 1
    most = np.full(cluster.nodes.rows, PLENTY, dtype=np.int64)
    for driver, number in of_driver.items():
        limits = attached.limits(driver)
        left = np.maximum(limits - attached.counts(driver), 0) // number
        most = np.where(known & (limits >= 0), np.minimum(most, left), most)
    return most
