"""Pods that nodes are kept for: explanations see them where they are nominated, as decisions do.

Upstream: RunFilterPluginsWithNominatedPods counts those of equal or higher priority, gated and terminating ones too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.model.pod import Pod


def kept_rows(pod: Pod, cluster: Cluster) -> dict[int, list[Pod]]:
    """Row → the pods that it is kept for and that come before this one."""
    found = ((cluster.nodes.live_row(node), pods) for node, pods in cluster.nominations.ahead_of(pod))
    return {row: pods for row, pods in found if row is not None}


def put_there(pods: Sequence[Pod], row: int, cluster: Cluster) -> list[Pod]:
    """Place pods on the node that is kept for them, under other UIDs; the placed ones."""
    node = cluster.nodes.names[row] or ""
    placed = [
        replace(pod, uid=f"{pod.uid}/nominated", node_name=node, nominated_node_name="", scheduling_group=None)
        for pod in pods
    ]
    for pod in placed:
        cluster.put_pod(pod)
    return placed


@contextmanager
def placed(pods: Sequence[Pod], row: int, cluster: Cluster) -> Iterator[None]:
    """The cluster with pods on the node that is kept for them, as long as the block lasts."""
    there = put_there(pods, row, cluster)
    try:
        yield
    finally:
        for pod in there:
            cluster.drop_pod(pod.uid)
