"""Keys that give rights: not written by policies, said to everybody who should know, and the admin's to allow (S8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from podberth.policy import keys
from podberth.policy.analyse import analyse
from podberth.policy.evaluate import evaluate
from podberth.policy.keys import Reserved
from podberth.policy.options import parse as options
from tests.unit.policy.build import Object, config_map, has, policies, policy, rule

ROLE = "eks.amazonaws.com/role-arn"
INJECT = "sidecar.istio.io/inject"
GIVES = policy("gives", rule(set_annotations={ROLE: "admin", "note": "x"}, set_labels={INJECT: "true", "team": "a"}))


@pytest.mark.parametrize(
    "key",
    [
        ROLE,
        INJECT,
        "EKS.amazonaws.com/role-arn",
        "iam.amazonaws.com/role",
        "iam.gke.io/gcp-service-account",
        "azure.workload.identity/client-id",
        "aadpodidbinding",
        "linkerd.io/inject",
        "config.linkerd.io/proxy-image",
        "vault.hashicorp.com/agent-inject",
        "k8s.v1.cni.cncf.io/networks",
        "cert-manager.io/inject-ca-from",
        "io.katacontainers.config.hypervisor.path",
        "io.kubernetes.cri-o.Devices",
        "meta.helm.sh/release-name",
        "karpenter.sh/do-not-disrupt",
        "podberth.dev/affinity-mode",
        "podberth.dev/schedulers",
        "metadatapolicy.podberth.dev/anything",
    ],
)
def test_reserved(key: str) -> None:
    """Domains count with all that is below them, in any case."""
    assert keys.reserved_for(key)


@pytest.mark.parametrize(
    "key",
    [
        "team",
        "example.com/team",
        "notistio.io/inject",
        "istio.io.example.com/x",
        "app.kubernetes.io/name",
        "scheduler.alpha.kubernetes.io/name",
        "podberth.dev/required-during-execution",
        "eks.amazonaws.com",
    ],
)
def test_free(key: str) -> None:
    """Other keys are nobody's, and the evictor's promise is made for policies."""
    assert not keys.reserved_for(key)


def labels_and_annotations(**given: object) -> tuple[Object, Object, list[str]]:
    """What a ConfigMap has after the policy, and the warnings."""
    found = evaluate(policies(GIVES), "CREATE", config_map(), None, options(given))
    assert found.object is not None
    metadata = found.object["metadata"]
    return metadata.get("labels", {}), metadata.get("annotations", {}), found.warnings


def test_not_written_and_said() -> None:
    """The reserved writes are left out with a warning that says why; the others of the same rule are made."""
    labels, annotations, said = labels_and_annotations()
    assert (labels, annotations) == ({"team": "a"}, {"note": "x"})
    assert said == [
        f"annotation {ROLE} not written for gives/rules[0]: the key is reserved (AWS identity or network)",
        f"label {INJECT} not written for gives/rules[0]: the key is reserved (service mesh)",
    ]


def test_rejections_stay() -> None:
    """A policy that writes a reserved key still rejects what it rejects."""
    both = policy("both", rule(has(bad="yes"), reject=True), rule(set_annotations={ROLE: "admin"}))
    assert not evaluate(policies(both), "CREATE", config_map({"bad": "yes"})).allowed


def test_nothing_is_said_of_what_is_there() -> None:
    """An object that has the value already is not warned about."""
    _, _, said = labels_and_annotations()
    assert said
    there = config_map({INJECT: "true"}, {ROLE: "admin"})
    assert evaluate(policies(GIVES), "CREATE", there).warnings == []


def test_mode_warn_does_not_announce_it() -> None:
    """What would not be written is not announced."""
    warns = {**GIVES, "spec": {**GIVES["spec"], "mode": "warn"}}
    said = evaluate(policies(warns), "CREATE", config_map()).warnings
    assert said == ['gives/rules[0] would write label team="a"', 'gives/rules[0] would write annotation note="x"']


def test_the_admins_switches() -> None:
    """A prefix may be allowed, further ones reserved, and the list switched off."""
    assert labels_and_annotations(allowedPrefixes=["eks.amazonaws.com/"])[1] == {ROLE: "admin", "note": "x"}
    assert labels_and_annotations(reservedPrefixes=["NO"])[1] == {}
    assert labels_and_annotations(reserveKnown=False)[:2] == (
        {INJECT: "true", "team": "a"},
        {ROLE: "admin", "note": "x"},
    )
    assert labels_and_annotations(reserveKnown=False, reservedPrefixes=["team"])[0] == {INJECT: "true"}


def test_analysis_knows() -> None:
    """Each reserved write is a finding, and what is never written makes no conflict and no rule without action."""
    other = policy("other", rule(set_annotations={ROLE: "reader"}))
    found = analyse(policies(GIVES, other))
    assert {(one.kind, one.policies) for one in found.findings} == {
        ("reserved-key", ("gives",)),
        ("reserved-key", ("other",)),
    }
    assert "--allow-prefix" in found.findings[0].message
    allowed = analyse(policies(GIVES, other), reserved=Reserved(known=False))
    assert allowed.of("conflicting-writes") and not allowed.of("reserved-key")


def test_documented() -> None:
    """The page for policies' authors names every reserved domain and prefix."""
    text = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    missing = [name for name in (*keys.DOMAINS, *keys.PREFIXES) if f"`{name}" not in text]
    assert missing == []
