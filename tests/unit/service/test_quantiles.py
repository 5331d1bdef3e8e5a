"""Quantiles in constant memory."""

import pytest

from podberth.service.quantiles import Quantiles


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
