"""The history of pods: an observer that writes each pod's story, everything that happened to it in this process.

**What a pod costs.** An entry takes 300 bytes, or 1.25 KiB at most with the longest message (in ASCII). A pod keeps at
most `LONGEST` entries, its first `FIRST` and its latest ones; those between them are counted, not kept. So a pod that
is woken a million times takes no more memory than one that was tried ten times.

**What all cost.** At most `MOST` entries are kept: about 6 MB, never more than 25 MB. Entries are counted in advance,
`AT_ONCE` at a time, for the pod's namespace. When there are too many, the namespace that has most of them loses a
story: first of its pods that are bound or gone, the one without an entry for longest first, then of its pods that still
wait, in the same order. A namespace with less than its equal share loses nothing, so a tenant with 100,000 pods
displaces only stories of its own pods. A waiting pod whose story was dropped begins a new one with its next entry; the
story says how many entries were dropped.

When a large pod group moves, its pods' stories say so at once, but their entries are counted some pods at a time, in
the next ticks (`note_later`). Until then, fewer than `AT_ONCE` entries of each of these pods are not counted.
"""

import heapq
from collections.abc import Iterable

from podberth.cache.cluster import Placement
from podberth.engine.observers import Observer
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.story import (
    MOST_NAMED,
    Assumed,
    BindFailed,
    BindingPosted,
    Bound,
    ChosenAsVictim,
    Entry,
    ExtendersAsked,
    Failed,
    Left,
    Nominated,
    NominationCleared,
    PluginCalled,
    PodNamed,
    PreBindWaits,
    PreBindWrites,
    Queued,
    Reverted,
    Timeline,
    WaitsOnPermit,
    cut,
    told,
)
from podberth.framework.binding import Call, Holds, Wait
from podberth.framework.decision import Decision
from podberth.framework.extenders import NodesQuestion, Question
from podberth.framework.guard import spelled
from podberth.framework.status import printable
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

OURS, OTHERS = "berth", "others"
FIRST = 12
"""The number of a pod's first entries that are always kept."""
LONGEST = 48
"""The number of entries of a pod that are kept in all."""
AT_ONCE = 4
"""The number of entries that are counted in advance: an ordinary pod has as many."""
MOST = 20_000
"""The number of entries of all pods that are kept: the stories of 5,000 pods that were bound without waiting."""
_FEW = 1024
_AT_A_TICK = 256
"""The number of stories whose entries are counted in one tick, after a large group has moved."""


class Story:
    """One pod's story, as far as it is kept."""

    __slots__ = (
        "_stories",
        "ended",
        "kept",
        "left_out",
        "left_out_after",
        "name",
        "namespace",
        "paid",
        "profile",
        "uid",
    )

    def __init__(self, stories: "Stories", uid: str, namespace: str, name: str, profile: str) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.profile = profile
        self.left_out = 0
        """The number of entries that were dropped to make room."""
        self.left_out_after = 0
        """The number of kept entries that came before these."""
        self.ended = False
        """The pod is bound, or gone."""
        self._stories = stories
        self.kept: list[Entry] = []
        """The entries that are kept."""
        self.paid = 0
        """The number of entries that it may have; set by `Stories`."""

    def note(self, entry: Entry) -> None:
        """Add an entry."""
        kept = self.kept
        kept.append(entry)
        if len(kept) > self.paid:
            self._stories.pay(self)

    def note_later(self, entry: Entry) -> None:
        """Add an entry to one of very many pods to which the same happens. It is counted later, in `tick`."""
        kept = self.kept
        kept.append(entry)
        more = len(kept) - self.paid
        if more >= AT_ONCE:
            self._stories.pay(self)
        elif more > 0:
            self._stories.late[self.uid] = self

    def end(self, entry: Entry) -> None:
        """Add the last entry for now: the pod is bound or gone."""
        self.note(entry)
        self.ended = True
        self._stories.end(self)

    def shorten(self) -> None:
        """Drop some entries in the middle: there are as many as there may be."""
        gone = LONGEST // 4
        del self.kept[FIRST : FIRST + gone]
        self.left_out += gone
        self.left_out_after = FIRST

    def forget(self) -> None:
        """Drop all entries; called by `Stories`."""
        self.left_out += len(self.kept)
        self.left_out_after = 0
        self.kept.clear()
        self.paid = 0


class _OfNamespace:
    """The stories of one namespace, by UID; those without an entry for longest come first."""

    __slots__ = ("ended", "name", "paid", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: dict[str, Story] = {}
        self.ended: dict[str, Story] = {}
        self.paid = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.ended)


class Stories:
    """The stories of all pods."""

    def __init__(self) -> None:
        self._stories: dict[str, Story] = {}
        self._by_namespace: dict[str, _OfNamespace] = {}
        self._most_first: list[tuple[int, int, _OfNamespace]] = []
        """A heap of (-entries, number, namespace). What is out of date is dropped when it comes up: a namespace is here
        with what it has now, and may be here with what it had before."""
        self._number = 0
        self.entries = 0
        """The number of entries that are counted; at most as many are kept."""
        self.late: dict[str, Story] = {}
        """Stories with entries that are not counted yet, by UID."""

    def __len__(self) -> int:
        return len(self._stories)

    def begin(self, uid: str, namespace: str, name: str, profile: str) -> Story:
        """Return the story of a pod that is to be scheduled. A pod that was there before continues its story."""
        story = self.get(uid)
        if story is None:
            return Story(self, uid, namespace, name, profile)
        if story.ended:
            story.ended = False
            if uid in self._stories:  # otherwise it was dropped before its late entries were counted
                own = self._by_namespace[namespace]
                own.waiting[uid] = own.ended.pop(uid)
        return story

    def get(self, uid: str) -> Story | None:
        """Return the story of a pod; None where nothing is kept."""
        return self._stories.get(uid) or self.late.get(uid)

    def named(self, namespace: str, name: str) -> list[Story]:
        """Return the stories of all pods that had this name, as far as they are kept, the latest first."""
        own = self._by_namespace.get(namespace) or _OfNamespace(namespace)
        found = [story for of in (own.ended, own.waiting) for story in of.values() if story.name == name]
        for uid, story in self.late.items():
            if (story.namespace, story.name) == (namespace, name) and story.kept and uid not in self._stories:
                found.append(story)
        return sorted(found, key=lambda story: story.kept[0].at, reverse=True)

    def end(self, story: Story) -> None:
        """Move a story to those that may be dropped first, as its pod is bound or gone; called by the story."""
        if self._stories.get(story.uid) is story:
            own = self._by_namespace[story.namespace]
            own.waiting.pop(story.uid, None)
            own.ended[story.uid] = story

    def pay(self, story: Story) -> None:
        """Count some more entries for a story that has more than are counted; called by the story."""
        if story.paid >= LONGEST:
            story.shorten()
            return
        own = self._by_namespace.get(story.namespace)
        if own is None:
            own = self._by_namespace[story.namespace] = _OfNamespace(story.namespace)
        self._stories[story.uid] = story
        of = own.ended if story.ended else own.waiting
        of.pop(story.uid, None)
        of[story.uid] = story
        story.paid += AT_ONCE
        own.paid += AT_ONCE
        self._rank(own)
        self.entries += AT_ONCE
        while self.entries > MOST:
            self._make_room()

    def catch_up(self, most: int) -> None:
        """Count the entries of at most this many stories that are late."""
        for _ in range(min(most, len(self.late))):
            uid = next(iter(self.late))
            story = self.late.pop(uid)
            if len(story.kept) > story.paid:
                self.pay(story)

    def _make_room(self) -> None:
        """Drop one story, of the namespace that has most: that is at least its equal share."""
        own = self._payer()
        of = own.ended or own.waiting
        uid = next(iter(of))
        story = of.pop(uid)
        del self._stories[uid]
        own.paid -= story.paid
        self.entries -= story.paid
        story.forget()
        if own:
            self._rank(own)
        else:
            del self._by_namespace[own.name]

    def _payer(self) -> _OfNamespace:
        """Return the namespace with most entries, without a look through all: thousands of them may have a few each."""
        while True:
            paid, _, own = heapq.heappop(self._most_first)
            if own and own.paid == -paid:
                return own

    def _rank(self, own: _OfNamespace) -> None:
        """Give a namespace its place by the number of its entries."""
        self._number += 1
        heapq.heappush(self._most_first, (-own.paid, self._number, own))
        if len(self._most_first) > _FEW + 2 * len(self._by_namespace):
            self._most_first = [(-one.paid, number, one) for number, one in enumerate(self._by_namespace.values())]
            heapq.heapify(self._most_first)


class History(Observer):
    """Writes the stories of pods that Berth schedules. Other pods have none."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self.stories = Stories()
        self._queued = Queued(0.0, "", "", "", frozenset())
        """The last entry of its kind: pods that move together share one."""

    def story(self, uid: str) -> Timeline | None:
        """Return everything that happened to a pod in this process, as far as it is kept; None where nothing is."""
        story, waiting = self.stories.get(uid), self._queue.get(uid)
        if story is None and waiting is not None:
            story = waiting.story  # its entries were dropped to make room, but it knows how many
        return None if story is None else _told(story)

    def story_of(self, namespace: str, name: str) -> Timeline | None:
        """Return the story of the pod of this name that was seen last; it names the others."""
        found = self.stories.named(namespace, name)
        return _told(found[0], tuple(story.uid for story in found[1:])) if found else None

    def _of(self, queued: QueuedPod) -> Story:
        """Return the story of a pod that is to be scheduled, which begins with its first entry."""
        story: Story | None = queued.story
        if story is None:
            pod = queued.pod
            story = queued.story = self.stories.begin(pod.uid, pod.namespace, pod.name, pod.scheduler_name)
        return story

    def queued(
        self, queued: QueuedPod, event: str, about: str, until: float, reason: str, now: float, many: bool
    ) -> None:
        """Note where the pod waits from now on, and why."""
        entry = Queued(now, queued.place, event, about, queued.plugins, until, reason)
        if many:
            if entry == self._queued:
                entry = self._queued
            self._queued = entry
            self._of(queued).note_later(entry)
        else:
            self._of(queued).note(entry)

    def failed(self, queued: QueuedPod, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
        """Note why the attempt failed. What it passed is in the entry of `assumed`, if the pod was."""
        said = queued.written
        # Most attempts fail with the message of the one before: then both entries share one text.
        text = cut(said[1] if said is not None and said[1] == message else message)
        story = self._of(queued)
        trace = None if story.kept and isinstance(story.kept[-1], Reverted) else queued.trace
        story.note(Failed(now, queued.attempts, reason, text, plugins, trace))

    def asked(self, queued: QueuedPod, question: Question, now: float) -> None:
        """Note about what extenders are asked."""
        about = "nodes" if isinstance(question, NodesQuestion) else "victims"
        names = tuple(extender.url_prefix for extender in question.extenders[:MOST_NAMED])
        self._of(queued).note(ExtendersAsked(now, queued.attempts, about, names))

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], group: PodGroup | None, now: float) -> None:
        """Note whom the pod waits for, and of each victim why it has to go. A group's own pods are told by `failed`."""
        if group is None:
            named = tuple(victim.key for victim in victims[:MOST_NAMED])
            self._note(pod, Nominated(now, node, named, len(victims)))
        for victim in victims:
            if group is None:
                self._note(victim, ChosenAsVictim(now, node, pod.key))
            else:
                self._note(victim, ChosenAsVictim(now, victim.node_name or "its node", f"podgroup {group.key}"))

    def nominations_cleared(self, pods: Iterable[Pod], why: str, now: float) -> None:
        """Note that these pods are nominated no longer."""
        for pod in pods:
            self._note(pod, NominationCleared(now, why))

    def _note(self, pod: Pod, entry: Entry) -> None:
        story = self.stories.get(pod.uid)
        if story is not None:
            story.note(entry)

    def assumed(self, queued: QueuedPod, node: str, decision: Decision, now: float) -> None:
        """Note the node that was found."""
        totals = None if decision.quick else decision.totals
        score = None if totals is None or not len(totals) else int(totals.max())
        story = queued.story or self._of(queued)
        story.note(Assumed(now, queued.attempts, node, decision.nodes, decision.fitting, score, queued.trace))

    def waits(self, queued: QueuedPod, node: str, plugin: str, answer: Holds | Wait | Call, now: float) -> None:
        """Note for what a plugin has the pod wait."""
        story = self._of(queued)
        match answer:
            case Holds(seconds):
                story.note(WaitsOnPermit(now, node, seconds))
            case Call():
                story.note(PluginCalled(now, answer.name, spelled(answer.point)))
            case Wait(writes=writes) if writes:
                keys = [write.key for write in writes][:MOST_NAMED]
                names = tuple(f"{kind} {space}/{name}" if space else f"{kind} {name}" for kind, space, name in keys)
                story.note(PreBindWrites(now, plugin, names, cut(printable(answer.note))))
            case Wait():
                # The plugin is asked again whenever something changed; that is one entry.
                last = story.kept[-1] if story.kept else None
                if not isinstance(last, PreBindWaits) or last.plugin != plugin:
                    story.note(PreBindWaits(now, plugin, answer.seconds))

    def posted(self, queued: QueuedPod, node: str, now: float) -> None:
        """Note that the Binding is posted."""
        self._of(queued).note(BindingPosted(now, node))

    def bind_failed(self, queued: QueuedPod, status: int, message: str, now: float) -> None:
        """Note the answer of the API server."""
        self._of(queued).note(BindFailed(now, status, cut(message)))

    def reverted(self, queued: QueuedPod, node: str, now: float) -> None:
        """Note that the pod is assumed no longer."""
        self._of(queued).note(Reverted(now, node))

    def bound(self, queued: QueuedPod, node: str, by: str, now: float) -> None:
        """Note who bound the pod; the watch may have shown that before."""
        story = self._of(queued)
        if not story.ended:
            story.end(Bound(now, node, by or OURS))

    def placed(self, pod: Pod, before: Placement | None, now: float, ours: bool) -> None:
        """Note that the pod is bound, if nothing has told so yet."""
        story = self.stories.get(pod.uid)
        if story is not None and not story.ended:
            story.end(Bound(now, pod.node_name, OURS if ours else OTHERS))

    def left(self, uid: str, why: str, now: float) -> None:
        """Note why there is nothing more to do for the pod."""
        story = self.stories.get(uid)
        if story is not None:
            story.end(Left(now, why))

    @property
    def next_tick(self) -> float | None:
        """Return the time at which entries are to be counted: at once, if any are late."""
        return 0.0 if self.stories.late else None

    def tick(self, now: float) -> None:
        """Count the entries of some of the stories that are late."""
        self.stories.catch_up(_AT_A_TICK)


def _told(story: Story, others: tuple[str, ...] = ()) -> Timeline:
    pod = PodNamed(story.namespace, story.name, story.uid, story.profile)
    return told(pod, story.kept, story.left_out, story.left_out_after, others)
