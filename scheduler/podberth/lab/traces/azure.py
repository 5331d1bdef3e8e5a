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
from math import ceil, inf
from pathlib import Path

import numpy as np

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.lab.traces.rows import node, pod
from podberth.lab.world import Arrival, World

_GENERATION = """
    SELECT machineId FROM vmType JOIN (SELECT vmTypeId, count(*) AS requests FROM vm GROUP BY vmTypeId)
    USING (vmTypeId) GROUP BY machineId ORDER BY sum(requests) DESC, machineId LIMIT 1
"""
_REQUESTS = f"""
    SELECT vm.rowid, vmId, priority, starttime, endtime, core, memory, hdd, ssd, nic
    FROM vm JOIN vmType ON vm.vmTypeId = vmType.vmTypeId AND machineId = ({_GENERATION})
    WHERE endtime IS NULL OR endtime > 0 OR starttime IS NULL
    ORDER BY max(starttime, 0), vm.rowid
"""
_DAY = 86_400.0
_MORE = 1.1
_WHOLE = {
    "cpu": (100_000, "m"),
    "memory": (1 << 40, ""),
    "azure.com/hdd": (100_000, ""),
    "ephemeral-storage": (1 << 40, ""),
    "azure.com/nic": (100_000, ""),
}
"""What a machine has, in the order of the columns from `core` on."""
_HIGH = 1000
"""The priority of pods that may not be evicted: `priority` 0 in the trace, where 1 is low."""


def read(path: Path) -> World:
    """Return the world of a database. Raises ObjectError, a line that names the row of `vm` and what is wrong."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            found = list(_requests(path.name, database))
        except sqlite3.Error as error:
            raise ObjectError(f"{path.name}: expected Azure's packing trace in SQLite: {error}") from None
    whole = {name: f"{amount}{unit}" for name, (amount, unit) in _WHOLE.items()}
    return World(
        path.name.split(".")[0],
        objects=tuple(node(f"machine-{number}", whole) for number in range(_machines(found))),
        arrivals=tuple(arrival for arrival, _ in found),
    )


def _requests(file: str, database: sqlite3.Connection) -> Iterator[tuple[Arrival, list[float]]]:
    """Yield the requests in their order, each with the shares of a machine that it takes."""
    for number, name, priority, start, end, *amounts in database.execute(_REQUESTS):
        place = f"{file}, table vm, row {number}"
        if not isinstance(start, int | float):
            raise ObjectError(f"{place}: starttime: {shown(start)}: expected days")
        if end is not None and not (isinstance(end, int | float) and end >= start):
            raise ObjectError(f"{place}: endtime: {shown(end)}: expected days, at least starttime, or NULL")
        for amount in amounts:
            if amount is not None and not (isinstance(amount, int | float) and 0 <= amount <= 1):
                raise ObjectError(f"{place}: its vmType: {shown(amount)}: expected a share of a machine, 0 to 1")
        shares = [float(amount or 0) for amount in amounts]
        requests = {
            resource: f"{ceil(share * most)}{unit}"
            for share, (resource, (most, unit)) in zip(shares, _WHOLE.items(), strict=True)
            if share
        }
        begin = max(start, 0.0)
        raw = pod(f"vm-{name}", requests, priority=_HIGH if priority == 0 else 0)
        yield Arrival(begin * _DAY, raw, inf if end is None else (end - begin) * _DAY), shares


def _machines(requests: list[tuple[Arrival, list[float]]]) -> int:
    """Return how many machines the fullest moment takes, and a tenth more."""
    if not requests:
        return 1
    begins = np.array([each.at for each, _ in requests])
    ends = np.array([each.at + each.lasts for each, _ in requests])
    shares = np.array([shares for _, shares in requests])
    order = np.lexsort((np.repeat((1, 0), len(requests)), np.concatenate((begins, ends))))
    fullest = np.concatenate((shares, -shares))[order].cumsum(axis=0).max()
    return max(ceil(float(fullest) * _MORE), 1)
