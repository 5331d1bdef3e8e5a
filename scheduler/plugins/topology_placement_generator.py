"""TopologyPlacementGenerator: all pods of a group on nodes with the same value of the label that the group names.

Mirrors kube-scheduler `framework/plugins/topologyaware`, which it knows only with the feature gate
TopologyAwareWorkloadScheduling (alpha).
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from scheduler.framework.events import ClusterEvent
from scheduler.framework.placement import Placement, Running
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import PluginError
from scheduler.model.pod_group import PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.column import ABSENT


class AnyArgs(Struct, rename="camel", frozen=True):
    """Arguments are accepted and have no effect."""


class TopologyPlacementGenerator(Plugin):
    """Each value of the label is a placement. If pods of the group run already, theirs is the only one."""

    name = "TopologyPlacementGenerator"
    Args = AnyArgs
    events = ClusterEvent.NOTHING

    def placement_generate(
        self, group: PodGroup, running: Sequence[Running], cluster: Cluster
    ) -> Sequence[Placement] | None:
        """The placements, ordered by the value."""
        key, nodes = group.topology_key, cluster.nodes
        if key is None:
            return None
        required = self._domain_of(key, running, cluster) if running else None
        column = nodes.topology(key)
        if column is None:
            return ()
        alive = nodes.alive[: nodes.rows]
        codes = column.codes[: nodes.rows]
        rows = np.flatnonzero(alive & (codes != ABSENT))
        rows = rows[np.argsort(codes[rows], kind="stable")]
        found = []
        for some in np.split(rows, np.flatnonzero(np.diff(codes[rows])) + 1) if len(rows) else ():
            value = str(column.values[codes[some[0]]])
            if required in (None, value):
                found.append(Placement(value, some))
        return sorted(found, key=lambda placement: placement.name)

    def _domain_of(self, key: str, running: Sequence[Running], cluster: Cluster) -> str:
        """Where the pods run that run already."""
        domain = ""
        for one in running:
            row = cluster.nodes.live_row(one.node)
            node = None if row is None else cluster.nodes.objects[row]
            if node is None:
                raise self._error(f'getting node for pod {_named(one)}: nodeinfo not found for node name "{one.node}"')
            if key not in node.labels:
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
