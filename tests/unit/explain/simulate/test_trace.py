"""A trace of a few pods, played in every way; and what is refused of a trace's files."""

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.explain.report.simulation_page import study_page
from podberth.explain.report.simulation_tables import figures
from podberth.explain.simulate import trace as replay
from podberth.explain.simulate.trace import TRACE_PROFILES, Recorded, Trace, beside, read, study
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from tests.registered import registry

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\nb,8000,8192,2,T4\nc,8000,8192,2,G2\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def trace(*rows: str, nodes: str = NODES) -> Trace:
    """A trace of these pods: `name,cpu,memory,gpus,milli,models,from,until`."""
    lines = [",".join([*row.split(",")[:6], "LS", "Running", *row.split(",")[6:], ""]) for row in rows]
    return read(nodes.encode(), (HEAD + "\n".join(lines)).encode())


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
    assert run.end.allocated["alibabacloud.com/gpu-milli"] == pytest.approx(4 / 6)


def test_saturation_ends_with_a_full_cluster() -> None:
    """The trace comes over and over; six of nine pods fit."""
    run, placements = replay.saturation(ONE_EACH, frameworks()["default"], 1.5, quiet)
    assert (run.arrived, run.placed) == (9, 6)
    assert [name for name, _ in placements] == ["p0", "p1", "p2", "p3", "p0-1", "p1-1"]
    assert [point.waiting for point in run.points] == [0, 0, 0, 0, 0, 0, 1, 2, 3]


def test_departures_make_room() -> None:
    """Two pods of three GPUs' node time share it one after the other; one that never fits waits for ever."""
    one_node = NODES.splitlines()[0] + "\na,8000,8192,2,T4\n"
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
def test_compaction(found: Trace, nodes: int | None) -> None:
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


WITHOUT = "sn,cpu_milli,memory_mib,gpu,model\na,4000,8192,0,\nb,4000,8192,0,\n"


@pytest.mark.parametrize("gpus", [0, 1], ids=["nobody asks for a GPU", "one pod asks for what no node has"])
def test_a_trace_without_gpus(gpus: int) -> None:
    """Figures are of what its nodes have, and so is the load."""
    rows = [f"p{i},1000,1024,{gpus if i == 3 else 0},1000,,{i},{i + 10}" for i in range(4)]
    found = study(trace(*rows, nodes=WITHOUT), frameworks(), 1.3, 0.5, quiet)
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
    one_node = NODES.splitlines()[0] + "\na,8000,8192,2,T4\n"
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


@pytest.mark.parametrize(
    ("nodes", "pods", "said"),
    [
        pytest.param("a,b\n", HEAD, "openb_nodes.csv, line 1: no column sn, cpu_milli", id="columns"),
        pytest.param(NODES + "a,1,1,0,\n", HEAD, "openb_nodes.csv, line 5: sn: a is there twice", id="twice"),
        pytest.param(NODES + "d,x,1,0,\n", HEAD, 'line 5: cpu_milli: "x": expected a number', id="no number"),
        pytest.param(NODES + "d,-1,1,0,\n", HEAD, 'line 5: cpu_milli: "-1": expected a number', id="negative"),
        pytest.param(NODES + "d,1\n", HEAD, "openb_nodes.csv, line 5: expected 5 fields", id="short line"),
        pytest.param(NODES, HEAD + ",1,1,0,0,,,,0,1,\n", "openb_pods.csv, line 2: name: Required value", id="no name"),
        pytest.param("\xff", HEAD, "openb_nodes.csv: expected CSV in UTF-8", id="no text"),
    ],
)
def test_refused(nodes: str, pods: str, said: str) -> None:
    """File, line, column and value."""
    with pytest.raises(ObjectError) as error:
        read(nodes.encode("latin-1"), pods.encode())
    assert said in str(error.value)
