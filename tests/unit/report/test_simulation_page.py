"""Pages of simulations: self-contained, escaped, balanced; and the charts in them."""

import pytest

from scheduler.report.chart import Line, line_chart
from scheduler.report.simulation_page import outcome_page, study_page
from scheduler.whatif.plan import Outcome, Placed, Preempted, Waiting
from scheduler.whatif.quality import Quality
from scheduler.whatif.replay import Compaction, Point, Regret, Run
from scheduler.whatif.study import ProfileStudy, Study
from tests.unit.report.test_page import Checked

EVIL = "<script>alert(1)</script>"
USED = Quality(2, 1, 3, {"cpu": 0.5}, {"cpu": 0.25}, {"cpu": 0.1})
RUN = Run(4, 3, [Point(0.5, 1, USED), Point(1.0, 0, USED)], USED)
STUDY = Study(
    2,
    4,
    2,
    1.3,
    1.0,
    [ProfileStudy(EVIL, RUN, Regret(3, 6, 1, 0)), ProfileStudy("b", RUN, Regret(3, 0, 0, 0), RUN, Compaction(4, 1, 2))],
)
OUTCOME = Outcome(
    profile="p",
    placed=[Placed("ns/a", "n", "was"), Placed("ns/b", "n", None, True)],
    waiting=[Waiting("ns/c", EVIL)],
    preempted=[Preempted("ns/d", "n", "ns/a")],
    lost=["ns/e"],
    drained=["was"],
    before=USED,
    after=USED,
    notes=[EVIL],
)


@pytest.mark.parametrize("page", [outcome_page(OUTCOME), study_page(STUDY)], ids=["outcome", "study"])
def test_is_balanced_escaped_and_loads_nothing(page: str) -> None:
    """It opens without a network, and runs no script whatever names say."""
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
    ("points", "path", "top"),
    [
        pytest.param([(0.0, 0.0), (1.0, 1.0)], "52.0,206.0 628.0,12.0", "100%", id="from corner to corner"),
        pytest.param([(0.0, 0.6)], "52.0,60.5", "80%", id="the axis ends at a round number"),
        pytest.param([(5.0, 0.0), (7.0, 0.0)], "52.0,206.0 628.0,206.0", "0%", id="nothing at all"),
        pytest.param([], "", "0%", id="no points"),
    ],
)
def test_chart(points: list[tuple[float, float]], path: str, top: str) -> None:
    """Points are scaled into the box."""
    chart = line_chart("t", "x", [Line("a", points)])
    assert chart.paths == [("a", path)]
    assert chart.y_ticks[-1].text == top
