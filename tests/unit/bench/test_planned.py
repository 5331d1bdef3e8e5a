"""Which workloads a benchmark runs, and at what size."""

from argparse import Namespace
from typing import Any

import pytest

from bench.__main__ import FIRST, QUICK, load, of_all, planned
from podberth.testing.workloads.workload import WorkloadError


def options(**more: Any) -> Namespace:
    return Namespace(**{"workloads": "", "scale": 1.0, "pods": 1.0, "quick": False, "short": False, **more})


def measured(workload: Any) -> int:
    return sum(step.create_pods.count for step in workload.steps if step.create_pods and step.create_pods.measured)


def test_without_options_all_of_them_as_they_are() -> None:
    assert planned(options()) == load("")


def test_a_quick_run_has_a_fifth_of_the_pods_on_all_nodes_in_one_mode() -> None:
    quick = planned(options(quick=True))
    assert [workload.name for workload in quick] == list(QUICK)
    assert set(FIRST) < set(QUICK)
    for workload, whole in zip(quick, load(",".join(QUICK)), strict=True):
        assert workload.modes == whole.modes[:1]
        assert workload.nodes == whole.nodes
        assert measured(workload) == measured(whole) // 5


def test_a_quick_run_of_chosen_ones() -> None:
    (only,) = planned(options(quick=True, workloads="preemption", pods=0.5))
    (whole,) = load("preemption")
    assert measured(only) == measured(whole) // 10


def test_a_short_run_has_half_of_the_pods_in_all_modes() -> None:
    short = planned(options(short=True))
    assert [workload.name for workload in short] == list(QUICK)
    for workload, whole in zip(short, load(",".join(QUICK)), strict=True):
        assert workload.modes == whole.modes
        assert workload.nodes == whole.nodes
        assert measured(workload) == measured(whole) // 2


def test_what_is_recorded_is_the_part_that_was_measured() -> None:
    assert [of_all(options(**more)) for more in ({}, {"short": True}, {"quick": True, "pods": 0.5})] == [1.0, 0.5, 0.1]


def test_what_is_no_workload_is_told() -> None:
    with pytest.raises(WorkloadError, match="nothing: no such workload"):
        planned(options(quick=True, workloads="nothing"))
