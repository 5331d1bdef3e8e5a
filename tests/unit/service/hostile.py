"""Clients that mean no good, bounded, on loopback: they open, they say something or nothing, and they wait."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from tests.certificates import showing

SECONDS = 60.0
"""Nothing waits for longer, so that a test that fails ends."""


def tcp(port: int) -> socket.socket:
    """Connected, and silent."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def tls(port: int) -> ssl.SSLSocket:
    """Connected, its handshake done, and silent."""
    return showing(None).wrap_socket(tcp(port))


def ended(client: socket.socket) -> bool:
    """Read to the end, whichever way it ends; False when it does not within a minute."""
    try:
        while client.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def say(client: socket.socket, words: bytes) -> bytes:
    """Send all of it and return what is answered until the end."""
    found = []
    with contextlib.suppress(OSError):
        client.sendall(words)
    with contextlib.suppress(OSError):
        while part := client.recv(1 << 16):
            found.append(part)
    return b"".join(found)


@contextlib.contextmanager
def idle(port: int, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """So many silent connections, for as long as the block runs."""
    clients: list[ssl.SSLSocket] = []
    try:
        clients.extend(tls(port) for _ in range(count))
        yield clients
    finally:
        for client in clients:
            client.close()


def open_files() -> int:
    """Descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").is_dir() else 0
