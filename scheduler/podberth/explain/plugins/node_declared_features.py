"""What NodeDeclaredFeatures says of a node that it rejects."""

from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason


class NodeDeclaredFeaturesExplainer(Explainer):
    """Says of a node that NodeDeclaredFeatures rejects: which features the node does not declare."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return which features it does not declare."""
        lacking = sorted(inquiry.pod.shape.features - inquiry.node(row).features)
        return f"the node does not declare {', '.join(lacking)}", {"lacking": lacking}
