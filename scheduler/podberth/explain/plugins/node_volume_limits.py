"""What NodeVolumeLimits says of a node that it rejects, and what would help."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from podberth.framework.changes import Fix, MovePod
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.plugins.node_volume_limits import NodeVolumeLimits

_MOVES = 4
"""Pods that are offered to leave, of which the first that helps is told."""


class NodeVolumeLimitsExplainer(Explainer):
    """Says of a node that NodeVolumeLimits rejects: how many volumes are attached there."""

    plugin: NodeVolumeLimits

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return how many volumes of which driver the node has attached, of how many, and how many
        more the pod brings.
        """
        if reason != self.plugin.too_many:
            return reason.text, {}
        short = list(self._short(inquiry, row))
        text = "; ".join(
            f"{s.attached} of {s.limit} volumes of {s.driver} are attached, the pod needs {s.more} more" for s in short
        )
        worst = max(short, key=lambda s: s.attached + s.more - s.limit)
        numbers = {"needed": worst.more, "free": worst.limit - worst.attached}
        return text, {"drivers": [s._asdict() for s in short], **numbers}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Have a pod go whose volumes make enough room: one of those that matter least."""
        if list(reasons) != [self.plugin.too_many]:
            return []
        short = list(self._short(inquiry, row))
        attached = inquiry.cluster.storage.attached
        known = bool(attached.with_csi_node()[row])
        pods = inquiry.cluster.pods_on(row)
        volumes = {pod.uid: attached.of_pod(pod, with_csi_node=known) for pod in pods}
        users = [volume for found in volumes.values() for volume in found]
        leaving = []
        for pod in inquiry.movable(row):
            own = [driver for volume, driver in volumes[pod.uid].items() if users.count(volume) == 1]
            if all(own.count(s.driver) >= s.attached + s.more - s.limit for s in short):
                leaving.append(pod)
        leaving.sort(key=lambda pod: (not pod.terminating, pod.priority, len(volumes[pod.uid])))
        return [(MovePod(pod.key, inquiry.node(row).name),) for pod in leaving[:_MOVES]]

    def _short(self, inquiry: Inquiry, row: int) -> "Iterator[_Short]":
        """Drivers of which the pod brings more volumes than the node can attach."""
        attached = inquiry.cluster.storage.attached
        wanted = inquiry.once("volumes to attach", lambda: self.plugin.wanted(inquiry.pod, inquiry.cluster))
        for driver, its_volumes in wanted.with_csi_node.items():
            limit = int(attached.limits(driver)[row])
            count = int(attached.counts(driver)[row])
            more = sum(row not in attached.holders(volume) for volume in its_volumes)
            if limit >= 0 and more and count + more > limit:
                yield _Short(driver, count, limit, more)


class _Short(NamedTuple):
    """A driver of which a node can't attach as many volumes as a pod needs."""

    driver: str
    attached: int
    limit: int
    more: int
