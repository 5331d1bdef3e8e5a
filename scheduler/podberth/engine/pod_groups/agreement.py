"""Whether a group can be tried: its pods agree on what they have to agree on (kube-scheduler `validatePodGroup`)."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING, PodGroup


def disagreement(group: PodGroup, waiting: Iterable[Pod], with_node: Iterable[Pod], profiles: Mapping[str, Any]) -> str:
    """Return what is wrong, in kube-scheduler's words unless it is a limit of ours; empty: nothing."""
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
    """Return what is said of pods whose profile is not there, or not any more."""
    return f"profile not found for scheduler name {json.dumps(scheduler)}"


def _policy(*, preempts: bool) -> str:
    return "PreemptLowerPriority" if preempts else "Never"
