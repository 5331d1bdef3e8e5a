"""Extenders are asked about the pods of a plan, in the plan's own cluster. Others are tried while they answer.

As in kube-scheduler, where the cycle that is run without the victims asks them as any other does. They are told the
names of nodes, and know nothing of the pods that are left out. So their answers are the same whoever is left out, and
a plan that tries the group many times need not ask about a node more than once.
"""

from collections.abc import Generator

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.extender_calls import ExtenderCall, ExtenderCalls
from podberth.engine.instructions import AskExtenders
from podberth.engine.queue.queued import QueuedPod
from podberth.framework.decision import Decision
from podberth.framework.extenders import EXTENDER, NodesAnswer, NodesQuestion, VictimsAnswer
from podberth.framework.interface import PostFilterResult
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.shape import PodShape


class ExtenderError(PluginError):
    """An extender failed that is not ignorable. The text names it already."""

    def __init__(self, text: str) -> None:
        super().__init__(EXTENDER, text)

    def __str__(self) -> str:
        return self.text


class Consulting:
    """The questions of one plan, one after the other."""

    def __init__(
        self, calls: ExtenderCalls, cluster: Cluster, profile: str, framework: Framework, *, once: bool
    ) -> None:
        """`calls`: whose extenders are asked. `cluster`: in which the plan is made.

        `once`: extenders are asked about a pod again only for a node about which they were not asked.
        """
        self._calls = calls.about(cluster, profile, framework)
        self._known: dict[str, tuple[frozenset[str], NodesAnswer]] | None = {} if once else None
        """UID → the nodes about which they were asked, and what they said."""
        self._nodes: dict[PodShape, dict[str, None]] = {}
        """The nodes about which they were asked for pods of this shape."""
        self._said: NodesAnswer | VictimsAnswer | str | None = None
        self.waits_for: ExtenderCall | None = None
        """The question to which there is no answer yet."""

    def asks(self, queued: QueuedPod) -> bool:
        """Return whether extenders have a say in the nodes for a pod."""
        return bool(self._calls.on_nodes(queued.pod))

    def decision(self, queued: QueuedPod, within: Bools | None) -> Generator[int, None, Decision]:
        """The decision for a pod; yields 0 as long as there is no answer. Raises PluginError."""
        calls = self._calls
        step: Decision | AskExtenders | PostFilterResult
        step = calls.ask_about_nodes(queued, calls.on_nodes(queued.pod), within=within)
        while isinstance(step, AskExtenders):
            call = calls.take(step.question)
            assert call is not None
            said = yield from self._asked(call)
            step = calls.apply_answer(call, said, within)
        assert isinstance(step, Decision)
        return step

    def _asked(self, call: ExtenderCall) -> Generator[int, None, NodesAnswer]:
        """Yield what extenders say about these nodes, perhaps among others."""
        question = call.question
        assert isinstance(question, NodesQuestion)
        if self._known is None:
            return (yield from self._answer(call))
        pod = question.pod
        known, said = self._known.get(pod.uid, (frozenset(), None))
        if said is None or not known.issuperset(question.nodes):
            # A node on which an equal pod is now may be this one's the next time. All nodes are asked about together,
            # since only scores of one answer can be compared with each other.
            nodes = self._nodes.setdefault(pod.shape, {})
            nodes.update(dict.fromkeys(question.nodes))
            asked = ExtenderCall(call.queued, NodesQuestion(pod, question.extenders, tuple(nodes)), call.decision)
            said = yield from self._answer(asked)
            self._known[pod.uid] = frozenset(nodes), said
        return said

    def _answer(self, call: ExtenderCall) -> Generator[int, None, NodesAnswer]:
        """Put a question, and wait until the answer is there. Raises ExtenderError."""
        self._put(call)
        while (said := self._said) is None:
            yield 0
        if isinstance(said, str):
            raise ExtenderError(said)
        assert isinstance(said, NodesAnswer)
        return said

    def _put(self, call: ExtenderCall) -> None:
        # Apart from `_answer`, whose type checker would take the answer for None for good.
        self.waits_for, self._said = call, None

    def answered(self, call: ExtenderCall, said: NodesAnswer | VictimsAnswer | str) -> None:
        """What the extenders say; a text: what has failed."""
        if call is self.waits_for:
            self.waits_for, self._said = None, said
