"""Which pods the autoscalers count, by the rules of their own sources.

Cluster Autoscaler is not on the Go module proxy, so its rules are stated here, from `pkg/utils/kubernetes/listers.go`
(ArrangePodsBySchedulability) and `pkg/core/static_autoscaler.go` of kubernetes-sigs/cluster-autoscaler at 33c3f97bf274.
Karpenter's are those of `pkg/utils/pod/scheduling.go` (IsProvisionable) in v1.14.1: `beside/test_autoscalers.py` puts
the same pods to its own code.
"""

from __future__ import annotations

from tests.controlplane.api import Object
from tests.integration import checks

DELETED: Object = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1788000000", "effect": "NoSchedule"}
"""On a node that Cluster Autoscaler drains and removes (`pkg/utils/taints/taints.go`)."""
CANDIDATE: Object = {
    "key": "DeletionCandidateOfClusterAutoscaler",
    "value": "1788000000",
    "effect": "PreferNoSchedule",
}
"""On a node that it may remove soon; taken off again when the node is needed."""
DISRUPTED: Object = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
"""On a node that Karpenter drains (`pkg/apis/v1/taints.go`)."""
UNREGISTERED: Object = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""On a node of Karpenter's from its start until Karpenter has seen it."""
STARTUP: Object = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/cni", "effect": "NoSchedule"}
"""On a new node until whoever it names takes it off; a pod that waits for it asks for no second node."""


def cluster_autoscaler(pod: Object, bypassed: frozenset[str] = frozenset()) -> str:
    """Return how Cluster Autoscaler counts a pod that has not ended.

    `unschedulable` and `unprocessed` pods get nodes if a simulation finds none that takes them, `nominated` ones use
    room like `scheduled` ones, and `ignored` ones count for nothing. `bypassed`: --bypassed-scheduler-names.
    """
    if checks.node_of(pod):
        return "scheduled"
    if "deletionTimestamp" in pod["metadata"]:
        return "ignored"
    if pod["status"].get("nominatedNodeName"):
        return "nominated"
    condition = checks.condition(pod)
    if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
        return "unschedulable"
    untouched = not condition or (condition["status"] == "False" and not condition.get("reason"))
    return "unprocessed" if untouched and pod["spec"].get("schedulerName") in bypassed else "ignored"


def karpenter(pod: Object) -> bool:
    """Return whether Karpenter looks for a node for a pod."""
    owners = {(owner["apiVersion"], owner["kind"]) for owner in pod["metadata"].get("ownerReferences", ())}
    failed = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return (
        any(condition.get("reason") == "Unschedulable" for condition in failed)
        and not checks.node_of(pod)
        and not pod["status"].get("nominatedNodeName")
        and not owners & {("apps/v1", "DaemonSet"), ("v1", "Node")}
    )
