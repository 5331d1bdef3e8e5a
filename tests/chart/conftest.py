"""Fixtures of the chart's tests."""

from __future__ import annotations

import pytest

from tests.chart.rendering import Chart, Object


@pytest.fixture(scope="session")
def default(chart: Chart) -> list[Object]:
    """What an installation without values has."""
    return chart.objects()
