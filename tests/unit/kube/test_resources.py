"""Paths of kinds, objects and subresources."""

from __future__ import annotations

import pytest

from podberth.kube import resources as r


@pytest.mark.parametrize(
    ("resource", "where", "want"),
    [
        (r.NODES, (), "/api/v1/nodes"),
        (r.NODES, (None, "a"), "/api/v1/nodes/a"),
        (r.PODS, (), "/api/v1/pods"),
        (r.PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (r.PODS, ("ns", "web-0", "binding"), "/api/v1/namespaces/ns/pods/web-0/binding"),
        (r.STATEFUL_SETS, ("ns", "db"), "/apis/apps/v1/namespaces/ns/statefulsets/db"),
        (r.METADATA_POLICIES, ("ns",), "/apis/podberth.dev/v1alpha1/namespaces/ns/metadatapolicies"),
        (r.PODS, ("../x", "a/b?c"), "/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc"),
        (r.PODS, ("ns", "é\n"), "/api/v1/namespaces/ns/pods/%C3%A9%0A"),
        (r.NODES, (None, "system:x"), "/api/v1/nodes/system:x"),
    ],
)
def test_paths(resource: r.Resource, where: tuple[str | None, ...], want: str) -> None:
    """Group, namespace, name and subresource end up where the API server expects them, percent-encoded."""
    assert resource.path(*where) == want


def test_paths_that_make_no_sense_are_refused() -> None:
    """A namespace on a cluster-scoped kind and a namespaced object without one are ValueErrors."""
    with pytest.raises(ValueError, match="nodes have no namespace"):
        r.NODES.path("ns")
    with pytest.raises(ValueError, match="without its namespace"):
        r.PODS.path(None, "web")


def test_the_table_covers_what_the_scheduler_watches() -> None:
    """Every kind is there once, and its apiVersion is group/version or the bare version for the core group."""
    assert len(r.BY_KIND) == len(r.WATCHED) == 22
    assert r.BY_KIND["Pod"].api_version == "v1"
    assert r.BY_KIND["PodDisruptionBudget"].api_version == "policy/v1"
