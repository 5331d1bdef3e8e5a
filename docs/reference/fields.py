"""Write docs/reference/configuration.md and metadatapolicy.md from the schemas for editors.

`make reference` runs this; a test holds the pages equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.schemas.make import policy_schema
from podberth.framework.schema import configuration_schema
from podberth.plugins.registry import IN_TREE

HERE = Path(__file__).parent
CONFIGURATION = """\
# Every field of a configuration

`make reference` writes this page from the code. A `KubeSchedulerConfiguration` is decoded into these types;
[configuration](../configuration.md) says what they are for. Fields without a default may be absent, unless they are
required. Types that end in `Args` are what `pluginConfig` may give to the plugin of that name. Plugins that are not
here take no arguments, and GangScheduling ignores those that it does not know.
"""
POLICY = """\
# Every field of a MetadataPolicy

`make reference` writes this page from the custom resource definition. [MetadataPolicy](../policy.md) says what the
fields are for.
"""
_NO_FIELDS = ("AnyArgs", "NoArgs")


def pages() -> dict[Path, str]:
    """Each page's text."""
    configuration = configuration_schema(IN_TREE)
    types = configuration["$defs"]
    types = {name: types[name] for name in (*_reached(configuration, types), *sorted(types)) if name not in _NO_FIELDS}
    sections = [("KubeSchedulerConfiguration", configuration), *types.items()]
    return {
        HERE / "configuration.md": CONFIGURATION + "".join(_section(name, schema) for name, schema in sections),
        HERE / "metadatapolicy.md": POLICY
        + "".join(_section(*found) for found in _nested("MetadataPolicy", policy_schema())),
    }


def _reached(schema: dict[str, Any], types: dict[str, Any]) -> list[str]:
    """The types of a schema's fields and of theirs, each behind the one that first has it."""
    found: list[str] = []
    for field in schema["properties"].values():
        inner = field.get("items", field)
        [inner] = inner.get("allOf", [inner])[:1]
        if "$ref" in inner:
            name = inner["$ref"].rpartition("/")[2]
            found += [name, *_reached(types[name], types)]
    return list(dict.fromkeys(found))


def _nested(title: str, schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """An object, and those within its fields by their paths."""
    yield title, schema
    for name, field in schema["properties"].items():
        where = f"{path}.{name}".lstrip(".")
        while field.get("type") == "array":
            field, where = field["items"], f"{where}[]"
        if "properties" in field:
            yield from _nested(where, field, where)


def _section(title: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    about = f"{schema['description']}\n\n" if "description" in schema else ""
    rows = [
        f"| `{name}` | {_type(field)} | {_default(field, name in required)} | {_meaning(field)} |\n"
        for name, field in schema["properties"].items()
        if not (title.endswith("Args") and name in ("apiVersion", "kind"))
    ]
    return f"\n## {title}\n\n{about}| field | type | default | meaning |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def _type(schema: dict[str, Any]) -> str:
    [one] = schema.get("allOf", [schema])[:1]
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"]) if len(schema["enum"]) < 9 else "string"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    least, most = (schema.get(key) for key in ("minimum", "maximum"))
    if most is not None:
        return f"{least:,} to {most:,}"
    return str(schema.get("type", "string")) + (f", at least {least}" if least is not None else "")


def _default(schema: dict[str, Any], required: bool) -> str:
    if "const" in schema:
        return f"`{schema['const']}` alone"
    if required:
        return "required"
    return f"`{json.dumps(schema['default']).strip(chr(34))}`" if schema.get("default") not in (None, []) else ""


def _meaning(schema: dict[str, Any]) -> str:
    return " ".join(schema.get("description", "").split()).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
