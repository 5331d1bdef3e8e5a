"""Kinds that `appliesTo` may name (tests/integration/test_policy_crd.py compares them with a real API server's)."""

from __future__ import annotations

import pytest

from podberth.policy import kinds


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Pod", None),
        ("Deployment.apps", None),
        ("NetworkPolicy.networking.k8s.io", None),
        ("PodGroup.scheduling.x-k8s.io", None),
        ("Queue.example.com", None),
        ("Deployment.app", "Kubernetes has no such kind: did you mean Deployment.apps?"),
        ("Deployments.apps", "Kubernetes has no such kind: did you mean Deployment.apps?"),
        ("Pod.v1", "Kubernetes has no such kind: did you mean Pod?"),
        ("Pod.core", "Kubernetes has no such kind: did you mean Pod?"),
        ("Node.v1", "kind Node is in no namespace"),
        ("Zebra.v1", "Kubernetes has no such kind: want a kind with its group, as Deployment.apps"),
        ("Ingress.extensions", "Kubernetes has no such kind: did you mean Ingress.networking.k8s.io?"),
        ("Deployment.v1.apps", "it names a version, which does not count: did you mean Deployment.apps?"),
        ("Widget.v1beta1.example.com", "it names a version, which does not count: did you mean Widget.example.com?"),
        ("StorageClass.storage.k8s.io", "kind StorageClass is in no namespace"),
    ],
)
def test_mistakes(kind: str, said: str | None) -> None:
    """What no API server can have is told; of other groups only a cluster knows."""
    assert kinds.mistake(kind) == said
