"""What TaintToleration says of a node that it rejects, and what would help."""

from collections.abc import Sequence

from podberth.explain.changes import AwaitUntaint, Change, Fix, RemoveTaint, Tolerate, Uncordon
from podberth.explain.of_controllers import BY_HAND, mark_of_taint
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.model.taints import COMPARISONS, HARD, UNSCHEDULABLE, Taint, tolerates
from podberth.plugins.taint_toleration import COMPARING, TaintToleration


class TaintTolerationExplainer(Explainer):
    """Says of a node that TaintToleration rejects: the taints, and who takes them away."""

    plugin: TaintToleration

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """The taints that are not tolerated, who takes them away, and a toleration that nearly would do."""
        taints = self._untolerated(inquiry, row)
        text = f"untolerated {', '.join(map(str, taints))}"
        marks = dict.fromkeys(mark.said for taint in taints if (mark := mark_of_taint(taint.key)) is not None)
        text += f" ({', '.join(marks)})" if marks else ""
        keys = {taint.key for taint in taints}
        near = next((t for t in inquiry.pod.shape.tolerations if t.key in keys), None)
        if near is not None:
            off = near.operator in COMPARISONS and not self.plugin.comparing
            unknown = f", but {near.operator} counts with the gate {COMPARING} only" if off else ""
            text += f" (the pod tolerates {near}{unknown})"
        return text, {"taints": [str(taint) for taint in taints]}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Tolerate what people put there, and leave to controllers what is theirs."""
        node = inquiry.node(row).name
        found = dict.fromkeys(_fix(taint, node) for taint in self._untolerated(inquiry, row))
        changes = tuple(change for change in found if change is not None)
        return [changes] if len(changes) == len(found) else []

    def _untolerated(self, inquiry: Inquiry, row: int) -> list[Taint]:
        tolerations, hard = inquiry.pod.shape.tolerations, (t for t in inquiry.node(row).taints if t.effect in HARD)
        return [taint for taint in hard if not tolerates(tolerations, taint, comparing=self.plugin.comparing)]


def _fix(taint: Taint, node: str) -> Change | None:
    """None: the node is about to go."""
    if taint.key == UNSCHEDULABLE.key:
        return Uncordon(node)
    if taint.key in BY_HAND:
        return RemoveTaint(node, str(taint))
    mark = mark_of_taint(taint.key)
    if mark is None:
        return Tolerate(taint.key, taint.value, taint.effect)
    return AwaitUntaint(node, taint.key) if mark.cure else None
