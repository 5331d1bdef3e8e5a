"""Explains why plugins reject nodes and pods: one file per plugin, named like the plugin's own.

A plugin from outside names its explainer itself (`Plugin.explainer`).
"""

from podberth.explain.plugins.dynamic_resources import DynamicResourcesExplainer
from podberth.explain.plugins.inter_pod_affinity import InterPodAffinityExplainer
from podberth.explain.plugins.node_affinity import NodeAffinityExplainer
from podberth.explain.plugins.node_fields import (
    NodeDeclaredFeaturesExplainer,
    NodeNameExplainer,
    NodePortsExplainer,
    NodeUnschedulableExplainer,
    RequiredDuringExecutionExplainer,
    ServiceAffinityExplainer,
    TaintTolerationExplainer,
)
from podberth.explain.plugins.node_resources_fit import NodeResourcesFitExplainer
from podberth.explain.plugins.pod_topology_spread import PodTopologySpreadExplainer
from podberth.explain.plugins.volumes import (
    NodeVolumeLimitsExplainer,
    VolumeBindingExplainer,
    VolumeRestrictionsExplainer,
    VolumeZoneExplainer,
)
from podberth.framework.explaining import Explainer
from podberth.framework.interface import Plugin

EXPLAINERS: dict[str, type[Explainer]] = {
    "DynamicResources": DynamicResourcesExplainer,
    "InterPodAffinity": InterPodAffinityExplainer,
    "NodeAffinity": NodeAffinityExplainer,
    "NodeDeclaredFeatures": NodeDeclaredFeaturesExplainer,
    "NodeName": NodeNameExplainer,
    "NodePorts": NodePortsExplainer,
    "NodeResourcesFit": NodeResourcesFitExplainer,
    "NodeUnschedulable": NodeUnschedulableExplainer,
    "NodeVolumeLimits": NodeVolumeLimitsExplainer,
    "PodTopologySpread": PodTopologySpreadExplainer,
    "RequiredDuringExecution": RequiredDuringExecutionExplainer,
    "ServiceAffinity": ServiceAffinityExplainer,
    "TaintToleration": TaintTolerationExplainer,
    "VolumeBinding": VolumeBindingExplainer,
    "VolumeRestrictions": VolumeRestrictionsExplainer,
    "VolumeZone": VolumeZoneExplainer,
}
"""Name of an in-tree plugin → its explainer. Of the others, the reasons' own texts are shown."""


def explainer_of(plugin_class: type[Plugin]) -> type[Explainer]:
    """Return the explainer of a plugin: its own, or that of the in-tree plugin that it derives from."""
    if plugin_class.explainer is not None:
        return plugin_class.explainer
    names = (vars(base).get("name", "") for base in plugin_class.__mro__)
    return next((EXPLAINERS[name] for name in names if name in EXPLAINERS), Explainer)
