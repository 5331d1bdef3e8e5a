"""Namespaces for single tests, emptied by hand where no controller manager does it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from tests.controlplane.api import Api, ApiError

NO_SUCH_KIND = 404


def create(api: Api, prefix: str = "test") -> str:
    """Create a namespace of its own for a test; its name."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def remove(api: Api, name: str, by_hand: bool) -> None:
    """Delete a namespace; `by_hand` does what the controller manager would: empty it, then let it go."""
    api.delete(f"/api/v1/namespaces/{name}", grace=None)
    if by_hand:
        finish(api, name)


def finish(api: Api, name: str) -> None:
    """Empty a namespace that was deleted, and let it go, as the controller manager would."""
    for collection in _collections(api, name):
        try:
            api.delete(collection)
        except ApiError as error:
            if error.status != NO_SUCH_KIND:  # a kind whose CRD was just deleted is listed a moment longer
                raise
    namespace = api.get(f"/api/v1/namespaces/{name}")
    namespace["spec"]["finalizers"] = []
    api.replace(f"/api/v1/namespaces/{name}/finalize", namespace)


def _collections(api: Api, namespace: str) -> Iterator[str]:
    """The path of every deletable collection in a namespace, whatever kinds the server has at the moment."""
    roots = ["/api/v1"]
    roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]]
    for root in roots:
        try:
            resources = api.get(root)["resources"]
        except ApiError:  # a group whose last CRD was just deleted is listed a moment longer
            continue
        for resource in resources:
            if resource["namespaced"] and "deletecollection" in resource["verbs"]:
                yield f"{root}/namespaces/{namespace}/{resource['name']}"
