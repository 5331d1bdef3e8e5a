"""Keeps pods away from room that is kept for pod groups: the verdict of the plugin that asks for it, before filters."""

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.kept_room import KeptRoom
from podberth.framework.decision import Decision, Rejected
from podberth.framework.status import Unresolvable
from podberth.model.pod import Pod


class Away:
    """The nodes that are left to a pod, and those that are not."""

    def __init__(self, within: Bools | None, kept: list[tuple[str, str, Bools]]) -> None:
        """`kept`: (plugin, its reason, the nodes that are not left)."""
        self.within = within
        """bool[rows]: the only nodes that count; None: all."""
        self._kept = kept

    def tell(self, decision: Decision) -> None:
        """Count the others in a decision, and say who keeps the pod from them."""
        number = sum(int(np.count_nonzero(mask)) for _, _, mask in self._kept)
        if not number:
            return
        decision.nodes += number
        if not len(decision.feasible):
            plugins = dict.fromkeys(plugin for plugin, _, _ in self._kept)
            decision.rejected[:0] = [
                Rejected(plugin, [(Unresolvable(text), mask) for by, text, mask in self._kept if by == plugin])
                for plugin in plugins
            ]


def away_from(pod: Pod, cluster: Cluster, within: Bools | None) -> Away:
    """Return where a pod may go. `within`: the only nodes that count before."""
    nodes, wall = cluster.nodes, cluster.devices.wall
    left = nodes.alive[: nodes.rows] if within is None else within & nodes.alive[: nodes.rows]
    kept: list[tuple[str, str, Bools]] = []
    for room in cluster.kept_room.by_profile.values():
        room.follow(nodes, cluster.pods_on, wall)
        mask = room.from_pod(pod, cluster.pod_groups, nodes, wall)
        if mask is not None:
            mask &= left
            left = left & ~mask
            kept.append((room.plugin, _text(room, pod), mask))
    return Away(left if kept else within, kept)


def _text(room: KeptRoom, pod: Pod) -> str:
    """Return what is said to a pod; pods of other namespaces are not told the group's name."""
    group = room.group
    whom = f"podgroup {group}" if pod.namespace == group.namespace else "a podgroup of another namespace"
    return f"node(s) whose room is kept for {whom} until {room.expires_text}"
