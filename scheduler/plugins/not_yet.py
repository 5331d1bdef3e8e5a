"""Names of kube-scheduler's default plugins that this version does not implement yet.

A pod that needs one of them is refused with a clear message: better pending than misplaced.
"""

from collections.abc import Collection

from msgspec import Struct

from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import NO_POINTS, SKIPPABLE, Plugin
from scheduler.framework.status import Reject, Unresolvable
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster


class AnyArgs(Struct, rename="camel", frozen=True):
    """Arguments are accepted and have no effect."""


class NotYet(Plugin):
    """Takes the place of a plugin that is not implemented; subclasses say which pods need it."""

    name = ""
    Args = AnyArgs
    events = ClusterEvent.NOTHING
    needed_for: frozenset[str] = frozenset()

    def skips(self, shape: PodShape) -> Collection[str]:
        """All of it, for pods that use nothing this version can't honour."""
        return NO_POINTS if shape.unsupported else SKIPPABLE

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Refuse a pod that uses what the plugin is for."""
        for field in pod.shape.unsupported:
            if field in self.needed_for:
                return Reject(Unresolvable(f"pod uses {field}, which this version of Berth does not schedule yet"))
        return None


class DynamicResources(NotYet):
    """Resource claims."""

    name = "DynamicResources"
    needed_for = frozenset(("spec.resourceClaims",))


class GangScheduling(NotYet):
    """Pod groups: one by one, a part of a gang would start, and hold what the rest needs."""

    name = "GangScheduling"
    needed_for = frozenset(("spec.schedulingGroup",))


class NodeDeclaredFeatures(NotYet):
    """Features that nodes declare."""

    name = "NodeDeclaredFeatures"
