"""What NodeName says of a node that it rejects."""

from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason


class NodeNameExplainer(Explainer):
    """Says of a node that NodeName rejects: which node the pod names."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """The name that the pod's spec asks for."""
        wanted = inquiry.pod.node_name
        return f"the pod's spec.nodeName is {wanted}", {"nodeName": wanted}
