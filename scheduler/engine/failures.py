"""What is said of a pod that was not bound, and whether it has been said already."""

from scheduler.engine.instructions import Failed, Instruction, PatchCondition, RecordFailure
from scheduler.engine.queued import QueuedPod
from scheduler.framework.decision import Decision


def failed(
    queued: QueuedPod,
    reason: str,
    message: str,
    plugins: frozenset[str] = frozenset(),
    decision: Decision | None = None,
    nominated: str | None = None,
) -> list[Instruction]:
    """An attempt came to nothing; what is to be counted, logged and written about it. `nominated`: as in `tell`."""
    said = tell(queued, reason, message, nominated)
    return [Failed(queued.pod, reason, message, plugins, queued.attempts, decision, repeated=not said), *said]


def tell(queued: QueuedPod, reason: str, message: str, nominated: str | None = None) -> list[Instruction]:
    """The condition and event of a failure, unless the API has exactly these already.

    `nominated`: the node to name in status.nominatedNodeName, empty to clear it, None to leave it.
    """
    known = queued.written[2] if queued.written is not None else queued.pod.nominated_node_name
    now_said = (reason, message, known if nominated is None else nominated)
    if queued.written == now_said:
        return []
    queued.written = now_said
    changed = nominated if nominated is not None and nominated != known else None
    return [PatchCondition(queued.pod, reason, message, changed), RecordFailure(queued.pod, message)]
