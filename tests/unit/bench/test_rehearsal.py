"""The decision benchmark: every workload can be carried out on an engine, and its table holds figures to goals."""

import pytest

from bench.__main__ import load
from bench.decisions import Taken, gangs, table
from bench.goals import Goal, Goals
from bench.rehearsal import Rehearsal
from podberth.testing.workloads.workload import Workload

WORKLOADS = load("")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_workload_is_decided(workload: Workload) -> None:
    """Its measured pods are all bound in the end, on a two-hundredth of its nodes."""
    rehearsal = Rehearsal(workload.scaled(1 / 200), 0)
    assert len(rehearsal.run(5)) >= 1
    steps = [step for step in workload.steps if step.create_pods and step.create_pods.measured]
    assert 1 <= rehearsal.shapes <= 5 * len(steps)


def test_a_gang_is_one_figure() -> None:
    """All its decisions together, beside its goal; workloads without gangs have none."""
    plain = Taken("w", 5000, 10, 1, 1.0, 0.05, 2.5, 3.0, 0.2, 2.6)
    held = Goals({}, {"racks-512": {"gang_cpu": Goal(at_most=300)}})
    assert gangs([plain], held) == ""
    of_512 = Taken("racks-512", 5000, 20, 1, 1.0, 1.6, 4.5, 4.5, 2.0, 5.0, 512, 56.4)
    assert gangs([plain, of_512], held).splitlines()[-1] == "| racks-512 | 512 | 56.4 ✓ ≤ 300 | 4.50 |"


def test_gangs_are_whole_at_every_size() -> None:
    """A workload is made smaller by whole gangs; a gang larger than what is left of it is as large as that."""
    sizes = {}
    for workload in WORKLOADS:
        for step in workload.scaled(1 / 200).steps:
            if step.create_pods is not None and step.create_pods.gang is not None:
                sizes[workload.name] = step.create_pods.count, step.create_pods.gang
    assert sizes["gangs"] == (15, 3)
    assert sizes["racks"] == (12, 4)
    assert sizes["gangs-large"] == (15, 15)
    assert sizes["racks-512"] == (3, 3)


def test_the_table_holds_figures_to_goals() -> None:
    """At 5,000 nodes, with the growth from 1,000 to 15,000 beside it."""
    taken = [
        Taken("w", nodes, 10, 1, 1.0, p50, 2.5, 3.0, 0.2, 2.6)
        for nodes, p50 in ((1000, 0.01), (5000, 0.05), (15000, 0.2))
    ]
    held = Goals({"decision_p50": Goal(at_most=0.1), "decision_p99": Goal(at_most=2.0)}, {})
    (line,) = table(taken, held).splitlines()[2:]
    assert line == (
        "| w | 1 | 0.050 ✓ ≤ 0.1 | 2.500 ✗ ≤ 2 | 1.00 | 3.00 | 0.200 ✗ ≤ 0.1 | 2.600 ✗ ≤ 2 "
        "| 0.010 | 0.200 | 20.0 ✗ ≤ 15 |"
    )
