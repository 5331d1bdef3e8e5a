"""What the engine itself notes in the stories of pods: what it hears of them, and what an attempt came to.

The queue notes where a pod waits and why, the binding cycle what happens on the way to the node.
"""

from collections.abc import Iterable

from scheduler.engine.happenings import (
    MOST_NAMED,
    Assumed,
    Bound,
    ChosenAsVictim,
    ExtendersAsked,
    Failed,
    Left,
    Nominated,
    NominationCleared,
    Reverted,
    cut,
)
from scheduler.engine.queued import QueuedPod
from scheduler.engine.story import Stories
from scheduler.framework.binding import Write
from scheduler.framework.decision import Decision
from scheduler.framework.extenders import NodesQuestion, Question
from scheduler.model.pod import Pod

OURS, OTHERS = "berth", "others"


class Chronicle:
    """Notes what happens to pods that are scheduled here; of others there is no story."""

    def __init__(self, stories: Stories) -> None:
        self._stories = stories

    def placed(self, pod: Pod, now: float, *, ours: bool) -> None:
        """The watch shows the pod on a node. `ours`: our Binding is under way, and this is the answer."""
        story = self._stories.get(pod.uid)
        if story is not None and not story.ended:
            story.end(Bound(now, pod.node_name, OURS if ours else OTHERS))

    def left(self, uid: str, why: str, now: float) -> None:
        """The pod is gone, or about to."""
        story = self._stories.get(uid)
        if story is not None:
            story.end(Left(now, why))

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], now: float) -> None:
        """A node is kept for the pod, and these have to leave it."""
        story = self._stories.get(pod.uid)
        if story is not None:
            named = tuple(victim.key for victim in victims[:MOST_NAMED])
            story.note(Nominated(now, node, named, len(victims)))
        for victim in victims:
            theirs = self._stories.get(victim.uid)
            if theirs is not None:
                theirs.note(ChosenAsVictim(now, node, pod.key))

    def passed_over(self, pods: Iterable[Pod], why: str, now: float) -> None:
        """A node is kept for these pods no longer."""
        for pod in pods:
            story = self._stories.get(pod.uid)
            if story is not None:
                story.note(NominationCleared(now, why))


def asked(queued: QueuedPod, question: Question, now: float) -> None:
    """The attempt waits for extenders."""
    about = "nodes" if isinstance(question, NodesQuestion) else "victims"
    names = tuple(extender.url_prefix for extender in question.extenders[:MOST_NAMED])
    queued.story.note(ExtendersAsked(now, queued.attempts, about, names))


def assumed(queued: QueuedPod, node: str, decision: Decision, at: float) -> None:
    """An attempt found a node. `at`: when that was."""
    totals = None if decision.quick else decision.totals
    score = None if totals is None or not len(totals) else int(totals.max())
    nodes, fitting = decision.nodes, decision.fitting
    queued.story.note(Assumed(at, queued.attempts, node, nodes, fitting, score, queued.steps, queued.trace))


def bound(queued: QueuedPod, node: str, by: str, now: float) -> None:
    """The pod is bound; unless the watch has said so before."""
    if not queued.story.ended:
        queued.story.end(Bound(now, node, by))


def failed(queued: QueuedPod, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
    """An attempt came to nothing."""
    text = _kept(queued, message)
    queued.story.note(Failed(now, queued.attempts, reason, text, plugins, queued.steps, queued.trace))


def turned_back(queued: QueuedPod, node: str, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
    """The pod turned back on its way to the node. What its attempt has passed, `assumed` has noted already."""
    queued.story.note(Reverted(now, node))
    queued.story.note(Failed(now, queued.attempts, reason, _kept(queued, message), plugins, 0, None))


def _kept(queued: QueuedPod, message: str) -> str:
    """The message. Most attempts fail as the one before did: then its text is kept once."""
    said = queued.written
    return cut(said[1] if said is not None and said[1] == message else message)


def named(writes: Iterable[Write]) -> tuple[str, ...]:
    """The objects that are written."""
    keys = [write.key for write in writes][:MOST_NAMED]
    return tuple(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}" for kind, namespace, name in keys)
