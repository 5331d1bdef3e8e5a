"""Requests wait for their turn: a token bucket (clientConnection.qps and burst), lanes and their places, pauses.

The bucket is client-go's flowcontrol limiter (util/flowcontrol/throttle.go over golang.org/x/time/rate). Unlike there,
each lane has its share of the rate, so a thousand condition updates never hold up a bind, and ten thousand binds never
hold up a watch. `client` passes every request through one `Lane`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Bucket:
    """`burst` tokens at most, refilled with `rate` a second; rate < 0 is no limit.

    Raises ValueError for a rate of 0 or a burst under 1, with which nothing would ever be sent.
    """

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int) -> None:
        if rate == 0 or (rate > 0 and burst < 1):
            raise ValueError(f"a rate of {rate:g} with a burst of {burst} lets nothing through")
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def left(self, now: float) -> float:
        """Return how many tokens there are now."""
        if self._at is not None and now > self._at:
            self._tokens = min(self._tokens + (now - self._at) * self.rate, float(self.burst))
        self._at = now
        return self._tokens

    def give_back(self) -> None:
        """Put back a token that was taken."""
        self._tokens = min(self._tokens + 1.0, float(self.burst))

    def take(self, now: float) -> float:
        """Take a token and return 0.0, or take none and return the seconds until there is one."""
        if self.rate < 0:
            return 0.0
        self.left(now)
        # a billionth of slack: the sum of many refills may miss a whole token by rounding, and would wait for nothing
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self.rate


class _Flow:
    """The requests of one lane that wait."""

    __slots__ = ("begins", "share", "turns")

    def __init__(self, share: int) -> None:
        self.share = share
        self.begins = 0.0
        """The virtual time at which its next request may begin."""
        self.turns: deque[asyncio.Future[None]] = deque()


class Throttle:
    """Requests that wait for a bucket. Each lane gets its share of the tokens; in a lane, who came first goes first.

    That is start-time fair queueing (Goyal, Vin, Cheng 1996): a virtual clock advances with each token, a lane's next
    request begins 1/share later than its last one, and the earliest goes first. A lane that had nothing to send begins
    now, so it waits for about one token however many requests of others wait. `later(seconds, callback)` is the event
    loop's `call_later`.
    """

    def __init__(
        self, bucket: Bucket, clock: Callable[[], float], later: Callable[[float, Callable[[], None]], Any]
    ) -> None:
        self._bucket = bucket
        self._clock = clock
        self._later = later
        self._flows: dict[str, _Flow] = {}
        self._heap: list[tuple[float, int, str]] = []
        """(when its next request begins, its share, name) of each lane in which somebody waits."""
        self._virtual = 0.0
        self._armed = False

    @property
    def waiting(self) -> int:
        """Return how many requests are in the queue, abandoned ones included until their turn."""
        return sum(len(flow.turns) for flow in self._flows.values())

    async def wait(self, lane: Lane) -> None:
        """Wait until it is this request's turn."""
        if not self._heap and self._bucket.take(self._clock()) == 0.0:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow = self._flows.get(lane.name)
        if flow is None:
            flow = self._flows[lane.name] = _Flow(lane.share)
        flow.turns.append(turn)
        if len(flow.turns) == 1:
            flow.begins = max(flow.begins, self._virtual)
            self._enter(lane.name, flow)
        if not self._armed:
            self._serve()
        await turn

    def take(self) -> bool:
        """Return whether one more request may be sent at this moment; if so, it has had its turn."""
        return not self._heap and self._bucket.take(self._clock()) == 0.0

    def _enter(self, name: str, flow: _Flow) -> None:
        heapq.heappush(self._heap, (flow.begins, -flow.share, name))

    def _serve(self) -> None:
        self._armed = False
        while self._heap:
            name = self._heap[0][2]
            flow = self._flows[name]
            while flow.turns and flow.turns[0].cancelled():
                flow.turns.popleft()
            if not flow.turns:
                heapq.heappop(self._heap)
                continue
            delay = self._bucket.take(self._clock())
            if delay:
                self._armed = True
                self._later(delay, self._serve)
                return
            heapq.heappop(self._heap)
            self._virtual = flow.begins
            flow.begins += 1.0 / flow.share
            flow.turns.popleft().set_result(None)
            if flow.turns:
                self._enter(name, flow)


class Lane(Struct, frozen=True):
    """A class of requests: how many at once (0: any number), and its share of the rate while others wait, too.

    `own_bucket`: the rate is its own, all of it. kube-scheduler gives events a client of their own for the same reason:
    they may be many, and must not use up the rate of binds. Writes of a `fenced` lane are the leader's alone.
    `obeys`: whether a Retry-After pauses the lane. The Lease is not paused: who renews it has a period of its own, and
    would lose it. `accept`: another form in which answers are asked for than JSON objects.
    """

    name: str
    width: int
    share: int
    own_bucket: bool = False
    fenced: bool = True
    obeys: bool = True
    accept: str = ""


BIND = Lane("bind", 48, 16)
API = Lane("api", 16, 8)
CONFIRM = Lane("confirm", 8, 8)
"""Reads that find out what became of a write whose answer was lost. Lists never wait for these."""
WATCH = Lane("watch", 0, 32)
STATUS = Lane("status", 8, 4)
EVENT = Lane("event", 32, 1, own_bucket=True)
EVICT = Lane("evict", 4, 16)
LEASE = Lane("lease", 2, 1, own_bucket=True, fenced=False, obeys=False)
REVIEW = Lane("review", 4, 1, own_bucket=True, fenced=False)
CHECK = Lane(
    "check",
    1,
    1,
    own_bucket=True,
    accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
)
"""Lists that are compared with what is known. They cost binds nothing, and are taken one page at a time."""
LANES = (BIND, API, CONFIRM, WATCH, STATUS, EVENT, EVICT, LEASE, REVIEW, CHECK)


class Places:
    """The requests of a lane that may be under way at once; of those that wait, what began first goes first.

    Several requests may serve one thing, as the writes of a claim and the Binding of its pod: these have one beginning.
    So what was begun is finished before others begin, and nothing is overtaken by what began later.
    """

    __slots__ = ("_order", "_waiting", "free")

    def __init__(self, width: int) -> None:
        self.free = width
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    async def take(self, since: float) -> None:
        """Return with a place. `since`: when what it is for began, in seconds of one clock."""
        if self.free:  # then nobody waits
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (since, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """A request is done: its place is the next one's."""
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


class Gate:
    """A lane's pause: once the server said Retry-After, all of the lane's requests wait, not only the refused one."""

    __slots__ = ("_rng", "_shut_until", "_spread")

    def __init__(self, rng: Callable[[], float]) -> None:
        self._rng = rng
        self._shut_until = 0.0
        self._spread = 0.0

    def shut(self, now: float, seconds: float) -> None:
        """Wait this long from now, at least a tenth of a second so that Retry-After: 0 does not become a busy loop."""
        seconds = max(seconds, 0.1)
        if now + seconds > self._shut_until:
            self._shut_until = now + seconds
            self._spread = min(0.5 * seconds, 5.0)

    def delay(self, now: float) -> float:
        """Return the seconds this request still has to wait, with its own jitter: they are not to return as one."""
        if now >= self._shut_until:
            return 0.0
        return self._shut_until - now + self._rng() * self._spread


class Backoff:
    """Seconds to wait after a failure: capped, exponential, jittered, and forgotten after a quiet time.

    The figures are client-go's for reflectors (tools/cache/reflector.go: 800 ms, doubling to 30 s, reset after two
    minutes without a failure). The jitter is full (AWS' term: uniform between nothing and the step) so that a fleet
    that lost its server together does not come back together; client-go adds up to the step on top instead. Give it
    the time, it keeps none.
    """

    __slots__ = ("_at", "_rng", "_step", "cap")

    BASE = 0.8
    QUIET = 120.0  # after so long without a failure, the next one counts as the first
    FLOOR = 0.1  # full jitter may draw next to nothing, several times running; never spin

    def __init__(self, rng: Callable[[], float], *, cap: float = 30.0) -> None:
        self.cap = cap
        self._rng = rng
        self._step = 0.0
        self._at = 0.0

    def failed(self, now: float, at_least: float | None = None) -> float:
        """Return the seconds to wait before the next try; `at_least` is a server's Retry-After."""
        if now - self._at > self.QUIET:
            self._step = 0.0
        self._at = now
        self._step = min(self._step * 2 or self.BASE, self.cap)
        delay = max(self._rng() * self._step, self.FLOOR)
        # jitter on top of the server's own figure too: it gave the same one to everybody
        return delay if at_least is None else at_least + min(delay, at_least * 0.5 + self.FLOOR)

    def reset(self) -> None:
        """Forget past failures: things work."""
        self._step = 0.0
