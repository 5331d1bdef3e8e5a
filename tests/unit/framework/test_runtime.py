"""The pipeline: who rejects first, who is scored, what is said when nobody is left."""

from typing import Any

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.framework.decision import fit_error
from podberth.framework.interface import ANYTHING, Plugin, Profile
from podberth.framework.runtime import Framework
from podberth.framework.status import Narrow, PluginError, Reject, Unresolvable, Unschedulable
from tests.builders import node, pod
from tests.unit.plugins.small import a_pod, cluster

POD = a_pod(pod("p"))


class Fake(Plugin):
    """Answers by node name: `rejects` maps a name to its reasons, `scores` to a number, `pre` is a PreFilter answer."""

    depends_on = ANYTHING

    def __init__(self, name: str, **answers: Any) -> None:
        self.name = name  # type: ignore[misc]
        self.answers = answers
        self.asked: list[str] = []

    def pre_filter(self, pod: Any, cluster: Cluster) -> Any:
        return self.answers.get("pre")

    def filter(self, pod: Any, cluster: Cluster) -> Any:
        self.asked.append("filter")
        found = []
        for name, reasons in self.answers.get("rejects", {}).items():
            for reason in reasons:
                rows = np.zeros(cluster.nodes.rows, dtype=np.bool_)
                rows[cluster.nodes.row_of(name)] = True
                found.append((reason, rows))
        return found

    def score(self, pod: Any, cluster: Cluster, feasible: Any) -> Any:
        self.asked.append("score")
        scores = self.answers.get("scores")
        if isinstance(scores, dict):
            return np.array([scores[cluster.nodes.names[row]] for row in feasible], dtype=np.int64)
        return scores


class Normalizing(Fake):
    def normalize(self, scores: Any, *_: Any) -> Any:
        return scores - scores.min()


class Failing(Fake):
    def filter(self, pod: Any, cluster: Cluster) -> Any:
        raise ZeroDivisionError("by zero")


def framework(*plugins: Any, **weights: int) -> Framework:
    points = {point: tuple(plugins) for point in ("pre_filter", "filter", "score")}
    return Framework(Profile("a", points, weights))


def names(there: Cluster, rows: Any) -> list[str]:
    return [str(there.nodes.names[row]) for row in rows]


FULL, WRONG, SMALL = Unschedulable("full"), Unresolvable("wrong"), Unresolvable("small")


def test_a_node_ends_at_its_first_rejecting_plugin() -> None:
    """Later plugins say nothing of it."""
    there = cluster(node("x"), node("y"), node("z"))
    first = Fake("First", rejects={"x": [FULL]})
    second = Fake("Second", rejects={"x": [WRONG], "y": [WRONG, FULL]})
    decision = framework(first, second).decide(POD, there)
    assert names(there, decision.feasible) == ["z"]
    assert [(r.plugin, [reason.text for reason, _ in r.reasons]) for r in decision.rejected] == [
        ("First", ["full"]),
        ("Second", ["wrong", "full"]),
    ]
    assert decision.unschedulable_plugins() == {"First", "Second"}
    assert names(there, np.flatnonzero(decision.unresolvable(there.nodes.rows))) == ["y"]


def test_nobody_is_asked_when_no_node_is_left() -> None:
    """The pipeline ends."""
    last = Fake("Last")
    framework(Fake("First", rejects={"x": [FULL]}), last).decide(POD, cluster(node("x")))
    assert last.asked == []


def test_one_feasible_node_is_not_scored() -> None:
    """Unless an explanation wants the numbers."""
    made, there = Fake("Scores", scores={"x": 5}), cluster(node("x"))
    assert framework(made).decide(POD, there).totals is None
    assert framework(made).decide(POD, there, score_always=True).scores[0].raw.tolist() == [5]


def test_scores_are_normalized_then_weighted_then_summed() -> None:
    """Over the feasible nodes only; a plugin that takes no part is absent."""
    there = cluster(node("x"), node("y"), node("z"))
    plugins = [
        Fake("Out", rejects={"z": [FULL]}),
        Normalizing("Normal", scores={"x": 10, "y": 12, "z": 0}),
        Fake("Plain", scores={"x": 3, "y": 1, "z": 9}),
    ]
    decision = framework(*plugins, Normal=2, Plain=1).decide(POD, there)
    assert [(s.plugin, s.raw.tolist(), s.weighted.tolist()) for s in decision.scores] == [
        ("Normal", [10, 12], [0, 4]),
        ("Plain", [3, 1], [3, 1]),
    ]
    assert decision.totals is not None
    assert decision.totals.tolist() == [3, 5]
    assert names(there, decision.best()) == ["y"]


def test_ties_are_all_best() -> None:
    """The engine chooses among them."""
    there = cluster(node("x"), node("y"), node("z"))
    decision = framework(Fake("Plain", scores={"x": 1, "y": 1, "z": 0})).decide(POD, there)
    assert names(there, decision.best()) == ["x", "y"]


def test_dead_rows_are_no_nodes() -> None:
    """Neither feasible nor counted."""
    there = cluster(node("x"), pod("e", on="gone"))
    there.drop_node("x")
    assert framework(Fake("Any")).decide(POD, there).nodes == 0
    assert fit_error(framework(Fake("Any")).decide(POD, there)) == "no nodes available to schedule pods"


def test_a_failing_plugin_is_named() -> None:
    """It fails the pod, not the loop."""
    with pytest.raises(PluginError, match='running Filter plugin "Bad": by zero'):
        framework(Failing("Bad")).decide(POD, cluster(node("x")))


def narrow(*names: str) -> Narrow:
    return Narrow(frozenset(names))


MESSAGES = [
    ([Fake("A", rejects={"x": [FULL], "y": [FULL]})], "0/2 nodes are available: 2 full."),
    ([Fake("A", rejects={"x": [FULL, SMALL], "y": [SMALL]})], "0/2 nodes are available: 1 full, 2 small."),
    (
        [Fake("A", rejects={"x": [WRONG]}), Fake("B", rejects={"y": [FULL]})],
        "0/2 nodes are available: 1 full, 1 wrong.",
    ),
    ([Fake("A", pre=Reject(WRONG))], "0/2 nodes are available: wrong."),
    (
        [Fake("A", pre=narrow("x")), Fake("B", rejects={"x": [FULL]})],
        "0/2 nodes are available: 1 full, 1 node(s) didn't satisfy plugin(s) [A].",
    ),
    ([Fake("B", pre=narrow("gone")), Fake("A")], "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [B]."),
    (
        [Fake("B", pre=narrow("x")), Fake("A", pre=narrow("y"))],
        "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.",
    ),
    ([Fake("A", pre=narrow())], "0/2 nodes are available: node(s) didn't satisfy plugin A."),
    (
        [Fake("B", pre=narrow("x", "y")), Fake("A", pre=narrow("y")), Fake("C", rejects={"y": [FULL]})],
        "0/2 nodes are available: 1 full, 1 node(s) didn't satisfy plugin(s) [A B].",
    ),
]


@pytest.mark.parametrize(("plugins", "message"), MESSAGES, ids=[message for _, message in MESSAGES])
def test_messages(plugins: list[Fake], message: str) -> None:
    """FitError.Error: counts by reason, sorted as text."""
    decision = framework(*plugins).decide(POD, cluster(node("x"), node("y")))
    assert len(decision.feasible) == 0
    assert fit_error(decision) == message
    assert fit_error(decision, "preemption: no.") == f"{message} preemption: no."


def test_counts_sort_as_text() -> None:
    """`10 small` comes before `2 full`."""
    many = {f"n{i}": [SMALL] for i in range(10)} | {"x": [FULL], "y": [FULL]}
    decision = framework(Fake("A", rejects=many)).decide(POD, cluster(*map(node, many)))
    assert fit_error(decision) == "0/12 nodes are available: 10 small, 2 full."
