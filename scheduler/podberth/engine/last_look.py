"""Whether the node of a pod that is about to be bound still takes it: a last look, as seldom as nodes change.

Between the decision and the Binding a pod may wait, on Permit, for its turn or for a server that says 429. Meanwhile
the node may go, be cordoned or shrink, or another scheduler may have filled it. The filters that look at one node are
asked again then, on what is known now.
"""

from collections.abc import Mapping, Sequence

from podberth.cache.cluster import Cluster
from podberth.cache.view import row_with
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

_STEPS = 10_000
"""What all pods that are about to be bound to a node may cost together, in one turn."""
_EACH = 50
"""What an ordinary pod costs."""


class LastLook:
    """One look at a node. Once its steps are used up nobody is withdrawn any more: each pod was right when it was
    assumed, and the API server and the kubelet still have their say."""

    def __init__(self, cluster: Cluster, frameworks: Mapping[str, Framework], node: str) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self._node = node
        self._left = _STEPS

    def objection(self, pod: Pod, going: Sequence[Pod] = ()) -> str:
        """Return why the node takes an assumed pod no longer; empty: it does. `going`: pods of the node that do not
        count.
        """
        cluster = self._cluster
        row = cluster.nodes.live_row(self._node)
        if row is None:
            return f"node {self._node} is gone"
        framework, placement = self._frameworks.get(pod.scheduler_name), cluster.placement(pod.uid)
        if framework is None or placement is None or self._left <= 0:
            return ""
        self._left -= _EACH + pod.shape.steps
        try:
            plugin = framework.filters.rejecting(pod, row_with(cluster, row, [placement.pod, *going], ()))
        except PluginError:
            return ""  # it was right there when the pod was assumed, and nobody can say that it is not any more
        return f"node {self._node} has changed, and {plugin} rejects the pod there" if plugin else ""
