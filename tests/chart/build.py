"""Build Helm, kubeconform and promtool once, into the user's cache; `python -m tests.chart.build [NAME]`.

They share the versions of most packages with the control plane (see `replace` in the go.mod files), so after that was
built, Go's build cache has most of them: two minutes of CPU instead of many.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.controlplane.build import VERSION
from tests.controlplane.once import main
from tests.controlplane.program import Program

HERE = Path(__file__).parent


def _stamps() -> str:
    """Linker flags that make Helm render for our Kubernetes, as its Makefile does for its own."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    rooms = (f"helm.sh/helm/v3/pkg/{room}.k8sVersion" for room in ("chartutil", "lint/rules"))
    return " ".join(["-s -w"] + [f"-X {room}Major={major} -X {room}Minor={minor}" for room in rooms])


HELM = Program("helm", HERE, ("helm.sh/helm/v3/cmd/helm",), linker=_stamps())
KUBECONFORM = Program("kubeconform", HERE, ("github.com/yannh/kubeconform/cmd/kubeconform",))
# Service discovery of clouds is half of Prometheus, and no rule needs it.
PROMTOOL = Program(
    "promtool",
    HERE / "promtool",
    ("github.com/prometheus/prometheus/cmd/promtool",),
    tags="selinux,notest,grpcnotrace,remove_all_sd",
)
TOOLS = {tool.name: tool for tool in (HELM, KUBECONFORM, PROMTOOL)}  # in the order of what they share

if __name__ == "__main__":
    sys.exit(main("What tests the chart", (TOOLS[name].command for name in sys.argv[1:] or TOOLS)))
