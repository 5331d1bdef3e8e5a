"""What RequiredDuringExecution says of a node that it rejects."""

from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.plugins.required_during_execution import RequiredDuringExecution


class RequiredDuringExecutionExplainer(Explainer):
    """Says of a node that RequiredDuringExecution rejects: what of the promise the node does not meet."""

    plugin: RequiredDuringExecution

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return what of it the node does not meet."""
        node, wanted = inquiry.node(row), self.plugin.wanted(inquiry.pod)
        if wanted is None:
            return reason.text, {}
        failed = wanted.broken(node.name, node.labels)
        parts = [f"{r}: node has {node.labels.get(r.key, 'no such label') or 'an empty value'}" for r in failed]
        return "; ".join(parts), {"failed": [{"requirement": str(r), "has": node.labels.get(r.key)} for r in failed]}
