"""A cluster made anew from its objects: every column, count and index of nodes and pods, by the rows it has.

What was kept up to date event by event can be held against it, or replaced by it. Storage objects, nominations and
what selects pods are no sums of events, and stay shared. Costs a few microseconds for each node and each placed pod.
"""

import copy
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.incidence import Incidence
from scheduler.state.nodes import Nodes
from scheduler.state.rowlog import RowLog

_MANY = 16
"""From so many pods of one shape on, they are added up at once."""


def made_anew(cluster: Cluster) -> Cluster:
    """The same nodes and pods on the same rows; not in the middle of a dry run.

    What is done to the copy's nodes and pods is not seen in the original, nor the other way round.
    """
    nodes = _nodes(cluster.nodes)
    incidence = Incidence(nodes, cluster.namespaces)
    alike: dict[tuple[PodShape, int, bool], tuple[Pod, list[int]]] = {}
    for placement in cluster.placements():
        pod = placement.pod
        key = (pod.shape, id(pod.labels), pod.terminating)
        found = alike.get(key)
        if found is None:
            alike[key] = (pod, [placement.row])
        else:
            found[1].append(placement.row)
    for pod, rows in alike.values():
        _charge(nodes, pod.shape, rows)
        incidence.add_many(pod, Counter(rows))
    # Readers of the original's logs must not take these for them: whatever they have seen is too long ago.
    nodes.log = RowLog(cluster.nodes.log.version + 1)
    nodes.object_log = RowLog(cluster.nodes.object_log.version + 1)
    nodes.puts = cluster.nodes.puts + 1
    made = copy.copy(cluster)
    made.nodes, made.incidence, made.supposed = nodes, incidence, {}
    return made


def differing(kept: Nodes, anew: Nodes, rows: NDArray[np.intp]) -> Iterator[str]:
    """One line for each number of these rows that was kept otherwise than the objects have it."""
    for row in map(int, rows):
        where = f"node {anew.names[row]}"
        for what in ("alive", "unschedulable", "pods", "allowed_pods"):
            yield from _told(where, what, getattr(kept, what)[row], getattr(anew, what)[row])
        for name, index in kept.resources.items():
            other = anew.resources.get(name)
            for what in ("allocatable", "requested"):
                should = 0 if other is None else getattr(anew, what)[other, row]
                yield from _told(where, f"{what} {name}", getattr(kept, what)[index, row], should)
        for index, name in enumerate(("cpu", "memory")):
            yield from _told(where, f"nonzero {name}", kept.nonzero[index, row], anew.nonzero[index, row])
        yield from _told(where, "taints", kept.taints.get(row), anew.taints.get(row))


def _told(where: str, what: str, has: object, should: object) -> Iterator[str]:
    if has != should:
        yield f"{where}: {what} kept as {has}, should be {should}"


def _nodes(kept: Nodes) -> Nodes:
    made = Nodes(kept.effort)
    for row, name in enumerate(kept.names):
        made.ensure_row(f"\0{row}" if name is None else name)
    for row, name in enumerate(kept.names):
        if name is None:
            made.release_row(row)
    for row, node in kept.live():
        made.put_labels(row, node.labels)
        made.put(row, node)
    return made


def _charge(nodes: Nodes, shape: PodShape, rows: list[int]) -> None:
    if len(rows) < _MANY or shape.host_ports:
        for row in rows:
            nodes.charge(row, shape, 1)
        return
    counts = np.bincount(rows, minlength=len(nodes.pods))
    nodes.add(shape, counts)
