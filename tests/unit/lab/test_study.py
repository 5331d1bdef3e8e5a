"""A trace of a few pods, played with several profiles."""

from math import inf
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab import Arrival, World, pictures, run
from podberth.lab.study import TRACE_PROFILES, profiles_for, study
from podberth.lab.study_report import parts, rows
from podberth.lab.traces.openb import GPU_MODEL
from podberth.lab.traces.rows import node, on_labels, pod
from podberth.lab.variations import inflated

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


def quiet(_: str) -> None:
    """Say nothing."""


HALVES = trace(*(f"p{i},100,100,1,600,,{i},{i + 10}" for i in range(8)))


def test_a_share_is_of_one_gpu() -> None:
    """Of six GPUs, eight times 0.6 fit as a sum, on single ones six; no task can use the rest of them."""
    by_sum = run(inflated(HALVES, 0.8, 0), TRACE_PROFILES, profile="default")
    assert by_sum.summary["bound"] == 8
    found = study(HALVES, profiles_for(HALVES), 0.8, 0, 1, quiet)
    assert [each.profile for each in found.inflation] == ["default", "packed", "packed-gpus", "fragmentation"]
    for each in found.inflation:
        (figures,) = each.figures
        assert (figures["pods"], figures["bound"]) == (8, 6)
        assert figures[f"used[{GPU}]"] == pytest.approx(0.6)
        assert figures[f"stranded[{GPU}]"] == pytest.approx(0.4)


def test_pods_come_and_go() -> None:
    """Two pods of a node's time share it one after the other; one that never fits waits for ever."""
    found = trace("x,1000,1024,2,1000,,0,10", "y,1000,1024,2,1000,,5,20", "z,9000,1,0,0,,6,30", nodes=NODES[:1])
    (default, _) = study(found, TRACE_PROFILES, 1.0, 0, 1, quiet).departures
    (figures,) = default.figures
    assert (figures["pods"], figures["bound"]) == (3, 2)
    assert figures["waiting_p50_s"] == 5
    assert max(look.waiting for look in default.looks) == 2


def test_models_are_honoured() -> None:
    """A pod that names models goes to a node of one of these."""
    found = run(trace("p,1000,1024,1,500,V100|G2,0,5"), TRACE_PROFILES)
    assert found.columns["decisions"]["node"] == ["c"]


@pytest.mark.parametrize("gpus", [0, 1], ids=["nobody asks for a GPU", "one pod asks for what no node has"])
def test_a_trace_without_gpus(gpus: int) -> None:
    """Figures are of what its nodes have, and so is the load; profiles are as they are."""
    pods = [f"p{i},1000,1024,{gpus if i == 3 else 0},1000,,{i},{i + 10}" for i in range(4)]
    there = trace(*pods, nodes=(("a", 0, ""), ("b", 0, "")), cpu="4")
    assert profiles_for(there) is TRACE_PROFILES
    found = study(there, TRACE_PROFILES, 1.3, 0.5, 1, quiet)
    assert found.measure == "cpu"
    titles = [title for title, _ in parts(found)]
    assert titles[1] == "Inflation, to 130% of all CPU asked for"
    assert not any("GPU" in row for _, played in parts(found) for row, _ in rows(played))


def test_several_seeds() -> None:
    """Means with their deviation; the same seeds are the same, and each inflation has an order of its own."""
    mixed = trace(*(f"p{i},{500 * (1 + i % 3)},100,1,{(200, 500, 1000)[i % 3]},,{i},{i + 10}" for i in range(6)))
    first, again = (study(mixed, profiles_for(mixed), 1.3, 0, 2, quiet) for _ in range(2))
    assert first == again
    one, other = first.inflation[0].figures
    assert one["pods"] > 6
    assert one != other
    told = dict(rows(first.inflation))
    assert all(" ± " in cell for cell in told["GPU used"])


def test_profiles_that_have_the_plugin_keep_it() -> None:
    """It is enabled once, in those of a file, too, and no others come beside them."""
    once = profiles_for(HALVES, TRACE_PROFILES)
    assert [each.scheduler_name for each in once.profiles] == ["default", "packed"]
    assert once != TRACE_PROFILES
    assert profiles_for(HALVES, once) == once


def test_what_asks_for_nothing_is_not_inflated() -> None:
    """And what never ends stays."""
    nothing = World("w", HALVES.objects, (Arrival(0.0, pod("p", {}), inf),))
    found = study(nothing, TRACE_PROFILES, 1.3, 0.5, 1, quiet)
    assert (found.measure, found.inflation) == ("", [])
    assert found.departures[0].figures[0]["bound"] == 1


def test_pictures_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named."""
    pictures.require()
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(ObjectError, match=r"expected the extra podberth\[lab\]"):
        pictures.require()
