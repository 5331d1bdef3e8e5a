"""Unschedulable and gated pods, by namespace, by who rejected them, and by what they have in common.

An event asks each kind of waiting pod once, not each pod, and each namespace for a bounded number of steps. What is
left of the question is asked later, some steps at a time: so nobody's pods are woken later for the sake of a namespace
with thousands of kinds of them. Until then the question is kept; beyond `MOST_QUESTIONS`, the oldest ones are taken for
answered with yes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engine.changes import Whose
from scheduler.engine.outbox import Outbox
from scheduler.engine.queued import QueuedPod
from scheduler.engine.room import Room
from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import Plugin
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod

AT_ONCE = 8_000
"""Steps for which events ask at once, all namespaces together, before pods have their turn again."""
PER_NAMESPACE = 2_000
DEAR = 1_000
"""Steps of a question from which on a kind is not asked: it is woken, to be on the safe side."""
MOST_QUESTIONS = 16
"""Questions that a namespace keeps for later."""

Hint = Callable[[Framework, Plugin, Pod], bool]
Bucket = tuple[str, frozenset[str]]
"""(profile, the plugins that rejected the pods)."""


class Group:
    """Waiting pods that are asked as one."""

    __slots__ = ("asked", "bucket", "key", "pod", "pods", "price", "shelf")

    def __init__(self, shelf: "Shelf", bucket: Bucket, key: Any, pod: Pod, asked: int) -> None:
        self.shelf: Shelf | None = shelf
        """None: its pods are being woken."""
        self.bucket = bucket
        self.key = key
        self.pod = pod
        """One of them."""
        self.pods: dict[str, QueuedPod] = {}
        self.asked = asked
        """The number of the last question that was asked."""
        self.price = _price(pod)


@dataclass(slots=True)
class Question:
    """Whether an event helps."""

    number: int
    event: ClusterEvent
    hint: Hint
    room: Room | None
    real: bool
    whose: Whose | None = None
    """The object that the event is about; of several questions in one: None."""
    concerned: dict[Bucket, list[Plugin | None] | None] = field(default_factory=dict)
    """Bucket → the plugins to ask; None: the event is nothing to them."""


@dataclass(slots=True)
class Woken:
    """A group that is on its shelf no longer. `real`: a real change helps it, as far as can be said."""

    group: Group
    event: ClusterEvent
    real: bool
    whose: Whose | None = None
    """As in Question."""


class Shelf:
    """The waiting pods of one namespace."""

    __slots__ = ("groups", "namespace", "questions", "upto", "walk")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.groups: dict[tuple[Bucket, Any], Group] = {}
        self.questions: list[Question] = []
        """Those that not all groups were asked yet."""
        self.walk: deque[Group] | None = None
        """The groups that are still to be asked, of those that were there when the walk began."""
        self.upto = 0
        """The last question of that time."""


class Shelves:
    """All of them."""

    def __init__(self, frameworks: Mapping[str, Framework], outbox: Outbox) -> None:
        self.frameworks = frameworks
        self._outbox = outbox
        self._shelves: dict[str, Shelf] = {}
        self._behind: dict[str, Shelf] = {}
        """Those with questions, in the order of their turns."""
        self._number = 0
        self.left = AT_ONCE
        """Steps for which events may still ask at once. A burst of them must not hold up pods that can be decided."""

    @property
    def behind(self) -> bool:
        """Whether there are questions left to ask."""
        return bool(self._behind)

    def entries(self) -> int:
        """How much is kept here, for tests of what a tenant can make grow."""
        shelves = self._shelves.values()
        return sum(1 + len(shelf.groups) + len(shelf.questions) for shelf in shelves) + len(self._behind)

    def put(self, queued: QueuedPod) -> None:
        """A pod waits here from now on."""
        pod = queued.pod
        shelf = self._shelves.get(pod.namespace)
        if shelf is None:
            shelf = self._shelves[pod.namespace] = Shelf(pod.namespace)
        bucket = (pod.scheduler_name, queued.plugins)
        key = (bucket, alike(pod))
        group = shelf.groups.get(key)
        if group is None:
            group = shelf.groups[key] = Group(shelf, bucket, key, pod, self._number)
        group.pods[pod.uid] = queued
        queued.group = group

    def take(self, queued: QueuedPod) -> None:
        """A pod waits here no longer."""
        group: Group = queued.group
        queued.group = None
        del group.pods[queued.pod.uid]
        if not group.pods and group.shelf is not None:
            self._drop(group, group.shelf)

    def ask(
        self, event: ClusterEvent, hint: Hint, room: Room | None, *, real: bool, whose: Whose | None = None
    ) -> list[Woken]:
        """Ask all shelves, each for some steps; the groups that are to be woken. The rest: as in `Queue.wake`."""
        self._number += 1
        if not self._shelves:
            return []
        question = Question(self._number, event, hint, room, real, whose)
        woken: list[Woken] = []
        left = self.left
        for shelf in self._shelves.values():
            if left <= 0 or shelf.questions:
                self._put_off(shelf, question)
                continue
            before = left
            for group in shelf.groups.values():
                if before - left >= PER_NAMESPACE:
                    self._put_off(shelf, question)
                    break
                left -= self._ask(group, question, question.room, woken)
        self.left = left
        for found in woken:
            self._detach(found.group)
        return woken

    def catch_up(self, most: int) -> tuple[list[Woken], str, int]:
        """Ask one namespace what was put off, for about so many steps.

        The groups that are to be woken, the namespace, and the steps.
        """
        namespace, shelf = next(iter(self._behind.items()))
        del self._behind[namespace]
        self._behind[namespace] = shelf
        rooms: dict[int, Room | None] = {}
        woken: list[Woken] = []
        steps = 0
        while steps < most and shelf.questions:
            if shelf.walk is None:
                shelf.walk, shelf.upto = deque(shelf.groups.values()), shelf.questions[-1].number
            if not shelf.walk:
                shelf.walk = None
                shelf.questions = [question for question in shelf.questions if question.number > shelf.upto]
                continue
            group = shelf.walk.popleft()
            steps += 1
            if group.shelf is None or not group.pods:
                continue
            for question in shelf.questions:
                if question.number <= group.asked:
                    continue
                if question.number not in rooms:
                    rooms[question.number] = None if question.room is None else question.room.again()
                before = len(woken)
                steps += self._ask(group, question, rooms[question.number], woken)
                if len(woken) > before:
                    self._detach(group)
                    break
        if not shelf.questions:
            shelf.walk = None
            self._behind.pop(namespace, None)
        return woken, namespace, steps

    def _put_off(self, shelf: Shelf, question: Question) -> None:
        questions = shelf.questions
        questions.append(question)
        if len(questions) > MOST_QUESTIONS:
            first, second = questions[:2]
            both = first.event | second.event
            questions[:2] = [Question(second.number, both, _yes, None, real=False)]
        self._behind.setdefault(shelf.namespace, shelf)

    def _ask(self, group: Group, question: Question, room: Room | None, woken: list[Woken]) -> int:
        """Ask about one group, and note it if it is to be woken; the steps that this took."""
        group.asked = question.number
        bucket = group.bucket
        profile, plugins = bucket
        framework = self.frameworks.get(profile)
        if framework is None:
            return 1
        concerned = question.concerned
        if bucket not in concerned:
            asked = [framework.plugin(name) for name in plugins if framework.events(name) & question.event]
            concerned[bucket] = None if plugins and not asked else asked
        them = concerned[bucket]
        if them is None:
            return 1
        if group.price > DEAR:
            woken.append(Woken(group, question.event, real=False, whose=question.whose))
            return 1
        before = framework.guard.effort.spent
        if not plugins or self._worth_it(question.hint, framework, them, plugins, group.pod, room):
            woken.append(Woken(group, question.event, question.real, question.whose))
        return group.price + max(framework.guard.effort.spent - before, 0)

    def says(self, hint: Hint, framework: Framework, plugin: Plugin | None, pod: Pod) -> bool:
        """Whether a plugin thinks that the pod may fit now. One that can't say must not keep the pod waiting."""
        if plugin is None:
            return True
        try:
            return hint(framework, plugin, pod)
        except PluginError as error:
            self._outbox.hint_failed(pod, error)
            return True

    def _worth_it(
        self,
        hint: Hint,
        framework: Framework,
        asked: list[Plugin | None],
        plugins: frozenset[str],
        pod: Pod,
        room: Room | None,
    ) -> bool:
        """Whether one of the asked plugins thinks so; and there is room, where all of them look at single nodes."""
        willing = None
        for plugin in asked:
            if self.says(hint, framework, plugin, pod):
                if room is None or plugin is None or not framework.looks_at_one_node(plugin.name):
                    return True
                willing = plugin
        if room is None or willing is None:
            return False
        return self.says(lambda framework, _, pod: not room.shut(framework, plugins, pod), framework, willing, pod)

    def _detach(self, group: Group) -> None:
        shelf = group.shelf
        if shelf is not None:
            group.shelf = None
            self._drop(group, shelf)

    def _drop(self, group: Group, shelf: Shelf) -> None:
        """A group is on its shelf no longer."""
        del shelf.groups[group.key]
        if not shelf.groups:
            del self._shelves[shelf.namespace]
            self._behind.pop(shelf.namespace, None)


def alike(pod: Pod) -> tuple[Any, ...]:
    """What pods have in common that are asked as one. Claims made for a pod have its name."""
    own = pod.uid if pod.shape.volumes.ephemeral or pod.shape.claims else ""
    return pod.shape, pod.namespace, frozenset(pod.labels.items()), own, pod.priority, pod.preempts


def _price(pod: Pod) -> int:
    """About how many steps a question about a pod takes."""
    shape = pod.shape
    terms = len(shape.affinity_terms) + len(shape.anti_affinity_terms) + len(shape.preferred_pod_terms)
    affinity = 0 if shape.required_node_affinity is None else len(shape.required_node_affinity.terms)
    nodes = affinity + len(shape.preferred_node_terms) + len(shape.node_selector)
    small = len(shape.spread) + len(shape.tolerations) + len(shape.host_ports) + len(shape.requests)
    return 10 + terms + nodes + small


def _yes(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
    return True
