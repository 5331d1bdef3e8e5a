"""Azure's trace for packing (2020): requests for virtual machines, in a database of SQLite.

Published with Hadary et al., "Protean: VM Allocation Service at Scale" (OSDI'20). Table `vmType` says which share of a
machine of each generation (`machineId`) a type takes; `vm` has the requests, times in days.

A pod asks for the same on each node. So the world has machines of one generation, that which takes the most requests,
and requests for types that it does not take are left out. How many machines there were is not published: there are as
many as the requests of the fullest moment take, and a tenth more. Machines that were there before the trace come at 0.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate
from math import ceil, inf
from pathlib import Path

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.lab.traces.rows import node, pod
from podberth.lab.world import Arrival, World

_TABLES = {
    "vmType": ("vmTypeId", "machineId", "core", "memory", "hdd", "ssd", "nic"),
    "vm": ("vmId", "vmTypeId", "priority", "starttime", "endtime"),
}
_DAY = 86_400.0
_MORE = 1.1
_UNITS = {
    "cpu": (100_000, "m"),
    "memory": (1 << 40, ""),
    "azure.com/hdd": (100_000, ""),
    "ephemeral-storage": (1 << 40, ""),
    "azure.com/nic": (100_000, ""),
}
"""What a whole machine has, in the order of the columns."""
_HIGH = 1000
"""The priority of pods that may not be evicted: `priority` 0 in the trace, where 1 is low."""


def read(path: Path) -> World:
    """Return the world of a database. Raises ObjectError, a line that names the table, the row and the column."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            return _read(path, database)
        except sqlite3.Error as error:
            raise ObjectError(f"{path.name}: expected a database of SQLite: {error}") from None


def _read(path: Path, database: sqlite3.Connection) -> World:
    for table, columns in _TABLES.items():
        there = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
        missing = [column for column in columns if column not in there]
        if missing:
            raise ObjectError(f"{path.name}, table {table}: no column {', '.join(missing)}")
    types = _types(path.name, database)
    arrivals = list(_arrivals(path.name, database, types))
    machines = _machines(arrivals)
    whole = {name: f"{amount}{unit}" for name, (amount, unit) in _UNITS.items()}
    return World(
        path.name.split(".")[0],
        objects=tuple(node(f"machine-{number}", whole) for number in range(machines)),
        arrivals=tuple(arrival for _, arrival in sorted(arrivals, key=lambda each: each[1].at)),
    )


def _types(file: str, database: sqlite3.Connection) -> dict[str, tuple[float, ...]]:
    """Return what each type takes of a machine of the generation that takes the most requests."""
    chosen = database.execute(
        "SELECT machineId FROM vmType JOIN (SELECT vmTypeId, count(*) AS requests FROM vm GROUP BY vmTypeId) "
        "USING (vmTypeId) GROUP BY machineId ORDER BY sum(requests) DESC, machineId LIMIT 1"
    ).fetchone()
    found = {}
    if chosen is not None:
        query = "SELECT rowid, vmTypeId, core, memory, hdd, ssd, nic FROM vmType WHERE machineId = ?"
        for number, type_id, *amounts in database.execute(query, chosen):
            for column, amount in zip(_TABLES["vmType"][2:], amounts, strict=True):
                if amount is not None and not (isinstance(amount, int | float) and 0 <= amount <= 1):
                    raise ObjectError(
                        f"{file}, table vmType, row {number}: {column}: {shown(amount)}: expected a share of a machine"
                    )
            found[str(type_id)] = tuple(float(amount or 0) for amount in amounts)
    return found


def _arrivals(
    file: str, database: sqlite3.Connection, types: dict[str, tuple[float, ...]]
) -> Iterator[tuple[tuple[float, ...], Arrival]]:
    """Yield the requests, each with what it takes of a machine."""
    query = "SELECT rowid, vmId, vmTypeId, priority, starttime, endtime FROM vm"
    for number, name, type_id, priority, start, end in database.execute(query):
        place = f"{file}, table vm, row {number}"
        if not isinstance(start, int | float):
            raise ObjectError(f"{place}: starttime: {shown(start)}: expected days")
        if end is not None and not (isinstance(end, int | float) and end >= start):
            raise ObjectError(f"{place}: endtime: {shown(end)}: expected days, at least starttime, or NULL")
        amounts = types.get(str(type_id))
        if amounts is not None and (end is None or end > 0):
            begin = max(start, 0.0)
            lasts = inf if end is None else (end - begin) * _DAY
            requests = {
                key: f"{ceil(amount * most)}{unit}"
                for amount, (key, (most, unit)) in zip(amounts, _UNITS.items(), strict=True)
                if amount
            }
            high = _HIGH if priority == 0 else 0
            yield amounts, Arrival(begin * _DAY, pod(f"vm-{name}", requests, priority=high), lasts)


def _machines(arrivals: list[tuple[tuple[float, ...], Arrival]]) -> int:
    """Return how many machines the fullest moment takes, and a tenth more."""
    events = sorted(
        [(each.at, 1, amounts) for amounts, each in arrivals]
        + [(each.at + each.lasts, -1, amounts) for amounts, each in arrivals if each.lasts != inf],
        key=lambda event: event[:2],
    )
    most = max(
        (max(accumulate((sign * amounts[i] for _, sign, amounts in events)), default=0.0) for i in range(len(_UNITS))),
        default=0.0,
    )
    return max(ceil(most * _MORE), 1)
