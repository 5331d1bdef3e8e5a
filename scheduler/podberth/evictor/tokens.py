"""How fast pods may be evicted: a token of the node, of the namespace and of the cluster each."""

from podberth.evictor.settings import Settings

_FORGET_AT = 1024
_MISSED_SECONDS = 60.0
_ROUNDING = 1e-9
"""A sum of many refills, or steps, may miss a whole one by so much."""


class Bucket:
    """`burst` tokens at most, refilled with `rate` a second."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def wait(self, now: float) -> float:
        """Seconds until there is a token; 0 when there is one."""
        self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._rate, float(self._burst))
        self._at = max(now, self._at)
        return 0.0 if self._tokens >= 1.0 - _ROUNDING else (1.0 - self._tokens) / self._rate

    def take(self) -> None:
        """Take the token that `wait` found."""
        self._tokens -= 1.0

    @property
    def full(self) -> bool:
        """Return whether it is as it was made."""
        return self._tokens >= self._burst


class Appointments:
    """Whose turn comes when: `burst` at once, then `rate` a second. Whoever has to wait is told for how long, once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._step, self._ahead = 1.0 / rate, (burst - 1) / rate
        self._next = 0.0
        self._at: dict[str, float] = {}
        self._forget_at = _FORGET_AT

    def wait(self, who: str, now: float) -> float:
        """Seconds until its turn; 0 when that is now, and then it has been."""
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
    """The buckets of all nodes and namespaces, and the cluster's."""

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._cluster = Bucket(settings.cluster_rate, settings.cluster_burst, now)
        self._nodes: dict[str, Bucket] = {}
        self._namespaces: dict[str, Bucket] = {}

    def wait(self, node: str, namespace: str, now: float) -> tuple[float, str]:
        """Seconds until all three have a token, and which limit is the reason; nothing is taken."""
        cluster, of_namespace, of_node = (bucket.wait(now) for bucket in self._three(node, namespace, now))
        s = self._settings
        return max(
            (of_node, f"{s.node_rate:g} evictions a second from node {node} (--node-rate)"),
            (of_namespace, f"{s.namespace_rate:g} evictions a second in namespace {namespace} (--namespace-rate)"),
            (cluster, f"{s.cluster_rate:g} evictions a second in the cluster (--cluster-rate)"),
            key=lambda limit: limit[0],
        )

    def take(self, node: str, namespace: str, now: float) -> float:
        """Take one of each and return 0, or take none and return the seconds until there are."""
        three = self._three(node, namespace, now)
        wait = max(bucket.wait(now) for bucket in three)
        if not wait:
            for bucket in three:
                bucket.take()
        return wait

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
