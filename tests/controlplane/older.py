"""Build kube-apiserver of an older Kubernetes, once: `python -m tests.controlplane.older 1.32` prints its directory.

The directory has etcd, too, which is that of the newest one. `KUBEBUILDER_ASSETS` takes it, and then tests that start a
control plane start this one; kube-scheduler and kubectl are those of the newest release. `make older` does so.

There is a folder `older/<version>` for each release that can be built, with what its modules are pinned to.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.controlplane import build
from tests.controlplane.once import main
from tests.controlplane.program import Program

HERE = Path(__file__).parent / "older"


def versions() -> list[str]:
    """What can be built, such as 1.32; the oldest first."""
    return sorted((folder.name for folder in HERE.iterdir()), key=lambda name: int(name.split(".")[1]))


def program(version: str) -> Program:
    """kube-apiserver of a release."""
    module = HERE / version
    [patch] = re.findall(r"^require k8s\.io/kubernetes (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    return Program(
        f"older-{version}",
        module,
        ("k8s.io/kubernetes/cmd/kube-apiserver",),
        linker=build.stamps(patch),
        long="about 5 minutes on 2 cores",
    )


def binaries(version: str) -> Path:
    """The directory with etcd and kube-apiserver of a release, built first; raise UnreachableError or BuildError."""
    directory = program(version).built()
    etcd = directory / "etcd"
    if not etcd.exists():
        etcd.unlink(missing_ok=True)
        etcd.symlink_to(build.CONTROL_PLANE.built() / "etcd")
    return directory


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in versions():
        sys.exit(f"usage: python -m tests.controlplane.older VERSION, one of {', '.join(versions())}")
    sys.exit(main(f"Kubernetes {sys.argv[1]}", (lambda: binaries(sys.argv[1]),)))
