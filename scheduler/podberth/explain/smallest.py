"""An API object without what no decision reads: no environment, commands or Secrets, and no notes of other tools."""

from collections.abc import Mapping
from typing import Any

from podberth.explain.documents import ObjectError
from podberth.explain.world import MADE_WITH
from podberth.model.kinds import KINDS

Object = dict[str, Any]
KEPT = frozenset((*KINDS, *MADE_WITH))
"""Kinds of which anything is kept."""
_METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "resourceVersion",
    "generation",
)
_ANNOTATIONS = (
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "storageclass.beta.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "resource.kubernetes.io/",
    "scheduler.alpha.kubernetes.io/",
    "podberth.dev/",
    "kubernetes.io/config.",
)
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy", "resizePolicy")
_CONTAINERS = ("containers", "initContainers")
_DROPPED_VOLUMES = ("secret", "configMap", "projected", "downwardAPI", "emptyDir", "hostPath")
_NODE_STATUS = ("allocatable", "capacity", "images", "conditions", "declaredFeatures")


def smallest(found: Mapping[str, Any]) -> Object | None:
    """The object with what is read of it; None for a kind of which nothing is. Raises ObjectError."""
    kind = found.get("kind")
    if kind not in KEPT:
        return None
    made: Object = {key: value for key, value in found.items() if key not in ("metadata", "data", "stringData")}
    made["metadata"] = _metadata(_mapping(found, "metadata"))
    match kind:
        case "Pod":
            made["spec"] = _pod_spec(_mapping(found, "spec"))
        case "Node":
            status = _mapping(found, "status")
            made["status"] = {key: status[key] for key in _NODE_STATUS if key in status}
        case "ResourceQuota":
            for part in ("spec", "status"):
                made[part] = _without_storage(_mapping(found, part))
        case "ReplicaSet" | "StatefulSet" | "ReplicationController":
            spec = _mapping(found, "spec")
            made = {**made, "spec": {key: spec[key] for key in ("selector", "replicas") if key in spec}}
    return made


def _without_storage(part: Mapping[str, Any]) -> Object:
    """A part of a quota without what it says of claims by the names of their classes."""
    return {
        key: {name: amount for name, amount in value.items() if ".storageclass." not in name}
        if key in ("hard", "used") and isinstance(value, Mapping)
        else value
        for key, value in part.items()
    }


def _metadata(found: Mapping[str, Any]) -> Object:
    made = {key: found[key] for key in _METADATA if key in found}
    annotations = _mapping(found, "annotations", "metadata.")
    kept = {key: value for key, value in annotations.items() if key.startswith(_ANNOTATIONS)}
    return made | ({"annotations": kept} if kept else {})


def _pod_spec(spec: Mapping[str, Any]) -> Object:
    made = dict(spec)
    for field in _CONTAINERS:
        if spec.get(field) is not None:
            made[field] = [{key: each[key] for key in _CONTAINER if key in each} for each in _mappings(spec, field)]
    made.pop("ephemeralContainers", None)
    if spec.get("volumes") is not None:
        volumes = _mappings(spec, "volumes")
        made["volumes"] = [each for each in volumes if not any(name in each for name in _DROPPED_VOLUMES)]
    return made


def _mapping(found: Mapping[str, Any], field: str, path: str = "") -> Mapping[str, Any]:
    value = found.get(field) or {}
    if not isinstance(value, Mapping):
        raise ObjectError(f"{path}{field}: expected a mapping")
    return value


def _mappings(spec: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = spec[field]
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise ObjectError(f"spec.{field}: expected a list of mappings")
    return value
