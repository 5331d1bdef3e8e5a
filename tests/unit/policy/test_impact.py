"""What policies would do to objects that exist, and to what owners make."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.policy.impact import Effects, Kind, Loss, Rejection, impact, owner
from podberth.policy.options import NO_OPTIONS
from tests.unit.policy.build import NAME, config_map, has, pod, policies, policy, rule

LABELS = policy("labels", rule(set_labels={"seen": "yes"}))
WARNS = policy("warns", rule(set_labels={"more": "yes"}), mode="warn")
REJECTS = policy("rejects", rule(has(app="bad"), reject=True, message="no bad ones"))
SENDS = policy("sends", rule(set_annotations={NAME: "berth"}))


def test_impact() -> None:
    """Each object is counted in all and in its kind, and each policy as if it were in mode enforce; two are exempt."""
    mirror = pod(annotations={"kubernetes.io/config.mirror": "hash"})
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    objects = [pod(), pod({"app": "bad"}), config_map(), config_map({"seen": "yes", "more": "yes"}), event, mirror]
    found = impact(policies(LABELS, WARNS, REJECTS, SENDS), objects, NO_OPTIONS)
    assert found.total == Kind(objects=6, exempt=2, rejected=1, relabelled=3)
    assert found.kinds == {
        "Pod": Kind(objects=3, exempt=1, rejected=1, relabelled=1),
        "ConfigMap": Kind(objects=2, exempt=0, rejected=0, relabelled=2),
        "Event": Kind(objects=1, exempt=1, rejected=0, relabelled=0),
    }
    assert found.policies["rejects"] == Effects(rejected=1, relabelled=0)
    assert found.schedulers == {"default-scheduler": {"berth": 1}}
    assert found.rejections == [Rejection("Pod", "team-a", "web", 'MetadataPolicy "rejects" rules[0]: no bad ones')]


@pytest.mark.parametrize(
    ("kind", "template", "lost"),
    [
        ("Deployment", {"labels": {"app": "web"}}, True),
        ("StatefulSet", {"labels": {"app": "web"}}, True),
        ("Deployment", {"labels": {"app": "other"}}, False),
        ("Widget", {"labels": {"app": "web"}}, False),
        ("Deployment", {"labels": "none"}, False),
    ],
)
def test_impact_names_owners_that_lose_what_they_make(kind: str, template: dict[str, Any], lost: bool) -> None:
    """It is the pod of the template that counts, and no label of the owner itself."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": template, "spec": {"containers": []}}}
    meta = {"name": "web", "namespace": "team-a", "labels": {"app": "own"}}
    obj = {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}
    label = policy("label", rule(has(app="web"), set_labels={"app": "api"}))
    found = impact(policies(label), [], NO_OPTIONS, filter(None, [owner(obj)]))
    assert found.losses == ([Loss(kind, "team-a", "web", "label", "app", "api")] if lost else [])


@pytest.mark.parametrize(("kind", "lost"), [("Deployment", True), ("StatefulSet", False)])
def test_a_deployment_makes_replica_sets(kind: str, lost: bool) -> None:
    """It finds them by the labels of its template; others make pods only."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}}
    obj = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "team-a"}, "spec": spec}
    label = policy("label", rule(has(app="web"), set_labels={"app": "api"}, kinds=["ReplicaSet.apps"]))
    found = impact(policies(label), [], NO_OPTIONS, filter(None, [owner(obj)]))
    assert found.losses == ([Loss(kind, "team-a", "web", "label", "app", "api")] if lost else [])


def test_impact_counts_what_the_second_pass_rejects() -> None:
    """What the policies write may be what one of them rejects: a create is refused then, and nothing is written."""
    tag = policy("tag", rule(set_labels={"tier": "front"}))
    ban = policy("ban", rule(has(tier="front"), reject=True))
    found = impact(policies(tag, ban), [config_map(), config_map({"tier": "front"})], NO_OPTIONS)
    assert found.total == Kind(objects=2, exempt=0, rejected=2, relabelled=0)
    assert found.policies == {"tag": Effects(), "ban": Effects(rejected=2)}
