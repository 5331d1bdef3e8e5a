"""Compares what a reflector knows with a list of metadata, now and then, to find what its watch lost.

A watch may stay open and lose events: a proxy drops them, or the server's cache does. Nobody else would ever notice.
The comparison is cheap: pages of metadata only, spread over time, with a bucket of requests of their own. A difference
alone means nothing, as a list may be ahead of the watch. It counts as lost once the watch has come as far as the list,
or has had its time, and the difference is still there. Then the kind is listed again, which repairs it.

In the spirit of client-go's consistency detector (util/consistencydetector), which only tests use. Pure: `turn` says
what to do next, `reflector` does it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import Bucket
from podberth.kube.listwatch import PAGE_SIZE, FetchPage, ListWatch, Pause, Phase
from podberth.kube.objects import MALFORMED, Key, ListMeta, Partial, Version, older, read_version

EVERY_SECONDS = 20.0
"""Between two checks of a kind, less or more a quarter."""
OBJECTS_PER_SECOND = 1250
"""A kind with more than 25,000 objects is compared less often: 50,000 pods every 40 s."""
SECONDS = 10.0
"""The timeout for a page."""
SILENT_SECONDS = 5.0
"""Seconds for which a watch from which nothing comes may be behind a list; kube-apiserver's are by milliseconds."""
BEHIND_SECONDS = 30.0
"""Seconds for which a watch from which something comes may be behind a list: it may be slow."""
LOOK_SECONDS, HASTY_LOOK_SECONDS = 0.5, 0.05
"""Between two looks whether the watch has come as far as the list; the shorter one where somebody waits for that."""
SPREAD = 0.25
"""The part of the time between two checks over which the pages of one are spread."""
ASKED_RATE, ASKED_BURST = 1 / 120, 3
"""Checks that may be asked for: three at once, then one in two minutes."""
ASKED_GAP_SECONDS = 5.0
RETRY_SECONDS = 5.0
AT_ONCE = 2000
"""Known objects that are gone through in one turn of the event loop."""


class _Page(msgspec.Struct):
    metadata: ListMeta
    items: list[Partial] | None = None


_page = msgspec.json.Decoder(_Page)


class Lost(Struct, frozen=True):
    """The number of objects that differ from the server's list, though the watch has had time to catch up."""

    objects: int


class Back(Struct, frozen=True):
    """The server is at an earlier version than it was: its data is that of a backup."""


Turn: TypeAlias = FetchPage | Pause | Lost | Back


class _Stage(enum.Enum):
    WAITING = enum.auto()
    LISTING = enum.auto()
    COMPARING = enum.auto()
    SETTLING = enum.auto()
    GOING_OVER = enum.auto()


class CrossCheck:
    """One kind's checks. `now`: seconds of the clock that the `ListWatch` goes by."""

    def __init__(
        self,
        list_watch: ListWatch[Any],
        *,
        rng: Callable[[], float],
        every: float = EVERY_SECONDS,
    ) -> None:
        self._list_watch = list_watch
        self._rng = rng
        self._every = every
        self._asked = Bucket(ASKED_RATE, ASKED_BURST)
        self._wanted_at: float | None = None
        """The time of `want`; a check that began since and finds nothing ends the waiting. None: nobody waits."""
        self._stage = _Stage.WAITING
        self._due: float | None = None
        self._ended = 0.0
        self._began = 0.0
        self._lists = 0
        self._lost_in_row = 0
        self._before: Version = ""
        self._version: Version = ""
        self._next = ""
        self._next_at = 0.0
        self._listed_at = 0.0
        self._back = False
        self._seen: set[str] = set()
        self._differ: dict[Key, tuple[str, Version]] = {}
        """Listed, and known not at all or in an older version."""
        self._absent: dict[Key, str] = {}
        """Known, and not listed."""
        self._rest: Iterator[Key] = iter(())
        self._still: Iterator[Key] = iter(())
        """The keys of what differed that are still to be looked at in this round."""

    def soon(self, now: float) -> bool:
        """Check within half a second, but not within `ASKED_GAP_SECONDS` of the last check, nor too often.

        Returns whether this made the next check earlier.
        """
        if self._stage is _Stage.WAITING and self._due is not None:
            at = max(now + self._rng() * LOOK_SECONDS, self._ended + ASKED_GAP_SECONDS)
            if at < self._due and not self._asked.take(now):
                self._due = at
                return True
        return False

    def want(self, now: float) -> None:
        """Check now, and again after each repair, until a check that begins from now on has found no difference."""
        self._wanted_at = now
        if self._stage is _Stage.WAITING:
            self._due = now

    def give_up(self) -> None:
        """Take `want` back: nobody waits for such a check any more."""
        self._wanted_at = None

    @property
    def wanted(self) -> bool:
        """Return whether a check that `want` asked for has still to end without a difference."""
        return self._wanted_at is not None

    def turn(self, now: float) -> Turn:
        """Return what to do next. After Lost and Back the kind has to be listed again."""
        match self._stage:
            case _Stage.WAITING:
                return self._wait(now)
            case _Stage.LISTING if self._back:
                self._end(now)
                return Back()
            case _Stage.LISTING:
                if now < self._next_at:
                    return Pause(self._next_at - now)
                query = {"limit": str(PAGE_SIZE), **({"continue": self._next} if self._next else {})}
                return FetchPage(urlencode({**query, **self._list_watch.selectors}), SECONDS)
            case _Stage.COMPARING:
                self._compare(now)
                return Pause(0.0)
            case _Stage.SETTLING | _Stage.GOING_OVER:
                return self._settle(now)

    def _wait(self, now: float) -> Turn:
        if self._due is None:
            self._due = now + self._every * (0.25 + 0.75 * self._rng())  # kinds and replicas begin apart
        list_watch = self._list_watch
        ready = list_watch.synced and list_watch.phase in (Phase.LISTED, Phase.WATCHING)
        if now < self._due or not ready:
            # A kind that is not there has nothing to compare, perhaps for ever: it is not looked at twice a second.
            look = HASTY_LOOK_SECONDS if self.wanted else LOOK_SECONDS
            return Pause(max(self._due - now, look if list_watch.synced else RETRY_SECONDS))
        self._stage = _Stage.LISTING
        self._began = self._next_at = now
        self._lists = list_watch.counts.lists
        self._before = list_watch.objects.position
        self._next, self._back = "", False
        self._seen, self._differ, self._absent = set(), {}, {}
        return self.turn(now)

    # -- the list ------------------------------------------------------------------------------------------------

    def page(self, body: bytes, now: float) -> None:
        """Take in a page of the list."""
        try:
            page = _page.decode(body)
        except MALFORMED:
            self._end(now, RETRY_SECONDS)
            return
        if not self._next:
            self._version = read_version(page.metadata.resource_version)
            if older(self._version, self._before):
                self._back = True
                return
        objects = self._list_watch.objects
        known = objects.known
        for item in page.items or ():
            meta = item.metadata
            key = (meta.namespace, meta.name)
            version = read_version(meta.resource_version)
            self._seen.add(meta.uid)
            before = known.get(key)
            latest = objects.deleted_at(key) if before is None else before[1]
            if older(version, latest) and not older(self._version, latest):
                # The list is of a later version than the one that is known, and shows an earlier one, or what was
                # deleted: a restored cluster whose versions have passed ours meanwhile.
                self._back = True
                return
            if before is None or before[0] != meta.uid or older(before[1], version):
                self._differ[key] = (meta.uid, version)
        self._next = page.metadata.next
        pages = len(known) // PAGE_SIZE + 1
        self._next_at = now if self.wanted else now + SPREAD * self._every / pages * (0.5 + self._rng())
        if not self._next:
            self._stage = _Stage.COMPARING
            self._rest = iter(list(known))

    def failed(self, error: ApiError | Unreachable, now: float) -> None:
        """A page did not come. The next check is made at its usual time.

        It is made soon where there was no answer, the list was too old (410), the server said when, or somebody waits.
        """
        if isinstance(error, ApiError) and error.retry_after is None and error.status != 410 and not self.wanted:
            self._end(now)
        else:
            at_least = error.retry_after if isinstance(error, ApiError) else None
            self._end(now, max(RETRY_SECONDS * (0.2 + 0.8 * self._rng()), at_least or 0.0))

    def _compare(self, now: float) -> None:
        seen, version = self._seen, self._version
        known = self._list_watch.objects.known
        for count, key in enumerate(self._rest, 1):
            there = known.get(key)
            if there is not None and there[0] not in seen and not older(version, there[1]):
                self._absent[key] = there[0]
            if count == AT_ONCE:
                return
        self._stage = _Stage.SETTLING
        self._listed_at = now
        self._seen = set()

    # -- what came of it -----------------------------------------------------------------------------------------

    def _settle(self, now: float) -> Turn:
        list_watch = self._list_watch
        if list_watch.counts.lists != self._lists or list_watch.phase not in (Phase.LISTED, Phase.WATCHING):
            self._end(now)  # it is listed anew meanwhile
            return self._wait(now)
        objects = list_watch.objects
        if self._stage is _Stage.SETTLING:
            self._still = iter([*self._differ, *self._absent])
            self._stage = _Stage.GOING_OVER
        if self._go_over():
            return Pause(0.0)
        self._stage = _Stage.SETTLING
        lost = len(self._differ) + len(self._absent)
        if not lost:
            list_watch.counts.checks += 1
            list_watch.heard_at = max(list_watch.heard_at or 0.0, self._began)
            self._lost_in_row = 0
            if self._wanted_at is not None and self._began >= self._wanted_at:
                self._wanted_at = None
            self._end(now)
            return self._wait(now)
        heard = (list_watch.heard_at or 0.0) > self._began
        left = self._listed_at + (BEHIND_SECONDS if heard else SILENT_SECONDS) - now
        if left > 0 and older(objects.position, self._version):
            return Pause(min(left, HASTY_LOOK_SECONDS if self.wanted else LOOK_SECONDS))
        list_watch.counts.checks += 1
        list_watch.counts.lost += lost
        self._lost_in_row += 1
        if self.wanted:
            self._end(now, 0.0 if self._lost_in_row == 1 else RETRY_SECONDS)  # a list has not repaired it
        else:
            self._end(now, self._pace() * min(2 ** (self._lost_in_row - 1), 4))
        return Lost(lost)

    def _go_over(self) -> bool:
        """Drop some of what does not differ any more; return whether there is more to go over."""
        known = self._list_watch.objects.known
        for count, key in enumerate(self._still, 1):
            listed = self._differ.get(key)
            if listed is not None and not self._differs(key, *listed):
                del self._differ[key]
            uid, there = self._absent.get(key), known.get(key)
            if uid is not None and (there is None or there[0] != uid or older(self._version, there[1])):
                del self._absent[key]
            if count == AT_ONCE:
                return True
        return False

    def _differs(self, key: Key, uid: str, version: Version) -> bool:
        objects = self._list_watch.objects
        known = objects.known.get(key)
        if known is not None and not older(known[1], version):
            return False
        refused = objects.unreadable.get(key)
        if refused is not None and not older(refused[1], version):
            return False
        return not objects.is_gone(key, version)

    def _pace(self) -> float:
        """Return the seconds until the next check; more for very many objects, which bounds the share of a core."""
        every = max(self._every, len(self._list_watch.objects.known) / OBJECTS_PER_SECOND)
        return every * (0.75 + 0.5 * self._rng())

    def _end(self, now: float, seconds: float | None = None) -> None:
        self._stage = _Stage.WAITING
        self._ended = now
        self._due = now + ((0.0 if self.wanted else self._pace()) if seconds is None else seconds)
        self._seen, self._differ, self._absent, self._rest, self._still = set(), {}, {}, iter(()), iter(())
