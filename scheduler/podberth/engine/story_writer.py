"""What the engine itself notes in the stories of pods: watch events, and the results of attempts.

The queue notes where a pod waits and why, the binding cycle what happens until the pod is bound.
"""

from collections.abc import Iterable

from podberth.engine.queue.queued import QueuedPod
from podberth.engine.story import Stories
from podberth.engine.story_entries import (
    MOST_NAMED,
    Assumed,
    Bound,
    ChosenAsVictim,
    Entry,
    ExtendersAsked,
    Failed,
    Left,
    Nominated,
    NominationCleared,
    Reverted,
    cut,
)
from podberth.framework.binding import Write
from podberth.framework.decision import Decision
from podberth.framework.extenders import NodesQuestion, Question
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

OURS, OTHERS = "berth", "others"


class StoryWriter:
    """Notes what happens to pods that Berth schedules. Other pods have no story."""

    def __init__(self, stories: Stories) -> None:
        self._stories = stories

    def placed(self, pod: Pod, now: float, *, ours: bool) -> None:
        """The watch shows the pod on a node. `ours`: our Binding is under way, and this is the answer."""
        story = self._stories.get(pod.uid)
        if story is not None and not story.ended:
            story.end(Bound(now, pod.node_name, OURS if ours else OTHERS))

    def left(self, uid: str, why: str, now: float) -> None:
        """The pod is gone or terminating."""
        story = self._stories.get(uid)
        if story is not None:
            story.end(Left(now, why))

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], now: float) -> None:
        """The pod is nominated for a node, and these victims have to leave it."""
        self._note(pod, Nominated(now, node, tuple(victim.key for victim in victims[:MOST_NAMED]), len(victims)))
        for victim in victims:
            self._note(victim, ChosenAsVictim(now, node, pod.key))

    def preempted_by_group(self, group: PodGroup, victims: tuple[Pod, ...], now: float) -> None:
        """These victims have to make room for a pod group. What its own pods wait for, their failure says."""
        for victim in victims:
            self._note(victim, ChosenAsVictim(now, victim.node_name or "its node", f"podgroup {group.key}"))

    def passed_over(self, pods: Iterable[Pod], why: str, now: float) -> None:
        """These pods are not nominated any more."""
        for pod in pods:
            self._note(pod, NominationCleared(now, why))

    def _note(self, pod: Pod, entry: Entry) -> None:
        story = self._stories.get(pod.uid)
        if story is not None:
            story.note(entry)


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
    queued.story.note(Assumed(at, queued.attempts, node, nodes, fitting, score, queued.trace))


def bound(queued: QueuedPod, node: str, by: str, now: float) -> None:
    """The pod is bound; the watch may have shown that before."""
    if not queued.story.ended:
        queued.story.end(Bound(now, node, by))


def failed(queued: QueuedPod, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
    """An attempt failed."""
    text = _kept(queued, message)
    queued.story.note(Failed(now, queued.attempts, reason, text, plugins, queued.trace))


def turned_back(queued: QueuedPod, node: str, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
    """The pod was reverted. The points that its attempt passed are in the entry of `assumed` already."""
    queued.story.note(Reverted(now, node))
    queued.story.note(Failed(now, queued.attempts, reason, _kept(queued, message), plugins, None))


def _kept(queued: QueuedPod, message: str) -> str:
    """The message. Most attempts fail with the message of the one before: then both entries share one text."""
    said = queued.written
    return cut(said[1] if said is not None and said[1] == message else message)


def named(writes: Iterable[Write]) -> tuple[str, ...]:
    """The objects that are written."""
    keys = [write.key for write in writes][:MOST_NAMED]
    return tuple(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}" for kind, namespace, name in keys)
