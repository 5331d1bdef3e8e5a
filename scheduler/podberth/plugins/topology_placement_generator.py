"""TopologyPlacementGenerator: all pods of a group on nodes with the same value of the label that the group names.

Mirrors kube-scheduler `framework/plugins/topologyaware`, which it knows only with the feature gate
TopologyAwareWorkloadScheduling (alpha). Levels and preferred domains are an addition of Berth's, after Kueue's
topology-aware scheduling; they are off unless the arguments name levels.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT
from podberth.cache.nodes import Nodes
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import Placement, Plugin, Running
from podberth.framework.status import PluginError, shown
from podberth.model.pod_group import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, PodGroup
from podberth.plugins.service_anti_affinity import label_errors
from podberth.plugins.topology_levels import by_level

_MOST_LEVELS = 8
_KEPT_MOST = 4


class TopologyPlacementGeneratorArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Node labels that divide the cluster, each within the one before it: block, rack, host."""

    levels: Annotated[list[str], Meta(extra_json_schema={"maxItems": 8})] = []
    """An addition of Berth's: node labels that divide the cluster, the broadest first. With them, pod groups may
    prefer a domain."""


class TopologyPlacementGenerator(Plugin):
    """Each value of the label is a placement. If pods of the group run already, theirs is the only one."""

    name = "TopologyPlacementGenerator"
    Args = TopologyPlacementGeneratorArgs
    events = ClusterEvent.NOTHING

    def __init__(self, args: TopologyPlacementGeneratorArgs) -> None:
        self._levels = args.levels
        self._kept: dict[tuple[str | None, str | None], tuple[Nodes, int, Sequence[Placement]]] = {}
        """By (required, preferred): the nodes, how often their labels had changed, and the placements of new groups."""

    @staticmethod
    def check(args: TopologyPlacementGeneratorArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        found = label_errors(args.levels, f"{path}.levels")
        if len(args.levels) > _MOST_LEVELS:
            found.append(f"{path}.levels: Too many: {len(args.levels)}: must have at most {_MOST_LEVELS} items")
        return found

    def placement_generate(
        self, group: PodGroup, running: Sequence[Running], cluster: Cluster
    ) -> Sequence[Placement] | None:
        """The placements, ordered by the value; those of the narrowest level first."""
        required, preferred = self._asked(group)
        make: Callable[[], Sequence[Placement]]
        if preferred is not None:
            rows = [self._row_of(one, cluster) for one in running]
            make = partial(by_level, self._levels, required, preferred, rows, cluster.nodes)
        elif required is not None:
            domain = self._domain_of(required, running, cluster) if running else None
            make = partial(self._of, required, domain, cluster.nodes)
        else:
            return None
        return make() if running else self._keep(required, preferred, cluster.nodes, make)

    def _of(self, key: str, domain: str | None, nodes: Nodes) -> Sequence[Placement]:
        """Return a placement for each value of a label, ordered by the value. `domain`: only the one of this value."""
        column = nodes.topology(key)
        if column is None:
            return ()
        alive = nodes.alive[: nodes.rows]
        codes = column.codes[: nodes.rows]
        rows_of = np.flatnonzero(alive & (codes != ABSENT))
        rows_of = rows_of[np.argsort(codes[rows_of], kind="stable")]
        found = []
        for some in np.split(rows_of, np.flatnonzero(np.diff(codes[rows_of])) + 1) if len(rows_of) else ():
            value = str(column.values[codes[some[0]]])
            if domain in (None, value):
                found.append(Placement(value, some))
        return sorted(found, key=lambda placement: placement.name)

    def _keep(
        self, required: str | None, preferred: str | None, nodes: Nodes, make: Callable[[], Sequence[Placement]]
    ) -> Sequence[Placement]:
        """Return placements that all groups which do not run yet share, until nodes come, go or get other labels."""
        kept = self._kept.get((required, preferred))
        if kept is None or kept[0] is not nodes or kept[1] != nodes.label_changes:
            if len(self._kept) >= _KEPT_MOST:
                self._kept.clear()
            kept = self._kept[required, preferred] = nodes, nodes.label_changes, make()
        return kept[2]

    def _asked(self, group: PodGroup) -> tuple[str | None, str | None]:
        """Return the labels that a group asks for, (required, preferred). Without levels, annotations don't count."""
        levels, required, preferred = self._levels, group.topology_key, group.preferred_topology
        if not levels:
            return required, None
        if required is None and group.required_topology is not None:
            required = self._level(REQUIRED_TOPOLOGY, group.required_topology)
        if preferred is None or self._level(PREFERRED_TOPOLOGY, preferred) == required:
            return required, None
        if required is not None and required not in levels[: levels.index(preferred)]:
            raise PluginError(
                self.name, f"annotation {PREFERRED_TOPOLOGY}: {shown(preferred)} is no level below {shown(required)}"
            )
        return required, preferred

    def _level(self, annotation: str, key: str) -> str:
        if key not in self._levels:
            levels = ", ".join(map(shown, self._levels))
            raise PluginError(self.name, f"annotation {annotation}: {shown(key)} is no level of the topology: {levels}")
        return key

    def _row_of(self, one: Running, cluster: Cluster) -> int:
        row = cluster.nodes.live_row(one.node)
        if row is None:
            raise self._error(f'getting node for pod {_named(one)}: nodeinfo not found for node name "{one.node}"')
        return row

    def _domain_of(self, key: str, running: Sequence[Running], cluster: Cluster) -> str:
        """Return the domain of the pods that run already."""
        domain = ""
        for one in running:
            row = self._row_of(one, cluster)
            node = cluster.nodes.objects[row]
            if node is None or key not in node.labels:
                raise self._error(f"no topology domain found for pod {_named(one)}")
            here = node.labels[key]
            if domain not in ("", here):
                raise self._error(f"more than 1 domain found for pod group: {domain}, {here}")
            domain = here
        return domain

    def _error(self, text: str) -> PluginError:
        return PluginError(self.name, f"cannot determine domain for already scheduled pods: {text}")


def _named(one: Running) -> str:
    return f"{one.pod.namespace}/{one.pod.name}"
