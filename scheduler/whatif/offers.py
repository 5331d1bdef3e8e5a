"""What is told of a change besides the change: the commands that make it, and what else it does."""

from collections.abc import Sequence

from msgspec import structs

from scheduler.framework.changes import AllowPreemption, Change
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.whatif.asking import Asking
from scheduler.whatif.commands import Commands, Written, commands
from scheduler.whatif.effects import SideEffects
from scheduler.whatif.explanation import Remedy
from scheduler.whatif.trial import applied


def told(remedy: Remedy, asking: Asking, written: Written | None, effects: SideEffects) -> Remedy:
    """The remedy with its commands, if what they make is tried and goes to the same nodes, and with its effects."""
    found = commands(remedy.changes, asking.inquiry.pod, written)
    return structs.replace(
        remedy,
        commands=found.lines if _does_the_same(found, remedy, asking, written) else [],
        effects=remedy.effects or effects.of(remedy.changes),
    )


def _does_the_same(found: Commands, remedy: Remedy, asking: Asking, written: Written | None) -> bool:
    """Whether the pod that a patch makes is the one that was tried."""
    if found.pod is None or written is None:
        return True
    pod = written.decoded(found.pod)
    if pod is None:
        return False
    asked = asking.inquiry.pod
    pod = structs.replace(pod, uid=asked.uid, name=asked.name, node_name="", nominated_node_name="")
    if any(isinstance(change, AllowPreemption) for change in remedy.changes):
        return pod.preempts
    return _nodes(pod, remedy.changes, asking) == remedy.nodes


def _nodes(pod: Pod, changes: Sequence[Change], asking: Asking) -> list[str]:
    cluster = asking.inquiry.cluster
    with applied(cluster, changes):
        try:
            feasible = asking.framework.decide(pod, cluster).feasible
        except PluginError as error:
            asking.failed("not every command could be tried", error)
            return []
        return sorted(cluster.nodes.names[row] or "" for row in feasible)
