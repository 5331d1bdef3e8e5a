"""Decisions in words, in tables."""

import pytest

from podberth.testing.demo import witness
from podberth.testing.demo.witness import Candidate, Refusal, SeenDecision

TAINTED = "node(s) had untolerated taint(s)"


def verdict(
    totals: dict[str, dict[str, int]], refused: list[tuple[str, str]] | None = None, tied: int = 1
) -> SeenDecision:
    """A verdict of node → plugin → points; the first node wins."""
    return SeenDecision(
        pod="demo/p",
        profile="berth",
        seconds=0.001,
        nodes=len(totals) + len({node for node, _ in refused or []}),
        weights=dict.fromkeys(next(iter(totals.values())), 1),
        candidates=[
            Candidate(node, sum(points.values()), {name: (value, value) for name, value in points.items()})
            for node, points in totals.items()
        ],
        refusals=[Refusal(node, "P", reason, reason) for node, reason in refused or []],
        tied=tied,
        node=next(iter(totals)),
    )


@pytest.mark.parametrize(("milli", "want"), [(0, "0"), (500, "0.5"), (2000, "2"), (10, "0.01"), (12345, "12.345")])
def test_cores(milli: int, want: str) -> None:
    """Milli-cores read as cores."""
    assert witness.cores(milli) == want


@pytest.mark.parametrize(
    ("seconds", "want"), [(0.000374, "374 µs"), (0.0044, "4.4 ms"), (1.25, "1.2 s"), (0.00099999, "1000 µs")]
)
def test_took(seconds: float, want: str) -> None:
    """Times have a unit of their size."""
    assert witness.took(seconds) == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            verdict(
                {"a": {"NodeResourcesFit": 60, "ImageLocality": 5}, "b": {"NodeResourcesFit": 50, "ImageLocality": 9}}
            ),
            ["All 2 nodes can take it.", "a wins with 65 points, 6 ahead of b: free room +10, image already there −4."],
            id="clear-win",
        ),
        pytest.param(
            verdict({"a": {"X": 5}, "b": {"X": 5}, "c": {"X": 5}}, tied=3),
            ["All 3 nodes can take it.", "a shares the best total of 5 points with 2 others; the seed decided."],
            id="tie",
        ),
        pytest.param(
            verdict(
                {"a": {}}, [("b", TAINTED), ("c", TAINTED), ("d", "Insufficient cpu"), ("d", "Insufficient memory")]
            ),
            [
                "1 of 4 nodes can take it; ruled out: 2 tainted, 1 short of cpu.",
                "a is the only one, so there was nothing to score.",
            ],
            id="only-one",
        ),
    ],
)
def test_why(given: SeenDecision, want: list[str]) -> None:
    """Who could take the pod, and why the winner won."""
    assert witness.why(given) == want


def test_unknown_reasons_are_told_in_their_own_words() -> None:
    """A third party's plugin is quoted."""
    assert witness.ruled_out(verdict({"a": {}}, [("b", "node is haunted")])) == "1 node is haunted"


def test_regret_is_what_the_choice_gave_away() -> None:
    """A chosen node that trails the best shows."""
    chosen = verdict({"a": {"X": 3}, "b": {"X": 10}})
    assert chosen.regret == 7
