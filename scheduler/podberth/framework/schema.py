"""The JSON Schema of a KubeSchedulerConfiguration, for editors: made from the structs that decode one.

A field's description is the docstring below it. What a schema can't say is left to `decode` and `build_profile`: names
that must differ, durations of which one is longer than the other. It is stricter in one way: it takes no null.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any

import msgspec
from msgspec import Struct

from podberth.framework.config import KIND, PluginConfig, PluginSet, SchedulerConfiguration
from podberth.model.mistakes import types_within

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"
_TYPE_OF_ARGS: dict[str, Any] = {
    name: {"type": "string", "description": "Accepted, no effect: kube-scheduler writes it."}
    for name in ("apiVersion", "kind")
}


def configuration_schema(plugins: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, with the arguments of each of these plugins (by name, the classes), which alone are known."""
    roots = [SchedulerConfiguration, *(plugin.Args for plugin in plugins.values())]
    schemas, found = msgspec.json.schema_components(roots, ref_template=_REF)
    places = dict(zip(("", *plugins), (one["$ref"].removeprefix(_REF[:-6]) for one in schemas), strict=True))
    for root in roots:
        for struct in types_within(root):
            _describe(found[_name_in(found, struct)], struct)
    for schema in found.values():
        _simplify(schema)
    for plugin in plugins:
        found[places[plugin]]["properties"] |= _TYPE_OF_ARGS
    enabled = found[PluginSet.__name__]["properties"]["enabled"]
    enabled["items"] = {"allOf": [enabled["items"], {"properties": {"name": {"enum": list(plugins)}}}]}
    args = found[PluginConfig.__name__]
    args["properties"]["name"]["enum"] = list(plugins)
    args["allOf"] = [
        {"if": _names(plugin), "then": {"properties": {"args": {"$ref": _REF.format(name=places[plugin])}}}}
        for plugin in plugins
    ]
    root = found.pop(places[""])
    root |= {"title": KIND, "required": ["apiVersion", "kind"]}
    return {"$schema": DIALECT, **root, "$defs": found}


def _names(plugin: str) -> dict[str, Any]:
    return {"properties": {"name": {"const": plugin}}, "required": ["name"]}


def _name_in(found: Mapping[str, Any], struct: type[Struct]) -> str:
    """Return what msgspec calls a struct: its name, with the module where two have the same."""
    full = re.sub(r"[^\w.-]", "_", f"{struct.__module__}.{struct.__qualname__}")
    return full if full in found else struct.__name__


def _describe(schema: dict[str, Any], struct: type[Struct]) -> None:
    """Add the docstrings of a struct and of its fields."""
    doc = vars(struct).get("__doc__")
    schema.pop("description", None)
    if doc:
        schema["description"] = " ".join(doc.partition("\n\n")[0].split())
    names = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base.__module__ != "msgspec":
            for name, text in _docstrings(base):
                if name in names:
                    schema["properties"][names[name]]["description"] = text


def _docstrings(struct: type[Struct]) -> Iterator[tuple[str, str]]:
    """Yield each field that a class declares, with the docstring below it; nothing where its source is not there."""
    try:
        source = inspect.getsource(struct)
    except OSError:
        return
    [body] = ast.parse(dedent(source)).body
    assert isinstance(body, ast.ClassDef)
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())


def _simplify(schema: dict[str, Any]) -> None:
    """Leave out null, and defaults that say nothing."""
    for name, value in schema.get("properties", {}).items():
        schema["properties"][name] = value = _without_null(value)
        if value.get("default") in (None, "") or isinstance(value["default"], dict):
            value.pop("default", None)
        if "items" in value:
            value["items"] = _without_null(value["items"])
    if not schema.get("required"):
        schema.pop("required", None)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
