"""Readings of instruments as a page in Prometheus' text format, named as kube-scheduler names them.

No `_created` series: they would double the page, and kube-scheduler has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from scheduler.telemetry.instruments import Reading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def page(readings: Iterable[Reading]) -> bytes:
    """Readings as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Readings(readings))
    return generate_latest(registry)


class _Readings:
    """What a registry collects from."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def describe(self) -> list[Metric]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Asked by the registry."""
        return map(_metric, self._readings)


def _metric(reading: Reading) -> Metric:
    family = reading.family
    metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    match family.kind:
        case "histogram":
            metric = HistogramMetricFamily(family.name, family.about, labels=family.labels)
            bounds = [*map(floatToGoString, family.buckets), "+Inf"]
            for labels, found in reading.distributions.items():
                total, cumulated = 0.0, []
                for count in found[:-1]:
                    total += count
                    cumulated.append(total)
                metric.add_metric(labels, list(zip(bounds, cumulated, strict=True)), sum_value=found[-1])
        case "counter":
            metric = CounterMetricFamily(family.name, family.about, labels=family.labels)
            for labels, value in reading.values.items():
                metric.add_metric(labels, value)
        case "gauge":
            metric = GaugeMetricFamily(family.name, family.about, labels=family.labels)
            for labels, value in reading.values.items():
                metric.add_metric(labels, value)
    return metric
