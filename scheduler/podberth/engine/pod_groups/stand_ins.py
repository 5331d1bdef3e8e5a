"""Who keeps the nodes that are kept for the pods of a group from the other pods of it, while the group is tried.

kube-scheduler looks for a nominated pod in its queue (`nominatedPodToInfo`). The pods of the group that is being tried
are not there, and an empty pod of priority 0 is taken for each. It takes a place on its node, and nothing else. While
the pod itself is assumed anywhere, its nomination does not count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from podberth.cache.cluster import Cluster
from podberth.engine.pod_groups.results import GroupAttempt
from podberth.engine.pod_groups.room import foreign, plain
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod, empty_like
from podberth.model.pod_group import COSCHEDULING


class StandIns:
    """The pods that stand in for others of the group of one attempt."""

    def __init__(self, attempt: GroupAttempt, cluster: Cluster, framework: Framework, at_once: int) -> None:
        """`cluster`: in which the group is tried. `at_once`: so many of its pods are tried until it is asked anew."""
        self._cluster = cluster
        self._at_once = at_once
        self._none = attempt.group.key.api == COSCHEDULING
        if attempt.only_places is None:
            shapes = {id(pod.shape): pod.shape for pod in (member.queued.pod for member in attempt.pods)}.values()
            attempt.only_places = not foreign(framework) and all(map(plain, shapes))
        self._only_places = attempt.only_places

    def of(self, pod: Pod, node: str) -> Pod | None:
        """Return who keeps the node; None: nobody, or nobody would notice."""
        if self._none or pod.priority > 0:
            return None  # pods of a higher priority pass it
        cluster = self._cluster
        row = cluster.nodes.live_row(node)
        if row is None:
            return None
        places = cluster.nodes.allowed_pods[row] - cluster.nodes.pods[row]
        if self._only_places and places > cluster.nominations.number_on(node) + self._at_once:
            return None
        return empty_like(pod)


def dismiss(
    attempt: GroupAttempt, cluster: Cluster, assigned: Sequence[tuple[Pod, int]], victims: Mapping[int, Sequence[Pod]]
) -> None:
    """Have nobody stand in any more, if there are places for all on each row where pods of the group would be.

    `victims`: row → those that may be put back there. Then sums say which of them can stay.
    """
    nodes, nominations = cluster.nodes, cluster.nominations
    for row, count in Counter(row for _, row in assigned).items():
        places = nodes.allowed_pods[row] - nodes.pods[row] - nominations.number_on(nodes.names[row] or "")
        if not attempt.only_places or places < count + len(victims.get(row, ())):
            return
    for pod, _ in assigned:
        nominations.drop(pod.uid)
