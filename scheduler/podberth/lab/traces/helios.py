"""SenseTime's Helios (2020): training jobs of one of four clusters of GPUs, as Slurm ran them.

Published with Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(SC'21): `cluster_log.csv`, a job on each line, and `cluster_gpu_number.csv`, the GPUs of each virtual cluster by day.

A job of several nodes is a gang of as many pods. A virtual cluster has the nodes, of eight GPUs, that its largest day
takes, and its jobs go there. What CPU and memory nodes have is not in these files, so none is asked for.
"""

from math import ceil, inf
from pathlib import Path

from podberth.lab.traces.rows import gang, node, pod, rows
from podberth.lab.world import Arrival, Change, World

JOBS_FILE, GPUS_FILE = "cluster_log.csv", "cluster_gpu_number.csv"
GPU = "nvidia.com/gpu"
_CLUSTER = "virtual-cluster"
_GPUS_A_NODE = 8
_JOBS = ("job_id", "vc", "gpu_num", "node_num", "submit_time", "duration")
_NOT_CLUSTERS = ("date", "total")


def read(directory: Path) -> World:
    """Return the world of the two files. Raises ObjectError, a line that names file, line and column."""
    most: dict[str, int] = {}
    for row in rows(directory / GPUS_FILE, ("date",)):
        for column in row.values:
            if column not in _NOT_CLUSTERS:
                most[column] = max(most.get(column, 0), row.whole(column))
    objects = [
        node(f"{cluster}-{number}".lower(), {GPU: str(_GPUS_A_NODE)}, {_CLUSTER: cluster})
        for cluster, gpus in most.items()
        for number in range(ceil(gpus / _GPUS_A_NODE))
    ]
    found: list[tuple[float, float, str, str, list[int]]] = []
    for row in rows(directory / JOBS_FILE, _JOBS, unique="job_id"):
        gpus, nodes, at = row.whole("gpu_num"), max(row.whole("node_num"), 1), row.moment("submit_time")
        if at is None:
            raise row.error("submit_time", "a time like 2020-06-09 18:41:01")
        if gpus:
            each = [gpus // nodes + (number < gpus % nodes) for number in range(nodes)]
            lasts = row.number("duration", inf)
            found.append((at, lasts, f"job-{row.name('job_id')}", row.name("vc"), [share for share in each if share]))
    found.sort(key=lambda job: job[0])
    begin = found[0][0] if found else 0.0
    arrivals, changes = [], []
    for at, lasts, name, cluster, shares in found:
        group = name if len(shares) > 1 else ""
        if group:
            changes.append(Change(at - begin, put=gang(group, len(shares))))
        for number, share in enumerate(shares):
            raw = pod(f"{name}-{number}", {GPU: str(share)}, gang=group, nodeSelector={_CLUSTER: cluster})
            arrivals.append(Arrival(at - begin, raw, lasts))
    return World(directory.name, tuple(objects), tuple(arrivals), tuple(changes))
