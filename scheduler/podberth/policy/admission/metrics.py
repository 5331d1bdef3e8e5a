"""The metrics of the admission server. Labels have a few known values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from podberth.service.metrics import Asked, Counter, Family, Histogram, Instrument, page, read

REVIEWS = Family(
    "berth_admission_reviews_total",
    "counter",
    "Reviews that were answered, by outcome",
    ("endpoint", "operation", "outcome"),
)
SECONDS = Family(
    "berth_admission_review_seconds",
    "histogram",
    "Seconds from the last byte of a review to its answer",
    ("endpoint",),
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)


class Metrics:
    """Counters of one server; `gauges` (name → help text, how to read it) are read when the metrics are."""

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        self._reviews = Counter(REVIEWS)
        self._seconds = Histogram(SECONDS)
        self._gauges = [_asked(Family(name, "gauge", about), value) for name, (about, value) in gauges.items()]

    def count(self, endpoint: str, operation: str, outcome: str, seconds: float) -> None:
        """Count a review that was answered."""
        self._reviews.add(1.0, endpoint, operation, outcome)
        self._seconds.observe(seconds, endpoint)

    def instruments(self) -> list[Instrument]:
        return [self._reviews, self._seconds, *self._gauges]

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return page(read(self.instruments()))


def _asked(family: Family, value: Callable[[], float]) -> Asked:
    return Asked(family, lambda: {(): float(value())})
