"""The CRD's bounds and words are the code's (tests/integration/test_policy_crd.py tries them on a real API server)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from podberth.policy import kinds, spec
from podberth.policy.parse import CONTROL, OPERATORS

MANIFEST = Path(__file__).parents[3] / "manifests" / "crd-metadatapolicies.yaml"
CRD = yaml.safe_load(MANIFEST.read_text())
SCHEMA: dict[str, Any] = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def at(path: str) -> dict[str, Any]:
    """The schema at a field's path; [] goes into a list, {} into a map."""
    found = SCHEMA
    for step in path.split("."):
        match step:
            case "[]":
                found = found["items"]
            case "{}":
                found = found["additionalProperties"]
            case _:
                found = found["properties"][step]
    return found


def test_names() -> None:
    """Group, version, kind and short name."""
    assert (CRD["spec"]["group"], CRD["spec"]["versions"][0]["name"]) == (spec.GROUP, spec.VERSION)
    assert CRD["spec"]["names"]["kind"] == spec.KIND
    assert CRD["spec"]["names"]["shortNames"] == ["mdp"]


def test_bounds() -> None:
    """Every bound of scheduler/podberth/policy/spec.py is the CRD's."""
    rule, predicate = "spec.rules.[]", "spec.rules.[].policyPredicate"
    assert tuple(at("spec.mode")["enum"]) == spec.MODES
    assert at("spec.rules")["maxItems"] == spec.MAX_RULES
    assert at(f"{rule}.name")["maxLength"] == spec.MAX_RULE_NAME
    assert at(f"{rule}.policyAction.message")["maxLength"] == spec.MAX_MESSAGE
    assert at(f"{rule}.appliesTo")["maxItems"] == spec.MAX_KINDS
    assert f"{[*kinds.CORE]}" in at(f"{rule}.appliesTo.[]")["x-kubernetes-validations"][1]["rule"]
    for field in ("updatedLabels", "updatedAnnotations"):
        assert at(f"{rule}.policyAction.{field}")["maxProperties"] == spec.MAX_WRITES
    assert at(f"{rule}.policyAction.updatedAnnotations.{{}}")["maxLength"] == spec.MAX_TEXT
    for selector in ("labelSelector", "annotationSelector"):
        assert at(f"{predicate}.{selector}.matchLabels")["maxProperties"] == spec.MAX_CRITERIA
        assert at(f"{predicate}.{selector}.matchExpressions")["maxItems"] == spec.MAX_CRITERIA
        assert at(f"{predicate}.{selector}.matchExpressions.[].values")["maxItems"] == spec.MAX_VALUES
        assert tuple(at(f"{predicate}.{selector}.matchExpressions.[].operator")["enum"]) == OPERATORS
    assert at(f"{predicate}.annotationSelector.matchLabels.{{}}")["maxLength"] == spec.MAX_TEXT


def test_texts() -> None:
    """What is free text has no control characters, which a terminal would obey."""
    wanted = f"^[^{CONTROL.pattern[1:-1]}]*$"
    rule, selector = "spec.rules.[]", "spec.rules.[].policyPredicate.annotationSelector"
    texts = (f"{rule}.policyAction.message", f"{rule}.policyAction.updatedAnnotations.{{}}")
    values = (f"{selector}.matchLabels.{{}}", f"{selector}.matchExpressions.[].values.[]")
    assert {at(path)["pattern"] for path in (*texts, *values)} == {wanted}


def undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields that `kubectl explain` would have nothing to say about."""
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if "description" not in below and here != ".metadata":
            yield here
        yield from undescribed(below, here)
        yield from undescribed(below.get("items", {}), here)


def test_every_field_is_described() -> None:
    """No field is without a description."""
    assert list(undescribed(SCHEMA, "")) == []
