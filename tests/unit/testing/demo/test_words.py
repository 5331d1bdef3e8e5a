"""Decisions in words."""

import pytest

from podberth.explain.explanation import Choice, Explanation, FeasibleNode, NodeCounts, PodFacts, ReasonCount
from podberth.testing.demo import witness
from podberth.testing.demo.witness import SeenDecision


def verdict(
    totals: dict[str, int], node: str, said: str, refused: dict[str, int] | None = None, total: int = 0
) -> SeenDecision:
    """A decision of node → points; `said`: why the best one wins; `refused`: reason → nodes."""
    ordered = sorted(totals, key=lambda name: -totals[name])
    answer = Explanation(
        outcome="fits",
        pod=PodFacts(namespace="demo", name="p", node=None, scheduler_name="berth", priority=0, requests={}),
        profile="berth",
        nodes=NodeCounts(total=total or len(totals), feasible=len(totals)),
        message=None,
        verdict=None,
        choice=Choice(best=ordered[:1], node=ordered[0], text=said, runner_up=None, lead=0, differences=[]),
        scorers=[],
        feasible=[FeasibleNode(node=name, rank=1, total=totals[name], scores={}) for name in ordered],
        summary=[ReasonCount(plugin="P", reason=reason, nodes=nodes) for reason, nodes in (refused or {}).items()],
        notes=[],
    )
    return SeenDecision(answer, 0.001, node)


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
        (
            verdict({"a": 65, "b": 59}, "a", "6 points ahead of b: NodeResourcesFit +6"),
            ["All 2 nodes can take it.", "a: 6 points ahead of b: NodeResourcesFit +6."],
        ),
        (
            verdict({"a": 0}, "a", "the only node that can take it", {"Insufficient cpu": 2, "haunted": 1}, 4),
            [
                "1 of 4 nodes can take it; ruled out: 2 Insufficient cpu, 1 haunted.",
                "a: the only node that can take it.",
            ],
        ),
    ],
)
def test_why(given: SeenDecision, want: list[str]) -> None:
    """Who could take the pod, and why the winner won, as `berth explain` says it."""
    assert witness.why(given) == want


def test_regret_is_what_the_choice_gave_away() -> None:
    """A chosen node that trails the best shows, and comes first all the same."""
    chosen = verdict({"a": 3, "b": 10}, "a", "")
    assert chosen.regret == 7
    assert [each.node for each in chosen.candidates] == ["a", "b"]
