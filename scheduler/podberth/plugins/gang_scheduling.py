"""GangScheduling: when the pods of a group may be tried, and whether enough of them can still find a node.

Mirrors kube-scheduler `framework/plugins/gangscheduling`, which it knows only with the feature gate GenericWorkload.
What its Permit does, waiting until enough pods of the group are there, is done in `podberth.engine.pod_groups`, later
in the binding cycle and for all of them together.
"""

import json
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta, Struct

from podberth.cache.cluster import Cluster
from podberth.framework.config import FeatureGates, gate_errors, gate_is_on
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, SKIPPABLE, Plugin, Reservation
from podberth.framework.status import Reason, Reject, Unresolvable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE
from podberth.model.shape import PodShape

_NOT_ENOUGH = Unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
_COMPOSITE_GROUPS = "CompositePodGroup"


class GangSchedulingArgs(Struct, rename="camel", frozen=True):
    """Other arguments are accepted and have no effect."""

    further_orders: Annotated[int, Meta(extra_json_schema={"const": 0})] = 0
    """Any value but 0 is refused: a group is tried in one order, as in kube-scheduler."""
    reservation: Reservation | None = None
    """Berth's own: room is kept for gangs that wait for long. Without it, none is, as in kube-scheduler."""
    feature_gates: FeatureGates = None
    """`CompositePodGroup: true` is refused: groups of pod groups are not supported."""


class GangScheduling(Plugin):
    """Holds pods of a group back until the group is known, and a gang until it has enough pods."""

    name = "GangScheduling"
    Args = GangSchedulingArgs
    events = ClusterEvent.POD_GONE | ClusterEvent.NODE_ADDED | ClusterEvent.KEPT_ROOM_GONE
    for_groups = True

    def __init__(self, args: GangSchedulingArgs) -> None:
        self.reservation = args.reservation
        if args.reservation is None:
            self.events = ClusterEvent.NOTHING  # type: ignore[misc]  # it rejects nobody whom an event could help

    @staticmethod
    def check(args: GangSchedulingArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        errors = [] if args.reservation is None else args.reservation.check(f"{path}.reservation")
        errors += gate_errors(args.feature_gates, path, _COMPOSITE_GROUPS)
        if gate_is_on(args.feature_gates, _COMPOSITE_GROUPS):
            why = "groups of pod groups are not supported: each PodGroup is scheduled by itself"
            errors.append(f'{path}.featureGates: Invalid value: "{_COMPOSITE_GROUPS}": {why}')
        if args.further_orders:
            why = "not supported any more: a group is tried in one order, as in kube-scheduler"
            errors.append(f"{path}.furtherOrders: Invalid value: {args.further_orders}: {why}")
        return errors

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods that are in no group."""
        return NO_POINTS if shape.in_group else SKIPPABLE

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> Reason | None:
        """Hold a pod whose group is not known, or a gang with too few pods."""
        key = cluster.pod_groups.of(pod)
        if key is None:
            return None
        state = cluster.pod_groups.state(key)
        if state is None or state.object is None:
            name = json.dumps(key.name)
            return Unresolvable(f"waiting for pods's pod group {name} to appear in scheduling queue")
        if state.object.gang and len(state.pods) < state.object.needed:
            return _NOT_ENOUGH
        return None

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A new node is not kept for anybody."""
        return pod.scheduling_group is None

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """There may be room beside what is kept."""
        return pod.scheduling_group is None

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Refuse a pod of a group where groups can't be read: alone, it would start without the others."""
        group = pod.scheduling_group
        if group is None or group.api != NATIVE or cluster.pod_groups.of(pod) is not None:
            return None
        return Reject(
            Unresolvable("pod uses spec.schedulingGroup, but the API server serves no PodGroups of scheduling.k8s.io")
        )
