"""Rates and quantiles."""

import pytest

from podberth.testing.workloads.driver import Figures, Timing, figures, quantile

HUNDRED = [float(i) for i in range(1, 101)]


@pytest.mark.parametrize(
    ("values", "part", "want"),
    [
        pytest.param([], 0.5, None, id="of nothing"),
        pytest.param([7.0], 0.99, 7.0, id="of one"),
        pytest.param(HUNDRED, 0.5, 50.0, id="median"),
        pytest.param(HUNDRED, 0.99, 99.0, id="p99"),
        pytest.param([1.0, 2.0, 3.0], 0.5, 2.0, id="odd"),
        pytest.param([1.0, 2.0], 0.0, 1.0, id="least"),
    ],
)
def test_quantile(values: list[float], part: float, want: float | None) -> None:
    """The smallest value that so many do not exceed."""
    assert quantile(values, part) == want


@pytest.mark.parametrize(
    ("timing", "want"),
    [
        pytest.param(
            Timing(3, 10.0, [11.0, 12.0, 13.0], [0.5, 1.0, 1.5]),
            Figures(3, 3, 1.0, 1.0, 1000.0, 1500.0),
            id="all bound",
        ),
        pytest.param(Timing(3, 10.0, [11.0], [1.0]), Figures(3, 1, None, 1.0, 1000.0, 1000.0), id="no rate of one"),
        pytest.param(Timing(3, 10.0, [], []), Figures(3, 0, None, None, None, None), id="none bound"),
    ],
)
def test_figures(timing: Timing, want: Figures) -> None:
    """What is printed of a run."""
    assert figures(timing) == want
