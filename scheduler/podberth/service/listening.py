"""Opens the sockets of a service, before anything is there that could answer."""

from __future__ import annotations

import socket

BACKLOG = 128


class ServingError(Exception):
    """We can't listen where we should: one line that names address and reason."""


def listen(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Sockets that listen there; an empty host is every address, port 0 lets the system choose. Raises ServingError."""
    taken: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            where = (*address[:1], taken[0].getsockname()[1], *address[2:]) if taken else address
            taken.append(_bound(family, where, both=not host))
            taken[-1].listen(backlog)
    except OSError as error:
        for one in taken:
            one.close()
        why = (error.strerror or str(error)).lower()
        raise ServingError(f"{host or '*'}:{port}: can't listen there: {why}") from None
    return taken


def _addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    if not host:
        return [(socket.AF_INET6, ("::", port))] if _speaks_ipv6() else [(socket.AF_INET, ("", port))]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in dict.fromkeys(found)]


def _speaks_ipv6() -> bool:
    """Return whether one socket can serve IPv4 and IPv6. A kernel may have IPv6 and have it turned off."""
    if not socket.has_dualstack_ipv6():
        return False
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(("::", 0))
        except OSError:
            return False
    return True


def _bound(family: int, address: tuple[object, ...], *, both: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
