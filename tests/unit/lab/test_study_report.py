"""The page of a study: self-contained, escaped, balanced; and the charts in it."""

import pytest

from podberth.lab.study import Compaction, Point, ProfileStudy, Regret, Run, Study
from podberth.lab.study_report import Line, line_chart, study_page
from tests.unit.explain.report.test_page import Checked
from tests.unit.explain.report.test_simulation_page import EVIL, USED

RUN = Run(4, 3, [Point(0.5, 1, USED), Point(1.0, 0, USED)], USED)
STUDY = Study(
    2,
    4,
    2,
    1.3,
    1.0,
    [ProfileStudy(EVIL, RUN, Regret(3, 6, 1, 0)), ProfileStudy("b", RUN, Regret(3, 0, 0, 0), RUN, Compaction(4, 1, 2))],
)
PERCENT = [(0.0, 0.0), (1.0, 1.0)]


def test_is_balanced_escaped_and_loads_nothing() -> None:
    """It opens without a network, and runs no script whatever names say."""
    page = study_page(STUDY)
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert checked.loads == ["data:,"]
    assert "&lt;script&gt;" in page


def test_study_says_its_figures() -> None:
    """A row of figures for each profile; nothing where a profile has none."""
    page = study_page(STUDY)
    assert '<td>pods placed</td><td class="number">3 of 4</td><td class="number">3 of 4</td>' in page
    assert '<td>regret, points a decision</td><td class="number">2.00</td><td class="number">0.00</td>' in page
    assert '<td>nodes that hold the 4 pods</td><td class="number"></td><td class="number">1 of 2</td>' in page


@pytest.mark.parametrize(
    ("points", "path", "ticks"),
    [
        pytest.param(PERCENT, "52.0,206.0 616.0,12.0", "0% 20% 40% 60% 80% 100%", id="from corner to corner"),
        pytest.param([(0.0, 0.55)], "52.0,28.2", "0% 20% 40% 60%", id="the axis ends at a round number"),
        pytest.param([(0.0, 0.1)], "52.0,12.0", "0% 2% 4% 6% 8% 10%", id="no number is rounded"),
        pytest.param([(5.0, 0.0), (7.0, 0.0)], "52.0,206.0 616.0,206.0", "0% 1%", id="nothing at all"),
        pytest.param([], "", "0% 1%", id="no points"),
    ],
)
def test_chart(points: list[tuple[float, float]], path: str, ticks: str) -> None:
    """Points are scaled into the box."""
    chart = line_chart("t", "x", [Line("a", points)])
    assert chart.paths == [("a", path)]
    assert " ".join(tick.text for tick in chart.y_ticks) == ticks


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(0, "0 1"), (1, "0 1"), (4, "0 1 2 3 4"), (680, "0 200 400 600 800"), (7000, "0 2,000 4,000 6,000 8,000")],
)
def test_counts(most: float, ticks: str) -> None:
    """There is no half node; x is in percent, and ends where the points do."""
    chart = line_chart("t", "x", [Line("a", [(0.0, 0.0), (1.3, most)])], counts=True)
    assert " ".join(tick.text for tick in chart.y_ticks) == ticks
    assert " ".join(tick.text for tick in chart.x_ticks) == "0% 50% 100%"
