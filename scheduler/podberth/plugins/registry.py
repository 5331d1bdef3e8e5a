"""Every in-tree plugin by name, and those that installed packages offer under the entry point `podberth.plugins`.

The last in-tree ones are not in the default profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from podberth.framework.config import ConfigError
from podberth.framework.declaration import problems_of
from podberth.framework.guard import described
from podberth.plugins.annotation_affinity import AnnotationAffinity
from podberth.plugins.default_binder import DefaultBinder
from podberth.plugins.default_preemption.plugin import DefaultPreemption
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.gang_scheduling import GangScheduling
from podberth.plugins.image_locality import ImageLocality
from podberth.plugins.inter_pod_affinity import InterPodAffinity
from podberth.plugins.node_affinity import NodeAffinity
from podberth.plugins.node_declared_features import NodeDeclaredFeatures
from podberth.plugins.node_name import NodeName
from podberth.plugins.node_ports import NodePorts
from podberth.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from podberth.plugins.node_unschedulable import NodeUnschedulable
from podberth.plugins.node_volume_limits import NodeVolumeLimits
from podberth.plugins.pod_group_pods_count import PodGroupPodsCount
from podberth.plugins.pod_topology_spread import PodTopologySpread
from podberth.plugins.priority_sort import PrioritySort
from podberth.plugins.required_during_execution import RequiredDuringExecution
from podberth.plugins.scheduling_gates import SchedulingGates
from podberth.plugins.service_affinity import ServiceAffinity
from podberth.plugins.service_anti_affinity import ServiceAntiAffinity
from podberth.plugins.taint_toleration import TaintToleration
from podberth.plugins.topology_placement_generator import TopologyPlacementGenerator
from podberth.plugins.volume_binding.plugin import VolumeBinding
from podberth.plugins.volume_restrictions import VolumeRestrictions
from podberth.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
        GangScheduling,
        TopologyPlacementGenerator,
        PodGroupPodsCount,
        AnnotationAffinity,
        ServiceAffinity,
        ServiceAntiAffinity,
        RequiredDuringExecution,
    )
}


GROUP = "podberth.plugins"


class Registry(Mapping[str, Any]):
    """Plugin classes by name, in-tree ones first. To be enabled, a profile must name those of installed packages.

    Packages are looked through when a name that is not in-tree is asked for, or all of them; a class of theirs is
    imported when it is asked for. Raises ConfigError then, when two packages offer a plugin under one name, or one
    offers it under an in-tree name.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = dict(IN_TREE)

    @cached_property
    def _installed(self) -> Mapping[str, EntryPoint]:
        from importlib.metadata import entry_points  # with the look itself, 23 ms that most starts can do without

        installed: dict[str, EntryPoint] = {}
        for entry in entry_points(group=GROUP):
            if entry.name in IN_TREE or entry.name in installed:
                raise ConfigError(f'entry point {GROUP}: {entry.value}: the name "{entry.name}" is taken')
            installed[entry.name] = entry
        return installed

    def __getitem__(self, name: str) -> Any:
        """The class.

        Raises KeyError for an unknown name, ConfigError for one whose package offers no usable plugin.
        """
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = _load(self._installed[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._installed

    def __iter__(self) -> Iterator[str]:
        return iter({**self._loaded, **self._installed})

    def __len__(self) -> int:
        return len({**self._loaded, **self._installed})


def registry() -> Registry:
    """Return in-tree plugins and, by name, those of installed packages."""
    return Registry()


def _load(entry: EntryPoint) -> Any:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an installed package"
    where = f"{entry.value} of {package}"
    try:
        found = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a plugin does not end the process
        raise ConfigError(f"{where} can't be loaded: {described(error)}") from error
    problems = problems_of(found, entry.name)
    if problems:
        raise ConfigError(f"{where} is no plugin: {'; '.join(problems)}")
    return found
