"""The objects that every workload starts from: a standard node, a standard pod, and where each kind lives."""

from __future__ import annotations

from typing import Any

from podberth.kube.resources import BY_KIND, POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, Resource
from podberth.testing.workloads.template import merged

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
KINDS: dict[str, Resource] = {
    **BY_KIND,
    "PriorityClass": PRIORITY_CLASSES,
    "ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES,
}
"""Kinds that a workload may create."""
LABEL = "podberth.dev/bench"
"""On everything that a run creates; its value is the run."""
ZONES = 10


def node(over: dict[str, Any], allocatable: dict[str, Any]) -> dict[str, Any]:
    """4 CPU, 32Gi, 110 pods, ready, in one of ten zones, with `over` merged over it."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **allocatable}
    standard = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "$(pool)-node-$(i)",
            "labels": {
                LABEL: "$(pool)",
                "kubernetes.io/hostname": "$(pool)-node-$(i)",
                "topology.kubernetes.io/zone": f"zone-$(i % {ZONES})",
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}],
        },
    }
    return merged(standard, over)


def pod(name: str, scheduler_name: str, over: dict[str, Any], requests: dict[str, Any]) -> dict[str, Any]:
    """One container of 100m and 500Mi, with `over` merged over it."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi", **requests}},
    }
    standard = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: "$(run)"}},
        "spec": {"schedulerName": scheduler_name, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return merged(standard, over)


def group(number: int, gang: int, over: dict[str, Any]) -> dict[str, Any]:
    """One of the pod groups of a step: all its pods start together. `over` is merged over it."""
    standard = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": f"group-{number}-$(i)", "labels": {LABEL: "$(run)"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": gang}}},
    }
    return merged(standard, over)


def in_group(document: dict[str, Any], number: int, gang: int) -> dict[str, Any]:
    """A pod's template, in one of the groups of its step."""
    named = {"spec": {"schedulingGroup": {"podGroupName": f"group-{number}-$(i // {gang})"}}}
    return merged(document, named)


def other(document: dict[str, Any], scheduler_name: str) -> dict[str, Any]:
    """An object as the file has it; nodes and pods are merged over the standard ones."""
    match document["kind"]:
        case "Node":
            return node(document, {})
        case "Pod":
            return pod("", scheduler_name, document, {})
    api_version = KINDS[document["kind"]].api_version
    return merged({"apiVersion": api_version, "metadata": {"labels": {LABEL: "$(run)"}}}, document)
