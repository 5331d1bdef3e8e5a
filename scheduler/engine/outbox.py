"""Everything that is to be done about one stimulus. Whoever decides something says it here, and nowhere else."""

from scheduler.engine.instructions import Failed, Instruction, Misbehaved, PatchCondition, RecordFailure
from scheduler.engine.queued import QueuedPod
from scheduler.framework.decision import Decision
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod


class Outbox:
    """Instructions in the order in which they were decided."""

    def __init__(self) -> None:
        self._said: list[Instruction] = []
        self._hints: set[str] = set()
        """Plugins whose queueing hints have failed."""

    def say(self, instruction: Instruction) -> None:
        """This is to be done, after what was said before."""
        self._said.append(instruction)

    def failed(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        plugins: frozenset[str] = frozenset(),
        decision: Decision | None = None,
        nominated: str | None = None,
        *,
        quietly: bool = False,
    ) -> None:
        """An attempt came to nothing: count and log it; and write condition and event, unless the API has just these.

        `nominated`: the node to name in status.nominatedNodeName, empty to clear it, None to leave it. `quietly`:
        write nothing.
        """
        known = queued.written[2] if queued.written is not None else queued.pod.nominated_node_name
        written = (reason, message, known if nominated is None else nominated)
        repeated = not quietly and queued.written == written
        self.say(Failed(queued.pod, reason, message, plugins, queued.attempts, decision, repeated))
        if quietly or repeated:
            return
        queued.written = written
        changed = nominated if nominated is not None and nominated != known else None
        self.say(PatchCondition(queued.pod, reason, message, changed))
        self.say(RecordFailure(queued.pod, message))

    def hint_failed(self, pod: Pod, error: PluginError) -> None:
        """A queueing hint failed; said once for each plugin, which one event may ask about thousands of pods."""
        if error.plugin not in self._hints:
            self._hints.add(error.plugin)
            self.say(Misbehaved(pod, error))

    def retract(self, uid: str) -> None:
        """The attempt that said this of a pod broke, and nothing of it has been done."""
        self._said = [one for one in self._said if one.pod.uid != uid]

    def take(self) -> list[Instruction]:
        """All that was said since this was asked last."""
        said, self._said = self._said, []
        if self._hints:
            self._hints.clear()
        return said
