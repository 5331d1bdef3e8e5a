"""Taints and scheduling gates that a controller sets and takes away: people neither tolerate nor remove them.

Who it is was read in the sources of each: k8s.io/api core/v1 well_known_taints.go, k8s.io/cloud-provider
api/well_known_taints.go, kubernetes/autoscaler cluster-autoscaler/utils/taints, karpenter pkg/apis/v1/taints.go,
cluster-api api/core/v1beta2, the pages of Cilium, Istio, the CSI drivers of AWS, GKE, AKS and the AWS node termination
handler; for gates kueue pkg/controller/constants, volcano docs/design (queue admission), grove podgang scheduling
gate, OpenShift's multiarch tuning operator.
"""

from typing import NamedTuple

CONDITION = "node.kubernetes.io/"
"""Prefix of the taints that stand for a condition of the node."""


class Mark(NamedTuple):
    """`by`: who takes a taint or a gate away. `cure`: what people do, of `{node}`; empty: the node is about to go.

    `at_start`: each new node has it at first.
    """

    by: str
    cure: str = ""
    at_start: bool = False

    @property
    def said(self) -> str:
        """Return the note for a pod or a node where the mark is in the way."""
        return f"{self.by} takes it away" if self.cure else f"{self.by} is about to take the node away"


_AUTOSCALER = Mark("the cluster autoscaler")
_KARPENTER = Mark("Karpenter")
_LIFECYCLE = "the node lifecycle controller"
_TAINTS = {
    "node.kubernetes.io/not-ready": Mark(_LIFECYCLE, "bring {node} back, which is not-ready"),
    "node.kubernetes.io/unreachable": Mark(_LIFECYCLE, "bring {node} back, which is unreachable"),
    "node.kubernetes.io/memory-pressure": Mark(_LIFECYCLE, "have memory freed on {node}, whose kubelet lacks it"),
    "node.kubernetes.io/disk-pressure": Mark(_LIFECYCLE, "have disk space freed on {node}, whose kubelet lacks it"),
    "node.kubernetes.io/pid-pressure": Mark(_LIFECYCLE, "have processes ended on {node}, whose kubelet lacks PIDs"),
    "node.kubernetes.io/network-unavailable": Mark(
        _LIFECYCLE, "have the network plugin, or the cloud's route controller, set up the network of {node}"
    ),
    "node.cloudprovider.kubernetes.io/uninitialized": Mark(
        "the cloud controller manager", "have the cloud controller manager run and initialise {node}", at_start=True
    ),
    "node.cloudprovider.kubernetes.io/shutdown": Mark(
        "the cloud controller manager", "start the machine of {node}, which is shut down"
    ),
    "node.cluster.x-k8s.io/uninitialized": Mark(
        "Cluster API", "have Cluster API's controllers initialise {node}", at_start=True
    ),
    "node.cilium.io/agent-not-ready": Mark("Cilium", "have the Cilium agent run on {node}", at_start=True),
    "cni.istio.io/not-ready": Mark("Istio", "have Istio's CNI agent run on {node}", at_start=True),
    "karpenter.sh/unregistered": Mark("Karpenter", "have Karpenter register {node}", at_start=True),
    "ToBeDeletedByClusterAutoscaler": _AUTOSCALER,
    "karpenter.sh/disrupted": _KARPENTER,
    "karpenter.sh/disruption": _KARPENTER,
    "cloud.google.com/impending-node-termination": Mark("Google Cloud"),
    "remediator.aks.microsoft.com/unschedulable": Mark("AKS"),
    "remediator.kubernetes.azure.com/unschedulable": Mark("AKS"),
}
_BY_PREFIX = {
    "aws-node-termination-handler/": Mark("the AWS node termination handler"),
    "startup-taint.cluster-autoscaler.kubernetes.io/": Mark(
        "what prepares new nodes", "have what prepares {node} for its first pods run there", at_start=True
    ),
    "ignore-taint.cluster-autoscaler.kubernetes.io/": Mark(
        "what prepares new nodes", "have what prepares {node} for its first pods run there", at_start=True
    ),
    "status-taint.cluster-autoscaler.kubernetes.io/": Mark(
        "what watches the state of nodes", "have repaired on {node} what the taint tells"
    ),
    "readiness.k8s.io/": Mark(
        "the node readiness controller", "have {node} meet its node readiness rules", at_start=True
    ),
}
_STARTING = ("not-ready", "uninitialized")
"""Names of taints that, whatever their prefix, an agent takes off its node when it is ready (`…/agent-not-ready`)."""
BY_HAND = ("node.kubernetes.io/out-of-service", "node.kubernetes.io/unschedulable")
"""Taints with the prefix of conditions that people add and remove."""
_GATES = {
    "kueue.x-k8s.io/": Mark("Kueue", "wait until Kueue admits its Workload"),
    "scheduling.volcano.sh/": Mark("Volcano", "wait until Volcano's queue has room for it"),
    "grove.io/": Mark("Grove", "wait until Grove has made its PodGang"),
    "multiarch.openshift.io/": Mark("the multiarch tuning operator", "have the multiarch tuning operator run"),
}


def mark_of_taint(key: str) -> Mark | None:
    """Return the controller that removes a taint; None: people do."""
    found = _TAINTS.get(key) or next((mark for prefix, mark in _BY_PREFIX.items() if key.startswith(prefix)), None)
    if found is not None or key in BY_HAND:
        return found
    owner, _, name = key.rpartition("/")
    if owner and name.endswith(_STARTING):
        return Mark(f"the agent of {owner}", f"have the agent of {owner} run on {{node}}", at_start=True)
    return Mark(_LIFECYCLE, f"bring {{node}} back, which is {name}") if key.startswith(CONDITION) else None


def mark_of_gate(name: str) -> Mark | None:
    """Return the controller that removes a scheduling gate; None: people do."""
    return next((mark for prefix, mark in _GATES.items() if name.startswith(prefix)), None)
