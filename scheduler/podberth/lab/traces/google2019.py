"""Google's ClusterData 2019 (Borg traces, version 3): the tables of events of one cell, or samples of them.

The form is that of clusterdata_trace_format_v3.proto as BigQuery exports it: JSON with an object on each line, where
whole numbers are texts, or CSV with columns like `resource_request.cpus`. A table may be in several files, which need
not be in the order of time. Times are µs from 600 s before the trace; amounts are shares of the largest machine.

An alloc set's instances hold room on their machines, and tasks in them take none of their own: the instances are the
pods, and such tasks are left out. Constraints name attributes of machines, which are in a table that is not read.
"""

from collections.abc import Iterator
from itertools import accumulate, groupby
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from podberth.lab.traces.rows import HOSTNAME, Row, node, pod, rows, tables
from podberth.lab.world import Arrival, Change, World

_BEGIN = 600e6
_CORES, _MEMORY = 100_000, 1 << 40
"""Milli-CPU and bytes of a machine that has 1.0 of each. Any other scale gives the same decisions."""
_TYPES = (
    *("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
_SUBMIT, _SCHEDULE, _ENDS = 0, 3, (4, 5, 6, 7, 8)
_MACHINE = ("EVENT_TYPE_UNKNOWN", "ADD", "REMOVE", "UPDATE")
_REMOVE = 2
_ALLOC_SET = ("ALLOC_SET", "1")
_COLUMNS = ("time", "type", "collection_id", "instance_index")


def read(directory: Path) -> World:
    """Return the world of the tables in a directory. Raises ObjectError, a line that names file, line and column."""
    alone = {
        row.name("collection_id")
        for file in tables(directory, "collection_events")
        for row in rows(file, ("collection_id",))
        if row.text("max_per_machine") == "1"
    }
    objects, changes = _machines(directory)
    return World(
        directory.name,
        objects=tuple(objects),
        arrivals=tuple(sorted(_instances(directory, alone), key=lambda each: each.at)),
        changes=tuple(sorted(changes, key=lambda each: each.at)),
    )


def _machines(directory: Path) -> tuple[list[bytes], list[Change]]:
    """Return the machines that are there at the begin, and what becomes of them."""
    events = []
    for file in tables(directory, "machine_events"):
        for row in rows(file, ("time", "machine_id", "type")):
            cpus, memory = row.number("capacity.cpus", 0.0), row.number("capacity.memory", 0.0)
            name, kind = f"machine-{row.whole('machine_id', None)}", _type(row, _MACHINE)
            switch = row.text("switch_id")
            events.append((_at(row), name, kind, cpus, memory, switch))
    there: dict[str, bytes] = {}
    changes = []
    for at, name, kind, cpus, memory, switch in sorted(events, key=lambda event: event[0]):
        labels = {"switch": switch[:63]} if switch else None
        found = None if kind == _REMOVE else node(name, _room(cpus, memory), labels)
        if at > 0:
            changes.append(Change(at, put=found) if found else Change(at, gone=("Node", "", name)))
        elif found:
            there[name] = found
        else:
            there.pop(name, None)
    return list(there.values()), changes


class _Event(NamedTuple):
    """Something that happened to an instance. Amounts are shares of the largest machine."""

    at: float
    kind: int
    priority: int
    cpus: float
    memory: float


def _instances(directory: Path, alone: set[str]) -> Iterator[Arrival]:
    """Yield a pod for each time that an instance was submitted. What was there before the trace begins anywhere."""
    events: dict[tuple[int, int], list[_Event]] = {}
    for file in tables(directory, "instance_events"):
        for row in rows(file, _COLUMNS):
            if row.text("collection_type") not in _ALLOC_SET and row.text("alloc_collection_id") not in ("", "0"):
                continue
            key = row.whole("collection_id", None), row.whole("instance_index", None)
            cpus, memory = row.number("resource_request.cpus", 0.0), row.number("resource_request.memory", 0.0)
            event = _Event(_at(row), _type(row, _TYPES), row.whole("priority"), cpus, memory)
            events.setdefault(key, []).append(event)
    for (collection, index), found in events.items():
        found.sort(key=lambda event: event.at)
        submissions = accumulate(event.kind == _SUBMIT for event in found)
        lives = groupby(zip(submissions, found, strict=True), key=lambda each: each[0])
        for number, (_, life) in enumerate(lives):
            name = f"{collection}-{index}" + (f"-{number}" if number else "")
            yield _arrival(name, str(collection), [event for _, event in life], alone)


def _arrival(name: str, collection: str, life: list[_Event], alone: set[str]) -> Arrival:
    first = life[0]
    started = next((event.at for event in life if event.kind == _SCHEDULE), first.at)
    ended = next((event.at for event in life if event.kind in _ENDS), inf)
    spec: dict[str, Any] = {}
    labels = {"collection": collection}
    if collection in alone:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    raw = pod(name, _room(first.cpus, first.memory), priority=first.priority, labels=labels, **spec)
    return Arrival(first.at, raw, max(ended - started, 0.0))


def _room(cpus: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cpus * _CORES)}m", "memory": str(round(memory * _MEMORY))}


def _at(row: Row) -> float:
    return max(0.0, (row.number("time") - _BEGIN) / 1e6)


def _type(row: Row, names: tuple[str, ...]) -> int:
    """Return the number of an event's type, which is given by its number or its name."""
    text = row.name("type")
    if text in names:
        return names.index(text)
    numbers = [str(number) for number in range(len(names))]
    if text in numbers:
        return numbers.index(text)
    raise row.error("type", f"0 to {len(names) - 1}, or {', '.join(names)}")
