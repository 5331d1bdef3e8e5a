"""A cluster whose API server does almost nothing, so that what a scheduler does by itself can be seen.

The server is `bench/nullserver`, in Go: it lists, watches and takes what is written, in memory. Nobody is authorised,
nothing is validated, and nothing is stored.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.controlplane import warden
from tests.controlplane.build import NULL_SERVER
from tests.controlplane.cluster import Cluster, free_port, wait_ready
from tests.controlplane.process import Process


class NullServer(Cluster):
    """One process on loopback; everybody is its administrator."""

    owned = True

    def __init__(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="berth-controlplane-"))
        warden.sweep(directory)
        port, certificate = free_port(), directory / "nullserver.crt"
        super().__init__(f"https://127.0.0.1:{port}", {"token": "anybody"}, certificate, directory)
        self.server = Process(
            "nullserver",
            [NULL_SERVER.command(), f"--address=127.0.0.1:{port}", f"--certificate={certificate}"],
            directory / "nullserver.log",
        )
        self.server.url = self.url
        self.processes = [self.server]

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.server.start()
        wait_ready(self.server, self.ca, self.admin["token"])
