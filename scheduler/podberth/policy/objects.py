"""The few things policies read of an API object, whatever its kind. Objects are plain dicts and never changed."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from podberth.model.mistakes import as_json, kind_of
from podberth.policy import keys
from podberth.policy.kinds import called

JsonObject = dict[str, Any]


class ShapeError(ValueError):
    """A value that is no object of the API. The text names field, value and what was expected."""


class Snapshot(Struct, frozen=True):
    """The metadata that predicates see."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def check(obj: Any) -> JsonObject:
    """Return the object, if labels and annotations are what the API allows them to be.

    Raises ShapeError.
    """
    if not isinstance(obj, dict):
        raise ShapeError(f"want an API object, got {kind_of(obj)}")
    for field in ("metadata", "spec") if is_pod(obj) else ("metadata",):
        if not isinstance(obj.get(field), dict | None):
            raise ShapeError(f"{field}: want a map, got {kind_of(obj[field])}")
    for field in ("labels", "annotations"):
        found = (obj.get("metadata") or {}).get(field)
        if not isinstance(found, dict | None):
            raise ShapeError(f"metadata.{field}: want a map, got {kind_of(found)}")
        for key, value in (found or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise ShapeError(f"metadata.{field}[{str(key)[:80]}]: Invalid value: {as_json(value)}: want a text")
    return obj


def snapshot(obj: JsonObject | None) -> Snapshot:
    """Return the labels and annotations; null and absent are the same."""
    metadata = (obj or {}).get("metadata") or {}
    return Snapshot(metadata.get("labels") or {}, metadata.get("annotations") or {})


def namespace(obj: JsonObject | None) -> str:
    """Return the namespace that the object itself names."""
    return str(((obj or {}).get("metadata") or {}).get("namespace") or "")


def group_and_kind(obj: JsonObject) -> tuple[str, str]:
    """Return API group ("" is core) and kind."""
    group, slash, _ = str(obj.get("apiVersion") or "").partition("/")
    return (group if slash else ""), str(obj.get("kind") or "")


def kind(obj: JsonObject) -> str:
    """Return the kind as policies name it: `Pod`, `Deployment.apps`. The version does not count."""
    return called(*group_and_kind(obj))


def is_pod(obj: JsonObject) -> bool:
    """Return whether this is a core Pod."""
    return group_and_kind(obj) == ("", "Pod")


def is_mirror(obj: JsonObject | None) -> bool:
    """Return whether a kubelet made this pod to show a static pod of its own."""
    return keys.MIRROR in snapshot(obj).annotations
