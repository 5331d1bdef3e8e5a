"""Work for many waiting pods, some pods at a time, so that the event loop can do other things in between.

That is a wake-up of many pods, other profiles, and events about which plugins are still to be asked. Next stage:
`scheduler.engine.queue` has some of it done before the next pod is tried.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.engine.places import Cause
from scheduler.engine.pod_groups.places import GroupedPlaces
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.unschedulable_pods import Woken
from scheduler.engine.waves import Waves
from scheduler.framework.runtime import Framework

AT_ONCE = 256
"""Pods that are moved from place to place in one turn; the others follow in the next ones."""
_ASKED_AT_ONCE = 2_000
"""Steps of questions about pending events in one turn, while nothing else is to be done."""
_ACTIVATED = Cause("ForceActivate")


class PendingWork(GroupedPlaces):
    """Places, and the work that is to be done there."""

    def __init__(self, *args: Any) -> None:
        """As of `Places`."""
        super().__init__(*args)
        self._waves = Waves(self._wake, self._waits_on)
        self.equal_waits: Callable[[QueuedPod], frozenset[str] | None] = lambda queued: None
        """The plugins that an unschedulable pod would wait for again after an attempt, if that is known."""
        self._entering: deque[str] = deque()
        """UIDs of pods whose place has to be found again after the profiles changed; until then no pod is popped."""

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Use other profiles from now on. Pods of profiles that are gone leave; all others are tried again."""
        self.unschedulable.frameworks = frameworks
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self._active.clear()  # its order may be another one
        self.fair_share.release()
        self._key_form = None
        self._entering = deque(self._pods)
        self._reenter(now)

    def _reenter(self, now: float) -> None:
        """Find the places of some of the pods that waited when the profiles changed."""
        for _ in range(min(AT_ONCE, len(self._entering))):
            queued = self._pods.get(self._entering.popleft())
            if queued is None:
                continue
            if queued.entry is not None:
                self._reenter_group(queued, now, _ACTIVATED)
            elif queued.place is Place.BACKOFF and queued.pod.scheduler_name in self.frameworks:
                self._leave(queued)
                self._to_backoff(queued, now, _ACTIVATED)
            else:
                self._wake(queued, now, _ACTIVATED)

    def retry(self, uids: list[str], now: float) -> None:
        """Try pods again that wait for an event: their nomination has ended, so that event may never come.

        As in kube-scheduler, such a pod may be tried before its backoff is over, too. That has an end, since it is
        nominated again only after it has found victims again.
        """
        pods = [queued for uid in uids if (queued := self._pods.get(uid)) is not None]
        if pods:
            self._waves.begin_with(pods, _ACTIVATED)
            self._waves.go_on(now, AT_ONCE)

    def _wake_all(self, found: list[Woken], now: float) -> None:
        """Wake these sets of equal pods, some pods at a time."""
        last, cause = None, _ACTIVATED
        for woken in found:
            if last is None or woken.event is not last.event or woken.about is not last.about:
                last, cause = woken, Cause.of(woken.event, woken.about)  # many sets are woken by one event
            self._waves.begin(woken.equals, cause, real=woken.real)
        self._waves.go_on(now, AT_ONCE)

    def _waits_on(self, queued: QueuedPod) -> bool:
        """Have a pod that is about to be woken wait on, if an attempt would only tell it what it was told last."""
        plugins = self.equal_waits(queued) if queued.place is Place.UNSCHEDULABLE else None
        if plugins is None:
            return False
        self.unschedulable.take(queued)
        queued.plugins = plugins
        self.unschedulable.put(queued)
        return True

    @property
    def has_pending_work(self) -> bool:
        """Whether pods are still being woken, events are pending, or stories are behind."""
        return bool(self._waves.under_way or self._entering or self.stories.late) or self.wakes_groups or self.behind

    @property
    def behind(self) -> bool:
        """Whether events are pending."""
        return bool(self.unschedulable.behind)

    def do_pending_work(self, now: float) -> None:
        """Do some of this work."""
        if self._entering:
            self._reenter(now)
        elif self._waves.under_way:
            self._waves.go_on(now, AT_ONCE)
        elif self.wakes_groups:
            self.wake_some(now)
        elif self.behind:
            self._ask(now, _ASKED_AT_ONCE)

    def _ask(self, now: float, steps: int) -> None:
        """Ask about pending events, until somebody is woken or for about so many steps; the namespaces take turns."""
        found = list[Woken]()
        while steps > 0 and not found and self.behind:
            found, namespace, taken = self.unschedulable.catch_up(steps)
            self.fair_share.charge(namespace, taken, now)
            self._wake_all(found, now)
            steps -= taken
