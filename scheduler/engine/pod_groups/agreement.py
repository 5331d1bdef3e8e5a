"""Whether the pods of a group agree on what they have to agree on (kube-scheduler `validatePodGroup`)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.model.pod import Pod
from scheduler.model.pod_group import COSCHEDULING, PodGroup


def disagreement(group: PodGroup, waiting: Iterable[Pod], with_node: Iterable[Pod], profiles: Mapping[str, Any]) -> str:
    """What is wrong, in kube-scheduler's words; empty: nothing."""
    scheduler = preempts = None
    for pod in (*waiting, *with_node):
        if scheduler is None or preempts is None:
            scheduler, preempts = pod.scheduler_name, pod.preempts
        if pod.scheduler_name != scheduler:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f"got: {json.dumps(pod.scheduler_name)} and {json.dumps(scheduler)}"
            )
        priority = group.priority
        if priority is None and group.key.api != COSCHEDULING:
            priority = 0
        if priority is not None and pod.priority != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, "
                f"got {pod.priority} and {priority}"
            )
        if pod.preempts != preempts:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {_policy(preempts=pod.preempts)} and {_policy(preempts=preempts)}"
            )
    if scheduler not in profiles:
        return f"profile not found for scheduler name {json.dumps(scheduler)}"
    return ""


def _policy(*, preempts: bool) -> str:
    return "PreemptLowerPriority" if preempts else "Never"
