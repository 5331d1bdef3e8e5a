"""Google's tables of events, as BigQuery exports them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import default_configuration
from podberth.lab import World, read_world, run

MACHINES = [
    {"time": "0", "machine_id": "5", "type": "1", "switch_id": "s1", "capacity": {"cpus": 0.5, "memory": 0.25}},
    {"time": "0", "machine_id": "7", "type": "1", "capacity": {"cpus": 1.0, "memory": 1.0}},
    {"time": "700000000", "machine_id": "7", "type": "2"},
]


def event(time: int, kind: int, collection: int = 1, index: int = 0, cpus: float = 0.1, **more: Any) -> dict[str, Any]:
    """An event of an instance."""
    request = {"cpus": cpus, "memory": 0.01}
    ids = {"collection_id": str(collection), "instance_index": str(index)}
    return {"time": str(time), "type": str(kind), **ids, "priority": "200", "resource_request": request, **more}


def read(path: Path, *events: dict[str, Any], collections: tuple[dict[str, Any], ...] = ()) -> World:
    """Write the tables, that of instances in two parts, gzipped, and read them."""
    for name, rows in (
        ("machine_events-000000000000.json.gz", MACHINES),
        ("instance_events-000000000000.json.gz", events[1:]),
        ("instance_events-000000000001.json.gz", events[:1]),
        ("collection_events-000000000000.json.gz", collections),
    ):
        (path / name).write_bytes(gzip.compress("\n".join(json.dumps(row) for row in rows).encode()))
    return read_world(path)


def test_json(tmp_path: Path) -> None:
    """A life is from the submission; it lasts as long as it ran, and a second submission is a second pod."""
    life = (event(600_000_000, 0), event(610_000_000, 3), event(640_000_000, 4))
    world = read(tmp_path, *life, event(650_000_000, 0), event(655_000_000, 3))
    assert [(each.at, each.lasts) for each in world.arrivals] == [(0.0, 30.0), (50.0, float("inf"))]
    first, second = (json.loads(each.pod) for each in world.arrivals)
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("1-0", "1-0-1")
    assert first["spec"]["priority"] == 200
    assert first["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "10000m"
    assert [json.loads(raw)["status"]["allocatable"]["cpu"] for raw in world.objects] == ["50000m", "100000m"]
    assert [(each.at, each.gone) for each in world.changes] == [(100.0, ("Node", "", "machine-7"))]
    assert run(world, default_configuration()).summary["bound"] == 2


def test_csv(tmp_path: Path) -> None:
    """Columns of parts of a field have its name before theirs; types may be names."""
    (tmp_path / "machine_events.csv").write_text(
        "time,machine_id,type,switch_id,capacity.cpus,capacity.memory\n0,5,ADD,,1,1\n"
    )
    head = "time,type,collection_id,instance_index,priority,resource_request.cpus,resource_request.memory\n"
    rows = "601000000,SUBMIT,9,1,0,0.5,0.5\n602000000,SCHEDULE,9,1,0,0.5,0.5\n605000000,FINISH,9,1,0,0.5,0.5\n"
    (tmp_path / "instance_events.csv").write_text(head + rows)
    ((arrival),) = read_world(tmp_path).arrivals
    assert (arrival.at, arrival.lasts) == (1.0, 3.0)


def test_alloc_sets_hold_the_room_of_their_tasks(tmp_path: Path) -> None:
    """Instances of an alloc set are pods, tasks in them are not."""
    alloc = event(600_000_000, 0, collection=3, collection_type="1")
    task = event(600_000_000, 0, collection=4, alloc_collection_id="3", alloc_instance_index="0")
    assert [json.loads(each.pod)["metadata"]["name"] for each in read(tmp_path, alloc, task).arrivals] == ["3-0"]


def test_one_for_each_machine(tmp_path: Path) -> None:
    """A collection that may have one instance on a machine has them apart."""
    events = [event(600_000_000, 0, index=i) for i in range(3)]
    world = read(tmp_path, *events, collections=({"collection_id": "1", "max_per_machine": "1"},))
    assert run(world, default_configuration()).summary["bound"] == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param(event(1, 99), 'json.gz, line 1: type: "99": expected 0 to 10, or SUBMIT', id="type"),
        pytest.param({**event(1, 0), "time": "soon"}, 'line 1: time: "soon": expected a number', id="time"),
        pytest.param(event(1, 0, cpus=-1), 'resource_request.cpus: "-1": expected a number', id="amount"),
        pytest.param({"time": "1", "type": "0"}, "collection_id: Required value", id="missing"),
    ],
)
def test_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    """File, line, column and value."""
    with pytest.raises(ObjectError) as error:
        read(tmp_path, row)
    assert said in str(error.value)


def test_no_json(tmp_path: Path) -> None:
    """A line that is cut off."""
    (tmp_path / "instance_events.json").write_text('{"time": \n')
    with pytest.raises(ObjectError, match="line 1: expected an object of JSON"):
        read_world(tmp_path)
