"""Names of kube-scheduler's default plugins that this version does not implement yet.

A pod that needs one of them is refused with a clear message: better pending than misplaced.
"""

from msgspec import Struct

from scheduler.framework.events import ClusterEvent
from scheduler.framework.status import Reject, Unresolvable
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster


class AnyArgs(Struct, rename="camel", frozen=True):
    """Arguments are accepted and have no effect."""


class NotYet:
    """Stands where the plugin of this name will; subclasses say which pods need it."""

    name = ""
    Args = AnyArgs
    wakes_on = ClusterEvent.NOTHING
    needed_for: frozenset[str] = frozenset()

    def __init__(self, args: AnyArgs) -> None:
        pass

    def concerns(self, shape: PodShape) -> bool:
        """Pods that use something this version can't honour."""
        return bool(shape.unsupported)

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


class NodeDeclaredFeatures(NotYet):
    """Features that nodes declare."""

    name = "NodeDeclaredFeatures"
