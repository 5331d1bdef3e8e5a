"""Holds evictions back: by the breaker, by what happened to pods of the same owner, and by rates.

The breaker stops all evictions when too many nodes break promises at once: that is a mistake more often than a wish.

Of an owner whose pods were evicted lately, a successor that lands badly again is not evicted at once, nor in a loop. A
pod succeeds evicted ones when it was created after the first of them was asked to go. That goes by the server's clock
alone, so the leader, the next one, `--dry-run` and `explain` come to the same answer from the same Events.

An eviction takes a token of the node, of the namespace and of the cluster each.
"""

from dataclasses import dataclass, fields, replace
from math import inf

from podberth.evictor.followed import ClosedGate, Followed, Gate
from podberth.evictor.messages import Restored, Turn
from podberth.model.pod import Pod

OWNER_BACKOFF_MOST = 3000.0
"""The longest backoff of an owner, in seconds. It is less than the hour for which API servers keep Events by default,
as the next process knows only what is in Events.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the evictor: times in seconds, rates per second.

    Raises ValueError that names the field of a value that makes no sense.
    """

    grace: float = 30.0
    """The time for which a promise has to be broken, without a pause, before the pod may be evicted."""
    changed_share: float = 0.1
    """The breaker opens when more than this share of the nodes break promises within `changed_window`."""
    changed_window: float = 300.0
    node_rate: float = 0.2
    node_burst: int = 5
    namespace_rate: float = 0.5
    namespace_burst: int = 10
    cluster_rate: float = 2.0
    cluster_burst: int = 20
    owner_backoff: float = 300.0
    """The time for which the successor of an evicted pod is left alone. It doubles each time, up to
    `owner_backoff_most`."""
    owner_backoff_most: float = OWNER_BACKOFF_MOST
    retry: float = 10.0
    """The wait after a refusal, with jitter. It doubles up to `retry_most`. The server may ask for more."""
    retry_most: float = 300.0
    rest: float = 600.0
    """The wait where trying again soon can't help: two budgets, or no right to evict."""
    bare_pods: bool = False
    """Evict pods without a controller too, which nothing creates again."""
    observe: bool = False
    """Ask the server what would happen (dry run), and evict nobody."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                continue
            if not 0 < value < inf:
                raise ValueError(f"{field.name}: Invalid value: {value:g}: must be greater than 0, and finite")
        if self.changed_window < self.grace:
            raise ValueError(f"changed_window: Invalid value: {self.changed_window:g}: must be no shorter than grace")
        if self.changed_share > 1:
            raise ValueError(f"changed_share: Invalid value: {self.changed_share:g}: must be at most 1")


# --- the breaker ------------------------------------------------------------------------------------------------------

SAID_AGAIN_SECONDS = 10.0


class Breaker:
    """Counts nodes that began to break promises within `window` seconds and were not put right since.

    Open, it stays open until few enough of the nodes that opened it still break promises, however long that takes.
    """

    def __init__(self, share: float, window: float) -> None:
        self._share, self._window = share, window
        self._since: dict[str, float] = {}
        self._said = (0, 0)
        self._said_at = 0.0
        self.open = False

    def limit(self, nodes: int) -> int:
        """Return the number of these nodes that may break promises at once; it is at least 1."""
        return max(int(self._share * nodes), 1)

    def broke(self, node: str, now: float) -> None:
        """Note that a node breaks promises, again or for the first time."""
        self._since[node] = now

    def mended(self, node: str) -> None:
        """Note that a node keeps all promises again, or is gone."""
        self._since.pop(node, None)

    def look(self, nodes: int, now: float) -> str:
        """Open or close the breaker; return the note about it, empty for nothing new.

        While it is open, a new count is noted at most every ten seconds.
        """
        if not self.open:
            for node in [node for node, since in self._since.items() if since + self._window <= now]:
                del self._since[node]
        was, self.open = self.open, len(self._since) > self.limit(nodes)
        if not (was or self.open):
            return ""
        if was == self.open and (self._said == self._figures(nodes) or now < self._said_at + SAID_AGAIN_SECONDS):
            return ""
        self._said, self._said_at = self._figures(nodes), now
        count, limit = self._said
        what = f"{count} of {nodes} nodes break promises at once, {limit} may"
        if self.open:
            return f"{what}: nothing is evicted until their labels are put back, or --max-changed is raised"
        return f"{what}: evictions go on when the grace is over once more"

    def next_word(self, nodes: int) -> float | None:
        """Return the engine time at which `look` has another count to report; None: it has none."""
        return self._said_at + SAID_AGAIN_SECONDS if self.open and self._said != self._figures(nodes) else None

    def _figures(self, nodes: int) -> tuple[int, int]:
        return len(self._since), self.limit(nodes)


# --- owners -----------------------------------------------------------------------------------------------------------

_ANSWER_SECONDS = 5.0
"""Seconds until it is checked again whether the API has answered an eviction."""
_UNSURE_SECONDS = 300.0
"""Seconds after which no request can be under way any more: a pod that goes later goes for another reason."""


@dataclass(slots=True)
class _Record:
    """The latest round of one owner. No eviction of it took place later than `last` (engine time)."""

    began: str
    """The time at which the first pod of this round was asked to go (RFC 3339); pods created before are its
    siblings.
    """
    last: float
    round: int
    spared: float


@dataclass(frozen=True, slots=True)
class _Asking:
    """A pod was asked to go `at` (engine time). `begins`: it succeeds others, so the owner's next round begins."""

    at: float
    begins: bool


@dataclass(frozen=True, slots=True)
class Spared:
    """A pod that is left alone for `seconds`. `turn`: the eviction that it succeeds; None: one without an answer."""

    seconds: float
    turn: Turn | None

    @property
    def why(self) -> str:
        """Return the reason in words, for Events, plans and explanations."""
        if self.turn is None:
            return "the API has not answered yet whether a pod of its owner is evicted"
        wait, number = _duration(self.turn.spared), self.turn.round
        said = f"a pod of its owner was evicted, and pods created since are left alone for {wait}"
        return f"{said} (owner backoff, round {number})"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return " ".join(part for part in (f"{minutes} min" if minutes else "", f"{rest} s" if rest else "") if part)


class Owners:
    """The rounds of evictions of each owner. The first round is free; each next one waits, twice as long as the one
    before.
    """

    def __init__(self, backoff: float, most: float) -> None:
        self._backoff, self._most = backoff, most
        self._records: dict[str, _Record] = {}
        self._asking: dict[str, dict[str, _Asking]] = {}
        """Owner → pods that were asked to go, by UID: the API has not answered yet."""
        self._unsure: dict[str, tuple[Turn, float]] = {}
        """Pods that may yet turn out to be evicted, and since when: nobody knows, but if they go now, that is why."""

    def turn(self, pod: Pod) -> Turn:
        """Return the round that an eviction of this pod would be part of now."""
        owner = owner_key(pod)
        record = self._records.get(owner)
        number = 1 if record is None else record.round + _succeeds(record, pod)
        return Turn(owner, number, self._spacing(number))

    def asked(self, pod: Pod, now: float) -> None:
        """Note that the API is asked to evict a pod."""
        owner = owner_key(pod)
        record = self._records.get(owner)
        begins = record is not None and _succeeds(record, pod)
        self._asking.setdefault(owner, {})[pod.uid] = _Asking(now, begins)

    def answered(self, pod: Pod, turn: Turn, now: float, *, evicted: bool | None, stays: bool) -> bool:
        """Note the API's answer; return whether the pod counts as evicted.

        `evicted` None: nobody knows. `stays`: the pod is there, and not on its way out.
        """
        asking = self._asking[turn.owner]
        del asking[pod.uid]
        if not asking:
            del self._asking[turn.owner]
        before, _ = self._unsure.pop(pod.uid, (None, now))
        may_be = before is not None or (evicted is None and turn.asked_at != "")
        turn = turn if before is None else _earlier(turn, before)
        if evicted or (may_be and not stays):
            self._happened(turn, now)
            return True
        if may_be:
            self._unsure[pod.uid] = (turn, now)
        return False

    def lost(self, uid: str, now: float) -> Turn | None:
        """Count a pod that is gone, or on its way out, as evicted if that was unknown; return the eviction, else
        None.
        """
        turn, _ = self._unsure.pop(uid, (None, now))
        if turn is not None:
            self._happened(turn, now)
        return turn

    def restore(self, restored: Restored, now: float, *, there: bool) -> bool:
        """Restore an eviction of an earlier process; return whether it is known only now that it took place. `there`:
        its pod still is.

        When nobody wrote down that it took place and the pod is gone, it took place at any time up to now.
        """
        if restored.ago is not None:
            self._happened(restored.turn, now - restored.ago)
        elif there:
            self._unsure[restored.pod.uid] = (restored.turn, now)
        else:
            self._happened(restored.turn, now)
            return True
        return False

    def spared(self, pod: Pod, now: float, placed_at: float | None = None) -> Spared | None:
        """Return for how long a pod is left alone, because it succeeds one that was evicted; None: it is not.

        `placed_at` (engine time) matters while an eviction has no answer yet: then its time is not known. While the
        first pod of a next round is asked to go, the owner's other pods wait, also those that succeed nobody: requests
        overtake one another, and the first pod would then go right after an eviction that it has to keep away from.
        """
        owner = owner_key(pod)
        record = self._records.get(owner)
        succeeds = record is not None and _succeeds(record, pod)
        asking = self._asking.get(owner, {})
        if pod.uid in asking:
            return Spared(_ANSWER_SECONDS, None)  # its promise held again meanwhile, and is broken once more
        others = asking.values()
        unsettled = any(one.begins or (placed_at is not None and one.at < placed_at) for one in others)
        if others and (succeeds or unsettled):
            return Spared(_ANSWER_SECONDS, None)
        if record is None or not succeeds:
            return None
        left = record.last + record.spared - now
        return Spared(left, Turn(owner, record.round, record.spared, record.began)) if left > 0 else None

    def forget(self, now: float) -> None:
        """Drop what has no effect any more."""
        for owner in [key for key, record in self._records.items() if now - record.last > 2 * self._most]:
            del self._records[owner]
        for uid in [uid for uid, (_, since) in self._unsure.items() if now - since > _UNSURE_SECONDS]:
            del self._unsure[uid]

    def _happened(self, turn: Turn, now: float) -> None:
        record = self._records.get(turn.owner)
        if record is None or turn.round > record.round:
            last = now if record is None else max(now, record.last)
            spared = turn.spared or self._spacing(turn.round)
            self._records[turn.owner] = _Record(turn.asked_at, last, turn.round, spared)
            return
        record.last = max(record.last, now)
        if turn.round == record.round:
            record.began = min(record.began, turn.asked_at)

    def _spacing(self, number: int) -> float:
        return min(self._backoff * 2.0 ** min(number - 1, 32), self._most)


def owner_key(pod: Pod) -> str:
    """Return namespace and the controller's UID; a bare pod's own name, for who comes back under it.

    With the namespace, for anybody may write Events in their own, and must not speak for others' pods.
    """
    return f"{pod.namespace}/{pod.owner[2] if pod.owner is not None else pod.name}"


def _succeeds(record: _Record, pod: Pod) -> bool:
    """Return whether a pod was created after the round had begun, as far as whole seconds tell."""
    return pod.created >= record.began[:19]


def _earlier(turn: Turn, before: Turn) -> Turn:
    """Return the eviction with the earlier of its two start times."""
    return replace(turn, asked_at=min(turn.asked_at or before.asked_at, before.asked_at))


# --- rates ------------------------------------------------------------------------------------------------------------

_FORGET_AT = 1024
_MISSED_SECONDS = 60.0
_ROUNDING = 1e-9
"""The rounding error that a sum of many refills, or steps, may have."""


class Bucket:
    """A token bucket with at most `burst` tokens, refilled with `rate` a second."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token; 0 when there is one."""
        self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._rate, float(self._burst))
        self._at = max(now, self._at)
        return 0.0 if self._tokens >= 1.0 - _ROUNDING else (1.0 - self._tokens) / self._rate

    def take(self) -> None:
        """Take the token that `wait` found."""
        self._tokens -= 1.0

    @property
    def full(self) -> bool:
        """Return whether the bucket is as full as when it was made."""
        return self._tokens >= self._burst


class Appointments:
    """A rate limit that tells each key once how long to wait: `burst` at once, then `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._step, self._ahead = 1.0 / rate, (burst - 1) / rate
        self._next = 0.0
        self._at: dict[str, float] = {}
        self._forget_at = _FORGET_AT

    def wait(self, who: str, now: float) -> float:
        """Return seconds until its turn; 0 when that is now, and then it has been."""
        at = self._at.get(who)
        if at is None:
            if len(self._at) >= self._forget_at:
                self._at = {name: at for name, at in self._at.items() if at > now - _MISSED_SECONDS}
                self._forget_at = max(_FORGET_AT, 2 * len(self._at))
            self._next = max(self._next, now) + self._step
            at = self._at[who] = self._next - self._step - self._ahead
        if at > now + _ROUNDING:
            return at - now
        del self._at[who]
        return 0.0


class Tokens:
    """The token buckets of all nodes and namespaces, and that of the cluster."""

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._cluster = Bucket(settings.cluster_rate, settings.cluster_burst, now)
        self._nodes: dict[str, Bucket] = {}
        self._namespaces: dict[str, Bucket] = {}

    def wait(self, node: str, namespace: str, now: float) -> tuple[float, str]:
        """Return the seconds until all three buckets have a token, and the limit that is the reason; nothing is
        taken.
        """
        cluster, of_namespace, of_node = (bucket.wait(now) for bucket in self._three(node, namespace, now))
        s = self._settings
        return max(
            (of_node, f"{s.node_rate:g} evictions a second from node {node} (--node-rate)"),
            (of_namespace, f"{s.namespace_rate:g} evictions a second in namespace {namespace} (--namespace-rate)"),
            (cluster, f"{s.cluster_rate:g} evictions a second in the cluster (--cluster-rate)"),
            key=lambda limit: limit[0],
        )

    def take(self, node: str, namespace: str, now: float) -> None:
        """Take the three tokens that `wait` found."""
        for bucket in self._three(node, namespace, now):
            bucket.take()

    def _three(self, node: str, namespace: str, now: float) -> tuple[Bucket, Bucket, Bucket]:
        s = self._settings
        return (
            self._cluster,
            _bucket(self._namespaces, namespace, s.namespace_rate, s.namespace_burst, now),
            _bucket(self._nodes, node, s.node_rate, s.node_burst, now),
        )


def _bucket(buckets: dict[str, Bucket], name: str, rate: float, burst: int, now: float) -> Bucket:
    found = buckets.get(name)
    if found is None:
        if len(buckets) >= _FORGET_AT:
            # A full bucket is as good as a new one.
            for other in [key for key, bucket in buckets.items() if bucket.wait(now) == 0 and bucket.full]:
                del buckets[other]
        found = buckets[name] = Bucket(rate, burst, now)
    return found


# --- all gates --------------------------------------------------------------------------------------------------------

_BREAKER_SECONDS = 600.0
"""Seconds between checks of a pod that the breaker holds: when it closes, every grace starts again anyway."""


class Gates:
    """The breaker, the owners and the tokens, which together decide if a pod has to wait."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.breaker = Breaker(settings.changed_share, settings.changed_window)
        self.owners = Owners(settings.owner_backoff, settings.owner_backoff_most)
        self.tokens = Tokens(settings, now)

    def closed(self, followed: Followed, now: float) -> ClosedGate | None:
        """Return the gate that holds a pod back for longest, if any does."""
        if self.breaker.open:
            return ClosedGate(Gate.BREAKER, _BREAKER_SECONDS, "the breaker is open, for too many nodes changed at once")
        pod = followed.pod
        spared = self.owners.spared(pod, now, followed.placed_at)
        tokens, limit = self.tokens.wait(followed.node, pod.namespace, now)
        if spared is not None and spared.seconds >= tokens:
            return ClosedGate(Gate.OWNER, spared.seconds, spared.why)
        return ClosedGate(Gate.RATE, tokens, f"it waits for its turn, {limit} are allowed") if tokens else None
