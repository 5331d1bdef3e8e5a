"""Whether the chart's objects are valid for several Kubernetes versions, by each version's own OpenAPI document.

`make chart-versions`: some 50 MB a version, from the Go module k8s.io/kubernetes, which has the document in it. Strict:
unknown fields are errors. Kinds that Kubernetes does not have (cert-manager's, the Prometheus operator's) are named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.chart import build
from tests.chart.rendering import Chart, Object
from tests.chart.test_values import EVERYTHING
from tests.controlplane import golang
from tests.controlplane.build import GO_WANTED, cache

VERSIONS = ("1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0")
PYTHON = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int, "number": (int, float)}
LOOSE = {"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"}


class Api:
    """One version's kinds."""

    def __init__(self, swagger: Path) -> None:
        self.definitions: Object = json.loads(swagger.read_text())["definitions"]
        self.kinds = {
            (kind["group"], kind["version"], kind["kind"]): name
            for name, body in self.definitions.items()
            for kind in body.get("x-kubernetes-group-version-kind", ())
        }

    def errors(self, one: Object) -> Iterator[str]:
        """What is wrong with an object; a kind that is not there is an error of its own."""
        group, _, version = one["apiVersion"].rpartition("/")
        name = self.kinds.get((group, version, one["kind"]))
        if name is None:
            yield f"no kind {one['apiVersion']} {one['kind']}"
            return
        where = f"{one['kind']} {one['metadata']['name']}"
        yield from self._wrong(one, {"$ref": f"#/definitions/{name}"}, where)

    def _wrong(self, value: Any, schema: Object, path: str) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in LOOSE or name.endswith(".JSONSchemaProps"):
                return
            schema = self.definitions[name]
        wanted = PYTHON.get(schema.get("type", ""))
        if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
            yield f"{path}: {value!r} is no {schema['type']}"
        elif isinstance(value, list):
            for i, item in enumerate(value):
                yield from self._wrong(item, schema.get("items", {}), f"{path}[{i}]")
        elif isinstance(value, dict):
            properties, more = schema.get("properties", {}), schema.get("additionalProperties")
            for key in set(schema.get("required", ())) - set(value):
                yield f"{path}.{key}: required"
            for key, item in value.items():
                if key in properties:
                    yield from self._wrong(item, properties[key], f"{path}.{key}")
                elif more:
                    yield from self._wrong(item, more, f"{path}.{key}")
                elif properties:
                    yield f"{path}.{key}: unknown"


def swagger(version: str) -> Path:
    """A version's document, downloaded when it is not there; raise UnreachableError or BuildError."""
    go = golang.find(GO_WANTED, cache())
    command = [go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"]
    done = subprocess.run(command, cwd="/", env=golang.environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise golang.download_failure(f"downloading Kubernetes {version}", done.stdout + done.stderr)
    return Path(json.loads(done.stdout)["Dir"]) / "api" / "openapi-spec" / "swagger.json"


def main() -> int:
    """Print a line for each version; 1 when an object is not valid."""
    objects = Chart(build.helm(), Path.home()).objects(EVERYTHING)
    own = [one for one in objects if ".k8s.io/" in one["apiVersion"] or "." not in one["apiVersion"]]
    foreign = sorted({one["kind"] for one in objects if one not in own})
    print(f"{len(own)} objects; not looked at: {', '.join(foreign)}")
    found = 0
    for version in VERSIONS:
        api = Api(swagger(version))
        errors = [error for one in own for error in api.errors(one)]
        print(f"{version}: {len(errors)} errors", *errors, sep="\n  ")
        found += len(errors)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
