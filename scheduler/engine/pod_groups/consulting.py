"""Extenders are asked about the pods of a plan: in the plan's own cluster, and between its slices.

As in kube-scheduler, where the cycle that is run without the victims asks them as any other does. They are told the
names of nodes, and know nothing of the victims that are left out.
"""

from collections.abc import Generator

from scheduler.engine.extender_calls import ExtenderCall, ExtenderCalls
from scheduler.engine.instructions import AskExtenders
from scheduler.engine.queued import QueuedPod
from scheduler.framework.decision import Decision
from scheduler.framework.extenders import EXTENDER, NodesAnswer, VictimsAnswer
from scheduler.framework.plugin import PostFilterResult
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.plugins.default_preemption.sparing import asking
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools


class ExtenderError(PluginError):
    """An extender failed that is not ignorable. The text names it already."""

    def __init__(self, text: str) -> None:
        super().__init__(EXTENDER, text)

    def __str__(self) -> str:
        return self.text


class Consulting:
    """The questions of one plan, one after the other."""

    def __init__(self, calls: ExtenderCalls, cluster: Cluster, profile: str, framework: Framework) -> None:
        """`calls`: whose extenders are asked. `cluster`: in which the plan is made."""
        self._calls = calls.about(cluster, profile, framework)
        self._cluster = cluster
        self._said: NodesAnswer | VictimsAnswer | str | None = None
        self.waits_for: ExtenderCall | None = None
        """The question to which there is no answer yet."""

    def asks(self, queued: QueuedPod) -> bool:
        """Whether extenders have a say in the nodes for a pod."""
        return bool(self._calls.on_nodes(queued.pod))

    def decision(self, queued: QueuedPod, within: Bools | None) -> Generator[int, None, Decision]:
        """The decision for a pod; yields the steps that it took. Raises PluginError."""
        calls = self._calls

        def ask() -> Decision | AskExtenders:
            return calls.ask_about_nodes(queued, calls.on_nodes(queued.pod), within=within)

        step: Decision | AskExtenders | PostFilterResult = yield from asking(self._cluster, ask)
        while isinstance(step, AskExtenders):
            call = self.waits_for = calls.take(step.question)
            while self.waits_for is not None:
                yield 0
            said = self._said
            assert call is not None
            assert said is not None
            if isinstance(said, str):
                raise ExtenderError(said)
            step = yield from self._applied(call, said, within)
        assert isinstance(step, Decision)
        return step

    def _applied(
        self, call: ExtenderCall, said: NodesAnswer | VictimsAnswer, within: Bools | None
    ) -> Generator[int, None, Decision | AskExtenders | PostFilterResult]:
        return asking(self._cluster, lambda: self._calls.apply_answer(call, said, within))

    def answered(self, call: ExtenderCall, said: NodesAnswer | VictimsAnswer | str) -> None:
        """What the extenders say; a text: what has failed."""
        if call is self.waits_for:
            self.waits_for, self._said = None, said
