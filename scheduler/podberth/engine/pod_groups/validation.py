"""Checks before a pod group is tried: its pods agree, and the cluster has as much as the group asks for."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.groups import GroupState
from podberth.framework.status import printable
from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING, PodGroup
from podberth.model.quantity import exact

PODS = "pods"
_SUMS = 1 << 62
_NAMES, _LETTERS = 10, 100
"""The number of resources that a message names, and of letters of each name, which nobody checks in a group."""


def disagreement(group: PodGroup, waiting: Iterable[Pod], with_node: Iterable[Pod], profiles: Mapping[str, Any]) -> str:
    """Return the mismatch between the group's pods, in kube-scheduler's words (`validatePodGroup`), or the limit of
    ours that they exceed; empty: none.
    """
    if group.too_large is not None:
        return group.too_large
    scheduler = preempts = None
    priority = group.priority
    if priority is None and group.key.api != COSCHEDULING:
        priority = 0
    # Once for each kind of pods, in the order in which they come: there may be thousands of pods.
    kinds = dict.fromkeys((pod.scheduler_name, pod.priority, pod.preempts) for pod in chain(waiting, with_node))
    for name, own, may_preempt in kinds:
        if scheduler is None or preempts is None:
            scheduler, preempts = name, may_preempt
        if name != scheduler:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f"got: {json.dumps(name)} and {json.dumps(scheduler)}"
            )
        if priority is not None and own != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, "
                f"got {own} and {priority}"
            )
        if may_preempt != preempts:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {_policy(preempts=may_preempt)} and {_policy(preempts=preempts)}"
            )
    if scheduler not in profiles:
        return no_profile(scheduler or "")
    return ""


def no_profile(scheduler: str) -> str:
    """Return the message for pods whose profile is not configured (any more)."""
    return f"profile not found for scheduler name {json.dumps(scheduler)}"


def _policy(*, preempts: bool) -> str:
    return "PreemptLowerPriority" if preempts else "Never"


def gap(group: PodGroup, state: GroupState | None, cluster: Cluster) -> str:
    """Return the message about the part of `minResources` that the cluster lacks; empty: none.

    Mirrors scheduler-plugins `pkg/coscheduling/core` (CheckClusterResource), which asks at PreFilter of each pod. Room
    on all nodes counts, whether or not the pods may go there.
    """
    if group.min_resources is None:
        return ""
    wanted = {**group.min_resources, PODS: group.needed}
    mine = [] if state is None else list(state.with_node)
    short = {}
    for name, amount in wanted.items():
        if name == PODS:
            free = _total(cluster.nodes.allowed_pods - cluster.nodes.pods, cluster) + len(mine)
        else:
            free = _free(name, cluster) + sum(pod.shape.requests.get(name, 0) for pod in mine)
        if free < amount:
            short[name] = amount - free
    said = " ".join(f"{printable(name)[:_LETTERS]}:{exact(name, short[name])}" for name in sorted(short)[:_NAMES])
    more = f" and {len(short) - _NAMES} more" if len(short) > _NAMES else ""
    return f"resource gap: map[{said}]{more}" if short else ""


def _free(name: str, cluster: Cluster) -> int:
    nodes = cluster.nodes
    index = nodes.resources.get(name)
    return 0 if index is None else _total(nodes.allocatable[index] - nodes.requested[index], cluster)


def _total(free: Ints, cluster: Cluster) -> int:
    """Return the sum over nodes that exist. An overcommitted node counts as 0."""
    nodes = cluster.nodes
    there = free[: nodes.rows][nodes.alive[: nodes.rows] & (free[: nodes.rows] > 0)]
    if nodes.largest < _SUMS // max(nodes.rows, 1):
        return int(there.sum())
    return sum(map(int, there))
