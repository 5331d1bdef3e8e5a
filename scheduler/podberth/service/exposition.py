"""Readings of instruments as a page in Prometheus' text format, named as kube-scheduler names them.

No `_created` series: they would double the page, and kube-scheduler has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from podberth.service.instruments import Reading

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
        """Required by the registry, which asks for the names of metrics beforehand: none are told."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Asked by the registry."""
        return map(_metric, self._readings)


def _metric(reading: Reading) -> Metric:
    family = reading.family
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.about, labels=family.labels)
        bounds = [*map(floatToGoString, family.buckets), "+Inf"]
        for labels, found in reading.distributions.items():
            cumulated = list(accumulate(found[:-1], initial=0.0))[1:]
            histogram.add_metric(labels, list(zip(bounds, cumulated, strict=True)), sum_value=found[-1])
        return histogram
    form: type[CounterMetricFamily | GaugeMetricFamily]
    form = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = form(family.name, family.about, labels=family.labels)
    for labels, value in reading.values.items():
        metric.add_metric(labels, value)
    return metric
