"""Whether the node of a pod that is about to be bound still takes it: a last look, as seldom as nodes change.

Between the decision and the Binding a pod may wait, on Permit, for its turn or for a server that says 429. Meanwhile
the node may go, be cordoned or shrink, or another scheduler may have filled it. The filters that look at one node are
asked again then, on what is known now.
"""

from collections.abc import Mapping, Sequence

from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver
from scheduler.state.view import row_with

_STEPS = 2_000
"""What one look may cost. Most take about 50 steps."""


def objection(
    cluster: Cluster, frameworks: Mapping[str, Framework], pod: Pod, node: str, going: Sequence[Pod] = ()
) -> str:
    """Why the node takes an assumed pod no longer; empty: it does. `going`: pods of the node that do not count."""
    row = cluster.nodes.live_row(node)
    if row is None:
        return f"node {node} is gone"
    framework = frameworks.get(pod.scheduler_name)
    placement = cluster.placement(pod.uid)
    if framework is None or placement is None:
        return ""
    cluster.effort.begin(_STEPS)
    try:
        plugin = framework.objects(pod, row_with(cluster, row, [placement.pod, *going], ()))
    except (PluginError, SliceOver):
        return ""  # it was right there when the pod was assumed, and nobody can say that it is not any more
    finally:
        cluster.effort.end()
    return f"node {node} has changed, and {plugin} rejects the pod there" if plugin else ""
