"""Observers of what the engine does: the pods' history, conflicts between schedulers, claims that nobody uses any more.

Each part of the engine tells what has happened once, to whoever listens. It knows no observer by name.
"""

from collections.abc import Callable, Iterable, Mapping

from podberth.cache.cluster import Placement
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.stimuli import Gone
from podberth.framework.binding import Call, Holds, Patch, Wait
from podberth.framework.decision import Decision
from podberth.framework.extenders import Question
from podberth.framework.runtime import Framework
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup


class Observer:
    """Overrides what it wants to hear of. Times are engine seconds."""

    # -- a pod in the queue ------------------------------------------------------------------------------------------

    def queued(
        self, queued: QueuedPod, event: str, about: str, until: float, reason: str, now: float, many: bool
    ) -> None:
        """A pod has come to its `place` in the queue.

        `event`, `about`: as of `Cause`. `until`: when its backoff is over, else 0. `reason`: why it is gated. `many`:
        it is one of hundreds that came at once.
        """

    def failed(self, queued: QueuedPod, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
        """An attempt has failed; `plugins` have rejected the pod, or one of them broke."""

    def asked(self, queued: QueuedPod, question: Question, now: float) -> None:
        """The attempt waits for extenders."""

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], group: PodGroup | None, now: float) -> None:
        """These pods have to leave a node for a pod, which is nominated for it, or leave their nodes for its group."""

    def nominations_cleared(self, pods: Iterable[Pod], why: str, now: float) -> None:
        """These pods are nominated no longer."""

    # -- its binding cycle -------------------------------------------------------------------------------------------

    def assumed(self, queued: QueuedPod, node: str, decision: Decision, now: float) -> None:
        """A pod is assumed on the node that was chosen for it."""

    def waits(self, queued: QueuedPod, node: str, plugin: str, answer: Holds | Wait | Call, now: float) -> None:
        """A plugin has the pod wait: on Permit, for writes or other objects, or for its own call."""

    def posted(self, queued: QueuedPod, node: str, now: float) -> None:
        """The Binding is posted of a pod that had to wait; others' are posted as soon as they are assumed."""

    def bind_failed(self, queued: QueuedPod, status: int, message: str, now: float) -> None:
        """The API server refused the Binding (`status` of its answer), or never answered (0)."""

    def reverted(self, queued: QueuedPod, node: str, now: float) -> None:
        """A pod is not assumed any more, and is tried again."""

    def bound(self, queued: QueuedPod, node: str, by: str, now: float) -> None:
        """A pod is bound, by us or by a Bind plugin."""

    # -- what the watches show, once columns and queue know it -------------------------------------------------------

    def placed(self, pod: Pod, before: Placement | None, now: float, ours: bool) -> None:
        """The API shows a pod on a node; `before`: where it was placed until now, if only by an assumption of ours.

        `ours`: our Binding was under way.
        """

    def may_conflict(self, pod: Pod, before: Placement | None, now: float) -> None:
        """`placed`, for pods of other schedulers, and for pods with anti-affinity or spread constraints: one may be in
        the way of another.
        """

    def left(self, uid: str, why: str, now: float) -> None:
        """There is nothing more to do for a pod: it is deleted, finished, terminating, or its profile is gone."""

    def left_unbound(self, pod: Pod, now: float) -> None:
        """A pod that was not bound is gone, or is being deleted."""

    def put(self, thing: Modelled, now: float) -> None:
        """An object that is no pod was added or updated."""

    def gone(self, gone: Gone, now: float) -> None:
        """An object that is no pod was deleted."""

    # -- the course of time ------------------------------------------------------------------------------------------

    def takes_over(self, waiting: Iterable[QueuedPod]) -> list[Patch]:
        """Another process has led before; return what is to be written at once. `waiting`: the pods of the queue."""
        return []

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """The profiles are these from now on."""

    @property
    def next_tick(self) -> float | None:
        """Return the time at which `tick` has something to do. An observer may override it by a plain attribute."""
        return None

    def tick(self, now: float) -> None:
        """The time of `next_tick` has come."""


class Observers:
    """Holds all observers, and for each event on the way of a pod those that want to hear of it."""

    def __init__(self) -> None:
        self.all: list[Observer] = []
        self.ticking: list[Observer] = []
        """Those to whom the time matters."""
        self.queued: list[Callable[[QueuedPod, str, str, float, str, float, bool], None]] = []
        self.failed: list[Callable[[QueuedPod, str, str, frozenset[str], float], None]] = []
        self.asked: list[Callable[[QueuedPod, Question, float], None]] = []
        self.preempted: list[Callable[[Pod, str, tuple[Pod, ...], PodGroup | None, float], None]] = []
        self.nominations_cleared: list[Callable[[Iterable[Pod], str, float], None]] = []
        self.assumed: list[Callable[[QueuedPod, str, Decision, float], None]] = []
        self.waits: list[Callable[[QueuedPod, str, str, Holds | Wait | Call, float], None]] = []
        self.posted: list[Callable[[QueuedPod, str, float], None]] = []
        self.bind_failed: list[Callable[[QueuedPod, int, str, float], None]] = []
        self.reverted: list[Callable[[QueuedPod, str, float], None]] = []
        self.bound: list[Callable[[QueuedPod, str, str, float], None]] = []
        self.placed: list[Callable[[Pod, Placement | None, float, bool], None]] = []
        self.may_conflict: list[Callable[[Pod, Placement | None, float], None]] = []
        self.left: list[Callable[[str, str, float], None]] = []
        self.left_unbound: list[Callable[[Pod, float], None]] = []
        self.put: list[Callable[[Modelled, float], None]] = []
        self.gone: list[Callable[[Gone, float], None]] = []

    def register(self, observer: Observer) -> None:
        """Have an observer hear of the events that it overrides, after those that were registered before."""
        self.all.append(observer)
        if type(observer).tick is not Observer.tick:
            self.ticking.append(observer)
        for event, hearing in vars(self).items():
            if event not in ("all", "ticking") and getattr(type(observer), event) is not getattr(Observer, event):
                hearing.append(getattr(observer, event))
