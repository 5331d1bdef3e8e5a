"""What is printed of a run: rates and quantiles out of a `Timing`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from podberth.testing.workloads.driver import Timing


class Figures(msgspec.Struct, rename="camel", frozen=True):
    """One run. Rates in pods a second, times in milliseconds unless named seconds; None is not known."""

    pods: int
    bound: int
    rate: float | None
    """(n - 1) / (last - first binding) as a watch saw them."""
    first_seconds: float | None
    """First binding after the start of the scheduler (backlog) or of the creates (stream)."""
    wait_p50: float | None
    """Create to bound; in a backlog from the start of the scheduler."""
    wait_p99: float | None


def figures(timing: Timing) -> Figures:
    """The figures of a run."""
    bound = timing.bound
    long = bound[-1] - bound[0] if len(bound) > 1 else 0.0
    return Figures(
        pods=timing.pods,
        bound=len(bound),
        rate=(len(bound) - 1) / long if long else None,
        first_seconds=bound[0] - timing.started if bound else None,
        wait_p50=quantile(timing.waited, 0.5, 1000),
        wait_p99=quantile(timing.waited, 0.99, 1000),
    )


def quantile(ascending: Sequence[float], part: float, times: float = 1.0) -> float | None:
    """The smallest value that this part of them does not exceed, `times` something; None of nothing."""
    if not ascending:
        return None
    return ascending[max(-(-int(part * 1000) * len(ascending) // 1000) - 1, 0)] * times
