"""Room for the pods of a group in its placements: how many each takes, and in which order its domains are filled.

Sums over the columns say how many pods a placement takes, so that few have to be tried. kube-scheduler tries the group
on all of them. What comes of that is seen in the choice of the best one, or in what is said of the first one: these are
tried here as well.

Domains are nested: a path names a domain by its values at each level. At each level as few domains as possible are
taken: the one with most room, again and again, and in the end the smallest one that takes the rest (as Kueue's
topology-aware scheduling does by default). For equal pods that is the fewest that there can be.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import accumulate

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
"""The most shapes of a group's pods for which sums are used; with more of them, every placement is tried."""
_THINGS = 64
"""The most resources of a pod for which sums are used."""


class Room(Struct, frozen=True):
    """The numbers of pods of a group that find a node of each placement."""

    most: Mapping[str, int]
    """Placement → upper bound of the pods that it takes, in whatever order they are tried."""
    exact: bool
    """True if exactly that many pods fit: the first ones of the group, whose pods are all equal."""


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
    """Return (int64[rows]: how many of `count` equal pods each row takes at most; whether that is exact)."""
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
    """Return whether a plugin of a third party may decide by data that is not known here."""
    return any(isinstance(plugin, Foreign) for plugin in framework.profile.by_name.values())


# -- domains of a placement --------------------------------------------------------------------------------------------

Path = tuple[str, ...]
_RANKS = (
    ("jobset.sigs.k8s.io/job-index", "training.kubeflow.org/replica-type", "leaderworkerset.sigs.k8s.io/group-index"),
    (
        "batch.kubernetes.io/job-completion-index",
        "training.kubeflow.org/replica-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "apps.kubernetes.io/pod-index",
    ),
)
"""Labels that say which rank a pod has: of its part of the group, and in it."""
TRIED = 64
"""The most placements of a level that are tried where sums say nothing; with more, a broader level is tried."""
Rank = tuple[tuple[int, int, str], ...]


def rank(pod: Pod) -> Rank:
    """Return the key that orders the pods of a group by their rank labels. Pods without a rank keep their order, at the
    end.
    """
    return tuple(_part(next((pod.labels[key] for key in keys if key in pod.labels), None)) for keys in _RANKS)


def _part(value: str | None) -> tuple[int, int, str]:
    if value is None:
        return 2, 0, ""
    return (0, int(value), "") if value.isascii() and value.isdigit() and len(value) < 10 else (1, 0, value)


def filled(room: Mapping[Path, int], count: int, first: Set[Path]) -> list[Path]:
    """Return the order in which `count` pods fill domains. `room`: pods that each takes. `first`: domains that come
    first.
    """
    order: list[Path] = []
    parts: dict[str, dict[Path, int]] = {}
    for path, takes in room.items():
        if takes > 0:
            parts.setdefault(path[0], {})[path[1:]] = takes
    heads = {path[0] for path in first}
    for head in _few({head: sum(inner.values()) for head, inner in parts.items()}, count, heads):
        inner = parts[head]
        share = min(sum(inner.values()), max(count, 0))
        if () in inner:
            order.append((head,))
        else:
            order += [(head, *rest) for rest in filled(inner, share, {path[1:] for path in first if path[0] == head})]
        count -= share
    return order


def fill_order(
    placement: Placement, most: Mapping[str, int] | None, count: int, here: Set[int | None]
) -> tuple[list[Rows], int]:
    """Return the domains of a placement in the order in which so many pods fill them, and how many of them these use.

    `most`: how many pods each takes, by name; None: sums do not say. `here`: rows on which the group's pods run.
    """
    if not placement.domains or (most is None and len(placement.domains) > TRIED):
        return [], 0
    below = {one.path[len(placement.path) :]: one for one in placement.domains}
    if most is None:
        return [one.rows for one in below.values()], 0
    room = {path: most.get(one.name, count) for path, one in below.items()}
    first = {path for path, one in below.items() if here and not here.isdisjoint(one.rows.tolist())}
    order = filled(room, count, first)
    return [below[path].rows for path in order], used(order, room, count)


def used(order: list[Path], room: Mapping[Path, int], count: int) -> int:
    """Return the number of domains that `count` pods use if they are filled in this order."""
    sums = list(accumulate(room[path] for path in order))
    return next((i + 1 for i, reached in enumerate(sums) if reached >= count), len(order))


def _few(room: Mapping[str, int], count: int, first: Set[str]) -> list[str]:
    """Return all domains, the fewest that are needed first. Equal ones are ordered by name."""
    order: list[str] = []
    by_room = sorted(room, key=lambda head: (-room[head], head))
    for left in ([head for head in by_room if head in first], [head for head in by_room if head not in first]):
        for i, head in enumerate(left):
            if 0 < count <= room[head]:
                takes = min(room[one] for one in left[i:] if room[one] >= count)
                last = next(one for one in left[i:] if room[one] == takes)
                order += [last, *(one for one in left[i:] if one != last)]
                count = 0
                break
            order.append(head)
            count -= room[head]
    return order
