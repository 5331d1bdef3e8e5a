"""Every in-tree plugin by name, and those that installed packages offer under the entry point `podberth.plugins`.

The last in-tree ones are not in the default profile.
"""

from importlib.metadata import entry_points
from typing import Any

from scheduler.plugins.annotation_affinity import AnnotationAffinity
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.not_yet import DynamicResources, NodeDeclaredFeatures
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.required_during_execution import RequiredDuringExecution
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.service_affinity import ServiceAffinity
from scheduler.plugins.service_anti_affinity import ServiceAntiAffinity
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

IN_TREE: dict[str, Any] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        PrioritySort,
        NodeName,
        NodeUnschedulable,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
        AnnotationAffinity,
        ServiceAffinity,
        ServiceAntiAffinity,
        RequiredDuringExecution,
    )
}


def registry() -> dict[str, Any]:
    """In-tree plugins and, by name, those of installed packages. Installed is not enabled: a profile must name it.

    Raises ValueError when a package offers a plugin under an in-tree name.
    """
    found = dict(IN_TREE)
    for entry in entry_points(group="podberth.plugins"):
        if entry.name in found:
            raise ValueError(f"entry point podberth.plugins: {entry.value}: the name {entry.name} is taken")
        found[entry.name] = entry.load()
    return found
