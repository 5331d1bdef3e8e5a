"""Make what follows from the chart and the code: these manifests, and the configuration's part of the values' schema.

`make manifests`. One file for each template of the chart, as `helm template berth helm -n berth` renders it with the
evictor on; the CRD as the chart has it. `kustomization.yaml` and `namespace.yaml` are written by hand.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from podberth.framework.config import SchedulerConfiguration

HERE = Path(__file__).parent
CHART = HERE.parent / "helm"
CRD = "crd-metadatapolicies.yaml"
CONFIG = "config."
SOURCE = re.compile(r"^---\n# Source: berth/templates/(\S+)\n", re.MULTILINE)
HELMS = re.compile(r"^ +(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)
HEAD = "# Made from helm/templates/{} by `make manifests`; for other names, namespaces or images use the chart.\n"


def rendered(helm: Path) -> dict[str, str]:
    """What `helm template` gives, by file name."""
    command = [helm, "template", "berth", CHART, "--namespace=berth", "--set=evictor.enabled=true", "--skip-tests"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, *parts = SOURCE.split(text)
    files: dict[str, list[str]] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        files.setdefault(name, []).append(HELMS.sub("", body).strip() + "\n")
    made = {name: HEAD.format(name) + "---\n".join(bodies) for name, bodies in files.items()}
    return {**made, CRD: (CHART / "files" / CRD).read_text()}


def schema() -> str:
    """values.schema.json, with the configuration's definitions as Berth decodes them."""
    document = json.loads((CHART / "values.schema.json").read_text())
    template = "#/$defs/" + CONFIG + "{name}"
    _, found = msgspec.json.schema_components([SchedulerConfiguration], ref_template=template)
    ours = {name: body for name, body in document["$defs"].items() if not name.startswith(CONFIG)}
    theirs = {CONFIG + name: _without_defaults(found[name]) for name in sorted(found)}
    document["$defs"] = ours | theirs
    return json.dumps(document, indent=2) + "\n"


def _without_defaults(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition less the defaults: Helm has no use for them."""
    properties = {
        name: {key: value for key, value in body.items() if key != "default"}
        for name, body in definition.get("properties", {}).items()
    }
    return {**definition, "properties": properties}


def main(helm: Path) -> None:
    """Write them all."""
    (CHART / "values.schema.json").write_text(schema())
    for name, text in rendered(helm).items():
        (HERE / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
