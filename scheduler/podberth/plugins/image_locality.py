"""Upstream: plugins/imagelocality."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints, at
from podberth.cache.kept_results import Recurring
from podberth.cache.nodes import Images, Nodes
from podberth.framework.interface import MAX_SCORE, NO_POINTS, NODE, OTHER_NODES, Plugin
from podberth.model.pod import Pod

_MIN_THRESHOLD = 23 << 20
_MAX_CONTAINER_THRESHOLD = 1000 << 20
_KEPT = 16
"""The number of lists of images for which the scores of all nodes are kept."""


class ImageLocality(Plugin):
    """Prefer nodes that already hold the pod's images, the more so the more of the cluster holds them."""

    name = "ImageLocality"
    depends_on = NODE | OTHER_NODES

    def __init__(self, args: Any = None) -> None:
        self._kept: Recurring[tuple[str, ...], tuple[Images, tuple[int, int, int], Ints | int]] = Recurring(_KEPT)
        """Images of a pod → (the `Images` of the nodes, what the scores were computed from of them, the scores)."""

    def idle(self, pod: Pod, cluster: Cluster) -> Collection[str]:
        """Skip Score while no node has an image of the pod."""
        found = any(cluster.nodes.image(name) is not None for name in pod.shape.images)
        return NO_POINTS if found else ("score",)

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int:
        """Sum size × spread of the images that a node has: from 23 MiB to 1000 MiB for each image, as 0..100."""
        wanted, nodes = pod.shape.images, cluster.nodes
        state = nodes.images.version, nodes.count, nodes.rows
        kept = self._kept.recall(wanted)
        if kept is None or kept[0] is not nodes.images or kept[1] != state:
            kept = nodes.images, state, _of_all(wanted, nodes)
            self._kept.keep(wanted, kept)
        scores = kept[2]
        return scores if isinstance(scores, int) else at(scores, feasible)


def _of_all(wanted: tuple[str, ...], nodes: Nodes) -> Ints | int:
    """int64[rows], or one score that all rows have."""
    sums: Ints | None = None
    for name, times in Counter(wanted).items():
        image = nodes.image(name)
        if image is not None:
            rows, sizes = image
            sums = np.zeros(nodes.rows, dtype=np.int64) if sums is None else sums
            sums[rows] += (sizes * (len(rows) / float(nodes.count))).astype(np.int64) * times
    if sums is None:
        return 0
    highest = _MAX_CONTAINER_THRESHOLD * len(wanted)
    clamped = np.clip(sums, _MIN_THRESHOLD, highest)
    scores: Ints = MAX_SCORE * (clamped - _MIN_THRESHOLD) // (highest - _MIN_THRESHOLD)
    same = int(scores.min()) == int(scores.max())
    return int(scores[0]) if same else scores
