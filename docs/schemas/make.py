"""Write the JSON Schemas of a KubeSchedulerConfiguration and of a MetadataPolicy, for editors.

`make schemas` runs this; tests hold the files equal. The first is what `berth config schema` prints without installed
plugins. The second is made from the CRD, and the package has it for `berth policy schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from podberth.framework.schema import DIALECT, configuration_schema
from podberth.plugins.registry import IN_TREE
from podberth.policy.spec import GROUP, KIND, VERSION

ROOT = Path(__file__).parents[2]
CRD = ROOT / "helm" / "files" / "crd-metadatapolicies.yaml"
CONFIGURATION = Path(__file__).parent / "kubeschedulerconfiguration.json"
POLICY = ROOT / "scheduler" / "podberth" / "policy" / "schema.json"


def policy_schema() -> dict[str, Any]:
    """The CRD's schema as one of JSON: without the API server's rules, and open nowhere that the API server is not."""
    found = _closed(yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    fields = found["properties"]
    fields["apiVersion"] = {"const": f"{GROUP}/{VERSION}", "description": "The version of this format."}
    fields["kind"] = {"const": KIND, "description": "The kind of this object."}
    fields["metadata"] = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The policy's name."},
            "namespace": {"type": "string", "description": "The namespace whose objects the policy is about."},
        },
        "description": "The name and the namespace, and whatever else every object may have.",
    }
    found["required"] = ["apiVersion", "kind", "metadata", *(name for name in found["required"] if name == "spec")]
    return {"$schema": DIALECT, "title": KIND, **found}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if made.get("type") == "object" and isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def files() -> dict[Path, str]:
    """What each file should hold."""
    made = {CONFIGURATION: configuration_schema(IN_TREE), POLICY: policy_schema()}
    return {path: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for path, schema in made.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
