"""A trace of a production cluster in the form of Alibaba's openb: two CSV files, nodes and pods.

Shared GPUs count as milli-GPUs of their node, in one extended resource: kube-scheduler's plugins know no single
devices, and neither do ours. A pod that names GPU models is bound to nodes of these by required node affinity.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import PluginConfig, ProfileConfig, SchedulerConfiguration
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.wire import encode

GPU = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-model"
RESOURCES = ("cpu", "memory", GPU)
NODES_FILE, PODS_FILE = "openb_nodes.csv", "openb_pods.csv"
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
    "deletion_time",
)
_FOR_EVER = float("inf")


class Arrival(NamedTuple):
    """A pod of the trace. Times in seconds of the trace; `until` is infinite for one that never ends."""

    pod: dict[str, Any]
    at: float
    until: float


class Trace(NamedTuple):
    """Nodes and pods as API objects, pods by their arrival."""

    nodes: list[dict[str, Any]]
    arrivals: list[Arrival]


def read(nodes: bytes, pods: bytes) -> Trace:
    """The two files.

    Raises ObjectError, a line that names file, line and column.
    """
    return Trace(
        nodes=[_node(row) for row in _rows(nodes, NODES_FILE, _NODE_COLUMNS)],
        arrivals=sorted((_arrival(row) for row in _rows(pods, PODS_FILE, _POD_COLUMNS)), key=lambda each: each.at),
    )


class Model:
    """The trace's objects as the scheduler sees them, for one schedulerName."""

    def __init__(self, scheduler_name: str) -> None:
        self._name = scheduler_name
        self._decoder = Decoder()

    def node(self, document: Mapping[str, Any]) -> Node:
        return self._decoder.node(encode(document))

    def pod(self, document: Mapping[str, Any], suffix: str = "") -> Pod:
        """A pod that waits; `suffix` tells copies of one apart."""
        metadata = document["metadata"]
        name = metadata["name"] + suffix
        spec = {**document["spec"], "schedulerName": self._name}
        return self._decoder.pod(
            encode({**document, "metadata": {**metadata, "name": name, "uid": name}, "spec": spec})
        )


class _Row(NamedTuple):
    file: str
    line: int
    values: Mapping[str, str]

    def number(self, column: str, empty: float | None = None) -> float:
        """A number that is not negative."""
        text = self.values[column].strip()
        if not text and empty is not None:
            return empty
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1e15:
            raise ObjectError(f"{self.file}, line {self.line}: {column}: {shown(text)}: expected a number, 0 or more")
        return found

    def whole(self, column: str) -> int:
        """A whole number; nothing is 0."""
        return int(self.number(column, 0.0))

    def name(self, column: str) -> str:
        """A name that is there."""
        text = self.values[column].strip()
        if not text:
            raise ObjectError(f"{self.file}, line {self.line}: {column}: Required value")
        return text


def _rows(content: bytes, file: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ObjectError(f"{file}: expected CSV in UTF-8: {error.reason} at byte {error.start}") from None
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise ObjectError(f"{file}, line 1: no column {', '.join(missing)}: expected {', '.join(columns)}")
    seen: set[str] = set()
    for number, values in enumerate(reader, start=2):
        if any(values[column] is None for column in columns):
            raise ObjectError(f"{file}, line {number}: expected {len(reader.fieldnames or ())} fields")
        row = _Row(file, number, values)
        name = row.name(columns[0])
        if name in seen:
            raise ObjectError(f"{file}, line {number}: {columns[0]}: {name} is there twice")
        seen.add(name)
        yield row


def _node(row: _Row) -> dict[str, Any]:
    name, model = row.name("sn"), row.values["model"].strip()
    room = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi", "pods": "1000"}
    labels = {"kubernetes.io/hostname": name}
    if row.whole("gpu"):
        room[GPU] = str(1000 * row.whole("gpu"))
        labels[MODEL] = model
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _arrival(row: _Row) -> Arrival:
    requests = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi"}
    gpus = row.whole("num_gpu")
    if gpus:
        requests[GPU] = str(gpus * (row.whole("gpu_milli") or 1000))
    resources = {"requests": requests} | ({"limits": {GPU: requests[GPU]}} if gpus else {})
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
    }
    models = [model for model in row.values["gpu_spec"].split("|") if model.strip()]
    if models:
        term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": row.name("name"), "namespace": "default"},
        "spec": spec,
    }
    return Arrival(pod, row.number("creation_time"), row.number("deletion_time", _FOR_EVER))


_STRATEGY = {
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": name, "weight": 1} for name in RESOURCES]}
}
TRACE_PROFILES = SchedulerConfiguration(
    profiles=[
        ProfileConfig(scheduler_name="default"),
        ProfileConfig(scheduler_name="packed", plugin_config=[PluginConfig("NodeResourcesFit", _STRATEGY)]),
    ]
)
"""`packed` fills the nodes that are the fullest, by CPU, memory and GPU alike; all else is as in `default`."""
