"""The connections of a port, what each is doing, and which one is closed when there is no room for a new one.

A connection is asking until a request of it has arrived, answering until that is answered, and then idle. Room is made
by the one that is longest about its handshake or its headers, then by the one that was idle longest, then by one whose
body is still to come; first of the peer that has most connections. So whoever opens a thousand of them closes their
own, and the newest, which may be a probe, finds room. Requests that are being answered are not cut off for others: when
there is nothing else left, a few places are kept for new connections that ask for health. Keeps no time and no sockets;
next stage: `port` has these.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

OTHER_DESCRIPTORS = 256
"""What a process of ours may need for all else: connections to the API server, files, its log."""
FEWEST = 16


class Stage(IntEnum):
    """How far a connection has come; the lower has to go first."""

    ASKING = 0
    IDLE = 1
    RECEIVING = 2
    """A request's head is there, its body is not."""
    ANSWERING = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """`most` connections in all and `of_peer` from one address; `kept` more for health when all others are answering.

    A TLS handshake, and a request's line and headers, have to arrive in `ask` seconds each; who was answered may be
    silent for `idle` seconds; a body, and its answer, may take `answer` seconds each until the client has taken it.
    """

    most: int
    of_peer: int
    kept: int
    ask: float
    idle: float
    answer: float

    def within(self, descriptors: int) -> Limits:
        """Lower limits, where the process may open few files: half of those that nothing else needs."""
        most = min(self.most, max((descriptors - OTHER_DESCRIPTORS) // 2, FEWEST))
        return replace(self, most=most, of_peer=max(self.of_peer * most // self.most, 1))


class Connection:
    """One client; `end` cuts it off. `kept`: it has one of the places that are kept for health."""

    __slots__ = ("end", "kept", "peer", "since", "stage", "until")

    def __init__(self, peer: str, now: float, until: float) -> None:
        self.peer = peer
        self.stage = Stage.ASKING
        self.since = now
        self.until = until
        self.kept = False
        self.end: Callable[[], object] = nothing


class Connections:
    """The connections of one port."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._held: dict[Connection, None] = {}
        self._kept: dict[Connection, None] = {}
        """The connections in the places that are kept for health. They count for no limit but their own."""
        self._of_peer: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held) + len(self._kept)

    def __iter__(self) -> Iterator[Connection]:
        return iter((*self._held, *self._kept))

    def enter(self, peer: str, now: float) -> tuple[Connection, Connection | None]:
        """A new connection, and the one that has to go for it."""
        new = Connection(peer, now, now + self.limits.ask)
        gone: Connection | None = None
        if self._of_peer[peer] >= self.limits.of_peer:
            gone = self.first_to_go(peer)
            new.kept = gone is None
        elif len(self._held) >= self.limits.most:
            gone = self.first_to_go()
            new.kept = gone is None
        if new.kept and len(self._kept) >= self.limits.kept:
            gone = next(iter(self._kept))
        if gone is not None:
            self.leave(gone)
        if new.kept:
            self._kept[new] = None
        else:
            self._held[new] = None
            self._of_peer[peer] += 1
        return new, gone

    def first_to_go(self, peer: str | None = None) -> Connection | None:
        """The connection to be closed when there has to be room; None when all are being answered. `peer`: whose."""
        waiting = [one for one in self._held if one.stage is not Stage.ANSWERING and (peer is None or one.peer == peer)]
        return min(waiting, key=lambda one: (one.stage, -self._of_peer[one.peer], one.since), default=None)

    def leave(self, one: Connection) -> None:
        """Forget a connection that is closed, or about to be. One that is forgotten already may be named again."""
        self._kept.pop(one, None)
        if one in self._held:
            del self._held[one]
            self._of_peer[one.peer] -= 1
            if not self._of_peer[one.peer]:
                del self._of_peer[one.peer]

    def turn(self, one: Connection, stage: Stage, now: float) -> None:
        """Note that a connection has come to a stage, and until when it may stay there."""
        limits = self.limits
        one.stage, one.since = stage, now
        one.until = now + {Stage.ASKING: limits.ask, Stage.IDLE: limits.idle}.get(stage, limits.answer)

    def overdue(self, now: float) -> list[Connection]:
        """The connections that have stayed in their stage for too long."""
        return [one for one in self if now >= one.until]


def peer_of(address: object) -> str:
    """Return what counts as one peer: an IPv4 address, or the 64 bits of an IPv6 address that one owner has of it."""
    host = address[0] if isinstance(address, tuple) else ""
    try:
        found = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return str(host)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(found) >> 64 << 64))


def descriptors() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def nothing() -> None:
    """Stands for `end` as long as there is nothing to end."""
