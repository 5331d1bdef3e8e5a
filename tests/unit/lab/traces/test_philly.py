"""Philly's list of jobs and its machines."""

import json
from pathlib import Path
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import default_configuration
from podberth.lab import World, read_world, run

MACHINES = "machineId,number of GPUs, single GPU mem\nm1,8, 24GB\nm2,2, 12GB\n"


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    """An attempt on as many machines as there are numbers of GPUs."""
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(count)]} for i, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(number: int, submitted: str, *attempts: dict[str, Any]) -> dict[str, Any]:
    """A job as the log has it."""
    about = {"status": "Pass", "vc": "ee9e8c", "jobid": f"application_{number}", "user": "ce2f4c"}
    return {**about, "attempts": list(attempts), "submitted_time": submitted}


def read(path: Path, *jobs: Any) -> World:
    """Write both files, the log as it is published: indented, in one list."""
    (path / "cluster_job_log").write_text(json.dumps(jobs, indent=4))
    (path / "cluster_machine_list").write_text(MACHINES)
    return read_world(path)


def test_read(tmp_path: Path) -> None:
    """All attempts count for the time, the last one for the GPUs; on two machines it is a gang."""
    world = read(
        tmp_path,
        job(2, "2017-10-07 01:12:39", attempt("2017-10-07 01:13:00", None, 1, 2)),
        job(
            1,
            "2017-10-07 01:11:39",
            attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 8),
            attempt("2017-10-07 01:14:00", "2017-10-07 01:14:30", 4),
        ),
        job(3, "2017-10-07 01:11:00"),
    )
    assert [(each.at, each.lasts) for each in world.arrivals] == [
        (0.0, 90.0),
        (60.0, float("inf")),
        (60.0, float("inf")),
    ]
    pods = [json.loads(each.pod) for each in world.arrivals]
    asked = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods]
    assert asked == [{"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}]
    assert "schedulingGroup" not in pods[0]["spec"]
    assert [change.at for change in world.changes] == [60.0]
    assert run(world, default_configuration()).summary["bound"] == 3


def test_the_log_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the pieces are cut."""
    monkeypatch.setattr("podberth.lab.traces.philly._PIECE", 7)
    one = attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 1)
    assert len(read(tmp_path, *(job(i, "2017-10-07 01:12:39", one) for i in range(5))).arrivals) == 5


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([{"jobid": "a"}], "cluster_job_log, job 0: submitted_time: Required value"),
        ([job(1, "today")], 'cluster_job_log, job 0: submitted_time: "today": expected a time like'),
        ([job(1, "2017-10-07 01:12:39"), 7], "cluster_job_log, job 1: expected an object"),
        ([job(1, "2017-10-07 01:12:39", attempt("soon", None, 1))], 'job 0: attempts[0]: start_time: "soon"'),
    ],
)
def test_refused(tmp_path: Path, jobs: list[Any], said: str) -> None:
    """Job, field and value."""
    with pytest.raises(ObjectError) as error:
        read(tmp_path, *jobs)
    assert said in str(error.value)


def test_cut_off(tmp_path: Path) -> None:
    """A log that ends in the middle."""
    read(tmp_path)
    (tmp_path / "cluster_job_log").write_text("[" + json.dumps(job(1, "2017-10-07 01:12:39")) + ", {")
    with pytest.raises(ObjectError, match="cluster_job_log, job 1: expected JSON"):
        read_world(tmp_path)
