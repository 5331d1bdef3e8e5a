"""Build etcd, kube-apiserver, kube-scheduler and kubectl once, and what is compiled with their sources.

Run as `python -m tests.controlplane.build` (which `make controlplane` does). Standard library only: it may be the first
thing that a fresh clone runs.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

from tests.controlplane.once import BuildError, main
from tests.controlplane.program import Program

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
VERSION = re.findall(r"^(?:require)?\s+k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)[0]
BINARIES = ("etcd", "kube-apiserver", "kube-scheduler", "kubectl")


def stamps(version: str) -> str:
    """Linker flags that make binaries answer with their release, as upstream's hack/lib/version.sh does."""
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {"gitMajor": major, "gitMinor": minor, "gitVersion": version, "gitCommit": "", "gitTreeState": "clean"}
    modules = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w"] + [f"-X {module}.{name}={value}" for module in modules for name, value in facts.items()])


# The tags are upstream's (hack/lib/golang.sh); grpcnotrace lets the linker drop unused code.
CONTROL_PLANE = Program(
    "controlplane",
    HERE,
    ("./etcd", *(f"k8s.io/kubernetes/cmd/{name}" for name in BINARIES[1:])),
    (HERE / "etcd" / "main.go",),
    linker=stamps(VERSION),
    long="about 7 minutes on 2 cores",
)
# Compiled in the control plane's module and with its flags: all packages but their own are shared.
_OURS = replace(CONTROL_PLANE, packages=(), long="half a minute after the control plane")
ORACLE = replace(_OURS, name="oracle", sources=tuple(sorted((HERE.parent / "differential" / "oracle").glob("*.go"))))
"""Of tests/differential."""
CEL = replace(_OURS, name="cel", sources=(HERE.parent / "differential" / "cel" / "main.go",))
"""Kubernetes' compiler of device selectors; of tests/differential."""
GARBAGE_COLLECTOR = replace(_OURS, name="gc", sources=(HERE / "gc" / "main.go",))
"""kube-controller-manager's, alone."""
QOS = replace(_OURS, name="qos", sources=(HERE / "qos" / "main.go",))
"""Kubernetes' functions for a pod's class; of tests/unit/policy/record_qos.py."""

NULL_SERVER = replace(_OURS, name="nullserver", sources=tuple(sorted((ROOT / "bench" / "nullserver").glob("*.go"))))
"""An API server that does almost nothing; of bench/null_server.py."""


def binaries() -> Path:
    """The directory with the binaries, built first when they are not there; raise UnreachableError or BuildError."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if not given:
        return CONTROL_PLANE.built()
    missing = [name for name in ("etcd", "kube-apiserver") if not (Path(given) / name).is_file()]
    if missing:
        raise BuildError(f"KUBEBUILDER_ASSETS={given} has no {' and no '.join(missing)}")
    return Path(given)


if __name__ == "__main__":
    sys.exit(
        main(
            "The control plane", (binaries, ORACLE.command, CEL.command, GARBAGE_COLLECTOR.command, NULL_SERVER.command)
        )
    )
