"""How fast pods may be evicted: a token of the node, of the namespace and of the cluster each."""

from scheduler.engine.eviction.settings import Settings

_FORGET_AT = 1024


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
        # A sum of many refills may miss a whole token by rounding.
        return 0.0 if self._tokens >= 1.0 - 1e-9 else (1.0 - self._tokens) / self._rate

    def take(self) -> None:
        """Take the token that `wait` found."""
        self._tokens -= 1.0

    @property
    def full(self) -> bool:
        """Whether it is as it was made."""
        return self._tokens >= self._burst


class Tokens:
    """The buckets of all nodes and namespaces, and the cluster's."""

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._cluster = Bucket(settings.cluster_rate, settings.cluster_burst, now)
        self._nodes: dict[str, Bucket] = {}
        self._namespaces: dict[str, Bucket] = {}

    def wait(self, node: str, namespace: str, now: float) -> float:
        """Seconds until all three have a token; nothing is taken."""
        return max(bucket.wait(now) for bucket in self._three(node, namespace, now))

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
