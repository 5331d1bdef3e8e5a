"""Build Helm once, into the user's cache; `python -m tests.chart.build`.

It shares the versions of most packages with the control plane (see `replace` in go.mod), so after that was built, Go's
build cache has most of it: 80 seconds of CPU instead of several minutes. Exit codes as for `tests.controlplane.build`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane import golang
from tests.controlplane.build import GO_WANTED, VERSION, cache
from tests.controlplane.golang import BuildError, UnreachableError

HERE = Path(__file__).parent
PACKAGE = "helm.sh/helm/v3/cmd/helm"


def _stamps() -> str:
    """Linker flags that make Helm render for our Kubernetes, as its Makefile does for its own."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    rooms = (f"helm.sh/helm/v3/pkg/{room}.k8sVersion" for room in ("chartutil", "lint/rules"))
    return " ".join(["-s -w"] + [f"-X {room}Major={major} -X {room}Minor={minor}" for room in rooms])


# Those of the control plane, or Go's build cache would have none of it.
FLAGS = ("-trimpath", "-tags", "selinux,notest,grpcnotrace", "-ldflags", _stamps())


def place() -> Path:
    """The directory for exactly these sources and flags on this kind of machine."""
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((HERE / file).read_bytes())
    digest.update(" ".join((*FLAGS, sys.platform, os.uname().machine)).encode())
    return cache() / "helm" / digest.hexdigest()[:16]


def helm() -> Path:
    """The helm command, built first when it is not there; raise UnreachableError or BuildError."""
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target)
    return target / "helm"


def _build(target: Path) -> None:
    print("Building Helm for tests: once, about a minute on 2 cores.", file=sys.stderr, flush=True)
    go = golang.find(GO_WANTED, cache())
    partial = target.with_suffix(".partial")  # whoever holds the lock owns it
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    # Two steps, as only the first may blame the network.
    for command, failed in (
        ([go, "list", "-deps", *FLAGS[:3], PACKAGE], golang.download_failure),
        ([go, "build", *FLAGS, "-o", f"{partial}/", PACKAGE], golang.failure),
    ):
        done = subprocess.run(command, cwd=HERE, env=golang.environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise failed(f"go {command[1]} {PACKAGE}", done.stderr)
    partial.rename(target)


def main() -> int:
    """Build if needed, and print the path."""
    try:
        print(helm())
    except UnreachableError as error:
        print(f"Helm can't be built here, what it needs is out of reach: {error}", file=sys.stderr)
        return 3
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
