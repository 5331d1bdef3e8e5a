"""What the API server accepts, as one small file: the types of the supported versions' OpenAPI documents.

`podberth/explain/judging/schema.py` reads the file. A field is kept when any version has it, and required when all of
them require it. The documents do not say which texts an enum allows, so these come from the markers in k8s.io/api.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.controlplane import golang
from tests.controlplane.once import UnreachableError

VERSIONS = ("1.32.0", "1.37.0")
"""The oldest and the newest that are supported: fields of the API are added, and stay."""
FILE = Path(__file__).parents[2] / "scheduler" / "podberth" / "explain" / "judging" / "schemas.json"
_REF = "#/components/schemas/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_GROUPS = "v1|apps__v1|batch__v1|policy__v1|scheduling.k8s.io__v1|storage.k8s.io__v1|resource.k8s.io__v1"
_MORE = "node.k8s.io__v1|networking.k8s.io__v1|rbac.authorization.k8s.io__v1|autoscaling__v2"
_DOCUMENT = re.compile(r"(?:api|apis)__(?:(\S+)__)?(v\w+)_openapi\.json")
_WANTED = re.compile(rf"(?:api|apis)__(?:{_GROUPS}|{_MORE})_openapi\.json")
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t\w+\s+(?:\[\]|\*)*(\w+)\s+`json:\"(\w+)", re.MULTILINE)
_ENUM = re.compile(r"^// \+enum\n(?://.*\n)*type (\w+) string", re.MULTILINE)
_VALUE = re.compile(r"^\t\w+\s+(\w+)\s*=\s*\"([^\"]*)\"", re.MULTILINE)
_NO_LIMIT = ("ConditionType", "Phase")
"""Ends of the names of enums that the API server does not hold anyone to."""

Object = dict[str, Any]


def made() -> str:
    """The file's text; raise UnreachableError or BuildError."""
    types: dict[str, Object] = {}
    kinds: dict[str, str] = {}
    found = [_of_version(version) for version in VERSIONS]
    for schemas in found:
        for name, schema in schemas.items():
            if "properties" not in schema:
                continue
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                if not gvk["kind"].endswith(("List", "Options", "WatchEvent")):
                    group = f"{gvk['group']}/" if gvk["group"] else ""
                    kinds[f"{group}{gvk['version']} {gvk['kind']}"] = _short(name)
            fields = {field: _type(value, schemas) for field, value in schema["properties"].items()}
            known = types.setdefault(_short(name), {"fields": {}, "required": set(schema.get("required", ()))})
            known["fields"] |= fields
            known["required"] &= set(schema.get("required", ()))
    enums = dict(_enums())
    for name, body in types.items():
        for field, allowed in enums.get(name, {}).items():
            if body["fields"].get(field) == "string":
                body["fields"][field] = f"={'|'.join(allowed)}"
    kept = _reached(kinds.values(), types)
    lines = [json.dumps(name) + ": " + json.dumps(_body(types[name])) for name in sorted(kept)]
    about = json.dumps(list(VERSIONS))
    listed = ",\n".join(f"{json.dumps(kind)}: {json.dumps(name)}" for kind, name in sorted(kinds.items()))
    served = json.dumps(_served())
    head = f'{{"versions": {about},\n"served": {served},\n"kinds": {{\n{listed}}},\n'
    return head + '"types": {\n' + ",\n".join(lines) + "}}\n"


def _of_version(version: str) -> dict[str, Object]:
    files = sorted(file for file in _home(version).iterdir() if _WANTED.fullmatch(file.name))
    schemas: dict[str, Object] = {}
    for file in files:
        schemas |= json.loads(file.read_text())["components"]["schemas"]
    return schemas


def _short(name: str) -> str:
    return ".".join(name.removeprefix("io.k8s.").replace("apimachinery.pkg.apis.", "").split(".")[-3:])


def _served() -> list[str]:
    """Every `group/version`, also those of which no type is kept."""
    files = [file.name for version in VERSIONS for file in _home(version).iterdir()]
    found = [match for match in map(_DOCUMENT.fullmatch, files) if match]
    return sorted({f"{match[1]}/{match[2]}" if match[1] else match[2] for match in found})


def _home(version: str) -> Path:
    return golang.module("k8s.io/kubernetes", f"v{version}") / "api" / "openapi-spec" / "v3"


def _type(schema: Object, schemas: dict[str, Object]) -> str:
    """A type as a few characters: `[int32]`, `{quantity}`, `core.v1.PodSpec`, `any`."""
    reference = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
    if reference is not None:
        name = reference.removeprefix(_REF)
        scalar = {_QUANTITY: "quantity", _INT_OR_STRING: "int-or-string"}
        if name in scalar:
            return scalar[name]
        return f"&{_short(name)}" if "properties" in schemas[name] else _type(schemas[name], schemas)
    match schema.get("type"):
        case "array":
            return f"[{_type(schema['items'], schemas)}]"
        case "object" if "additionalProperties" in schema:
            return f"{{{_type(schema['additionalProperties'], schemas)}}}"
        case "integer":
            return str(schema.get("format", "int64"))
        case "string" | "boolean" | "number" as simple:
            return str(simple)
    return "any"


def _body(body: Object) -> Object:
    made: Object = {"fields": dict(sorted(body["fields"].items()))}
    if body["required"]:
        made["required"] = sorted(body["required"])
    return made


def _reached(names: Any, types: dict[str, Object]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [field.strip("[]{}&") for field in types[name]["fields"].values() if "&" in field]
    return reached


def _enums() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """(type, field → allowed texts) by the markers in the API's own sources."""
    home = golang.module("k8s.io/api", f"v0{VERSIONS[-1][1:]}")
    for source in sorted(home.glob("*/*/types.go")):
        text = source.read_text()
        enums: dict[str, list[str]] = {name: [] for name in _ENUM.findall(text) if not name.endswith(_NO_LIMIT)}
        for name, value in _VALUE.findall(text):
            if name in enums:
                enums[name].append(value)
        group, version = source.parts[-3:-1]
        for struct, body in _STRUCT.findall(text):
            fields = {field: enums[kind] for kind, field in _FIELD.findall(body) if enums.get(kind)}
            if fields:
                yield f"{group}.{version}.{struct}", fields


def main() -> int:
    """Write the file; 3 when the sources can't be downloaded."""
    try:
        FILE.write_text(made())
    except UnreachableError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
