"""Upstream: plugins/imagelocality."""

from collections import Counter
from typing import Any

import numpy as np

from scheduler.framework.plugin import MAX_SCORE, NODE, OTHER_NODES, Plugin
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints

_MIN_THRESHOLD = 23 << 20
_MAX_CONTAINER_THRESHOLD = 1000 << 20


class ImageLocality(Plugin):
    """Prefer nodes that already hold the pod's images, the more so the more of the cluster holds them."""

    name = "ImageLocality"
    depends_on = NODE | OTHER_NODES

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int:
        """Sum size × spread of the images a node has, clamped between 23 MiB and 1000 MiB a container, as 0..100."""
        nodes, shape = cluster.nodes, pod.shape
        # All images at once, and each is asked for once: a pod may name thousands.
        where = {name: nodes.image(name) for name in dict.fromkeys(shape.images)}
        times = Counter(name for name in shape.images if where[name])
        if not times:
            return 0
        found = [image for name in times if (image := where[name])]
        numbers = np.array([len(rows) for rows, _ in found])
        spread = np.repeat(numbers / float(nodes.count), numbers)
        sizes = np.concatenate([sizes for _, sizes in found]).astype(np.float64)
        scaled = (sizes * spread).astype(np.int64) * np.repeat(list(times.values()), numbers)
        sums = np.zeros(nodes.rows, dtype=np.int64)
        np.add.at(sums, np.concatenate([rows for rows, _ in found]), scaled)
        highest = _MAX_CONTAINER_THRESHOLD * shape.image_count
        clamped = np.clip(sums[feasible], _MIN_THRESHOLD, highest)
        scores: Ints = MAX_SCORE * (clamped - _MIN_THRESHOLD) // (highest - _MIN_THRESHOLD)
        return scores
