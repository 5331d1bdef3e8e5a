"""A plain form of traces: a directory with two tables, nodes and pods, each as CSV with a header or as Parquet.

`nodes`: name, capacity, devices, labels. `pods`: name, namespace, arrival, duration, priority, gang, devices, requests,
selectors. Only names, `capacity` and `arrival` are required. Amounts and labels are written as `cpu=500m,memory=1Gi`
and `zone=a,pool=web`. `devices` is `nvidia.com/gpu=2`, or a number of GPUs that pods may share: 0.5 is half of one.
Times are in seconds; an empty duration never ends. Pods of one gang, in one namespace, start together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

from podberth.explain.objects.documents import ObjectError
from podberth.lab.gpus import SHARED_GPU, WHOLE
from podberth.lab.traces import TABLES
from podberth.lab.traces.rows import Row, gang, node, once, pod, rows
from podberth.lab.world import Arrival, Change, World
from podberth.model.quantity import QuantityError, parse_nano

NODES, PODS = "nodes", "pods"
_PRIORITIES = 1e9


def read(directory: Path) -> World:
    """Return the world of the two tables. Raises ObjectError, a line that names file, line and column."""
    objects = [
        node(row.name("name"), {**_amounts(row, "capacity"), **_devices(row)}, _pairs(row, "labels"))
        for row in once(_table(directory, NODES, ("name", "capacity")), "name")
    ]
    arrivals: list[Arrival] = []
    gangs: dict[tuple[str, str], tuple[float, int]] = {}
    members: Counter[tuple[str, str]] = Counter()
    seen: set[tuple[str, str]] = set()
    for row in _table(directory, PODS, ("name", "arrival")):
        at, group, namespace = row.number("arrival"), row.text("gang"), row.text("namespace") or "default"
        key = namespace, row.name("name")
        if key in seen:
            raise ObjectError(f"{row.place}: name: {key[1]} is there twice")
        seen.add(key)
        priority = row.number("priority", 0.0)
        if priority > _PRIORITIES:
            raise row.error("priority", f"at most {_PRIORITIES:,.0f}")
        selectors = _pairs(row, "selectors")
        spec: dict[str, Any] = {"nodeSelector": selectors} if selectors else {}
        raw = pod(
            key[1],
            {**_amounts(row, "requests"), **_devices(row)},
            namespace=namespace,
            priority=int(priority),
            gang=group,
            **spec,
        )
        arrivals.append(Arrival(at, raw, row.number("duration", inf)))
        if group:
            members[namespace, group] += 1
            first, its = gangs.setdefault((namespace, group), (at, int(priority)))
            if its != int(priority):
                raise row.error("priority", f"{its}, as the others of gang {group} have")
            gangs[namespace, group] = min(at, first), its
    changes = [
        Change(at, put=gang(name, members[space, name], space, priority))
        for (space, name), (at, priority) in gangs.items()
    ]
    return World(
        directory.name,
        tuple(objects),
        tuple(sorted(arrivals, key=lambda each: each.at)),
        tuple(sorted(changes, key=lambda each: each.at)),
    )


def _table(directory: Path, name: str, columns: tuple[str, ...]) -> Iterator[Row]:
    path = next(path for ending in TABLES if (path := directory / f"{name}{ending}").exists())
    if path.suffix != ".parquet":
        return rows(path, columns)
    return _parquet(path, columns)


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ObjectError(f"{path.name}: expected the extra podberth[lab]: pip install 'podberth[lab]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            missing = [column for column in columns if column not in file.schema_arrow.names]
            if missing:
                raise ObjectError(f"{path.name}: no column {', '.join(missing)}: expected {', '.join(columns)}")
            number = 0
            for batch in file.iter_batches():
                for values in batch.to_pylist():
                    number += 1
                    texts = {key: str(value) for key, value in values.items() if value is not None}
                    yield Row(f"{path.name}, row {number}", texts)
    except (ArrowException, OSError) as error:
        raise ObjectError(f"{path.name}: expected Parquet: {error}") from None


def _pairs(row: Row, column: str) -> dict[str, str]:
    found = {}
    for part in row.text(column).split(","):
        key, equals, value = part.partition("=")
        if part.strip():
            if not equals or not key.strip():
                raise row.error(column, "KEY=VALUE,KEY=VALUE")
            found[key.strip()] = value.strip()
    return found


def _amounts(row: Row, column: str) -> Mapping[str, str]:
    found = _pairs(row, column)
    for amount in found.values():
        try:
            sound = parse_nano(amount) >= 0
        except QuantityError:
            sound = False
        if not sound:
            raise row.error(column, "quantities, like cpu=500m,memory=1Gi")
    return found


def _devices(row: Row) -> Mapping[str, str]:
    text = row.text("devices")
    if not text or "=" in text:
        return _amounts(row, "devices")
    amount = round(row.number("devices") * WHOLE)
    return {SHARED_GPU: str(amount)} if amount else {}
