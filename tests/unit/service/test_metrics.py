"""Instruments, and the page that Prometheus gets of them."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podberth.service.metrics import Asked, Counter, Family, Histogram, Quantiles, exponential, page, read

SECONDS = Family("a_seconds", "histogram", "How long.", ("what",), exponential(0.001, 2, 3))
TOTAL = Family("b_total", "counter", "How often.", ("what",))
SIZE = Family("c_size", "gauge", "How much.")


def test_a_page() -> None:
    """Buckets are cumulated, a value on a bound is within it, label values are escaped, nothing is created."""
    seconds, total = Histogram(SECONDS), Counter(TOTAL)
    for value in (0.0005, 0.001, 0.003, 9.0):
        seconds.observe(value, 'x"y\n')
    total.add(2, "z")
    total.add(1, "z")
    text = page(read([seconds, total, Asked(SIZE, lambda: {(): 7.0})])).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name: family.type for name, family in families.items()} == {
        "a_seconds": "histogram",
        "b": "counter",
        "c_size": "gauge",
    }
    samples = {
        (sample.name, sample.labels.get("le")): (sample.value, sample.labels.get("what"))
        for family in families.values()
        for sample in family.samples
    }
    assert samples == {
        ("a_seconds_bucket", "0.001"): (2.0, 'x"y\n'),
        ("a_seconds_bucket", "0.002"): (2.0, 'x"y\n'),
        ("a_seconds_bucket", "0.004"): (3.0, 'x"y\n'),
        ("a_seconds_bucket", "+Inf"): (4.0, 'x"y\n'),
        ("a_seconds_count", None): (4.0, 'x"y\n'),
        ("a_seconds_sum", None): (9.0045, 'x"y\n'),
        ("b_total", None): (3.0, "z"),
        ("c_size", None): (7.0, None),
    }


def test_what_was_never_counted_is_left_out() -> None:
    """As Go's client does it."""
    assert page(read([Histogram(SECONDS), Counter(TOTAL)])) == b""


def test_bounds_are_gos() -> None:
    """Multiplied step by step, so that rounding is the same."""
    assert exponential(0.00001, 1.5, 3) == (1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05)


@pytest.mark.parametrize(
    ("durations", "part", "want"),
    [
        pytest.param([0.001] * 99 + [0.1], 0.5, 0.001, id="median"),
        pytest.param([0.001] * 98 + [0.1] * 2, 0.99, 0.1, id="p99"),
        pytest.param([0.002], 0.0, 0.002, id="of one"),
        pytest.param([i / 1000 for i in range(1, 1001)], 0.9, 0.9, id="spread out"),
        pytest.param([0.0], 0.5, 1e-6, id="below the smallest"),
        pytest.param([1e6], 0.5, 1e-6 * 2**30, id="above the largest"),
    ],
)
def test_at(durations: list[float], part: float, want: float) -> None:
    """Within 5 % of the exact one."""
    found = Quantiles()
    for duration in durations:
        found.add(duration)
    assert found.at(part) == pytest.approx(want, rel=0.05)
    assert found.total == len(durations)


def test_nothing() -> None:
    """Nothing has no quantiles."""
    assert Quantiles().at(0.5) is None
