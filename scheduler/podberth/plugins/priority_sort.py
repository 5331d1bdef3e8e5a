"""Upstream: plugins/queuesort."""

from podberth.framework.interface import Plugin
from podberth.model.pod import Pod


class PrioritySort(Plugin):
    """Highest priority first; among equals, the one that entered the queue first."""

    name = "PrioritySort"

    def queue_sort(self, pod: Pod, queued_at: float) -> tuple[int, float]:
        """Sort key, smallest first."""
        return -pod.priority, queued_at
