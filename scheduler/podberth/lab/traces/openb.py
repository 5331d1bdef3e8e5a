"""Alibaba's openb (cluster-trace-gpu-v2023): nodes and pods of a production GPU cluster.

Published with Weng et al., "Beware of Fragmentation" (USENIX ATC'23). `gpu_milli` is of one GPU, and counts where
`num_gpu` is 1; `gpu_spec` lists the models that a pod can use, separated by |.
"""

from math import inf
from pathlib import Path
from typing import Any

from podberth.lab.gpus import SHARED_GPU, WHOLE
from podberth.lab.traces.rows import Row, node, on_labels, pod, rows
from podberth.lab.world import Arrival, World

GPU_MODEL = "alibabacloud.com/gpu-model"
NODES_FILE, PODS_FILE = "openb_nodes.csv", "openb_pods.csv"
_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_PODS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"),
    *("creation_time", "deletion_time"),
)


def read(directory: Path) -> World:
    """Return the trace. Raises ObjectError, a line that names file, line and column."""
    arrivals = [_arrival(row) for row in rows(directory / PODS_FILE, _PODS, unique="name")]
    return World(
        directory.name,
        objects=tuple(_node(row) for row in rows(directory / NODES_FILE, _NODES, unique="sn")),
        arrivals=tuple(sorted(arrivals, key=lambda each: each.at)),
    )


def _node(row: Row) -> bytes:
    room = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi"}
    gpus = row.whole("gpu")
    if gpus:
        return node(row.name("sn"), room | {SHARED_GPU: str(WHOLE * gpus)}, {GPU_MODEL: row.text("model")})
    return node(row.name("sn"), room)


def _arrival(row: Row) -> Arrival:
    requests = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi"}
    gpus = row.whole("num_gpu")
    if gpus:
        requests[SHARED_GPU] = str(gpus * (row.whole("gpu_milli") or WHOLE))
    models = [model for model in row.text("gpu_spec").split("|") if model.strip()]
    spec: dict[str, Any] = {"affinity": on_labels({GPU_MODEL: models})} if models else {}
    at, until = row.number("creation_time"), row.number("deletion_time", inf)
    if until < at:
        raise row.error("deletion_time", "at least creation_time")
    return Arrival(at, pod(row.name("name"), requests, **spec), until - at)
