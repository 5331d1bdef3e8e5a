"""Whether objects are valid for several Kubernetes versions: kubeconform, with schemas from each one's own document.

The schemas are kubeconform's usual kind (strict: unknown fields are errors), made here from the OpenAPI document in the
Go module k8s.io/kubernetes, and from CRDs: ours, cert-manager's and the Prometheus operator's, in those projects' Go
modules. `make chart-versions` asks all versions; tests ask the oldest and the newest, as others are 50 MB each.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.chart import build
from tests.chart.rendering import CHART, Chart, Object, documents
from tests.controlplane import golang

VERSIONS = ("1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0")
FOREIGN = {
    ("github.com/cert-manager/cert-manager", "v1.21.2"): (
        "deploy/crds/cert-manager.io_certificates.yaml",
        "deploy/crds/cert-manager.io_issuers.yaml",
    ),
    ("github.com/prometheus-operator/prometheus-operator", "v0.85.0"): (
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}
"""CRDs of what the chart renders for others, by module."""

LAYOUT = "{{.NormalizedKubernetesVersion}}/{{.Group}}-{{.ResourceAPIVersion}}-{{.ResourceKind}}.json"
AT = re.compile(r" - at '([^']*)': ")
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
NUMBER_OR_STRING: Object = {"anyOf": [{"type": "number"}, {"type": "string"}]}
LOOSE: dict[str, Object] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": NUMBER_OR_STRING,
}
"""Types of which an OpenAPI document of version 2 can say only one half."""


def foreign_crds() -> list[Path]:
    """The files, downloaded when they are not there; raise UnreachableError or BuildError."""
    return [golang.module(*name) / file for name, files in FOREIGN.items() for file in files]


class Kubeconform:
    """The command with schemas for some versions, written to a directory."""

    def __init__(self, command: Path, home: Path, versions: Iterable[str], crds: Iterable[Path]) -> None:
        self._command = command
        self._home = home
        read = [crd for file in crds for crd in documents(file.read_text())]
        for version in versions:
            swagger = golang.module("k8s.io/kubernetes", f"v{version}") / "api" / "openapi-spec" / "swagger.json"
            _write(home / f"v{version}", json.loads(swagger.read_text())["definitions"], read)

    def errors(self, version: str, objects: list[Object]) -> list[str]:
        """What is wrong: `Kind name.path: message`; a kind without a schema is an error of its own."""
        schemas = f"-schema-location={self._home}/{LAYOUT}"
        done = subprocess.run(
            [self._command, "-strict", "-output=json", "-summary", f"-kubernetes-version={version}", schemas, "-"],
            input=yaml.safe_dump_all(objects),
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stderr
        answer = json.loads(done.stdout)
        assert sum(answer["summary"].values()) == len(objects), answer["summary"]
        return [said for resource in answer["resources"] for said in _said(resource)]


def _said(resource: Object) -> Iterator[str]:
    # Its list of errors ends at the first $ref, so they are taken from the text.
    where = f"{resource['kind']} {resource['name']}"
    found = [one.strip() for one in AT.split(resource["msg"])[1:]]
    for path, message in zip(found[::2], found[1::2], strict=True):
        if message != "validation failed":
            yield f"{where}{path.replace('/', '.')}: {message}"
    if not found:
        yield f"{where}: {resource['msg']}"


def _write(home: Path, definitions: Object, crds: list[Object]) -> None:
    home.mkdir()
    strict = {name: LOOSE.get(name) or _strict(body) for name, body in definitions.items()}
    (home / "definitions.json").write_text(json.dumps({"definitions": strict}))
    for name, body in definitions.items():
        for kind in body.get("x-kubernetes-group-version-kind", ()):
            schema = {"$ref": f"definitions.json#/definitions/{name}"}
            (home / _file(kind["group"], kind["version"], kind["kind"])).write_text(json.dumps(schema))
    for crd in crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            # A CRD says nothing of it, as it is the API server's.
            schema["properties"]["metadata"] = {"$ref": f"definitions.json#/definitions/{META}"}
            file = _file(spec["group"], version["name"], spec["names"]["kind"])
            (home / file).write_text(json.dumps(schema))


def _file(group: str, version: str, kind: str) -> str:
    """As LAYOUT has it; the core group is called by its version there."""
    return f"{group or version}-{version}-{kind.lower()}.json"


def _strict(schema: Any) -> Any:
    """The schema with every unknown field refused, but where it says that such are kept."""
    if not isinstance(schema, dict):
        return [_strict(each) for each in schema] if isinstance(schema, list) else schema
    if schema.get("x-kubernetes-int-or-string"):
        return NUMBER_OR_STRING
    properties = schema.get("properties")
    made = {key: _strict(value) for key, value in schema.items() if key not in ("properties", "default", "example")}
    if isinstance(properties, dict):
        made["properties"] = {name: _strict(value) for name, value in properties.items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    if made.pop("nullable", False) and "type" in made:
        made["type"] = [made["type"], "null"]
    return made


def main() -> int:
    """Print a line for each version; 1 when an object is not valid."""
    from tests.chart.test_values import EVERYTHING

    objects = Chart(build.HELM.command(), Path.home()).objects(EVERYTHING)
    found = 0
    with tempfile.TemporaryDirectory() as home:
        crds = [CHART / "files" / "crd-metadatapolicies.yaml", *foreign_crds()]
        kubeconform = Kubeconform(build.KUBECONFORM.built(), Path(home), VERSIONS, crds)
        for version in VERSIONS:
            errors = kubeconform.errors(version, objects)
            print(f"{version}: {len(objects)} objects, {len(errors)} errors", *errors, sep="\n  ")
            found += len(errors)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
