"""Whether what is known of nodes and pods is what there is. If not, nothing is scheduled, and everybody is told.

A decision on an old view of the cluster binds pods to nodes that are gone, and double-books room that others have
taken. The API server checks neither.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog

from podberth.kube.errors import ApiError
from podberth.kube.reflector import IDLE_SECONDS, Reflector
from podberth.kube.resources import NODES, PODS, Resource
from podberth.model.mistakes import misfit
from podberth.service.log import RateLimit

NEEDED = (NODES, PODS)
"""Kinds that every decision needs. RBAC may refuse the others; decisions are then made without them."""
STALE_SECONDS = IDLE_SECONDS + 10.0
"""A kind of which nothing was heard for so long is not followed: silence alone ends a watch before."""
_NO_SUCH_KIND = 404
CHECK_NEEDED_SECONDS, CHECK_OTHERS_SECONDS = 20.0, 60.0

log = structlog.get_logger("sight")


def check_seconds(resource: Resource) -> float:
    """Return how often a kind is compared with a list, less or more a quarter."""
    return CHECK_NEEDED_SECONDS if resource in NEEDED else CHECK_OTHERS_SECONDS


def log_refusal(resource: Resource, error: ApiError | None) -> None:
    """Log once that a kind can't be followed, and why; None: it can again."""
    if error is None:
        log.info("allowed to list and watch again", kind=resource.called)
    elif error.status == _NO_SUCH_KIND and resource not in NEEDED:
        log.info("the API server does not have this kind: scheduling without it", kind=resource.called)
    else:
        log.error("not allowed to follow", kind=resource.called, needed=resource in NEEDED, error=str(error)[:300])


class Malformed:
    """Logs that an object can't be read, and that decisions are made without it; some lines for each namespace."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._rate_limit = RateLimit(clock=clock)

    def __call__(self, resource: Resource, key: tuple[str, str] | None, error: Exception) -> None:
        what = "an object can't be read and is left out"
        whose = (resource.called, key[0] if key else "")
        self._rate_limit.write(whose, log.error, what, kind=resource.called, key=key, error=misfit(error)[:300])


class Freshness:
    """What the reflectors say of themselves. `needed`: kinds without which nothing is decided; `wake` is called when
    scheduling may go on."""

    def __init__(
        self, reflectors: Sequence[Reflector[Any]], needed: Sequence[Resource], wake: Callable[[], None]
    ) -> None:
        self._reflectors = reflectors
        self._needed = [reflector for reflector in reflectors if reflector.resource in needed]
        self._wake = wake
        self._told = ""
        self.histories = 0
        """How often it turned out that the API server's data is that of a backup."""
        self._astray: list[Reflector[Any]] = []
        """What may still be known from before a backup was restored, of whatever kind."""

    @property
    def clear(self) -> bool:
        """Return whether anything may be decided now."""
        return all(reflector.trusted for reflector in self._needed) and not self.gap()

    def gap(self) -> str:
        """Return what can't be seen, and why; empty when all is well, and before the first list."""
        for reflector in self._needed:
            kind = reflector.resource.called
            if not reflector.has_synced:
                continue
            if reflector.refused is not None:
                return f"not allowed to follow {kind}s: {reflector.refused}"
            if reflector.astray:
                return _of_backup(reflector)
            silent = reflector.staleness() or 0.0
            if silent > STALE_SECONDS:
                return f"nothing heard of {kind}s for {silent:.0f}s: {reflector.last_error or 'the watch is silent'}"
        # A pod that is unbound again has lost the devices and volumes that its claims seem to have.
        return next(map(_of_backup, self._of_before()), "")

    @property
    def relisting(self) -> bool:
        """Return whether what is known is in part of before the last backup that was restored."""
        return next(self._of_before(), None) is not None

    def _of_before(self) -> Iterator[Reflector[Any]]:
        if self._astray:
            self._astray = [reflector for reflector in self._astray if reflector.astray]
        return (one for one in self._astray if one.has_synced and one.refused is None)

    def missing(self) -> str:
        """The kinds that have to be listed first and are not, each with why; empty when all are."""
        return ", ".join(
            f"{one.resource.called} ({one.refused or one.last_error or 'the first list is under way'})"
            for one in self._reflectors
            if not one.has_synced and (one.refused is None or one in self._needed)
        )

    def without(self) -> str:
        """The kinds that are forbidden and not needed, so that decisions are made without them; empty when none is."""
        return ", ".join(
            f"{one.resource.called} ({one.refused})"
            for one in self._reflectors
            if one not in self._needed and one.refused is not None and one.refused.status != _NO_SUCH_KIND
        )

    def tell(self) -> None:
        """Log when scheduling pauses and when it goes on; call it now and then."""
        gap = self.gap()
        if bool(gap) != bool(self._told):
            if gap:
                log.error("the cluster can't be seen, so nothing is decided", reason=gap)
            else:
                log.info("the cluster can be seen again", reason=self._told)
                self._wake()
        self._told = gap

    def check_soon(self) -> None:
        """A pod finds no room: see whether the room that others have is theirs still."""
        for reflector in self._needed:
            reflector.check_soon()

    def lost(self, resource: Resource, objects: int) -> None:
        """A reflector found that its watch had lost events."""
        log.warning("events were lost, listing again", kind=resource.called, objects=objects)

    def back(self, resource: Resource | None = None) -> None:
        """The API server's data is that of a backup: no other kind is what it was either.

        `resource`: the kind whose reflector found that by resourceVersions, and lists it anew by itself.
        """
        log.error(
            "etcd was restored from a backup; listing everything again",
            seen_at="a pod that has left its node" if resource is None else resource.called,
        )
        for reflector in self._reflectors:
            if reflector.resource != resource:
                reflector.stray()
        self._astray = list(self._reflectors)
        self.histories += 1

    def trust(self) -> None:
        """A reflector has heard from the server again."""
        if self.clear:
            self._wake()


def _of_backup(reflector: Reflector[Any]) -> str:
    return f"the API server's data is that of a backup, and its {reflector.resource.called}s are not listed yet"
