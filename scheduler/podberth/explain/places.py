"""Where in an object a field has the wrong type: the decoder's complaint as `field.path: value: what was expected`.

msgspec names a path inside of what it was decoding. Parts that the model decodes on their own (`podberth.model.wire`
keeps them raw) have lost the path to themselves: they are decoded again here, one by one, until one fails.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from podberth.model import wire
from podberth.model.mistakes import as_json, in_words, misfit

_TEXT = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>[^`]*)`)?$", re.S)
_AMOUNT = re.compile(r"`(?=[^`]*\bstr\b)(?=[^`]*\bint\b)(?=[^`]*\bfloat\b)[^`]*`")
"""The decoder's name of the type of a quantity."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_SHOWN = 60

_CONTAINER: dict[str, Any] = {"resources": wire.ResourceRequirements, "ports": list[wire.ContainerPort]}
_REPORT: dict[str, Any] = {"allocatedResources": wire.Amounts, "resources": wire.ResourceRequirements}
_RAW: dict[str, dict[str, Any]] = {
    "Pod": {
        "metadata.labels": dict[str, str],
        "spec.nodeSelector": dict[str, str],
        "spec.affinity": wire.Affinity,
        "spec.tolerations": list[wire.Toleration],
        "spec.overhead": wire.Amounts,
        "spec.resources": wire.ResourceRequirements,
        "spec.containers[]": _CONTAINER,
        "spec.initContainers[]": _CONTAINER,
        "status.containerStatuses[]": _REPORT,
        "status.initContainerStatuses[]": _REPORT,
        "status.allocatedResources": wire.Amounts,
        "status.resources": wire.ResourceRequirements,
    },
    "Node": {
        "metadata.labels": dict[str, str],
        "spec.taints": list[wire.Taint],
        "status.allocatable": wire.Amounts,
        "status.images": list[wire.ContainerImage],
    },
    "Namespace": {"metadata.labels": dict[str, str]},
    "Service": {"spec.selector": dict[str, str]},
    "ReplicationController": {"spec.selector": dict[str, str]},
    "ReplicaSet": {"spec.selector": wire.LabelSelector},
    "StatefulSet": {"spec.selector": wire.LabelSelector},
    "PodDisruptionBudget": {"spec.selector": wire.LabelSelector},
}
"""Kind → path of a part that stays raw → its type; a path with `[]` gives the parts of each element of a list."""


def complaint(kind: str, raw: bytes | msgspec.Raw, error: Exception) -> str:
    """One line for an object that did not decode."""
    text = misfit(error) if isinstance(error, RecursionError) else str(error)
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _one_line(text)
    for path, value, wanted in _parts(kind, document):
        try:
            msgspec.json.decode(msgspec.json.encode(value), type=wanted)
        except msgspec.ValidationError as found:
            return _said(document, str(found), path)
    return _said(document, text, "")


def _parts(kind: str, document: Any) -> Iterator[tuple[str, Any, Any]]:
    for path, wanted in _RAW.get(kind, {}).items():
        value = _at(document, "." + path.removesuffix("[]"))
        if value is None:
            continue
        if not path.endswith("[]"):
            yield path, value, wanted
        elif isinstance(value, list):
            for i, element in enumerate(value):
                for name, part in wanted.items():
                    if isinstance(element, dict) and element.get(name) is not None:
                        yield f"{path[:-2]}[{i}].{name}", element[name], part


def _said(document: Any, text: str, prefix: str) -> str:
    match = _TEXT.match(text)
    if match is None:
        return _one_line(text)
    path = (f".{prefix}" if prefix else "") + (match["path"] or "")
    if path.endswith("[...]") and not match["key"]:
        path = _which(document, path.removesuffix("[...]"), text)
    value = _at(document, path)
    what = in_words(_AMOUNT.sub("a quantity such as 500m or 2Gi", match["what"])).partition(", got ")[0]
    where = path.removeprefix(".") or "object"
    shown = f"{as_json(value, _SHOWN)}: " if path and value is not None else ""
    return _one_line(f"{where}: {shown}{what.removeprefix(shown)}")


def _which(document: Any, path: str, text: str) -> str:
    """The first entry of a mapping that is of the type that was found instead."""
    mapping = _at(document, path)
    got = re.search(r"got `(\w+)`", text)
    if isinstance(mapping, dict) and got is not None:
        for key, value in mapping.items():
            if _type_of(value) == got[1]:
                return f"{path}[{key}]"
    return path


def _at(document: Any, path: str) -> Any:
    """The value at a path of the form `.a.b[0][key]`, None where there is none."""
    value = document
    while path:
        step = _STEP.match(path)
        if step is None:
            key = path[1:-1]
            return value.get(key) if isinstance(value, dict) else None
        path = path[step.end() :]
        if step[1] is not None and isinstance(value, dict):
            value = value.get(step[1])
        elif step[2] is not None and isinstance(value, list) and int(step[2]) < len(value):
            value = value[int(step[2])]
        else:
            return None
    return value


def _type_of(value: Any) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "")


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
