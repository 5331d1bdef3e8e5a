"""What a run does with small worlds, and that nothing but its arguments counts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import ConfigError, decode
from podberth.lab import Change, Result, World, run
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, node, pod, profile
from tests.unit.lab.worlds import comes, configured, owned, raw, world


def rows(result: Result, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table, row by row."""
    found = result.table(table).select(list(columns)).to_pydict()
    return list(zip(*found.values(), strict=True))


def test_pods_wait_last_and_end() -> None:
    """The second pod waits for the first one's end; the third one fits nowhere, and the run ends all the same."""
    found = run(
        world([node("a", "2")], comes(pod("x", "2"), 1, 10), comes(pod("y", "2"), 4, 5), comes(pod("z", "3"), 5)),
        configured(),
    )
    assert rows(found, "decisions", "pod", "node", "arrived", "bound", "ended", "waited", "feasible") == [
        ("x", "a", 1.0, 1.0, 11.0, 0.0, 1),
        ("y", "a", 4.0, 11.0, 16.0, 7.0, 1),
        ("z", None, 5.0, None, None, None, None),
    ]
    assert found.columns["decisions"]["attempts"] == [1, 2, 1]
    assert (found.summary["pods"], found.summary["bound"]) == (3, 2)
    assert found.summary["waiting_p50_s"] == 7


def test_a_higher_priority_preempts_and_controllers_make_pods_again() -> None:
    """The victim comes again under its name, waits, and gets the other node when there is one."""
    found = run(
        world(
            [node("a", "2")],
            comes(owned(pod("low", "2", priority=1)), 0, 100),
            comes(pod("high", "2", priority=5), 10),
            changes=[Change(30, put=raw(node("b", "2")))],
        ),
        configured(),
    )
    assert rows(found, "preemptions", "at", "victim", "victim_priority", "node", "for_pod", "priority") == [
        (10.0, "default/low", 1, "a", "default/high", 5)
    ]
    assert rows(found, "decisions", "pod", "node", "arrived", "bound", "ended") == [
        ("low", "a", 0.0, 0.0, 10.0),
        ("high", "a", 10.0, 10.0, None),
        ("low", "b", 10.0, 30.0, 130.0),
    ]
    assert rows(found, "moves", "at", "pod", "from_node", "to_node", "bound") == [(10.0, "default/low", "a", "b", 30.0)]


def test_a_node_goes_with_its_pods() -> None:
    """Those of a controller come again at once; recorded arrivals have them already."""
    placed = owned(pod("web", "1", on="a"))
    found = [node("a", "2"), node("b", "2"), placed]
    goes = [Change(5, gone=("Node", "", "a"))]
    assert rows(run(world(found, changes=goes), configured()), "moves", "at", "pod", "to_node") == [
        (5.0, "default/web", "b")
    ]
    assert not run(world(found, changes=goes, controllers=False), configured()).columns["moves"]["pod"]


def test_a_pod_goes_before_its_time() -> None:
    """A change removes one that came, and another one gets its room."""
    found = run(
        world(
            [node("a", "2")],
            comes(pod("x", "2")),
            comes(pod("y", "2")),
            changes=[Change(9, gone=("Pod", "default", "x"))],
        ),
        configured(),
    )
    assert rows(found, "decisions", "pod", "bound", "ended") == [("x", 0.0, 9.0), ("y", 9.0, None)]


def test_utilisation_and_fragmentation() -> None:
    """At equal distances until the last pod comes. Of 3 cores on one of two nodes, a pod of 4 can use none."""
    found = run(
        world([node("a", "4"), node("b", "4")], comes(pod("x", "1"), 0, 10), comes(pod("y", "4"), 6, 5)),
        configured(),
        looks=2,
    )
    for table, want in {
        "utilisation": [(0.0, 1000, 8000), (3.0, 1000, 8000), (6.0, 5000, 8000)],
        "fragmentation": [(0.0, 7000, 1500.0), (3.0, 7000, 1500.0), (6.0, 3000, 1500.0)],
    }.items():
        columns = [name for name in found.columns[table] if name not in ("unit", "nodes_in_use", "waiting")]
        assert [row[:1] + row[2:] for row in rows(found, table, *columns) if row[1] == "cpu"] == want
    assert found.summary["stranded[cpu]"] == 1500 / 8000


def test_a_pod_is_placed_at_once_as_the_engine_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way past the queue changes nothing, while pods wait or not."""
    quick = run(MIXED, configured(), seed=3)
    monkeypatch.setattr(Simulation, "place", lambda self, pod: None)
    assert run(MIXED, configured(), seed=3) == quick
    assert quick.summary["preemptions"] and quick.summary["waiting_p99_s"] > 0


def test_waiting_alone_changes_nothing() -> None:
    """A pod that waits for hours is tried when there is room for it, and not every five minutes."""
    found = run(world([node("a", "2")], comes(pod("x", "2"), 0, 90_000), comes(pod("y", "2"), 1)), configured())
    assert rows(found, "decisions", "bound", "attempts") == [(0.0, 1), (90_000.0, 2)]


def test_units_are_in_the_schema() -> None:
    """Each number has one, but what is named by its column."""
    found = run(world([node("a")], comes(pod("x", "1"))), configured())
    schema = found.decisions.schema
    assert {name: schema.field(name).metadata for name in ("waited", "feasible", "pod")} == {
        "waited": {b"unit": b"s"},
        "feasible": {b"unit": b"nodes"},
        "pod": None,
    }
    assert schema.metadata == {b"world": b"small", b"profile": b"berth", b"seed": b"0"}
    assert found.to_pandas()["node"].tolist() == found.to_polars()["node"].to_list() == ["a"]


@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [pytest.param("LeastAllocated", 2, id="spread"), pytest.param("MostAllocated", 1, id="packed")],
)
def test_the_configuration_decides(strategy: str, nodes: int) -> None:
    """Two pods on two nodes, or on one."""
    found = run(world([node("a"), node("b")], comes(pod("x", "1")), comes(pod("y", "1"))), configured(strategy))
    assert len(set(found.columns["decisions"]["node"])) == nodes


MIXED = world(
    [node(f"n{i}", "4", zone=f"z{i % 2}") for i in range(3)],
    *(comes(owned(pod(f"p{i}", "1", priority=i % 3, labels={"app": f"a{i % 4}"})), i, 7 + i) for i in range(40)),
)
_ELSEWHERE = """
import pickle, sys
from podberth.lab import run
world, configuration = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([run(world, configuration, seed=3) for _ in range(2)]))
"""


def test_equal_results_in_another_process() -> None:
    """Two runs there and one here, under another seed of hashes; another seed of the run chooses other nodes."""
    given = pickle.dumps((MIXED, configured()))
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE], input=given, env=environment, stdout=subprocess.PIPE, check=True
    )
    here = run(MIXED, configured(), seed=3)
    assert pickle.loads(answer.stdout) == [here, here]
    assert run(MIXED, configured(), seed=4).columns["decisions"]["node"] != here.columns["decisions"]["node"]


def test_runs_of_one_world_do_not_see_each_other() -> None:
    """What is decoded once is changed by no run, also of another configuration."""
    fresh: World = pickle.loads(pickle.dumps(MIXED))
    first = run(fresh, configured("MostAllocated"))
    run(fresh, configured())
    assert run(fresh, configured("MostAllocated")) == first == run(MIXED, configured("MostAllocated"))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (World("w", (b"{",), ()), "objects[0]: expected JSON of an API object: Input data was truncated"),
        (World("w", (raw({"kind": "Nod"}),), ()), 'objects[0]: kind: "Nod": expected one of Node, Pod, '),
        (World("w", (), ()), "objects: expected a Node at least"),
        (
            world([node("a")], comes(pod("x") | {"spec": {"priority": "high"}})),
            'Pod default/x (arrivals[0].pod): spec.priority: "high"',
        ),
        (world([node("a")], comes(node("b"))), "arrivals[0].pod: expected a Pod, got a Node"),
        (
            world([node("a")], comes(pod("x", on="a"))),
            "arrivals[0].pod: Pod default/x: spec.nodeName: expected none, as it waits for a node",
        ),
        (
            world([node("a")], comes(pod("x"), 3), comes(pod("y"), 2)),
            "arrivals[1].at: 2: expected at least 3, as they are sorted",
        ),
        (world([node("a")], changes=[Change(0)]), "changes[0]: expected either put or gone"),
    ],
)
def test_one_line_says_what_is_wrong_with_a_world(made: World, says: str) -> None:
    """It names the place, the object and the field."""
    with pytest.raises(ObjectError) as caught:
        run(made, configured())
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_the_profile_is_one_of_the_configuration() -> None:
    """Pods are its own whatever they name; a name that is not there is refused."""
    two = decode(configuration(profile("one"), profile("two")))
    here = world([node("a")], comes(pod("x", scheduler="three")))
    assert run(here, two, profile="two").profile == "two"
    with pytest.raises(ConfigError, match=r'^profile: "three": expected one of one, two$'):
        run(here, two, profile="three")


def test_extenders_are_not_asked_and_that_is_said() -> None:
    """There is no network."""
    asks = decode(configuration(extenders=[{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]))
    found = run(world([node("a")], comes(pod("x"))), asks)
    assert found.notes == ("the HTTP extender http://127.0.0.1:1 is not asked",)
    assert found.summary["bound"] == 1


def test_a_plugin_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods wait, the run ends, and a note has the plugin and what it said."""

    def fails(*_: object) -> None:
        raise ValueError("no such planet")

    monkeypatch.setattr(IN_TREE["NodeAffinity"], "filter", fails)
    found = run(world([node("a")], comes(pod("x", need=["zone=mars"]))), configured())
    assert found.columns["decisions"]["node"] == [None]
    (note,) = found.notes
    assert note.startswith("pods that a plugin failed to decide: 1, the first of them: ")
    assert "NodeAffinity" in note and "no such planet" in note


def test_nothing_heavy_is_imported() -> None:
    """A run and its figures need no extra."""
    code = (
        "import sys, podberth.lab;"
        "heavy = {'pyarrow', 'pandas', 'polars', 'altair', 'optuna', 'distributed', 'zstandard', 'aiohttp'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
