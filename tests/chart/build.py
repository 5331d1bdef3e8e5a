"""Build what tests chart and release once, into the user's cache; `python -m tests.chart.build [NAME]`.

Helm, kubeconform and promtool share the versions of most packages with the control plane (see `replace` in the go.mod
files), so after that was built, Go's build cache has most of them: two minutes of CPU instead of many.
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
RELEASE = HERE.parent / "release"
ACTIONLINT = Program("actionlint", RELEASE, ("github.com/rhysd/actionlint/cmd/actionlint",))
HELM_DOCS = Program("helm-docs", RELEASE, ("github.com/norwoodj/helm-docs/cmd/helm-docs",))
KREW = Program("krew", RELEASE, ("sigs.k8s.io/krew/cmd/krew",))
KREW_VALIDATOR = Program("validate-krew-manifest", RELEASE, ("sigs.k8s.io/krew/cmd/validate-krew-manifest",))
_ALL = (HELM, KUBECONFORM, PROMTOOL, ACTIONLINT, HELM_DOCS, KREW, KREW_VALIDATOR)  # in the order of what they share
TOOLS = {tool.name.replace("-", "_"): tool for tool in _ALL}
"""Each by the name of its fixture."""

if __name__ == "__main__":
    sys.exit(main("What tests chart and release", (TOOLS[name].command for name in sys.argv[1:] or TOOLS)))
