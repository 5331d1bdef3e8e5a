"""What NodePorts says of a node that it rejects, and what would help."""

from collections.abc import Sequence

from podberth.cache.nodes import conflicts
from podberth.framework.changes import DropHostPort, Fix, MovePod
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from podberth.model.shape import HostPort


class NodePortsExplainer(Explainer):
    """Says of a node that NodePorts rejects: who has the ports."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Each port that is taken, and the pod that has it."""
        taken = _holders(inquiry, row)
        ports = [{"ip": ip, "protocol": protocol, "port": port, "pod": pod.key} for (ip, protocol, port), pod in taken]
        text = ", ".join(f"{port['protocol']} {port['port']} is taken by {port['pod']}" for port in ports)
        return text, {"ports": ports}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Do without the ports, or have the pods that hold them leave."""
        taken, node = _holders(inquiry, row), inquiry.node(row).name
        ports = tuple(dict.fromkeys(DropHostPort(*port) for port, _ in taken))
        pods = tuple(dict.fromkeys(MovePod(pod.key, node) for _, pod in taken))
        return [found for found in (ports, pods) if found]


def _holders(inquiry: Inquiry, row: int) -> list[tuple[HostPort, Pod]]:
    """The pod's host ports that are taken on a node, and by whom."""
    wanted = inquiry.pod.shape.host_ports
    return [
        (mine, other)
        for other in inquiry.cluster.pods_on(row)
        if conflicts(wanted, other.shape.host_ports)
        for mine in wanted
        if conflicts((mine,), other.shape.host_ports)
    ]
