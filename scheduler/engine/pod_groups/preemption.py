"""What preemption can do for a pod group that found too few nodes.

Mirrors kube-scheduler `framework/preemption/podgrouppreemption.go` as far as it finds no victims. Victims for groups
are not chosen yet: where there are pods of lower priority, the message says so.
"""

from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.model.pod_group import PodGroup
from scheduler.state.cluster import Cluster

DEFAULT_PREEMPTION = "DefaultPreemption"


def said_of(group: PodGroup, first: Pod, framework: Framework, cluster: Cluster) -> str:
    """What the message of the group ends with. `first`: any pod of the group, since they agree."""
    if framework.plugin(DEFAULT_PREEMPTION) is None:
        return ""
    return f"pod group preemption: {_found(group, first, cluster)}"


def _found(group: PodGroup, first: Pod, cluster: Cluster) -> str:
    if not (first.preempts if group.preempts is None else group.preempts):
        return "not eligible due to preemptionPolicy=Never."
    if any(placement.pod.priority < first.priority for placement in cluster.placements()):
        return "pods of lower priority are not removed for pod groups yet"
    return "No preemption victims found for incoming preemptor"
