"""Commands that are compiled from Go modules, once for exactly these sources and flags."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import golang, warden
from tests.controlplane.once import cache, once, say


@dataclass(frozen=True, slots=True)
class Program:
    """One command, or several that are built together: packages of a module, or files that are compiled in it.

    Flags and tags are the same for all where nothing else is said: then Go's build cache has what they share.
    """

    name: str
    module: Path
    packages: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()
    """What besides go.mod and go.sum makes it another program; compiled themselves where there are no packages."""
    tags: str = "selinux,notest,grpcnotrace"
    linker: str = "-s -w"
    tests: bool = False
    """The tests of the one package are compiled into a command, as `go test -c` does."""
    long: str = "about a minute on 2 cores"

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of `go build`, without -o."""
        return ("-trimpath", "-tags", self.tags, "-ldflags", self.linker)

    def place(self) -> Path:
        """The directory for these sources and flags on this kind of machine."""
        digest = hashlib.sha256()
        for file in (self.module / "go.mod", self.module / "go.sum", *self.sources):
            digest.update(file.read_bytes())
        together = self.packages if len(self.packages) > 1 else ()  # one package is what the name says
        digest.update(" ".join((*self.flags, *together, sys.platform, os.uname().machine)).encode())
        return cache() / self.name / digest.hexdigest()[:16]

    def built(self) -> Path:
        """The directory of the commands, built first when it is not there; raise UnreachableError or BuildError."""
        return once(self.place(), self.name, self._build)

    def command(self) -> Path:
        """The one command; as `built`."""
        return self.built() / self.name

    def _build(self, partial: Path) -> None:
        say(f"Building {self.name} for tests: once, {self.long}.")
        began = time.monotonic()
        go = golang.find()
        packages = self.packages or tuple(map(str, self.sources))
        # Two steps, as only the first may blame the network.
        listed = self._run(
            [go, "list", "-deps", *(["-test"] if self.tests else []), *self.flags[:3], *packages],
            "downloading Go modules",
            "{said} modules",
            golang.download_failure,
        )
        # Files are one command, which Go would name after the first of them.
        output = f"{partial}/" if self.packages and not self.tests else f"{partial}/{self.name}"
        # `go test -c` does not say how far it is.
        verb, done = (["test", "-c"], "") if self.tests else (["build", "-v"], "{packages:,} packages of ")
        self._run(
            [go, *verb, *self.flags, "-o", output, *packages],
            f"building {self.name}",
            f"{done}at most {len(listed):,}{' packages' if self.tests else ''}",
            golang.failure,
        )
        say(f"Built in {_clock(time.monotonic() - began)}, kept in {self.place()}")

    def _run(
        self, command: list[str | Path], step: str, counted: str, failure: Callable[[str, str], Exception]
    ) -> list[str]:
        """Run a go command, showing how far it is; give its lines that name a package."""
        child = subprocess.Popen(
            command,
            cwd=self.module,
            env=golang.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        warden.watch(child.pid)
        packages: list[str] = []
        said: list[str] = []

        def read() -> None:
            assert child.stdout is not None
            for line in child.stdout:
                (said if " " in line or ":" in line else packages).append(line.rstrip())

        reader = threading.Thread(target=read)
        reader.start()
        try:
            _show_until(reader, lambda: f"{step}: {counted.format(packages=len(packages), said=len(said))}")
        finally:
            if reader.is_alive():  # interrupted
                os.killpg(child.pid, 9)
                reader.join()
            code = child.wait()
            warden.forget(child.pid)
            assert child.stdout is not None
            child.stdout.close()
        if code != 0:
            raise failure(step, "\n".join(said))
        return packages


def _show_until(reader: threading.Thread, now: Callable[[], str]) -> None:
    live = sys.stderr.isatty()
    began = time.monotonic()
    while True:
        reader.join(1 if live else 30)
        if live:
            sys.stderr.write(f"\r\x1b[K{_clock(time.monotonic() - began)} {now()}")
            sys.stderr.flush()
        if not reader.is_alive():
            break
        if not live:
            say(f"{_clock(time.monotonic() - began)} {now()}")
    if live:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
