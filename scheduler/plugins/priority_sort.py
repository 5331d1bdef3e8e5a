"""Upstream: plugins/queuesort."""

from scheduler.framework.plugin import NoArgs
from scheduler.model.pod import Pod


class PrioritySort:
    """Highest priority first; among equals, the one that entered the queue first."""

    name = "PrioritySort"
    Args = NoArgs

    def __init__(self, args: NoArgs) -> None:
        pass

    def queue_sort(self, pod: Pod, queued_at: float) -> tuple[int, float]:
        """Sort key, smallest first."""
        return -pod.priority, queued_at
