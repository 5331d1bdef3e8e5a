"""The instructions that follow from one stimulus. All parts of the engine add them here, and only here."""

from collections.abc import Container

from podberth.engine.instructions import Failed, Instruction, Misbehaved, PatchCondition, RecordFailure
from podberth.engine.queue.queued import QueuedPod
from podberth.framework.decision import Decision
from podberth.framework.status import PluginError
from podberth.model.pod import Pod


class Outbox:
    """Instructions in the order in which they were decided."""

    def __init__(self) -> None:
        self._said: list[Instruction] = []
        self._hints: set[str] = set()
        """Plugins whose queueing hints have failed."""

    def add(self, instruction: Instruction) -> None:
        """Add an instruction, to be carried out after those that were added before."""
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
        """An attempt failed: count and log it, and write condition and event unless the API has exactly these already.

        `nominated`: the node to name in status.nominatedNodeName, empty to clear it, None to leave it. `quietly`:
        write nothing.
        """
        known = queued.written[2] if queued.written is not None else queued.pod.nominated_node_name
        written = (reason, message, known if nominated is None else nominated)
        repeated = not quietly and queued.written == written
        self.add(Failed(queued.pod, reason, message, plugins, queued.attempts, decision, repeated))
        if quietly or repeated:
            return
        queued.written = written
        changed = nominated if nominated is not None and nominated != known else None
        self.add(PatchCondition(queued.pod, reason, message, changed))
        self.add(RecordFailure(queued.pod, message))

    def hint_failed(self, pod: Pod, error: PluginError) -> None:
        """A queueing hint failed. Reported once for each plugin, since one event may ask about thousands of pods."""
        if error.plugin not in self._hints:
            self._hints.add(error.plugin)
            self.add(Misbehaved(pod, error))

    def retract(self, uids: Container[str]) -> None:
        """Drop the instructions for these pods: their attempt broke, and none of them has been carried out."""
        self._said = [one for one in self._said if one.pod.uid not in uids]

    def take(self) -> list[Instruction]:
        """All instructions since the last call."""
        said, self._said = self._said, []
        if self._hints:
            self._hints.clear()
        return said
