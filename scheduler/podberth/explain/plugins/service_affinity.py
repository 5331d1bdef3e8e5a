"""What ServiceAffinity says of a node that it rejects."""

from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.plugins.service_affinity import ServiceAffinity


class ServiceAffinityExplainer(Explainer):
    """Says of a node that ServiceAffinity rejects: the labels in which the node differs."""

    plugin: ServiceAffinity

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """The labels that differ: what the pod's Service (or its nodeSelector) has, and what the node has."""
        labels, wanted = inquiry.node(row).labels, self.plugin.wanted(inquiry.pod, inquiry.cluster)
        differ = {label: value for label, value in wanted.items() if labels.get(label) != value}
        parts = [f"{label}={value}: node has {labels.get(label) or 'no such label'}" for label, value in differ.items()]
        return "; ".join(parts), {"wanted": wanted, "has": {label: labels.get(label) for label in wanted}}
