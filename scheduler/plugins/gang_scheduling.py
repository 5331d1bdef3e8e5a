"""GangScheduling: pods of a group. Groups are not scheduled yet, so their pods are refused with a message that says so.

One by one, a part of a gang would start and hold what the rest needs. kube-scheduler knows this plugin only with the
feature gate GenericWorkload.
"""

from collections.abc import Collection

from msgspec import Struct

from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import NO_POINTS, SKIPPABLE, Plugin
from scheduler.framework.status import Reject, Unresolvable
from scheduler.model.pod import Pod
from scheduler.model.pod_group import NATIVE
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster


class AnyArgs(Struct, rename="camel", frozen=True):
    """Arguments are accepted and have no effect."""


class GangScheduling(Plugin):
    """Refuses each pod with `spec.schedulingGroup`."""

    name = "GangScheduling"
    Args = AnyArgs
    events = ClusterEvent.NOTHING

    def skips(self, shape: PodShape) -> Collection[str]:
        """Everything, for pods that are in no group."""
        return NO_POINTS if shape.in_group else SKIPPABLE

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Refuse a pod of a group."""
        group = pod.scheduling_group
        if group is None or group.api != NATIVE:
            return None
        return Reject(Unresolvable("pod uses spec.schedulingGroup, which this version of Berth does not schedule yet"))
