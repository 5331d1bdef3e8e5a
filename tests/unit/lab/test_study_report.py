"""The page of a study: self-contained, escaped, balanced, with pictures."""

from podberth.explain.report.pages import page
from podberth.lab.study import Look, Played, Study
from podberth.lab.study_report import report as study_report
from tests.unit.explain.report.test_page import Checked
from tests.unit.explain.report.test_simulation_page import EVIL

FIGURES = {"pods": 4.0, "bound": 3.0, "waiting_p99_s": 90.0, "nodes_in_use": 1.5, "used[cpu]": 0.75, "end_s": 9.0}
LOOKS = [Look(0.0, 1, 0, 0.5, 0.0), Look(9.0, 2, 1, 0.75, 0.1)]
STUDY = Study(
    world="small",
    nodes=2,
    pods=4,
    seeds=1,
    measure="cpu",
    fill=0.6,
    load=1.3,
    departures=[Played(EVIL, [FIGURES], LOOKS), Played("b", [FIGURES], LOOKS)],
    inflation=[Played(EVIL, [FIGURES], LOOKS)],
)


def test_is_balanced_escaped_and_loads_nothing() -> None:
    """It opens without a network, and runs no script whatever names say."""
    drawn = page(study_report(STUDY, page=True))
    checked = Checked()
    checked.feed(drawn)
    assert checked.open == []
    assert checked.loads == ["data:,"]
    assert "&lt;script&gt;" in drawn
    assert drawn.count("<svg") == 6


def test_study_says_its_figures() -> None:
    """A row for each figure, with a cell for each profile."""
    drawn = page(study_report(STUDY, page=True))
    assert '<td class="">pods placed</td><td class="number">3 of 4</td><td class="number">3 of 4</td>' in drawn
    assert '<td class="">wait for a node, 99 %</td><td class="number">90.0 s</td>' in drawn
    assert '<td class="">CPU used</td><td class="number">75.0 %</td>' in drawn
    assert "Arrivals and departures, until they ask for 60% at some moment" in drawn
    assert "Inflation, to 130% of all CPU asked for" in drawn
