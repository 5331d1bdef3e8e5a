"""One of Berth's services as a process: its log as objects, and what its ports answer."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.controlplane.api import Object
from tests.controlplane.process import Process

BERTH = str(Path(sys.executable).with_name("berth"))
PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine: who asks takes no answer for "nobody is there"."""


def environment() -> dict[str, str]:
    """No kubeconfig or proxy of whoever runs the tests."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}


class Component(Process):
    """`berth COMMAND`, with a log of its own in this directory."""

    def __init__(self, name: str, home: Path, *arguments: str) -> None:
        super().__init__(name, [BERTH, *arguments], home / f"{name.replace(' ', '-')}.log", environment())

    def import_first_from(self, place: Path) -> None:
        """Have its Python look for modules in this directory before all others; to be called before the start."""
        self._env = {**environment(), "PYTHONPATH": str(place)}

    def lines(self, event: str = "") -> list[Object]:
        """What it logged, or what of it is this event; a line that is no JSON is an event of its own."""
        return [line for line in self._lines() if event in ("", line["event"])]

    def ask(
        self, port: int, path: str, context: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and body, over HTTP without a context; (0, "") when nobody answers, or not to this certificate."""
        connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            if context is None
            else http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
        )
        try:
            connection.request("GET", path, headers={"Connection": "close", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def _lines(self) -> Iterator[Object]:
        if not self.log.exists():
            return
        *whole, _ = self.log.read_text(errors="replace").split("\n")  # the last one may still be under way
        for line in whole:
            try:
                read = json.loads(line)
            except ValueError:
                read = {}
            yield read if isinstance(read, dict) and "event" in read else {"event": line, "level": "text"}
