"""What a real server has stored before the first client comes: four namespaces and two priority classes."""

from __future__ import annotations

from typing import Any

from podberth.apiserver import defaults, strategy
from podberth.apiserver.given import GIVEN
from podberth.apiserver.priority_classes import PRIORITY_CLASSES
from podberth.apiserver.resources import Registry
from podberth.apiserver.storage import Store

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
def bootstrap(store: Store, registry: Registry) -> None:
    """Store what clients expect to be there."""
    for name in NAMESPACES:
        _add(store, registry, "namespaces", name, {})
    for name, (value, description) in PRIORITY_CLASSES.items():
        _add(store, registry, "priorityclasses", name, {"value": value, "description": description})


def _add(store: Store, registry: Registry, plural: str, name: str, content: dict[str, Any]) -> None:
    resource = registry.built_in(plural)
    metadata = {"name": name, "uid": GIVEN.uid(), "creationTimestamp": strategy.timestamp()}
    obj: dict[str, Any] = {"metadata": metadata, **content}
    defaults.apply(resource.kind, obj)
    strategy.prepare_create(resource, obj)
    store.create(resource, name, obj)
