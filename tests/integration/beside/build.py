"""Build what tests run beside Berth, each from its Go modules, once.

That is Kueue's manager, the descheduler, a command that asks Karpenter's own code, and an OpenTelemetry Collector.
They want other releases of what they share with the control plane, so they share little with it.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.controlplane import golang
from tests.controlplane.program import Program

HERE = Path(__file__).parent
_KUEUE = "sigs.k8s.io/kueue"

KUEUE = Program("kueue", HERE / "kueue", (f"{_KUEUE}/cmd/kueue",), long="about 5 minutes on 2 cores")
KARPENTER = Program(
    "karpenter", HERE / "karpenter", sources=(HERE / "karpenter" / "main.go",), long="about 2 minutes on 2 cores"
)
DESCHEDULER = Program(
    "descheduler", HERE / "descheduler", ("sigs.k8s.io/descheduler/cmd/descheduler",), long="about 3 minutes on 2 cores"
)
COLLECTOR = Program(
    "collector", HERE / "collector", sources=(HERE / "collector" / "main.go",), long="about 2 minutes on 2 cores"
)


def kueue_module() -> Path:
    """Return the directory of Kueue's module, which has its manifests; raise UnreachableError or BuildError."""
    [version] = re.findall(rf"^\s+{re.escape(_KUEUE)} (v\S+)", (HERE / "kueue" / "go.mod").read_text(), re.MULTILINE)
    return golang.module(_KUEUE, version)
