"""What the admission server counts, in Prometheus' text format at /metrics. Labels take a few known words only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """Counters of one server; `gauges` are read when somebody asks."""

    def __init__(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            "berth_admission_reviews",
            "Reviews answered, by what came of them",
            ("endpoint", "operation", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "berth_admission_review_seconds",
            "From the last byte of a review to its answer",
            ("endpoint",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self._registry.register(_Gauges(gauges))

    def count(self, endpoint: str, operation: str, outcome: str, seconds: float) -> None:
        """A review was answered."""
        labels = (endpoint, operation, outcome)
        found = self._children.get(labels)
        if found is None:
            found = self._children[labels] = (self._reviews.labels(*labels), self._seconds.labels(endpoint))
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Gauges:
    def __init__(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Asked by the registry."""
        for name, (about, read) in self._gauges.items():
            yield GaugeMetricFamily(name, about, value=read())
