"""The chart's objects by the oldest and the newest version's schemas (`make chart-versions` has the others)."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.chart.rendering import CHART, Chart, Object, documents
from tests.chart.test_values import EVERYTHING
from tests.chart.versions import VERSIONS, Kubeconform, foreign_crds
from tests.controlplane.once import UnreachableError

TESTED = (VERSIONS[0], VERSIONS[-1])


@pytest.fixture(scope="module")
def valid(kubeconform: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubeconform:
    """Kubeconform with both versions' schemas and all CRDs'."""
    home = tmp_path_factory.mktemp("schemas")
    try:
        return Kubeconform(kubeconform, home, TESTED, [CHART / "files" / "crd-metadatapolicies.yaml", *foreign_crds()])
    except UnreachableError as error:
        pytest.skip(f"the OpenAPI documents are out of reach: {error}")


def test_oldest_is_what_the_chart_says() -> None:
    """Helm refuses what is older."""
    (about,) = documents((CHART / "Chart.yaml").read_text())
    assert about["kubeVersion"] == f">={VERSIONS[0]}-0"


@pytest.mark.parametrize("version", TESTED)
def test_valid(chart: Chart, valid: Kubeconform, version: str) -> None:
    """Every object is valid there, with everything switched on: Kubernetes', ours, and other projects'."""
    objects = chart.objects(EVERYTHING)
    assert {"Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"} <= {one["kind"] for one in objects}
    assert valid.errors(version, objects) == []


@pytest.mark.parametrize("version", TESTED)
def test_valid_without_a_webhook(chart: Chart, valid: Kubeconform, version: str) -> None:
    """So it is where there is no admission server, and where the webhook alone enforces."""
    for values in ({"admission": {"enabled": False}}, {"policy": {"enforcement": "webhook"}}):
        assert valid.errors(version, chart.objects(values)) == []


@pytest.mark.parametrize("version", TESTED)
def test_policies_are_valid(valid: Kubeconform, version: str) -> None:
    """The examples' MetadataPolicies, by the schema in our CRD."""
    files = sorted((CHART.parent / "examples" / "policies").glob("*/policy.yaml"))
    objects = [one for file in files for one in documents(file.read_text()) if one["kind"] == "MetadataPolicy"]
    assert objects
    assert valid.errors(version, objects) == []


POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
POLICY: Object = {
    "apiVersion": "podberth.dev/v1alpha1",
    "kind": "MetadataPolicy",
    "metadata": {"name": "a"},
    "spec": {"rules": []},
}
MONITOR: Object = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "a"},
    "spec": {"selector": {}, "endpoints": [{"port": "metrics"}]},
}
ISSUER: Object = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Issuer",
    "metadata": {"name": "a"},
    "spec": {"selfSigned": {}},
}
WRONG: list[tuple[str, Object, Object, str]] = [
    ("unknown", POD, {"spec": {"container": []}}, "Pod a.spec: additional properties 'container' not allowed"),
    ("type", POD, {"spec": {"priority": "high"}}, "Pod a.spec.priority: got string, want integer"),
    ("required", POD, {"spec": {"containers": [{}]}}, "Pod a.spec.containers.0: missing property 'name'"),
    ("null", POD, {"spec": {"tolerations": None}}, "Pod a.spec.tolerations: got null, want array"),
    ("map", POD, {"spec": {"nodeSelector": {"a": 1}}}, "Pod a.spec.nodeSelector.a: got number, want string"),
    ("kind", POD, {"kind": "Pot"}, "Pot a: could not find schema for Pot"),
    ("version", POD, {"apiVersion": "v2"}, "Pod a: could not find schema for Pod"),
    ("policy", POLICY, {"spec": {"rule": []}}, "MetadataPolicy a.spec: additional properties 'rule' not allowed"),
    ("label", POLICY, {"metadata": {"labels": {"a": 1}}}, ".labels.a: got number, want string"),
    ("monitor", MONITOR, {"spec": {"endpoint": []}}, "ServiceMonitor a.spec: additional properties 'endpoint'"),
    ("issuer", ISSUER, {"spec": {"selfsigned": {}}}, "Issuer a.spec: additional properties 'selfsigned' not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "change", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_it_can_fail(valid: Kubeconform, right: Object, change: Object, said: str) -> None:
    """A wrong object is told from a right one."""
    newest = VERSIONS[-1]
    assert valid.errors(newest, [right]) == []
    wrong = copy.deepcopy(right)
    for key, value in change.items():
        wrong[key] = wrong[key] | value if isinstance(value, dict) else value
    assert [error for error in valid.errors(newest, [wrong]) if said in error]
