"""Pages of simulations: self-contained, escaped, balanced."""

import pytest
from msgspec.structs import replace

from podberth.explain.report.pages import page
from podberth.explain.report.simulation import report
from podberth.explain.simulate.outcome import (
    Blocked,
    Others,
    Outcome,
    Placed,
    Preempted,
    Quality,
    Waiting,
    WorkloadOutcome,
)
from tests.unit.explain.report.test_page import Checked

EVIL = "<script>alert(1)</script>"
USED = Quality(2, 1, 3, {"cpu": 0.5}, {"cpu": 0.25}, {"cpu": 0.1})
OUTCOME = Outcome(
    profile="p",
    placed=[Placed("ns/a", "n", "was"), Placed("ns/b", "n", None, True)],
    waiting=[Waiting("ns/c", EVIL, 2)],
    workloads=[WorkloadOutcome(f"Deployment ns/{EVIL}", 3, 1, 2, {"n": 1})],
    others=Others([], [Placed("ns/f", "n")], [Waiting("ns/g", EVIL)]),
    blocked=[Blocked("ns/h", "was", [EVIL])],
    overdrawn={"ns/budget": ["ns/i"]},
    not_simulated=[EVIL],
    preempted=[Preempted("ns/d", "n", "ns/a")],
    lost=["ns/e"],
    drained=["was"],
    before=USED,
    after=USED,
    notes=[EVIL],
)


def test_is_balanced_escaped_and_loads_nothing() -> None:
    """It opens without a network, and runs no script whatever names say."""
    text = page(report(OUTCOME, only_mine=False))
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert checked.loads == ["data:,"]
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("only_mine", [True, False])
def test_an_option_is_named_that_would_show_more(only_mine: bool) -> None:
    """It was named where it had been given, too."""
    text = page(report(OUTCOME, only_mine=only_mine))
    assert "1 pod that waited before would still wait" in text
    assert ("--all-pods lists them" in text) is only_mine


def test_long_lists_are_folded() -> None:
    """As on the other pages, 25 are in sight."""
    placed = [Placed(f"ns/p{i}", "n") for i in range(30)]
    text = page(report(replace(OUTCOME, placed=placed)))
    assert "<summary>5 more</summary>" in text
    assert text.index("ns/p24<") < text.index("<summary>") < text.index("ns/p25<")
