"""Build Kubernetes' end-to-end tests, kube-controller-manager, kwok and ginkgo once; `python -m tests.e2e.build`.

They share the versions of most packages with the control plane, so Go's build cache has those after it was built.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.controlplane.build import VERSION, binaries, stamps
from tests.controlplane.golang import module
from tests.controlplane.once import main
from tests.controlplane.program import Program

HERE = Path(__file__).parent
_KWOK = "sigs.k8s.io/kwok"
_GINKGO = "github.com/onsi/ginkgo/v2/ginkgo"

COMMANDS = Program(
    "e2e",
    HERE,
    ("k8s.io/kubernetes/cmd/kube-controller-manager", f"{_KWOK}/cmd/kwok", _GINKGO),
    linker=stamps(VERSION),
    long="about 3 minutes on 2 cores, after the control plane",
)
TESTS = Program(
    "e2e.test",
    HERE,
    ("k8s.io/kubernetes/test/e2e",),
    linker=stamps(VERSION),
    tests=True,
    long="about 5 minutes on 2 cores, after the control plane",
)


def built() -> Path:
    """Build all of it, and return the command that has the tests; raise UnreachableError or BuildError."""
    COMMANDS.built()
    return TESTS.command()


def kwok_stages() -> list[Path]:
    """Return the files in kwok's own module that say how nodes become ready and pods run.

    Raise UnreachableError or BuildError if the module can't be had.
    """
    [version] = re.findall(rf"^(?:require)?\s+{re.escape(_KWOK)} (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    stages = module(_KWOK, version) / "kustomize" / "stage"
    names = (
        "node/fast/node-initialize",
        "node/heartbeat-with-lease/node-heartbeat-with-lease",
        "pod/fast/pod-ready",
    )
    return [stages / f"{name}.yaml" for name in names]


if __name__ == "__main__":
    sys.exit(main("What runs Kubernetes' end-to-end tests", (binaries, built)))
