"""Explains rejections by plugins that look at fields of one node: its name, ports, taints, features and labels."""

from collections.abc import Sequence

from podberth.cache.nodes import conflicts
from podberth.explain.changes import AwaitUntaint, Change, DropHostPort, Fix, MovePod, RemoveTaint, Tolerate, Uncordon
from podberth.explain.of_controllers import BY_HAND, mark_of_taint
from podberth.explain.plugins.node_affinity import missed_requirements
from podberth.framework.explaining import Detail, Explainer, Inquiry, has_instead
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from podberth.model.shape import HostPort
from podberth.model.taints import COMPARISONS, HARD, UNSCHEDULABLE, Taint, tolerates
from podberth.plugins.required_during_execution import RequiredDuringExecution
from podberth.plugins.service_affinity import ServiceAffinity
from podberth.plugins.taint_toleration import COMPARING, TaintToleration


class NodeNameExplainer(Explainer):
    """Says of a node that NodeName rejects: which node the pod names."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        wanted = inquiry.pod.node_name
        return f"the pod's spec.nodeName is {wanted}", {"nodeName": wanted}


class NodePortsExplainer(Explainer):
    """Says of a node that NodePorts rejects: who has the ports."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        taken = _holders(inquiry, row)
        ports = [{"ip": ip, "protocol": protocol, "port": port, "pod": pod.key} for (ip, protocol, port), pod in taken]
        text = ", ".join(f"{port['protocol']} {port['port']} is taken by {port['pod']}" for port in ports)
        return text, {"ports": ports}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Return the fixes: without the ports, or without the pods that hold them."""
        taken, node = _holders(inquiry, row), inquiry.node(row).name
        ports = tuple(dict.fromkeys(DropHostPort(*port) for port, _ in taken))
        pods = tuple(dict.fromkeys(MovePod(pod.key, node) for _, pod in taken))
        return [found for found in (ports, pods) if found]


def _holders(inquiry: Inquiry, row: int) -> list[tuple[HostPort, Pod]]:
    """Return the pod's host ports that are taken on a node, and by whom."""
    wanted = inquiry.pod.shape.host_ports
    return [
        (mine, other)
        for other in inquiry.cluster.pods_on(row)
        if conflicts(wanted, other.shape.host_ports)
        for mine in wanted
        if conflicts((mine,), other.shape.host_ports)
    ]


class NodeUnschedulableExplainer(Explainer):
    """Says of a node that NodeUnschedulable rejects: the node is cordoned."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        return "cordoned", {}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Uncordon the node."""
        return [(Uncordon(inquiry.node(row).name),)]


class NodeDeclaredFeaturesExplainer(Explainer):
    """Says of a node that NodeDeclaredFeatures rejects: which features the node does not declare."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        lacking = sorted(inquiry.pod.shape.features - inquiry.node(row).features)
        return f"the node does not declare {', '.join(lacking)}", {"lacking": lacking}


class RequiredDuringExecutionExplainer(Explainer):
    """Says of a node that RequiredDuringExecution rejects: what of the promise the node does not meet."""

    plugin: RequiredDuringExecution

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        wanted = self.plugin.wanted(inquiry.pod)
        if wanted is None:
            return reason.text, {}
        return missed_requirements(inquiry.node(row), wanted.labels, wanted.selector)


class ServiceAffinityExplainer(Explainer):
    """Says of a node that ServiceAffinity rejects: the labels in which the node differs."""

    plugin: ServiceAffinity

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        labels, wanted = inquiry.node(row).labels, self.plugin.wanted(inquiry.pod, inquiry.cluster)
        differ = {label: value for label, value in wanted.items() if labels.get(label) != value}
        parts = [f"{label}={value}: {has_instead(labels, label)}" for label, value in differ.items()]
        return "; ".join(parts), {"wanted": wanted, "has": {label: labels.get(label) for label in wanted}}


class TaintTolerationExplainer(Explainer):
    """Says of a node that TaintToleration rejects: the taints, and who takes them away."""

    plugin: TaintToleration

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the taints that are not tolerated, who takes them away, and a toleration that nearly would do."""
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
    """Return what takes the taint away; None: the node is about to go."""
    if taint.key == UNSCHEDULABLE.key:
        return Uncordon(node)
    if taint.key in BY_HAND:
        return RemoveTaint(node, str(taint))
    mark = mark_of_taint(taint.key)
    if mark is None:
        return Tolerate(taint.key, taint.value, taint.effect)
    return AwaitUntaint(node, taint.key) if mark.cure else None
