"""Azure's database of requests for virtual machines."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import default_configuration
from podberth.lab import World, read_world, run

TYPES = (
    (1, 10, 1, 0.5, 0.25, None, 0.1, 0.2),
    (2, 10, 2, 0.4, 0.2, None, 0.1, 0.2),
    (3, 11, 1, 0.1, 0.1, None, 0.0, 0.1),
)


def read(path: Path, *requests: tuple[Any, ...], types: tuple[tuple[Any, ...], ...] = TYPES) -> World:
    """Write the database with the columns that are published, and read it."""
    with closing(sqlite3.connect(path / "packing_trace_zone_a_v1.sqlite")) as database:
        database.execute(
            "CREATE TABLE vmType (id INTEGER, vmTypeId INTEGER, machineId INTEGER, core REAL, memory REAL, hdd REAL, "
            "ssd REAL, nic REAL)"
        )
        database.execute(
            "CREATE TABLE vm (vmId INTEGER, tenantId INTEGER, vmTypeId INTEGER, priority INTEGER, starttime REAL, "
            "endtime REAL)"
        )
        database.executemany("INSERT INTO vmType VALUES (?,?,?,?,?,?,?,?)", types)
        database.executemany("INSERT INTO vm VALUES (?,?,?,?,?,?)", requests)
        database.commit()
    return read_world(path)


def test_read(tmp_path: Path) -> None:
    """One generation of machines; what was there before comes at 0, for the rest of its time."""
    world = read(
        tmp_path,
        (1, 1, 10, 0, -1.0, 0.5),
        (2, 1, 11, 1, 0.25, None),
        (3, 1, 10, 1, 0.0, 1.0),
        (4, 1, 10, 0, -3.0, -1.0),
    )
    assert [(each.at, each.lasts) for each in world.arrivals] == [
        (0.0, 43200.0),
        (0.0, 86400.0),
        (21600.0, float("inf")),
    ]
    pods = [json.loads(each.pod) for each in world.arrivals]
    assert [pod["metadata"]["name"] for pod in pods] == ["vm-1", "vm-3", "vm-2"]
    assert [pod["spec"].get("priority", 0) for pod in pods] == [1000, 0, 0]
    assert pods[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "50000m"
    assert len(world.objects) == 2, "two halves and a tenth at one moment, and a tenth more"
    assert run(world, default_configuration()).summary["bound"] == 3


@pytest.mark.parametrize(
    ("request_", "types", "said"),
    [
        ((1, 1, 10, 0, None, 1.0), TYPES, "table vm, row 1: starttime: null: expected days"),
        ((1, 1, 10, 0, 2.0, 1.0), TYPES, "table vm, row 1: endtime: 1.0: expected days, at least starttime"),
        (
            (1, 1, 10, 0, 0.0, 1.0),
            ((1, 10, 1, 7.5, 0.1, 0, 0, 0),),
            "table vm, row 1: its vmType: 7.5: expected a share",
        ),
    ],
)
def test_refused(tmp_path: Path, request_: tuple[Any, ...], types: tuple[tuple[Any, ...], ...], said: str) -> None:
    """Table, row, column and value."""
    with pytest.raises(ObjectError) as error:
        read(tmp_path, request_, types=types)
    assert said in str(error.value)


def test_other_tables(tmp_path: Path) -> None:
    """A database of something else."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE vm (vmId INTEGER)")
    with pytest.raises(
        ObjectError, match=r"other\.sqlite: expected Azure's packing trace in SQLite: no such (table|column)"
    ):
        read_world(path)
