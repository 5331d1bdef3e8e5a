"""A trace of a few pods, played in every way."""

from math import inf
from typing import Any

import pytest

from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.lab import Arrival, World
from podberth.lab import study as replay
from podberth.lab.gpus import plugins
from podberth.lab.study import (
    TRACE_PROFILES,
    Recorded,
    beside,
    gpu_profiles,
    inflation,
    inflations,
    share_profiles,
    shares_gpus,
    study,
)
from podberth.lab.study_report import figures, share_figures, study_page
from podberth.lab.traces.openb import GPU_MODEL
from podberth.lab.traces.rows import node, on_labels, pod
from tests.registered import registry

GPU = "alibabacloud.com/gpu-milli"
NODES = (("a", 2, "T4"), ("b", 2, "T4"), ("c", 2, "G2"))


def trace(*pods: str, nodes: tuple[tuple[str, int, str], ...] = NODES, cpu: str = "8") -> World:
    """A trace of these pods: `name,cpu,memory,gpus,milli,models,from,until`."""
    objects = []
    for name, count, model in nodes:
        room = {"cpu": cpu, "memory": "8Gi"} | ({GPU: str(1000 * count)} if count else {})
        objects.append(node(name, room, {GPU_MODEL: model}))
    arrivals = []
    for name, milli, memory, gpus, share, models, begin, until in (row.split(",") for row in pods):
        requests = {"cpu": f"{milli}m", "memory": f"{memory}Mi"}
        if int(gpus):
            requests[GPU] = str(int(gpus) * int(share))
        affinity: dict[str, Any] = {"affinity": on_labels({GPU_MODEL: models.split("|")})} if models else {}
        arrivals.append(Arrival(float(begin), pod(name, requests, **affinity), float(until) - float(begin)))
    return World("small", tuple(objects), tuple(arrivals))


ONE_EACH = trace(*(f"p{i},1000,1024,1,1000,,{i},{i + 10}" for i in range(4)))


def frameworks() -> dict[str, Framework]:
    """The default profile and the packed one."""
    return build(TRACE_PROFILES, registry())


def quiet(_: str) -> None:
    """Say nothing."""


@pytest.mark.parametrize(("profile", "in_use"), [("default", 3), ("packed", 2)])
def test_saturation(profile: str, in_use: int) -> None:
    """Four of six GPUs are asked for: spread over all three nodes, or packed on two."""
    run, placements = replay.saturation(ONE_EACH, frameworks()[profile], 4 / 6, quiet)
    assert (run.arrived, run.placed, len(placements)) == (4, 4, 4)
    assert run.end.nodes_in_use == in_use
    assert run.end.allocated[GPU] == pytest.approx(4 / 6)


def test_saturation_ends_with_a_full_cluster() -> None:
    """The trace comes over and over; six of nine pods fit."""
    run, placements = replay.saturation(ONE_EACH, frameworks()["default"], 1.5, quiet)
    assert (run.arrived, run.placed) == (9, 6)
    assert [name for name, _ in placements] == ["p0", "p1", "p2", "p3", "p0-1", "p1-1"]
    assert [point.waiting for point in run.points] == [0, 0, 0, 0, 0, 0, 1, 2, 3]


def test_departures_make_room() -> None:
    """Two pods of three GPUs' node time share it one after the other; one that never fits waits for ever."""
    one_node = NODES[:1]
    found = trace("x,1000,1024,2,1000,,0,10", "y,1000,1024,2,1000,,5,20", "z,9000,1,0,0,,6,30", nodes=one_node)
    run = replay.departures(found, frameworks()["default"], quiet)
    assert (run.arrived, run.placed) == (3, 2)
    assert max(point.waiting for point in run.points) == 2


@pytest.mark.parametrize(
    ("found", "nodes"),
    [
        pytest.param(ONE_EACH, 2, id="four GPUs need two nodes of two"),
        pytest.param(trace("big,9000,1024,1,1000,,0,5"), None, id="what fits nowhere is held by no number of nodes"),
    ],
)
def test_compaction(found: World, nodes: int | None) -> None:
    """The fewest nodes that hold the pods."""
    assert replay.compaction(found, frameworks()["packed"], quiet).nodes == nodes


@pytest.mark.parametrize(
    ("stretch", "together"), [pytest.param(1, 2, id="as published"), pytest.param(3, 4, id="three times as long")]
)
def test_fullest(stretch: float, together: int) -> None:
    """The largest number of pods at once is counted."""
    found = trace(*(f"p{i},1000,1024,1,1000,,{10 * i},{10 * i + 15}" for i in range(4)))
    assert len(replay.fullest(replay.stretched(found, stretch).arrivals)) == together


def test_stretch() -> None:
    """The factor that makes three of six GPUs be asked for at once, where it was two."""
    found = trace(*(f"p{i},1000,1024,1,1000,,{10 * i},{10 * i + 15}" for i in range(4)))
    assert replay.stretch_to(found, 0.5) == pytest.approx(20 / 15, rel=0.01)


def test_regret() -> None:
    """0 for our own decisions; more for a scheduler that stacks what the profile spreads."""
    default = frameworks()["default"]
    _, placements = replay.saturation(ONE_EACH, default, 4 / 6, quiet)
    _, ours = replay.retrace(ONE_EACH, default, 4 / 6, placements, quiet)
    assert (ours.decisions, ours.total, ours.missed, ours.impossible) == (4, 0, 0, 0)
    stacked = Recorded("stacker", 4 / 6, [("p0", "a"), ("p1", "a"), ("p2", "b"), ("p3", "a")])
    ((theirs),) = beside(ONE_EACH, [stacked], default, quiet)
    assert theirs.regret.missed == 1
    assert theirs.regret.total > 0
    assert theirs.regret.impossible == 1


def test_models_are_honoured() -> None:
    """A pod that names models goes to a node of one of these."""
    found = trace("p,1000,1024,1,500,V100|G2,0,5")
    _, placements = replay.saturation(found, frameworks()["default"], 0.05, quiet)
    assert placements == [("p", "c")]


WITHOUT = (("a", 0, ""), ("b", 0, ""))


@pytest.mark.parametrize("gpus", [0, 1], ids=["nobody asks for a GPU", "one pod asks for what no node has"])
def test_a_trace_without_gpus(gpus: int) -> None:
    """Figures are of what its nodes have, and so is the load."""
    rows = [f"p{i},1000,1024,{gpus if i == 3 else 0},1000,,{i},{i + 10}" for i in range(4)]
    found = study(trace(*rows, nodes=WITHOUT, cpu="4"), frameworks(), 1.3, 0.5, quiet)
    assert found.measure == "cpu"
    assert found.stretch < 10
    for each in found.profiles:
        assert set(each.saturation.end.allocated) == {"cpu", "memory"}
        assert max(point.x for point in each.saturation.points) <= 1.3 + 1 / 8
    told = [title for title, _ in figures(found)]
    assert told[0] == "Saturation, to 130% of all CPU asked for"
    page = study_page(found)
    assert "CPU asked for / CPU there" in page
    assert not any("GPU" in text for text in (*told, page))


def test_how_long_pods_waited() -> None:
    """In time of the trace, of those that got a node."""
    one_node = NODES[:1]
    found = trace("x,1000,1024,2,1000,,0,10", "y,1000,1024,2,1000,,5,20", "z,9000,1,0,0,,6,30", nodes=one_node)
    assert replay.departures(found, frameworks()["default"], quiet).waits == replay.Waits(1, 0.0, 5.0, 5.0)
    told = dict(figures(study(found, frameworks(), 1.0, 0, quiet)))
    assert told["pods that waited and got a node"] == ["1", "1"]
    assert told["wait for a node, longest"] == ["5.0 s", "5.0 s"]


def test_study() -> None:
    """All of it for both profiles."""
    found = study(ONE_EACH, frameworks(), 1.0, 0, quiet)
    assert (found.nodes, found.pods, found.together, found.stretch) == (3, 4, 4, 1.0)
    assert [each.profile for each in found.profiles] == ["default", "packed"]
    assert [each.regret.total for each in found.profiles] == [0, 0]


HALVES = trace(*(f"p{i},100,100,1,600,,{i},{i + 10}" for i in range(8)))


def shared() -> dict[str, Framework]:
    """The four profiles that know single GPUs."""
    return build(gpu_profiles(HALVES), plugins())


def test_a_share_is_of_one_gpu() -> None:
    """Of six GPUs, eight times 0.6 fit as a sum, on single ones six; by the sum, all eight are placed."""
    by_sum, _ = replay.saturation(HALVES, frameworks()["default"], 0.8, quiet)
    assert by_sum.placed == 8
    for name, framework in shared().items():
        run = inflation(HALVES, framework, 0.8, 0, quiet)
        assert (run.profile, run.pods, run.placed) == (name, [8], [6])
        assert run.allocated == [pytest.approx(0.6)]
        assert run.fragmented == [pytest.approx(0.4)], "no task can use the rest"


def test_inflation_draws_tasks_until_so_much_was_asked_for() -> None:
    """Each task once, then others; another seed is another order, the same seed is the same."""
    mixed = trace(*(f"p{i},{500 * (1 + i % 3)},100,1,{(200, 500, 1000)[i % 3]},,{i},{i + 10}" for i in range(6)))
    framework = shared()["fragmentation"]
    first, again, other = (inflation(mixed, framework, 1.3, seed, quiet) for seed in (1, 1, 2))
    assert first == again
    assert first.pods[0] > 6
    assert (first.pods, first.allocated) != (other.pods, other.allocated)


def test_inflations_are_told() -> None:
    """Means over the seeds; on the page, too."""
    runs = inflations(HALVES, shared(), 0.8, 2, quiet)
    found = study(HALVES, frameworks(), 1.0, 0, quiet)
    assert shares_gpus(HALVES)
    whole = type(found)(**{**{f: getattr(found, f) for f in found.__struct_fields__}, "shares": runs})
    assert dict(share_figures(whole))["GPUs allocated"] == ["60.0 % ± 0.0"] * 4
    page = study_page(whole)
    assert "2 random orders" in page
    assert "packed-gpus" in page


def test_profiles_that_have_the_plugin_keep_it() -> None:
    """It is enabled once."""
    once = share_profiles(TRACE_PROFILES)
    assert share_profiles(once) == once


def test_what_never_ends_is_there_for_ever() -> None:
    """A lifetime without an end is no event, and is not stretched."""
    found = World("w", HALVES.objects, (Arrival(0.0, HALVES.arrivals[0].pod, inf),))
    assert replay.departures(replay.stretched(found, 5.0), frameworks()["default"], quiet).placed == 1
