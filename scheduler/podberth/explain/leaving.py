"""Pods that are being deleted, and what waits for nothing else: to delete them again would do nothing."""

from collections.abc import Iterator, Sequence

from podberth.cache.cluster import Cluster
from podberth.explain.trial import Trial
from podberth.framework.changes import AwaitPod, Change, GiveUpNode, MovePod


def awaited(trial: Trial, first: tuple[Change, ...]) -> tuple[AwaitPod, ...]:
    """As few pods as it takes, all of them being deleted, that leave room for the pod when they are gone.

    `first`: what is changed besides. Empty: there are none, or they do not make enough room.
    """
    kept = tuple(_terminating(trial.cluster))
    nodes = trial.nodes((*first, *kept)) if kept else []
    if not nodes:
        return ()
    on_one = tuple(each for each in kept if each.node == nodes[0])
    if on_one and trial.nodes((*first, *on_one)):
        kept = on_one
    size = len(kept)
    while size:
        for start in range(len(kept) - size, -1, -size):
            rest = (*kept[:start], *kept[start + size :])
            if rest and trial.nodes((*first, *rest)):
                kept = rest
        size //= 2
    return kept


def instead_of_moves(changes: Sequence[Change], cluster: Cluster) -> tuple[Change, ...]:
    """The changes, where none moves a pod that is being deleted, or one that is only nominated for its node."""
    return tuple(_instead(change, cluster) if isinstance(change, MovePod) else change for change in changes)


def _instead(move: MovePod, cluster: Cluster) -> Change:
    row = cluster.nodes.row_of(move.node)
    there = next((pod for pod in (() if row is None else cluster.pods_on(row)) if pod.key == move.pod), None)
    kept = next((pod for pod in cluster.nominations.on(move.node) if pod.key == move.pod), None)
    pod = there or kept
    if pod is not None and pod.terminating:
        return AwaitPod(move.pod, move.node)
    return GiveUpNode(move.pod, move.node) if there is None and kept is not None else move


def _terminating(cluster: Cluster) -> Iterator[AwaitPod]:
    for placement in cluster.placements():
        if placement.pod.terminating:
            yield AwaitPod(placement.pod.key, cluster.nodes.names[placement.row] or "")
    for node in cluster.nominations.nodes():
        yield from (AwaitPod(pod.key, node) for pod in cluster.nominations.on(node) if pod.terminating)
