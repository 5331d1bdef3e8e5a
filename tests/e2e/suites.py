"""Choices among Kubernetes' end-to-end tests: those that a scheduler decides, in suites of bounded time."""

from __future__ import annotations

from dataclasses import dataclass

_NEVER = (r"\[Disruptive\]", r"\[Feature:(GPUDevicePlugin|Windows|volumesnapshot)[^]]*\]")
"""Tests that end nodes, or that want what no machine here has."""
_APPS = (
    "DisruptionController (Listing|evictions|should (block|create|observe|update))",
    "Daemon set should (run and stop|list|update pod when|retry|surge)",
    "ReplicaSet (should adopt|Replicaset should|should list)",
    "ReplicationController should (adopt|release)",
    "Deployment deployment should delete",
    "Job should (run a job to completion (when tasks succeed|with CPU)|adopt|delete a job|create pods with completion"
    "|delete pods when suspended|not create pods)",
    "StatefulSet.*(adopt matching|working scale|basic identity)",
    "TTLAfterFinished",
)
"""Tests that need no container to run for real: no probe that fails, no image that can't be had."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A choice of tests by their names."""

    name: str
    about: str
    focus: str
    """A regular expression of ginkgo's."""
    skip: tuple[str, ...] = ()
    minutes: int = 15
    processes: int = 1
    """So many tests run at once, where they are not marked Serial."""
    gated: bool = False
    """It wants what is off by default, and Berth has."""

    @property
    def skipped(self) -> str:
        """A regular expression of ginkgo's."""
        return "|".join((*_NEVER, *self.skip))


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "predicates",
            "filters",
            r"\[sig-scheduling\] SchedulerPredicates",
            skip=("there exists conflict",),
        ),
        Suite("hostport", "two pods with one host port; waits for five minutes", "there exists conflict between pods"),
        Suite("preemption", "preemption", r"\[sig-scheduling\] SchedulerPreemption", minutes=30),
        Suite(
            "priorities",
            "scores, ranges of limits, zones",
            r"\[sig-scheduling\] (SchedulerPriorities|LimitRange|Multi-AZ)",
        ),
        Suite("apps", "controllers whose pods are scheduled, and eviction", "|".join(_APPS), processes=6),
        # Two of these at once would take each other's node, and the one resource that they make up.
        Suite("workload", "pod groups", r"\[sig-scheduling\].*OffByDefault", gated=True),
        Suite(
            "ci",
            "what fits into CI beside pod groups",
            r"\[sig-scheduling\] (SchedulerPredicates"
            "|SchedulerPreemption.*(basic preemption|by critical pod|disruption condition))",
            skip=("there exists conflict",),
        ),
        Suite(
            "dra",
            "devices",
            r"\[sig-node\].*DRA.*control plane",
            skip=(r"\[Feature:DynamicResourceAllocation\]", r"\[Alpha\]", r"\[Slow\]"),
            processes=4,
            gated=True,
        ),
    )
}
ALL = tuple(name for name in SUITES if name != "ci")
"""Suites that together have each test once."""
GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
"""What is off by default and Berth has; for kube-apiserver, kube-controller-manager and kube-scheduler."""
VERSIONS = ("scheduling.k8s.io/v1beta1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
"""Versions of the API that come with them, or that tests of devices write."""
BERTH_GATES = {
    "pluginConfig": [{"name": "DynamicResources", "args": {"featureGates": {"DRAWorkloadResourceClaims": True}}}]
}
"""What a profile of Berth says in their place."""
