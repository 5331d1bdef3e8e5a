"""One server process: its log in a file, signals for faults, and its cost for comparisons."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane import warden
from tests.controlplane.wait import wait_for


class DiedError(Exception):
    """A server ended, or never got ready, by itself; the message ends with the tail of its log."""


class Process:
    """A child process in a group of its own, so that Ctrl-C in the terminal leaves its end to the fixtures."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self.url = ""  # where it serves, for those that serve something
        self._env = dict(env) if env is not None else None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output is appended to the log."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )
        warden.watch(self._child.pid)

    @property
    def pid(self) -> int:
        """The id of the process as last started."""
        assert self._child is not None, f"{self.name} was not started"
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended; a paused process runs."""
        return self._child is not None and self._child.poll() is None

    def pause(self) -> None:
        """Freeze it where it stands, and return when it stands still (Linux); its sockets stay open and silent.

        One thread takes the signal and stops the others. While that one waits for a core, the others go on.
        """
        os.killpg(self.pid, signal.SIGSTOP)
        wait_for(f"{self.name} to stand still", self._stands_still)

    def resume(self) -> None:
        """Let it go on after a pause."""
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._child is None:
            return
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self._reap()

    def stop(self, timeout: float = 15) -> int:
        """Ask it to end, insist after the timeout; give the exit code."""
        if self.running:
            self.resume()
            os.killpg(self.pid, signal.SIGTERM)
            try:
                self._reap(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.returncode

    @property
    def returncode(self) -> int:
        """The exit code of an ended process; negative is the signal that ended it."""
        assert self._child is not None and self._child.returncode is not None, f"{self.name} has not ended"
        return self._child.returncode

    def check(self) -> None:
        """Raise when the process is gone."""
        if not self.running:
            raise self.died("is not running")

    def died(self, how: str) -> DiedError:
        """The exception that says how this process failed and shows the end of its log."""
        return DiedError(f"{self.name} {how}; the end of its log:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def cpu_seconds(self) -> float:
        """User and system time spent so far (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory_mb(self) -> float:
        """The largest resident set so far (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def _stands_still(self) -> bool:
        try:
            threads = [stat.read_text() for stat in Path(f"/proc/{self.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile, so it does not
            return False
        return all(thread.rpartition(")")[2].split()[0] == "T" for thread in threads)

    def _reap(self, timeout: float = 10) -> None:
        assert self._child is not None
        self._child.wait(timeout)
        warden.forget(self._child.pid)
