"""Policies and objects for tests, as plain API dicts."""

from __future__ import annotations

from typing import Any

from podberth.policy.parse import parse
from podberth.policy.spec import Policies

Object = dict[str, Any]
QOS = "scheduler.alpha.kubernetes.io/qos"
NAME = "scheduler.alpha.kubernetes.io/name"


def rule(
    labels: Object | None = None,
    annotations: Object | None = None,
    *,
    reject: bool = False,
    message: str = "",
    set_labels: dict[str, str] | None = None,
    set_annotations: dict[str, str] | None = None,
    name: str = "",
    kinds: list[str] | None = None,
) -> Object:
    """One rule; `labels` and `annotations` are selectors."""
    predicate = {"labelSelector": labels, "annotationSelector": annotations}
    action = {
        "reject": reject or None,
        "message": message or None,
        "updatedLabels": set_labels,
        "updatedAnnotations": set_annotations,
    }
    found: Object = {
        "policyPredicate": {key: value for key, value in predicate.items() if value is not None},
        "policyAction": {key: value for key, value in action.items() if value is not None},
    }
    found |= {} if kinds is None else {"appliesTo": kinds}
    return {"name": name, **found} if name else found


def has(**labels: str) -> Object:
    """A selector for exact values."""
    return {"matchLabels": labels}


def needs(key: str, operator: str, *values: str) -> Object:
    """A selector of one expression."""
    expression: Object = {"key": key, "operator": operator}
    return {"matchExpressions": [{**expression, "values": [*values]} if values else expression]}


def policy(name: str, *rules: Object, mode: str | None = None, namespace: str | None = None) -> Object:
    """A MetadataPolicy."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    spec: Object = {"rules": [*rules]} if mode is None else {"mode": mode, "rules": [*rules]}
    return {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy", "metadata": metadata, "spec": spec}


def policies(*documents: Object) -> Policies:
    """What the evaluator takes."""
    return Policies(parse(document) for document in documents)


def config_map(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Object:
    """An object that is no pod."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(labels, annotations)}


def pod(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    resources: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod of one container."""
    container: Object = {"name": "main", "image": "registry.example/app"}
    if resources is not None:
        container["resources"] = resources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(labels, annotations),
        "spec": {"containers": [container], **spec},
    }


def _metadata(labels: dict[str, str] | None, annotations: dict[str, str] | None) -> Object:
    found: Object = {"name": "web", "namespace": "team-a"}
    if labels is not None:
        found["labels"] = labels
    if annotations is not None:
        found["annotations"] = annotations
    return found
