"""The MetadataPolicy CRD on the real API server: it is established, takes good policies, and refuses bad specs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.policy import kinds
from podberth.policy.parse import PolicyError, parse
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for

MANIFEST = Path(__file__).parents[2] / "manifests" / "crd-metadatapolicies.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def policies_served(control_plane: Cluster) -> Iterator[Api]:
    """An API server that serves MetadataPolicies."""
    api, definition = control_plane.api, yaml.safe_load(MANIFEST.read_text())
    name = definition["metadata"]["name"]
    existing = [found["metadata"]["name"] for found in api.list(CRDS)]
    if name not in existing:
        api.create(CRDS, definition)
    wait_for("the CRD to be established", lambda: "Established" in _true_conditions(api.get(f"{CRDS}/{name}")))
    wait_for("the resource to be served", lambda: _served(api))
    yield api
    if name not in existing:
        api.delete(f"{CRDS}/{name}", grace=None)
        wait_for("the CRD to be gone", lambda: name not in {found["metadata"]["name"] for found in api.list(CRDS)})


def _true_conditions(crd: Object) -> set[str]:
    return {c["type"] for c in crd.get("status", {}).get("conditions") or [] if c["status"] == "True"}


def _served(api: Api) -> bool:
    try:
        return bool(api.get("/apis/podberth.dev/v1alpha1/metadatapolicies"))
    except ApiError:
        return False


GOOD: Object = {
    "apiVersion": "podberth.dev/v1alpha1",
    "kind": "MetadataPolicy",
    "metadata": {"name": "good"},
    "spec": {
        "mode": "warn",
        "rules": [
            {
                "name": "route",
                "policyPredicate": {
                    "labelSelector": {
                        "matchLabels": {"app.kubernetes.io/name": "web", "tier": ""},
                        "matchExpressions": [{"key": "a/b", "operator": "NotIn", "values": ["x", ""]}],
                    },
                    "annotationSelector": {
                        "matchLabels": {"note": '{"any": "text"} at all'},
                        "matchExpressions": [{"key": "X.Example.com/Y", "operator": "Exists"}],
                    },
                },
                "policyAction": {
                    "updatedLabels": {"app.kubernetes.io/part-of": "shop", "team": "a"},
                    "updatedAnnotations": {"scheduler.alpha.kubernetes.io/name": "berth", "n": " free text "},
                },
            },
            {
                "appliesTo": ["Pod", "Deployment.apps", "Queue.scheduling.example.com"],
                "policyPredicate": {},
                "policyAction": {"reject": True, "message": "no"},
            },
            {"policyPredicate": {}, "policyAction": {}},
        ],
    },
}
PREDICATE, ACTION = ("spec", "rules", 0, "policyPredicate"), ("spec", "rules", 0, "policyAction")
LABELS, ANNOTATIONS = (*PREDICATE, "labelSelector"), (*PREDICATE, "annotationSelector")

BAD: list[tuple[str, tuple[str | int, ...], Any, str]] = [
    ("mode", ("spec", "mode"), "off", "spec.mode"),
    ("too many rules", ("spec", "rules"), [{"policyPredicate": {}, "policyAction": {}}] * 65, "spec.rules"),
    ("no action", ("spec", "rules", 2), {"policyPredicate": {}}, "spec.rules[2].policyAction"),
    ("no predicate", ("spec", "rules", 2), {"policyAction": {"reject": True}}, "spec.rules[2].policyPredicate"),
    ("misspelt", ("spec", "rules", 2), {"policyPredicat": {}, "policyAction": {}}, "spec.rules[2].policyPredicate"),
    ("rule name", ("spec", "rules", 0, "name"), "Not a label", "spec.rules[0].name"),
    ("names twice", ("spec", "rules", 1, "name"), "route", "spec.rules"),
    ("no kind", ("spec", "rules", 0, "appliesTo"), [], "spec.rules[0].appliesTo"),
    ("kinds", ("spec", "rules", 0, "appliesTo"), [f"Kind{i}.apps" for i in range(17)], "spec.rules[0].appliesTo"),
    ("a kind twice", ("spec", "rules", 0, "appliesTo"), ["Pod", "Pod"], "spec.rules[0].appliesTo[1]"),
    ("a resource", ("spec", "rules", 0, "appliesTo"), ["deployments.apps"], "spec.rules[0].appliesTo[0]"),
    ("a kind without its group", ("spec", "rules", 0, "appliesTo"), ["Deployment"], "spec.rules[0].appliesTo[0]"),
    ("a long kind", ("spec", "rules", 0, "appliesTo"), ["K" * 64 + ".apps"], "spec.rules[0].appliesTo[0]"),
    ("label key", (*LABELS, "matchLabels"), {"not legal": "x"}, "policyPredicate.labelSelector.matchLabels"),
    ("label value", (*LABELS, "matchLabels"), {"a": "not legal"}, "policyPredicate.labelSelector.matchLabels"),
    ("annotation key", (*ANNOTATIONS, "matchLabels"), {"a b": "x"}, "policyPredicate.annotationSelector.matchLabels"),
    (
        "operator",
        (*LABELS, "matchExpressions", 0),
        {"key": "a", "operator": "Gt", "values": ["1"]},
        "labelSelector.matchExpressions[0].operator",
    ),
    (
        "In without values",
        (*LABELS, "matchExpressions", 0),
        {"key": "a", "operator": "In"},
        "labelSelector.matchExpressions[0]",
    ),
    (
        "Exists with values",
        (*ANNOTATIONS, "matchExpressions", 0),
        {"key": "a", "operator": "Exists", "values": ["x"]},
        "annotationSelector.matchExpressions[0]",
    ),
    (
        "expression key",
        (*LABELS, "matchExpressions", 0),
        {"key": "a b", "operator": "Exists"},
        "labelSelector.matchExpressions[0].key",
    ),
    (
        "too many values",
        (*LABELS, "matchExpressions", 0),
        {"key": "a", "operator": "In", "values": [f"v{i}" for i in range(33)]},
        "labelSelector.matchExpressions[0].values",
    ),
    ("prefix", (*ACTION, "updatedLabels"), {"a..b/c": "x"}, "spec.rules[0].policyAction.updatedLabels"),
    ("reject", (*ACTION, "reject"), "yes", "spec.rules[0].policyAction.reject"),
    ("long message", (*ACTION, "message"), "x" * 1025, "spec.rules[0].policyAction.message"),
    ("a message for terminals", (*ACTION, "message"), "\x1b[2J\x9b", "spec.rules[0].policyAction.message"),
    ("a value for terminals", (*ACTION, "updatedAnnotations"), {"a": "\x1f"}, "policyAction.updatedAnnotations"),
    ("written key", (*ACTION, "updatedLabels"), {"-a": "x"}, "spec.rules[0].policyAction.updatedLabels"),
    ("written value", (*ACTION, "updatedLabels"), {"a": "x" * 64}, "spec.rules[0].policyAction.updatedLabels"),
    ("many writes", (*ACTION, "updatedLabels"), {f"a{i}": "x" for i in range(33)}, "policyAction.updatedLabels"),
    ("number", (*ACTION, "updatedLabels"), {"a": 1}, "spec.rules[0].policyAction.updatedLabels"),
    ("reserved label", (*ACTION, "updatedLabels"), {"node.kubernetes.io/a": "x"}, "policyAction.updatedLabels"),
    ("reserved annotation", (*ACTION, "updatedAnnotations"), {"k8s.io/a": "x"}, "policyAction.updatedAnnotations"),
    (
        "reserved in capitals",
        (*ACTION, "updatedAnnotations"),
        {"X.Kubernetes.IO/a": "x"},
        "policyAction.updatedAnnotations",
    ),
    (
        "scheduler's name",
        (*ACTION, "updatedAnnotations"),
        {"scheduler.alpha.kubernetes.io/name": "Not a name"},
        "policyAction.updatedAnnotations",
    ),
]


def changed(where: tuple[str | int, ...], value: Any) -> Object:
    """The good policy with one thing changed."""
    policy = copy.deepcopy(GOOD)
    holder: Any = policy
    for step in where[:-1]:
        holder = holder[step]
    holder[where[-1]] = value
    return policy


def test_good_policy(policies_served: Api, real_namespace: str) -> None:
    """A policy that uses every field is stored as it is, and the mode defaults to enforce."""
    path = f"/apis/podberth.dev/v1alpha1/namespaces/{real_namespace}/metadatapolicies"
    stored = policies_served.create(path, GOOD, fieldValidation="Strict")
    assert stored["spec"] == GOOD["spec"]
    assert parse(stored).mode == "warn"
    plain = policies_served.create(path, {**GOOD, "metadata": {"name": "plain"}, "spec": {"rules": []}})
    assert plain["spec"]["mode"] == "enforce"


@pytest.mark.parametrize(("where", "value", "field"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_bad_policy(
    policies_served: Api, real_namespace: str, where: tuple[str | int, ...], value: Any, field: str
) -> None:
    """What the API server refuses, naming the field, our own parser refuses too, naming the same field."""
    policy = changed(where, value)
    path = f"/apis/podberth.dev/v1alpha1/namespaces/{real_namespace}/metadatapolicies"
    with pytest.raises(ApiError) as refused:
        policies_served.create(path, policy)
    assert refused.value.status == 422
    assert field in refused.value.message
    with pytest.raises(PolicyError) as ours:
        parse(policy, new=True)
    assert field in str(ours.value)


def test_largest_policy(policies_served: Api, real_namespace: str) -> None:
    """A policy as large as the bounds allow is accepted: the rules' cost at run time stays within the limits too."""
    keys = [f"{'a' * 63}.{i:02}.example.com/{'k' * 60}" for i in range(32)]
    exact = dict.fromkeys(keys[:16], "x" * 63)
    expressions = [{"key": key, "operator": "Exists"} for key in keys[:16]]
    selector = {"matchLabels": exact, "matchExpressions": expressions}
    rule = {
        "appliesTo": [f"Kind{i:02}.batch.example.com" for i in range(16)],
        "policyPredicate": {"labelSelector": selector, "annotationSelector": selector},
        "policyAction": {"updatedLabels": dict.fromkeys(keys, "x"), "updatedAnnotations": dict.fromkeys(keys, "x")},
    }
    policy = {**GOOD, "spec": {"rules": [{"name": f"rule-{i}", **rule} for i in range(64)]}}
    path = f"/apis/podberth.dev/v1alpha1/namespaces/{real_namespace}/metadatapolicies"
    assert len(parse(policies_served.create(path, policy)).rules) == 64


def test_status_columns_and_help(policies_served: Api, control_plane: Cluster, real_namespace: str) -> None:
    """Status is a subresource, kubectl shows its columns under the short name, and explains the fields."""
    path = f"/apis/podberth.dev/v1alpha1/namespaces/{real_namespace}/metadatapolicies"
    policies_served.create(path, GOOD)
    when = "2025-01-01T00:00:00Z"
    condition = {"status": "True", "reason": "Valid", "message": "fine", "lastTransitionTime": when}
    status = {
        "observedGeneration": 1,
        "rules": 3,
        "warnings": "SelfPoison, NoLiveLease",
        "conditions": [{"type": "Accepted", **condition}, {"type": "Conflict", **condition, "status": "False"}],
        "enforcement": {"way": "Native", "since": when, "generation": 1},
        "audit": {"objects": 5, "rejected": 1, "mutated": 0, "examples": ["Pod team/x"], "time": when},
    }
    stored = policies_served.patch(f"{path}/good/status", {"status": status})
    assert stored["status"] == status
    assert stored["metadata"]["generation"] == 1
    # kubectl asks for kinds and for their fields, which the server tells a moment after it serves them.
    explain = ("explain", "mdp.spec.rules.policyAction")
    wait_for("kubectl to know the kind", lambda: control_plane.kubectl(*explain, check=False).returncode == 0)
    header, row = control_plane.kubectl("get", "mdp", "-n", real_namespace).stdout.splitlines()
    assert header.split() == ["NAME", "MODE", "RULES", "ACCEPTED", "ENFORCED", "CONFLICT", "WARNINGS", "AGE"]
    assert row.split()[:8] == ["good", "warn", "3", "True", "Native", "False", "SelfPoison,", "NoLiveLease"]
    told = control_plane.kubectl(*explain).stdout
    assert "Reject the object, and change nothing" in told


def test_kinds(control_plane: Cluster) -> None:
    """No kind that this API server has is taken for a mistake, and each that Kubernetes has is where we say."""
    api, served = control_plane.api, {}
    groups = [(f"/apis/{v['groupVersion']}", g["name"]) for g in api.get("/apis")["groups"] for v in g["versions"]]
    for path, group in [("/api/v1", ""), *groups]:
        for found in api.get(path)["resources"]:
            if "/" not in found["name"] and {"create", "get", "list"} <= {*found["verbs"]}:
                served[kinds.called(group, found["kind"])] = found["namespaced"]
    ours = {name: True for name in served if name in kinds.NAMESPACED} | {
        name: False for name in served if name in kinds.CLUSTER_SCOPED
    }
    assert ours == {name: here for name, here in served.items() if name not in ("Event", "MetadataPolicy.podberth.dev")}
