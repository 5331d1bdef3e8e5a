"""Upstream: plugins/schedulinggates."""

from podberth.framework.events import ClusterEvent
from podberth.framework.interface import Plugin
from podberth.framework.status import Reason, Unresolvable
from podberth.model.pod import Pod


class SchedulingGates(Plugin):
    """Keep a pod out of the queue while it has scheduling gates."""

    name = "SchedulingGates"
    events = ClusterEvent.OWN_GATES

    def pre_enqueue(self, pod: Pod) -> Reason | None:
        """Hold a gated pod back, naming its gates."""
        if not pod.gates:
            return None
        return Unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]")
