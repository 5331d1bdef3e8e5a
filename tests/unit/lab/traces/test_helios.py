"""Helios' jobs and the GPUs of its virtual clusters."""

import json
from pathlib import Path

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import default_configuration
from podberth.lab import World, read_world, run

HEAD = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def read(path: Path, *rows: str) -> World:
    """Write both files, and read them."""
    (path / "cluster_gpu_number.csv").write_text("date,vcA,vcB,total\n2020-09-01,8,0,8\n2020-09-02,16,4,20\n")
    (path / "cluster_log.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
    return read_world(path)


def test_read(tmp_path: Path) -> None:
    """Jobs go to the nodes of their virtual cluster; several nodes are a gang; without GPUs none is read."""
    world = read(
        tmp_path,
        "2,u,vcA,16,64,2,COMPLETED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:42:31,60,0",
        "1,u,vcB,1,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:42:01,61,0",
        "3,u,vcA,0,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:42:01,60,0",
    )
    assert [json.loads(raw)["metadata"]["name"] for raw in world.objects] == ["vca-0", "vca-1", "vcb-0"]
    assert [(each.at, each.lasts) for each in world.arrivals] == [(0.0, 61.0), (30.0, 60.0), (30.0, 60.0)]
    found = run(world, default_configuration())
    assert found.summary["bound"] == 3
    assert [change.at for change in world.changes] == [30.0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1,u,vcA,many,1,1,FAILED,2020-06-09 18:41:01,,,1,0", 'cluster_log.csv, line 2: gpu_num: "many"'),
        ("1,u,vcA,1,1,1,FAILED,,,,1,0", "cluster_log.csv, line 2: submit_time: Required value"),
        ("1,u", "cluster_log.csv, line 2: expected 12 fields"),
    ],
)
def test_refused(tmp_path: Path, row: str, said: str) -> None:
    """File, line, column and value."""
    with pytest.raises(ObjectError) as error:
        read(tmp_path, row)
    assert said in str(error.value)
