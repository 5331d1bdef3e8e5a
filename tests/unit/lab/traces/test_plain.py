"""The plain form, as CSV and as Parquet."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import default_configuration
from podberth.lab import World, read_world, run
from podberth.lab.traces import reader_of

NODES = (
    'name,capacity,devices,labels\na,"cpu=4,memory=8Gi",2,zone=x\n'
    'b,"cpu=4,memory=8Gi",nvidia.com/gpu=1,"zone=y,pool=p"\n'
)
HEAD = "name,namespace,arrival,duration,priority,gang,devices,requests,selectors\n"


def read(path: Path, *rows: str, nodes: str = NODES) -> World:
    """Write both tables, and read them."""
    (path / "nodes.csv").write_text(nodes)
    (path / "pods.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
    return read_world(path)


def test_csv(tmp_path: Path) -> None:
    """All columns; pods by arrival, gangs at the arrival of their first pod."""
    world = read(
        tmp_path,
        'late,team,9,,100,,0.5,"cpu=500m,memory=1Gi",zone=x',
        "g0,team,5,60,,g,nvidia.com/gpu=1,cpu=1,",
        "g1,team,3,60,,g,,cpu=1,",
    )
    assert [(each.at, each.lasts) for each in world.arrivals] == [(3.0, 60.0), (5.0, 60.0), (9.0, float("inf"))]
    late = json.loads(world.arrivals[2].pod)
    assert late["metadata"]["namespace"] == "team"
    assert late["spec"]["priority"] == 100
    assert late["spec"]["nodeSelector"] == {"zone": "x"}
    asked = late["spec"]["containers"][0]["resources"]["requests"]
    assert asked == {"cpu": "500m", "memory": "1Gi", "alibabacloud.com/gpu-milli": "500"}
    (change,) = world.changes
    assert change.put is not None
    assert (change.at, json.loads(change.put)["spec"]["schedulingPolicy"]) == (3.0, {"gang": {"minCount": 2}})
    assert run(world, default_configuration()).summary["bound"] == 3


def test_parquet(tmp_path: Path) -> None:
    """With numbers as numbers, the same world as from CSV."""
    (tmp_path / "csv").mkdir()
    rows = ["p,default,1,2.5,7,,1,cpu=1,", "q,default,4,,,,,cpu=2,pool=p"]
    expected = read(tmp_path / "csv", *rows)
    path = tmp_path / "parquet"
    path.mkdir()
    nodes = {"name": ["a", "b"], "capacity": ["cpu=4,memory=8Gi"] * 2, "devices": ["2", "nvidia.com/gpu=1"]}
    nodes["labels"] = ["zone=x", "zone=y,pool=p"]
    pods = {
        "name": ["p", "q"],
        "arrival": [1.0, 4.0],
        "duration": [2.5, None],
        "priority": [7, None],
        "devices": [1, None],
        "requests": ["cpu=1", "cpu=2"],
        "selectors": [None, "pool=p"],
    }
    parquet.write_table(pa.table(nodes), path / "nodes.parquet")
    parquet.write_table(pa.table(pods), path / "pods.parquet")
    found = read_world(path)
    assert (found.objects, found.arrivals) == (expected.objects, expected.arrivals)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p,,,,,,,,", "pods.csv, line 2: arrival: Required value: a number"),
        ("p,,1,,,,,cpu,", 'pods.csv, line 2: requests: "cpu": expected KEY=VALUE'),
        ("p,,1,,,,,cpu=much,", 'pods.csv, line 2: requests: "cpu=much": expected quantities'),
        ("p,,1,,,,,cpu=-1,", 'pods.csv, line 2: requests: "cpu=-1": expected quantities'),
        ("p,,1,,-3,,,,", 'pods.csv, line 2: priority: "-3": expected a number'),
        ("p,,1,,2e9,,,,", "pods.csv, line 2: priority: "),
        ("p,,1,,5,g,,,\nq,,2,,6,g,,,", 'line 3: priority: "6": expected 5, as the others of gang g have'),
        ("p,,1,,,,,,\np,,2,,,,,,", "pods.csv, line 3: name: p is there twice"),
    ],
)
def test_refused(tmp_path: Path, row: str, said: str) -> None:
    """File, line, column and value."""
    with pytest.raises(ObjectError) as error:
        read(tmp_path, row)
    assert said in str(error.value)


def test_a_table_that_is_damaged(tmp_path: Path) -> None:
    """Packed, and changed after that: one line."""
    (tmp_path / "pods.csv").write_text(HEAD)
    packed = gzip.compress(NODES.encode() * 9)
    (tmp_path / "nodes.csv.gz").write_bytes(packed[:12] + b"\xff" * 20 + packed[32:])
    with pytest.raises(ObjectError, match=r"nodes\.csv\.gz: expected a gzip file: it is damaged"):
        read_world(tmp_path)


def test_tables_of_other_names(tmp_path: Path) -> None:
    """They are none of this form."""
    (tmp_path / "nodes.2024.csv").write_text(NODES)
    (tmp_path / "pods.2024.csv").write_text(HEAD)
    assert reader_of(tmp_path) is None


def test_no_parquet(tmp_path: Path) -> None:
    """A file that only is named so, and a column that is missing."""
    (tmp_path / "nodes.parquet").write_text("no")
    (tmp_path / "pods.parquet").write_text("no")
    with pytest.raises(ObjectError, match=r"nodes\.parquet: expected Parquet"):
        read_world(tmp_path)
    parquet.write_table(pa.table({"name": ["a", "a"], "capacity": ["cpu=1", "cpu=1"]}), tmp_path / "nodes.parquet")
    with pytest.raises(ObjectError, match=r"nodes\.parquet, row 2: name: a is there twice"):
        read_world(tmp_path)
    parquet.write_table(pa.table({"name": ["a"]}), tmp_path / "nodes.parquet")
    with pytest.raises(ObjectError, match=r"nodes\.parquet: no column capacity"):
        read_world(tmp_path)
