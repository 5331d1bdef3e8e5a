"""How many pods of a group each placement takes, by sums over the columns, so that few placements have to be tried.

kube-scheduler tries the group on all of them. What comes of that is seen in the choice of the best one, or in what is
said of the first one: these are tried here as well.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.framework.decision import Rows
from podberth.framework.declaration import Foreign
from podberth.framework.interface import Placement
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.volumes import NO_VOLUMES

_SHAPES = 8
"""Groups whose pods have more shapes than that are tried everywhere."""
_THINGS = 64
"""Pods that ask for more things than that are tried everywhere, too."""


class Room(Struct, frozen=True):
    """How many pods of a group find a node of each placement."""

    most: Mapping[str, int]
    """By placement: no more than that, whatever the order in which they are tried."""
    exact: bool
    """Whether just as many pods fit: the first ones of the group, whose pods are all equal."""


def room_of(placements: Mapping[str, Rows], pods: Sequence[Pod], framework: Framework, cluster: Cluster) -> Room | None:
    """Return how many of the pods each placement takes, as far as sums tell. None: they tell nothing, as more than
    amounts and node objects decide, or a plugin may fail for these pods.

    Raises PluginError.
    """
    by_shape: dict[int, tuple[Pod, int]] = {}
    for pod in pods:
        first, count = by_shape.get(id(pod.shape), (pod, 0))
        by_shape[id(pod.shape)] = first, count + 1
    if len(by_shape) > _SHAPES or foreign(framework):
        return None
    if not all(plain(pod.shape) for pod, _ in by_shape.values()):
        return None
    exact = len(by_shape) == 1 and not cluster.nominations
    nowhere = len(placements)
    of = np.full(cluster.nodes.rows, nowhere, dtype=np.intp)
    lengths = [len(rows) for rows in placements.values()]
    of[np.concatenate(list(placements.values()))] = np.repeat(np.arange(nowhere), lengths)
    most = np.zeros(nowhere, dtype=np.int64)
    for pod, count in by_shape.values():
        on_row, is_exact = _on_rows(pod, count, framework, cluster)
        exact &= is_exact
        sums = np.bincount(of, weights=on_row, minlength=nowhere + 1)[:nowhere]
        most += np.minimum(sums, count).astype(np.int64)
    return Room(dict(zip(placements, most.tolist(), strict=True)), exact)


def room_of_all(found: Sequence[Placement], pods: Sequence[Pod], framework: Framework, cluster: Cluster) -> Room | None:
    """Do what `room_of` does for placements and all their domains. Domains of one level have no node in common."""
    levels: dict[int, dict[str, Rows]] = {}
    for placement in found:
        levels.setdefault(placement.level, {})[placement.name] = placement.rows
    parts = {id(one): one for placement in found for one in placement.domains}  # broader placements have them, too
    for one in parts.values():
        levels.setdefault(one.level, {})[one.name] = one.rows
    most: dict[str, int] = {}
    exact = True
    try:
        for rows in levels.values():
            room = room_of(rows, pods, framework, cluster)
            if room is None:
                return None
            most.update(room.most)
            exact &= room.exact
    except PluginError:
        return None  # the attempt itself will find out, and say so
    return Room(most, exact)


def _on_rows(pod: Pod, count: int, framework: Framework, cluster: Cluster) -> tuple[Ints, bool]:
    """(int64[rows]: how many of `count` equals of a pod each row takes at most; whether it takes as many)."""
    spare, rows = framework.filters.spare(pod, cluster), cluster.nodes.rows
    room = np.where(spare.allowed[:rows], count, 0)
    takes = spare.takes(pod.shape)
    free = spare.free(np.arange(rows, dtype=np.intp))
    for need, take, left in zip(spare.needs.tolist(), takes, free, strict=True):
        if need > 0:
            more = (left - need) // take if take > 0 else count
            room = np.minimum(room, np.where(left >= need, more + 1, 0))
    return room, spare.exact


def plain(shape: PodShape) -> bool:
    """Return whether only amounts and node objects decide about pods of a shape, and nothing about these can fail."""
    wrong = (shape.problem, shape.preferred_error, shape.annotation_problem)
    elsewhere = (shape.affinity_terms, shape.anti_affinity_terms, shape.preferred_pod_terms, shape.spread)
    return (
        all(text is None for text in wrong)
        and not any(elsewhere)
        and not shape.claims
        and not shape.containers
        and shape.volumes is NO_VOLUMES
        and len(shape.requests) <= _THINGS
    )


def foreign(framework: Framework) -> bool:
    """Return whether a third party's plugin may go by whatever it likes."""
    return any(isinstance(plugin, Foreign) for plugin in framework.profile.by_name.values())
