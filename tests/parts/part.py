"""One part of all tests: a command whose output goes into a file, and what of that somebody reads at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.controlplane.process import Process

SECONDS = 4200.0
"""How long a part may take: twice as long as on a machine of the usual speed, and less than CI allows for all."""
_LAST = 60
"""Lines that are shown of a failure in which pytest has no section of its own."""
_SECTION = re.compile(r"=+ (FAILURES|ERRORS) =+")
_SUMMARY = re.compile(r"=+ short test summary info =+")
_FAILED = re.compile(r"(FAILED|ERROR) (?P<what>\S.*)")
_PERCENT = re.compile(r"\[ *(\d+)%\]$", re.MULTILINE)


class Part:
    """A command that is one part of the tests."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        *,
        niceness: int = 0,
        gate: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`niceness`: one that computes leaves the cores to those that wait for real processes, and to longer ones.

        `gate`: if it fails, nothing else is worth waiting for.
        """
        self.name = name
        self.gate = gate
        self._niceness = str(niceness)
        self._process = Process(name, (["nice", "-n", self._niceness] if niceness else []) + [*argv], log, env)
        self._began = 0.0
        self._late = False

    @property
    def argv(self) -> list[str]:
        """The command."""
        return self._process.argv

    def start(self) -> None:
        """Start it, in a process group of its own."""
        self._process.log.parent.mkdir(parents=True, exist_ok=True)
        self._process.log.unlink(missing_ok=True)
        self._began = time.monotonic()
        self._process.start()
        if self._niceness != "0":
            _lower_session(self._process.pid, self._niceness)

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._began

    @property
    def ended(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        if self._process.running and self.seconds > SECONDS:
            self._late = True
            self.kill()
        return not self._process.running

    @property
    def passed(self) -> bool:
        """Whether a part that has ended went well."""
        return self._process.returncode == 0

    @property
    def percent(self) -> str:
        """How far pytest says that it is; empty before it says so."""
        found = _PERCENT.findall(self._process.tail(5))
        return f"{found[-1]} %" if found else ""

    @property
    def failures(self) -> list[str]:
        """A line for each test of it that failed, by its own summary; without one, that the part failed."""
        if self.passed:
            return []
        lines = self._process.log.read_text(errors="replace").splitlines()
        summary = lines[_first(lines, _SUMMARY, default=len(lines)) :]
        found = [match["what"] for line in summary if (match := _FAILED.match(line))]
        return [f"{self.name}: {what}" for what in found] or [self.name + (": took too long" if self._late else "")]

    def kill(self) -> None:
        """End it, and all that it started."""
        self._process.kill()

    def report(self) -> str:
        """What somebody wants to read of it: of a success the summary, of a failure the failures."""
        lines = self._process.log.read_text(errors="replace").splitlines()
        if self.passed:
            return "\n".join(lines[_first(lines, _SUMMARY, default=len(lines) - 1) :])
        return "\n".join(lines[_first(lines, _SECTION, default=len(lines) - _LAST) :])


def _first(lines: Sequence[str], pattern: re.Pattern[str], default: int) -> int:
    return next((i for i, line in enumerate(lines) if pattern.match(line)), max(default, 0))


def _lower_session(pid: int, niceness: str) -> None:
    """Lower the share of the session that a process leads.

    Linux may share the cores among sessions first (sched_autogroup). Then the niceness of a process counts only within
    its session, and each part has a session of its own.
    """
    with suppress(OSError):  # not every kernel has it, and not every user may
        Path(f"/proc/{pid}/autogroup").write_text(niceness)
