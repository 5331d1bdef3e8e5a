"""Build Helm, kubeconform and promtool once, into the user's cache; `python -m tests.chart.build [NAME]`.

They share the versions of most packages with the control plane (see `replace` in the go.mod files), so after that was
built, Go's build cache has most of them: two minutes of CPU instead of many. Exit codes as for
`tests.controlplane.build`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import golang
from tests.controlplane.build import GO_WANTED, VERSION, cache
from tests.controlplane.golang import BuildError, UnreachableError

HERE = Path(__file__).parent


def _stamps() -> str:
    """Linker flags that make Helm render for our Kubernetes, as its Makefile does for its own."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    rooms = (f"helm.sh/helm/v3/pkg/{room}.k8sVersion" for room in ("chartutil", "lint/rules"))
    return " ".join(["-s -w"] + [f"-X {room}Major={major} -X {room}Minor={minor}" for room in rooms])


@dataclass(frozen=True, slots=True)
class Tool:
    """A command of a Go module. Flags and tags are the control plane's, or Go's build cache would have none of it."""

    package: str
    module: Path = HERE
    tags: str = "selinux,notest,grpcnotrace"
    linker: str = "-s -w"

    @property
    def name(self) -> str:
        """The command's."""
        return self.package.rpartition("/")[2]

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of `go build`, without -o."""
        return ("-trimpath", "-tags", self.tags, "-ldflags", self.linker)

    def place(self) -> Path:
        """The directory for exactly these sources and flags on this kind of machine."""
        digest = hashlib.sha256()
        for file in ("go.mod", "go.sum"):
            digest.update((self.module / file).read_bytes())
        digest.update(" ".join((*self.flags, sys.platform, os.uname().machine)).encode())
        return cache() / self.name / digest.hexdigest()[:16]

    def built(self) -> Path:
        """The command, built first when it is not there; raise UnreachableError or BuildError."""
        target = self.place()
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                self._build(target)
        return target / self.name

    def _build(self, target: Path) -> None:
        print(f"Building {self.name} for tests: once, about a minute on 2 cores.", file=sys.stderr, flush=True)
        go = golang.find(GO_WANTED, cache())
        partial = target.with_suffix(".partial")  # whoever holds the lock owns it
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        # Two steps, as only the first may blame the network.
        for verb, options, failed in (
            ("list", ("-deps", *self.flags[:3]), golang.download_failure),
            ("build", (*self.flags, "-o", f"{partial}/"), golang.failure),
        ):
            command = [str(go), verb, *options, self.package]
            done = subprocess.run(command, cwd=self.module, env=golang.environment(), capture_output=True, text=True)
            if done.returncode != 0:
                raise failed(f"go {verb} {self.package}", done.stderr)
        partial.rename(target)


HELM = Tool("helm.sh/helm/v3/cmd/helm", linker=_stamps())
KUBECONFORM = Tool("github.com/yannh/kubeconform/cmd/kubeconform")
# Service discovery of clouds is half of Prometheus, and no rule needs it.
PROMTOOL = Tool(
    "github.com/prometheus/prometheus/cmd/promtool",
    HERE / "promtool",
    "selinux,notest,grpcnotrace,remove_all_sd",
)
TOOLS = {tool.name: tool for tool in (HELM, KUBECONFORM, PROMTOOL)}  # in the order of what they share


def module(name: str, version: str) -> Path:
    """The sources of a Go module, downloaded when they are not there; raise UnreachableError or BuildError."""
    go = golang.find(GO_WANTED, cache())
    command = [str(go), "mod", "download", "-json", f"{name}@{version}"]
    done = subprocess.run(command, cwd="/", env=golang.environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise golang.download_failure(f"downloading {name} {version}", done.stdout + done.stderr)
    return Path(json.loads(done.stdout)["Dir"])


def main() -> int:
    """Build what is named, or everything, and print the paths."""
    try:
        for name in sys.argv[1:] or TOOLS:
            print(TOOLS[name].built())
    except UnreachableError as error:
        print(f"The chart's tools can't be built here, what they need is out of reach: {error}", file=sys.stderr)
        return 3
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
