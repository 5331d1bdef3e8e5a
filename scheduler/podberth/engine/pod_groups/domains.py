"""In which of its preferred domains a group is, and in which order they are filled: few of them, pods by their ranks.

The domains are nested: a path names a domain by its values at each level. At each level as few domains as possible are
taken: the one with most room, again and again, and in the end the smallest one that takes the rest (as Kueue's
topology-aware scheduling does by default). For equal pods that is the fewest that there can be.
"""

from collections.abc import Mapping, Set
from itertools import accumulate

from podberth.framework.decision import Rows
from podberth.framework.interface import Placement
from podberth.model.pod import Pod

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
"""If sums say nothing of a group with levels, and a level has more placements than that, a broader one is tried."""
Rank = tuple[tuple[int, int, str], ...]


def rank(pod: Pod) -> Rank:
    """Pods of a group are tried in this order. Those without a rank stay where they are, behind the others."""
    return tuple(_part(next((pod.labels[key] for key in keys if key in pod.labels), None)) for keys in _RANKS)


def _part(value: str | None) -> tuple[int, int, str]:
    if value is None:
        return 2, 0, ""
    return (0, int(value), "") if value.isascii() and value.isdigit() and len(value) < 10 else (1, 0, value)


def filled(room: Mapping[Path, int], count: int, first: Set[Path]) -> list[Path]:
    """The order in which domains are filled by so many pods. `room`: how many each takes. `first`: these come first."""
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
    """The domains of a placement in the order in which so many pods fill them, and how many of them these use.

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
    """Return how many domains so many pods use, if they are filled in this order."""
    sums = list(accumulate(room[path] for path in order))
    return next((i + 1 for i, reached in enumerate(sums) if reached >= count), len(order))


def _few(room: Mapping[str, int], count: int, first: Set[str]) -> list[str]:
    """All of them, those that are needed before the others. Of equal ones, the first by name."""
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
