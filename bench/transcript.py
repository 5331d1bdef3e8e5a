"""Pages that are records: commands run by bash as shown, with their output as it was. Each `record_*` writes one.

Names of this machine and its temporary directory are replaced in the output; long output is cut by the commands.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.controlplane.cluster import ControlPlane
from tests.integration.berth import COMMAND

ROOT = Path(__file__).parents[1]


class Plain(yaml.SafeDumper):
    """Writes a value that is there twice twice, as people do."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Transcript:
    """The page being written, and the shell that it is a record of."""

    def __init__(self, home: Path, path: str) -> None:
        self._home = home
        self._env = {"PATH": path, "HOME": str(home), "KUBECONFIG": "admin.kubeconfig", "TERM": "dumb"}
        self._page: list[str] = []
        self._children: list[subprocess.Popen[bytes]] = []

    def say(self, *lines: str) -> None:
        """Text between the commands."""
        self._page += ["", *lines, ""]

    def run(self, command: str) -> str:
        """Run a command and record it with what it printed."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._home,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        output = self._clean(done.stdout).rstrip("\n")
        if done.returncode not in (0, 141):  # 141: `head` had enough
            raise RuntimeError(f"{command}: {done.returncode}: {output}")
        self._page += ["```console", f"$ {command}", *([output] if output else []), "```"]
        return output

    def background(self, command: str) -> int:
        """Start a command that goes on; its process id."""
        child = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self._home, env=self._env)
        self._children.append(child)
        self._page += ["```console", f"$ {command} &", "```"]
        return child.pid

    def ended(self) -> int:
        """Wait for the last background command; its exit code."""
        return self._children[-1].wait(60)

    def end(self, pid: int) -> int:
        """SIGTERM to a background command; its exit code."""
        os.kill(pid, signal.SIGTERM)
        return next(child for child in self._children if child.pid == pid).wait(60)

    def close(self) -> None:
        """End what is left in the background."""
        for child in self._children:
            child.kill()

    def text(self) -> str:
        """The page."""
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(self._page)).strip() + "\n"
        return text.replace("|\n\n|", "|\n|").replace("`\n\n- `", "`\n- `")  # rows, and commands in a list

    def _clean(self, output: str) -> str:
        for found, name in ((str(self._home), "."), (str(ROOT), "berth"), (platform.node(), "host")):
            output = output.replace(found, name)
        output = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:6443", output)
        return "\n".join(line.rstrip() for line in output.splitlines())


def recorded(module: str) -> str:
    """How a page says when, with what and where it was recorded."""
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    python = platform.python_version()
    return f"Recorded on {now} by `python -m bench.{module}` on {os.cpu_count()} cores, Python {python}"


def write(
    page: Path,
    record: Callable[[Transcript, Path, ControlPlane], None],
    *,
    audit: bool = False,
    tools: Mapping[str, Path] | None = None,
) -> None:
    """Record a run on a control plane of its own; `tools` are on its PATH beside kubectl and berth."""
    options = argparse.ArgumentParser(description=f"Writes {page.relative_to(ROOT)}")
    options.add_argument("--print", action="store_true", help="to standard output instead")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory, ControlPlane(audit=audit) as cluster:
        home = Path(directory)
        programs = home / "bin"
        programs.mkdir()
        for name, program in {"kubectl": cluster.tool("kubectl"), "berth": Path(COMMAND[0]), **(tools or {})}.items():
            (programs / name).symlink_to(program)
        cluster.kubeconfig(home / "admin.kubeconfig")
        transcript = Transcript(home, f"{programs}:{os.environ['PATH']}")
        try:
            record(transcript, home, cluster)
        finally:
            transcript.close()
    if chosen.print:
        print(transcript.text(), end="")
    else:
        page.write_text(transcript.text())
        print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)
