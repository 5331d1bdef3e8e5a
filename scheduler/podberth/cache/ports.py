"""Which host ports placed pods hold, by node row."""

from collections.abc import Iterator, Mapping

import numpy as np

from podberth.cache.column import Ints
from podberth.model.containers import ANY_IP
from podberth.model.shape import HostPort

Ports = tuple[HostPort, ...]


class HostPorts:
    """Host ports by row."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        """(protocol, port) → IP → row → pods."""

    def charge(self, row: int, ports: Ports, sign: int) -> None:
        """Count a pod's host ports (sign 1), or take them back (-1)."""
        for port in ports:
            self._charge(row, port, sign)

    def users(self, wanted: Ports, rows: int) -> Ints:
        """int64[rows]: pairs of a wanted port and a pod that holds it, or one like it."""
        found = np.zeros(rows, dtype=np.int64)
        for by_row in self._like(wanted):
            found[list(by_row)] += list(by_row.values())
        return found

    def users_on(self, wanted: Ports, row: int) -> int:
        """As `users`, on one row."""
        return sum(by_row.get(row, 0) for by_row in self._like(wanted))

    def by_row(self) -> dict[int, dict[HostPort, int]]:
        """Row → host port → number of pods that hold it (for validation)."""
        found: dict[int, dict[HostPort, int]] = {}
        for (protocol, port), by_ip in self._rows.items():
            for ip, rows in by_ip.items():
                for row, users in rows.items():
                    found.setdefault(row, {})[(ip, protocol, port)] = users
        return found

    def _like(self, wanted: Ports) -> Iterator[Mapping[int, int]]:
        """Row → pods, of each port that excludes a wanted one, for each of these."""
        for ip, protocol, port in wanted:
            for used_ip, by_row in self._rows.get((protocol, port), {}).items():
                if ip == used_ip or ANY_IP in (ip, used_ip):
                    yield by_row

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
    """Return how many pairs of host ports exclude each other."""
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
