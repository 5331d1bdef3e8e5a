"""Pages that are records: commands run by bash as shown, with their output as it was.

Names of this machine and its temporary directory are replaced in the output; long output is cut by the commands.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.integration.component import BERTH

ROOT = Path(__file__).parents[2]


class Plain(yaml.SafeDumper):
    """Writes a value that is there twice twice, as people do."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Transcript:
    """The page being written, and the shell that it is a record of."""

    def __init__(self, name: str, home: Path, cluster: ControlPlane, path: str) -> None:
        self.home = home
        self.cluster = cluster
        self._name = name
        self._env = {"PATH": path, "HOME": str(home), "KUBECONFIG": "admin.kubeconfig", "TERM": "dumb"}
        self._page: list[str] = []
        self._children: list[subprocess.Popen[bytes]] = []

    def write(self, name: str, *documents: Object) -> None:
        """A file of the run, `name`.yaml."""
        (self.home / f"{name}.yaml").write_text(yaml.dump_all(documents, Dumper=Plain, sort_keys=False))

    def copy(self, *manifests: str) -> None:
        """Files of manifests/."""
        for name in manifests:
            shutil.copy(ROOT / "manifests" / name, self.home)

    def account(self, component: str, kubeconfig: str = "") -> None:
        """A kubeconfig with the token of a component's service account, which has to be there already."""
        token = self.cluster.service_account_token("berth", f"berth-{component}")
        self.cluster.kubeconfig(self.home / f"{kubeconfig or component}.kubeconfig", token)

    def recorded(self) -> str:
        """How a page says when, with what and where it was recorded."""
        now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
        python = platform.python_version()
        return f"Recorded on {now} by `python -m bench.record {self._name}` on {os.cpu_count()} cores, Python {python}"

    def say(self, *lines: str) -> None:
        """Text between the commands."""
        self._page += ["", *lines, ""]

    def run(self, command: str) -> str:
        """Run a command and record it with what it printed."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.home,
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
        child = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.home, env=self._env)
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
        text = text.replace("|\n\n|", "|\n|")  # rows
        return re.sub(r"(^- .*`)\n\n(?=- `)", r"\1\n", text, flags=re.MULTILINE)  # commands in a list

    def _clean(self, output: str) -> str:
        for found, name in ((str(self.home), "."), (str(ROOT), "berth"), (platform.node(), "host")):
            output = output.replace(found, name)
        output = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:6443", output)
        return "\n".join(line.rstrip() for line in output.splitlines())


@dataclass(frozen=True, slots=True)
class Recording:
    """One page, and how its run goes; `tools` are on the PATH beside kubectl and berth."""

    page: str
    run: Callable[[Transcript], None]
    audit: bool = False
    tools: Mapping[str, Callable[[], Path]] = field(default_factory=dict)


def write(name: str, recording: Recording, *, to_page: bool) -> None:
    """Record a run on a control plane of its own; into docs/evidence/, or else to standard output."""
    page = ROOT / "docs" / "evidence" / recording.page
    with tempfile.TemporaryDirectory() as directory, ControlPlane(audit=recording.audit) as cluster:
        home = Path(directory)
        programs = home / "bin"
        programs.mkdir()
        tools = {tool: command() for tool, command in recording.tools.items()}
        for tool, program in {"kubectl": cluster.tool("kubectl"), "berth": Path(BERTH), **tools}.items():
            (programs / tool).symlink_to(program)
        cluster.kubeconfig(home / "admin.kubeconfig")
        transcript = Transcript(name, home, cluster, f"{programs}:{os.environ['PATH']}")
        try:
            recording.run(transcript)
        finally:
            transcript.close()
    if not to_page:
        print(transcript.text(), end="")
        return
    page.write_text(transcript.text())
    print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)
