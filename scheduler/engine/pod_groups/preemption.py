"""What preemption can do for a pod group that found too few nodes.

Mirrors kube-scheduler `framework/preemption/podgrouppreemption.go` as far as it finds no victims. Victims for groups
are not chosen yet: where there are pods of lower priority, the message says so.
"""

from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.model.pod_group import PodGroup
from scheduler.state.cluster import Cluster

_CLAIMS_GIVEN_BACK = "deallocation and deletion of ResourceClaims completed"


def said_of(group: PodGroup, first: Pod, framework: Framework, cluster: Cluster) -> str:
    """What the message of the group ends with. `first`: any pod of the group, since they agree.

    The plugins that upstream asks at PodGroupPostFilter are those of PostFilter: two of them may say something.
    """
    said = []
    for plugin in framework.profile.plugins("post_filter"):
        if plugin.name == "DynamicResources" and not (group.topology_key and framework.placements.wanted):
            said.append(_CLAIMS_GIVEN_BACK)
        elif plugin.name == "DefaultPreemption":
            text, final = _found(group, first, cluster)
            text = f"pod group preemption: {text}"
            if final:
                return text
            said.append(text)
    return ", ".join(said)


def _found(group: PodGroup, first: Pod, cluster: Cluster) -> tuple[str, bool]:
    """What preemption says, and whether nothing else is said beside it (UnschedulableAndUnresolvable)."""
    if not (first.preempts if group.preempts is None else group.preempts):
        return "not eligible due to preemptionPolicy=Never.", False
    lowest = cluster.priorities.lowest
    if lowest is not None and lowest < first.priority:
        return "pods of lower priority are not removed for pod groups yet", True
    return "No preemption victims found for incoming preemptor", True
