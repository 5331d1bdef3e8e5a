"""Microsoft's Philly (2017): training jobs on a cluster of GPUs.

Published with Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (ATC'19):
`cluster_job_log`, one JSON list of jobs, and `cluster_machine_list`, CSV of machines and their GPUs.

A job's last attempt says on how many machines it ran with how many GPUs each: so many pods come together when the job
was submitted, and several of them are a gang. They last as long as all of its attempts did together. Jobs without an
attempt are left out, as nobody knows what they asked for. CPU and memory are not published, and not asked for.
"""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct

from podberth.explain.objects.documents import ObjectError
from podberth.lab.traces.rows import Row, gang, node, opened, pod, rows
from podberth.lab.world import Arrival, Change, World

JOBS_FILE, MACHINES_FILE = "cluster_job_log", "cluster_machine_list"
GPU = "nvidia.com/gpu"
_GPUS, _MEMORY = "number of GPUs", "single GPU mem"
_PIECE = 1 << 16


def read(directory: Path) -> World:
    """Return the world of the two files. Raises ObjectError, a line that names the file, the line or job, the field."""
    nodes = [
        node(row.name("machineId"), {GPU: str(row.whole(_GPUS, None))}, {"gpu-memory": row.text(_MEMORY)})
        for row in rows(directory / MACHINES_FILE, ("machineId", _GPUS, _MEMORY), unique="machineId")
    ]
    jobs = [_job(number, document) for number, document in enumerate(_documents(directory / JOBS_FILE))]
    jobs = [job for job in jobs if job.gpus]
    begin = min((job.at for job in jobs), default=0.0)
    arrivals: list[Arrival] = []
    changes = []
    for job in sorted(jobs, key=lambda job: job.at):
        group = job.name if len(job.gpus) > 1 else ""
        if group:
            changes.append(Change(job.at - begin, put=gang(group, len(job.gpus), job.cluster)))
        for number, gpus in enumerate(job.gpus):
            raw = pod(f"{job.name}-{number}", {GPU: str(gpus)}, namespace=job.cluster, gang=group)
            arrivals.append(Arrival(job.at - begin, raw, job.lasts))
    return World(directory.name, tuple(nodes), tuple(arrivals), tuple(changes))


class _Job(Struct, frozen=True):
    """A job; times in seconds. `gpus`: those of each pod."""

    name: str
    cluster: str
    at: float
    lasts: float
    gpus: list[int]


def _job(number: int, document: Any) -> _Job:
    place = f"{JOBS_FILE}, job {number}"
    if not isinstance(document, dict):
        raise ObjectError(f"{place}: expected an object")
    row = Row(place, {key: value for key, value in document.items() if isinstance(value, str)})
    at = row.moment("submitted_time")
    if at is None:
        raise row.error("submitted_time", "a time like 2017-10-07 01:12:09")
    attempts = document.get("attempts") or []
    ran, gpus = 0.0, []
    for i, attempt in enumerate(attempts):
        if not isinstance(attempt, dict) or not isinstance(attempt.get("detail", []), list):
            raise ObjectError(f"{place}: attempts[{i}]: expected an object with a list `detail`")
        times = Row(f"{place}: attempts[{i}]", {key: value for key, value in attempt.items() if isinstance(value, str)})
        start, end = times.moment("start_time"), times.moment("end_time")
        if start is not None and end is not None:
            ran += max(end - start, 0.0)
        elif start is not None and i == len(attempts) - 1:
            ran = inf  # it was running when the log ended
        gpus = [len(each.get("gpus") or ()) for each in attempt.get("detail", ()) if isinstance(each, dict)]
    return _Job(row.name("jobid").replace("_", "-"), row.name("vc"), at, ran, [each for each in gpus if each])


def _documents(path: Path) -> Iterator[Any]:
    """Yield the elements of a JSON list one after the other, so that the file is never in memory as a whole."""
    decoder = json.JSONDecoder()
    with opened(path) as text:
        rest, begun, number = "", False, 0
        while True:
            piece = text.read(_PIECE)
            rest = (rest + piece).lstrip()
            if not begun and rest:
                if rest[0] != "[":
                    raise ObjectError(f"{path.name}: expected a JSON list of jobs")
                rest, begun = rest[1:], True
            while rest := rest.lstrip(" \t\r\n,"):
                if rest[0] == "]":
                    return
                try:
                    document, end = decoder.raw_decode(rest)
                except ValueError as error:
                    if not piece:
                        raise ObjectError(f"{path.name}, job {number}: expected JSON: {error}") from None
                    break
                yield document
                rest, number = rest[end:], number + 1
            if not piece:
                raise ObjectError(f"{path.name}: expected a JSON list of jobs: it ends after {number:,}")
