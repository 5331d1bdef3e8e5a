"""Which of several nodes to preempt on, by pickOneNodeForPreemption of kube-scheduler, rule after rule."""

from __future__ import annotations

import numpy as np
import pytest

from podberth.cache.cluster import Cluster, Placement
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.plugins.default_preemption.candidates import FAILS, Candidate, DryRunResults, Together, pick
from tests.builders import configuration, profile
from tests.registered import registry
from tests.unit.plugins.preempting import a_node, a_pod, answer

Victims = list[tuple[int, int]]
"""(priority, second of the start)."""


def candidate(row: int, victims: Victims, violations: int = 0) -> Candidate:
    """A node with these victims."""
    pods = [a_pod(f"p{row}-{i}", priority, 1, started=started) for i, (priority, started) in enumerate(victims)]
    made = Candidate(row, pods, violations)
    made.settle()
    return made


@pytest.mark.parametrize(
    ("why", "better", "worse"),
    [
        ("fewer overdrawn budgets", ([(9, 1)], 0), ([(1, 9)], 1)),
        ("a lower highest priority", ([(4, 1), (4, 1)], 0), ([(5, 9), (-9, 9)], 0)),
        ("a lower sum of priorities", ([(5, 1), (2, 1)], 0), ([(5, 9), (3, 9)], 0)),
        # Each priority counts from 2^31 up, so that one more victim of a negative priority is no gain.
        ("no victim more for a lower sum", ([(5, 1)], 0), ([(5, 9), (-10, 9)], 0)),
        ("the latest start of the most important", ([(5, 3), (1, 1)], 0), ([(5, 2), (1, 9)], 0)),
        ("the earliest of several most important ones", ([(5, 3), (5, 4)], 0), ([(5, 2), (5, 9)], 0)),
        ("the name, where anyone would do", ([(5, 3)], 0), ([(5, 3)], 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_better_of_two(why: str, better: tuple[Victims, int], worse: tuple[Victims, int]) -> None:
    """In whichever order they come; whatever rule comes later speaks for the other one."""
    names: list[str | None] = ["z", "a"] if why.startswith("the name") else ["a", "z"]
    good, bad = candidate(1, *better), candidate(0, *worse)
    assert pick([good, bad], names) is good
    assert pick([bad, good], names) is good


@pytest.mark.parametrize("whole", [False, True], ids=["pods", "a group"])
def test_several_victims_count_from_the_first_start_of_the_most_important(whole: bool) -> None:
    """Where they are groups, too: of those of priority 5 on n0, the first started at 2, and that of n1 at 3.

    Both nodes have three victims of 11 in all (GetEarliestPodStartTime, of pods of the highest priority).
    """
    cluster = Cluster()
    for row in range(2):
        cluster.put_node(a_node(row, 4))
    results = DryRunResults(a_pod("p", 9, 1), cluster.nodes)
    on_rows: list[Victims] = [[(5, 2), (5, 9), (1, 5)], [(5, 3), (3, 1), (3, 1)]]
    for row, victims in enumerate(on_rows):
        pods = [a_pod(f"v{row}-{i}", priority, 1, started=started) for i, (priority, started) in enumerate(victims)]
        placed = [Placement(one, row, False) for one in pods]
        results.helps(row, [Together(placed)] if whole else [Together([one]) for one in placed], 0)
    assert results.pick(np.arange(2), np.arange(2)) == 1


def test_rows_that_are_tried_again_have_no_reason_any_more() -> None:
    """Though not all of them had one."""
    cluster = Cluster()
    for row in range(3):
        cluster.put_node(a_node(row, 4))
    results, every = DryRunResults(a_pod("p", 9, 1), cluster.nodes), np.ones(3, dtype=np.bool_)
    results.note([0, 2], FAILS)
    results.explain([0, 2], [])
    assert results.unexplained(every).tolist() == []
    results.again([0, 1])
    results.note([0], FAILS)
    assert results.unexplained(every).tolist() == [0]


@pytest.mark.parametrize(
    ("percent", "enough", "node"),
    [
        (0, 1, "n0"),
        (0, 2, "n1"),
        (34, 0, "n0"),
        (66, 0, "n0"),
        (67, 0, "n1"),
        (67, 1, "n1"),
        (34, 2, "n1"),
        (100, 0, "n2"),
    ],
)
def test_enough_nodes_end_the_search(percent: int, enough: int, node: str) -> None:
    """Where nodes are tried one by one: n1 has the less important victim, but need not be looked at any more.

    They are, since the pod has terms, and another one is nominated for each of them.
    As many as minCandidateNodesAbsolute says, or minCandidateNodesPercentage of the three nodes, whichever are more
    (GetOffsetAndNumCandidates of kube-scheduler).
    """
    args = {"minCandidateNodesPercentage": percent, "minCandidateNodesAbsolute": enough}
    framework = build(decode(configuration(profile(DefaultPreemption=args))), registry())["berth"]
    cluster = Cluster()
    for row in range(3):
        cluster.put_node(a_node(row, 2))
        cluster.assume(a_pod(f"v{row}", 3 - row, 2), row)
        cluster.nominations.put(a_pod(f"w{row}", 5, 0), f"n{row}")
    assert answer(framework, a_pod("p", 5, 2, app=1), cluster)[0] == node
