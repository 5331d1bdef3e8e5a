"""What NodeUnschedulable says of a node that it rejects, and what would help."""

from collections.abc import Sequence

from podberth.framework.changes import Fix, Uncordon
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason


class NodeUnschedulableExplainer(Explainer):
    """Says of a node that NodeUnschedulable rejects: the node is cordoned."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """The mark that `kubectl cordon` sets."""
        return "cordoned", {}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Uncordon the node."""
        return [(Uncordon(inquiry.node(row).name),)]
