"""Metrics that cost next to nothing to write: counters, histograms, quantiles, and their page for Prometheus.

prometheus-client's own take a lock and walk all buckets for each value: a microsecond, and a pod has fifteen. Here
whoever writes may keep values in a plain list and hand over many at once. One thread (the event loop's) writes and
reads.
"""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from podberth import __version__
from podberth.service import log

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STARTED = time.time()
PYTHON = ".".join(map(str, sys.version_info[:3]))
_SMALLEST = 1e-6
_PER_OCTAVE = 8
_BUCKETS = 30 * _PER_OCTAVE

Labels = tuple[str, ...]


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds, each `factor` times the one before, multiplied up as Go's ExponentialBuckets does."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Family(Struct, frozen=True):
    """One line of the metrics reference: name (with `_total` for a counter), type, labels, bucket bounds."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


class Distribution:
    """Values of one series, by bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def extend(self, values: Iterable[float]) -> None:
        """Count values."""
        ordered = sorted(values)
        below = 0
        for i, bound in enumerate(self.bounds):
            upto = bisect_right(ordered, bound, below)
            self.counts[i] += upto - below
            below = upto
        self.counts[-1] += len(ordered) - below
        self.total += sum(ordered)


class Histogram:
    """A family of distributions."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._series: dict[Labels, Distribution] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value under these labels, in the family's order."""
        self.extend((value,), *labels)

    def extend(self, values: Iterable[float], *labels: str) -> None:
        """Count many at once: a tenth of a microsecond each."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Distribution(self.family.buckets)
        series.extend(values)

    def read(self) -> Reading:
        """Return the family with its values as they are now."""
        return Reading(self.family, distributions={labels: (*s.counts, s.total) for labels, s in self._series.items()})


class Counter:
    """A family of counts."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._series: dict[Labels, float] = {}

    def add(self, amount: float, *labels: str) -> None:
        """Add under these labels, in the family's order."""
        self._series[labels] = self._series.get(labels, 0.0) + amount

    def read(self) -> Reading:
        """Return the family with its values as they are now."""
        return Reading(self.family, values=dict(self._series))


class Asked(Struct, frozen=True):
    """A family whose values are worked out when somebody asks."""

    family: Family
    ask: Callable[[], Mapping[Labels, float]]

    def read(self) -> Reading:
        """Return the family with its values as they are now."""
        return Reading(self.family, values=self.ask())


class Reading(Struct, frozen=True):
    """A family's series at one moment. `distributions`: the counts of each bucket and of those above, and the sum."""

    family: Family
    values: Mapping[Labels, float] = field(default_factory=dict)
    distributions: Mapping[Labels, Sequence[float]] = field(default_factory=dict)


Instrument = Histogram | Counter | Asked


def read(instruments: Iterable[Instrument]) -> list[Reading]:
    """Return what all of them read now; families without a series are left out, as in Go's client."""
    readings = [instrument.read() for instrument in instruments]
    return [reading for reading in readings if reading.values or reading.distributions]


def page(readings: Iterable[Reading]) -> bytes:
    """Return readings as Prometheus reads them, named as kube-scheduler names them.

    No `_created` series: they would double the page, and kube-scheduler has none.
    """
    from prometheus_client import generate_latest  # only who serves needs it

    return generate_latest(_Collected([_metric(reading) for reading in readings]))


class _Collected(Struct):
    """A collector, as prometheus-client wants one."""

    metrics: list[Metric]

    def collect(self) -> Iterable[Metric]:
        """Return all of them."""
        return self.metrics


def _metric(reading: Reading) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    family = reading.family
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.about, labels=family.labels)
        bounds = [*map(floatToGoString, family.buckets), "+Inf"]
        for labels, found in reading.distributions.items():
            cumulated = list(accumulate(found[:-1], initial=0.0))[1:]
            histogram.add_metric(labels, list(zip(bounds, cumulated, strict=True)), sum_value=found[-1])
        return histogram
    form: type[CounterMetricFamily | GaugeMetricFamily] = (
        CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    )
    metric = form(family.name, family.about, labels=family.labels)
    for labels, value in reading.values.items():
        metric.add_metric(labels, value)
    return metric


class Quantiles:
    """Durations of a microsecond to a quarter of an hour; what is outside counts as the nearest bound."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.total = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        octaves = math.log2(seconds / _SMALLEST) if seconds > _SMALLEST else 0.0
        self._counts[min(int(octaves * _PER_OCTAVE), _BUCKETS - 1)] += 1
        self.total += 1

    def at(self, part: float) -> float | None:
        """Return seconds that this part of them does not exceed, within 5 %; None while there are none."""
        if not self.total:
            return None
        wanted = max(part * self.total, 1)
        bucket = next(i for i, seen in enumerate(accumulate(self._counts)) if seen >= wanted)
        return _SMALLEST * math.exp2((bucket + 0.5) / _PER_OCTAVE)


BUILD = Family(
    "berth_build_info", "gauge", "Always 1. The labels have the versions of Berth and Python.", ("version", "python")
)
LOST_LINES = Family("berth_log_lines_dropped_total", "counter", "Log lines that could not be written.")
PROCESS = (BUILD, LOST_LINES)


def of_process() -> list[Instrument]:
    """Return the metrics that every process has, besides prometheus-client's: its version, and dropped log lines."""
    return [
        Asked(BUILD, lambda: {(__version__, PYTHON): 1.0}),
        Asked(LOST_LINES, lambda: {(): float(log.dropped())}),
    ]
