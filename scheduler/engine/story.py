"""The stories of pods: everything that happened to each of them in this process, bounded in memory.

**What a pod costs.** An entry takes 300 bytes, or 1.25 KiB at most with the longest message (in ASCII). A pod keeps at
most `LONGEST` entries, its first `FIRST` and its latest ones; those between them are counted, not kept. So a pod that
is woken a million times takes no more than any other that was tried some ten times.

**What all cost.** At most `MOST` entries are kept: some 6 MB, 25 MB at the very most. Entries are paid for in advance,
`AT_ONCE` at a time, in the name of the pod's namespace. When there are too many, a namespace pays that has no fewer
than its equal share: with the stories of its pods that are bound or gone, the one that was silent longest first, and
when none of those is left, with stories of pods that still wait, in the same order. Whoever has less than the equal
share loses nothing, so a tenant with 100,000 pods pushes out the stories of its own pods only. A pod that waits, and
whose story went, begins a new one with whatever happens to it next, which says how many entries went.
"""

from scheduler.engine.happenings import Happening, PreBindWaits, SetAside

FIRST = 12
"""Entries of a pod that are kept from its beginning."""
LONGEST = 48
"""Entries of a pod that are kept in all."""
AT_ONCE = 4
"""Entries that are paid for at once: as many as an ordinary pod has."""
MOST = 20_000
"""Entries of all pods: the stories of the last 5,000 that were bound at once."""


class Story:
    """One pod's."""

    __slots__ = (
        "_paid",
        "_stories",
        "ended",
        "kept",
        "left_out",
        "left_out_after",
        "name",
        "namespace",
        "profile",
        "uid",
    )

    def __init__(self, stories: "Stories", uid: str, namespace: str, name: str, profile: str) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.profile = profile
        self.left_out = 0
        """Entries that went, to make room."""
        self.left_out_after = 0
        """After how many of those that are kept they came."""
        self.ended = False
        """The pod is bound, or gone."""
        self._stories = stories
        self.kept: list[Happening] = []
        """What is kept of it."""
        self._paid = 0

    @property
    def paid(self) -> int:
        """Entries that it may have."""
        return self._paid

    def note(self, happening: Happening) -> None:
        """This happened to the pod."""
        kept = self.kept
        kept.append(happening)
        if len(kept) > self._paid:
            self._stories.pay(self)

    def set_aside(self, happening: SetAside) -> None:
        """A slice is used up. Those of one attempt in a row are told as one: a costly pod has hundreds."""
        kept = self.kept
        if kept and isinstance(kept[-1], SetAside) and kept[-1].attempt == happening.attempt:
            kept[-1] = happening
        else:
            self.note(happening)

    def wait(self, happening: PreBindWaits) -> None:
        """A PreBind plugin waits. It is asked again whenever something changed, and that is told once."""
        last = self.kept[-1] if self.kept else None
        if not isinstance(last, PreBindWaits) or last.plugin != happening.plugin:
            self.note(happening)

    def end(self, happening: Happening) -> None:
        """The pod is bound, or gone: this is the last thing for now."""
        self.note(happening)
        self.ended = True
        self._stories.end(self)

    def extend(self, entries: int) -> None:
        """It may have more entries; told by `Stories`."""
        self._paid += entries

    def shorten(self) -> None:
        """It has as many entries as there may be: some of those in the middle go."""
        gone = LONGEST // 4
        del self.kept[FIRST : FIRST + gone]
        self.left_out += gone
        self.left_out_after = FIRST

    def forget(self) -> None:
        """All of it goes; told by `Stories`."""
        self.left_out += len(self.kept)
        self.left_out_after = 0
        self.kept.clear()
        self._paid = 0


class _Shelf:
    """The stories of one namespace, by UID; those that were silent longest come first."""

    __slots__ = ("ended", "paid", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, Story] = {}
        self.ended: dict[str, Story] = {}
        self.paid = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.ended)


class Stories:
    """All of them."""

    def __init__(self) -> None:
        self._stories: dict[str, Story] = {}
        self._shelves: dict[str, _Shelf] = {}
        """By namespace, the one that paid last first, as far as it is known."""
        self._paid = 0

    def __len__(self) -> int:
        return len(self._stories)

    @property
    def entries(self) -> int:
        """Entries that are paid for; those that are kept are no more."""
        return self._paid

    def begin(self, uid: str, namespace: str, name: str, profile: str) -> Story:
        """A pod is seen that is to be scheduled. One that was there before, and left, goes on with its story."""
        story = self._stories.get(uid)
        if story is None:
            return Story(self, uid, namespace, name, profile)
        if story.ended:
            story.ended = False
            shelf = self._shelves[namespace]
            shelf.waiting[uid] = shelf.ended.pop(uid)
        return story

    def get(self, uid: str) -> Story | None:
        """The story of a pod; None where nothing is kept."""
        return self._stories.get(uid)

    def named(self, namespace: str, name: str) -> list[Story]:
        """Those of all pods that had this name, as far as they are kept: the latest first."""
        shelf = self._shelves.get(namespace)
        if shelf is None:
            return []
        found = [story for of in (shelf.ended, shelf.waiting) for story in of.values() if story.name == name]
        return sorted(found, key=lambda story: story.kept[0].at, reverse=True)

    def end(self, story: Story) -> None:
        """The pod is bound, or gone; told by the story."""
        if self._stories.get(story.uid) is story:
            shelf = self._shelves[story.namespace]
            shelf.waiting.pop(story.uid, None)
            shelf.ended[story.uid] = story

    def pay(self, story: Story) -> None:
        """The story has more entries than are paid for; told by the story."""
        if story.paid >= LONGEST:
            story.shorten()
            return
        shelf = self._shelves.get(story.namespace)
        if shelf is None:
            shelf = self._shelves[story.namespace] = _Shelf()
        self._stories[story.uid] = story
        of = shelf.ended if story.ended else shelf.waiting
        of.pop(story.uid, None)
        of[story.uid] = story
        story.extend(AT_ONCE)
        shelf.paid += AT_ONCE
        self._paid += AT_ONCE
        while self._paid > MOST:
            self._make_room()

    def _make_room(self) -> None:
        """One story goes."""
        namespace, shelf = self._payer()
        of = shelf.ended or shelf.waiting
        uid = next(iter(of))
        story = of.pop(uid)
        del self._stories[uid]
        shelf.paid -= story.paid
        self._paid -= story.paid
        story.forget()
        if not shelf:
            del self._shelves[namespace]

    def _payer(self) -> tuple[str, _Shelf]:
        """A namespace that has no fewer entries than its equal share: there always is one.

        Those that have fewer go behind the others, so the one that paid last is found at once the next time.
        """
        equal = self._paid / len(self._shelves)
        while True:
            namespace, shelf = next(iter(self._shelves.items()))
            if shelf.paid >= equal:
                return namespace, shelf
            del self._shelves[namespace]
            self._shelves[namespace] = shelf
