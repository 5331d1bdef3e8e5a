"""Which host ports placed pods hold, by node row.

A pod with few ports has them indexed one by one. A pod may name thousands: then its whole list is kept, and compared
with another pod's list once for each pair of lists.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from scheduler.model.containers import ANY_IP, HostPort
from scheduler.state.column import Ints
from scheduler.state.effort import Effort
from scheduler.state.per_node import Bounded

Ports = tuple[HostPort, ...]
FEW = 64
_WANTED_MOST = 8
"""So many long lists that pods want are remembered."""


class KeptLists(NamedTuple):
    """Long lists that pods hold, how often they are on a row, long lists that pods wanted, and comparisons of both."""

    held: int
    on_rows: int
    wanted: int
    compared: int


class HostPorts:
    """Host ports by row."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        """(protocol, port) → IP → row → pods; of pods with few."""
        self._many: dict[Ports, dict[int, int]] = {}
        """All that one pod holds, where it is many → row → pods."""
        self._on_row: dict[int, dict[Ports, int]] = {}
        """Row → all that one pod there holds, where it is many → pods."""
        self._pairs: Bounded[Ports, dict[Ports, int]] = Bounded(_WANTED_MOST)
        """What a pod wants → what others hold → conflicts."""
        self.compared = 0
        """How often two lists were compared."""

    def charge(self, row: int, ports: Ports, sign: int) -> None:
        """Count a pod's host ports (sign 1), or take them back (-1)."""
        if len(ports) <= FEW:
            for port in ports:
                self._charge(row, port, sign)
            return
        rows = self._many.setdefault(ports, {})
        held = self._on_row.setdefault(row, {})
        users = rows.get(row, 0) + sign
        if users:
            rows[row] = held[ports] = users
            return
        del rows[row], held[ports]
        if not held:
            del self._on_row[row]
        if not rows:
            del self._many[ports]
            for pairs in self._pairs.values():
                pairs.pop(ports, None)

    def users(self, wanted: Ports, rows: int, effort: Effort) -> Ints:
        """int64[rows]: pairs of a wanted port and a pod that holds it, or one like it. Raises SliceOver."""
        found = np.zeros(rows, dtype=np.int64)
        for _, by_row in self._like(wanted):
            found[list(by_row)] += list(by_row.values())
        for held, by_row in self._many.items():
            number = self._conflicts(wanted, held, effort)
            if number:
                found[list(by_row)] += [number * users for users in by_row.values()]
        return found

    def users_on(self, wanted: Ports, row: int) -> bool:
        """Whether any wanted port is taken on a row."""
        if any(row in by_row for _, by_row in self._like(wanted)):
            return True
        return any(self._conflicts(wanted, held, None) for held in self._on_row.get(row, ()))

    def pairs_on(self, wanted: Ports, row: int) -> int:
        """As `users`, on one row."""
        few = sum(by_row.get(row, 0) for _, by_row in self._like(wanted))
        many = self._on_row.get(row, {}).items()
        return few + sum(users * self._conflicts(wanted, held, None) for held, users in many)

    def kept(self) -> KeptLists:
        """How much is kept for pods with many ports, for tests of what a tenant can make grow."""
        return KeptLists(
            len(self._many), sum(map(len, self._on_row.values())), len(self._pairs), sum(map(len, self._pairs.values()))
        )

    def by_row(self) -> dict[int, dict[HostPort, int]]:
        """Row → host port → number of pods that hold it (for validation)."""
        found: dict[int, dict[HostPort, int]] = {}
        for (protocol, port), by_ip in self._rows.items():
            for ip, rows in by_ip.items():
                for row, users in rows.items():
                    found.setdefault(row, {})[(ip, protocol, port)] = users
        for held, rows in self._many.items():
            for row, users in rows.items():
                on_row = found.setdefault(row, {})
                for one in held:
                    on_row[one] = on_row.get(one, 0) + users
        return found

    def _like(self, wanted: Ports) -> Iterator[tuple[HostPort, Mapping[int, int]]]:
        """(port, row → pods) of the ports that exclude a wanted one, once for each; of pods with few."""
        for ip, protocol, port in wanted:
            for used_ip, by_row in self._rows.get((protocol, port), {}).items():
                if ip == used_ip or ANY_IP in (ip, used_ip):
                    yield (used_ip, protocol, port), by_row

    def _conflicts(self, wanted: Ports, held: Ports, effort: Effort | None) -> int:
        known = self._pairs.recall(wanted)
        if known is None:
            self._pairs.keep(wanted, known := {})
        number = known.get(held)
        if number is None:
            self.compared += 1
            number = known[held] = conflicts(wanted, held)
            if effort is not None:
                effort.charge((len(wanted) + len(held)) // 4)
        return number

    def _charge(self, row: int, port: HostPort, sign: int) -> None:
        ip, protocol, number = port
        by_ip = self._rows.setdefault((protocol, number), {})
        rows = by_ip.setdefault(ip, {})
        users = rows.get(row, 0) + sign
        if users:
            rows[row] = users
            return
        del rows[row]
        if not rows:
            del by_ip[ip]
        if not by_ip:
            del self._rows[(protocol, number)]


def conflicts(mine: Ports, theirs: Ports) -> int:
    """How many pairs of host ports exclude each other."""
    if not mine or not theirs:
        return 0
    wanted: dict[tuple[str, int], list[str]] = {}
    for ip, protocol, port in mine:
        wanted.setdefault((protocol, port), []).append(ip)
    found = 0
    for ip, protocol, port in theirs:
        for other in wanted.get((protocol, port), ()):
            found += ip == other or ANY_IP in (ip, other)
    return found
