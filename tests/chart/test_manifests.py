"""manifests/ is what the chart renders, and applies as a whole."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.chart.rendering import CHART, Chart, Object, documents, keys

MANIFESTS = CHART.parent / "manifests"
BY_HAND = {"kustomization.yaml", "namespace.yaml"}


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """manifests/make.py, which is no package."""
    spec = importlib.util.spec_from_file_location("make_manifests", MANIFESTS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_manifests_are_the_charts(helm: Path, make: ModuleType) -> None:
    """`make manifests` would change nothing: no file differs, is missing, or is one too many."""
    made = make.rendered(helm)
    there = {file.name: file.read_text() for file in MANIFESTS.glob("*.yaml") if file.name not in BY_HAND}
    assert sorted(there) == sorted(made)
    assert [name for name in made if made[name] != there[name]] == []


def test_schema_knows_the_configuration(make: ModuleType) -> None:
    """values.schema.json has the configuration's fields as Berth decodes them (`make manifests`)."""
    assert (CHART / "values.schema.json").read_text() == make.schema()


def kustomized(binaries: Path, folder: Path) -> str:
    """What `kubectl kustomize` builds of a folder."""
    command: list[str | Path] = [binaries / "kubectl", "kustomize", folder]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_kustomization(control_plane_binaries: Path) -> None:
    """Everything but the evictor is in it."""
    built = kustomized(control_plane_binaries, MANIFESTS)
    files = [file for file in MANIFESTS.glob("*.yaml") if not file.name.startswith(("evictor", "kustomization"))]
    wanted = keys([document for file in files for document in documents(file.read_text())])
    assert keys(list(documents(built))) == wanted


ZONES: Object = {
    "replicas": 3,
    "topologySpread": {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
}
OVERLAYS: dict[str, tuple[Object, str]] = {
    "ha": (dict.fromkeys(("scheduler", "operator", "admission"), ZONES), "berth"),
    "webhook-only": ({"scheduler": {"enabled": False}, "operator": {"enabled": False}}, "berth"),
    "elsewhere": ({}, "scheduling"),
}
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy", "checksum/config")


def plain(text: str) -> dict[str, Object]:
    """Objects by kind, namespace and name, without what Helm writes for itself; a ConfigMap's YAML is read."""
    found = {}
    for one in documents(text):
        meta = one["metadata"]
        pod = one["spec"]["template"]["metadata"] if one["kind"] == "Deployment" else {}
        for names in (meta.get("labels", {}), meta.get("annotations", {}), pod.get("annotations", {})):
            for name in OF_HELM:
                names.pop(name, None)
        if not meta.get("annotations", True):
            del meta["annotations"]
        if one["kind"] == "ConfigMap":
            one["data"] = {name: list(documents(value)) for name, value in one["data"].items()}
        found[f"{one['kind']} {meta.get('namespace', '')}/{meta['name']}"] = one
    return found


@pytest.mark.parametrize("name", OVERLAYS)
def test_overlays_are_what_the_chart_makes(chart: Chart, control_plane_binaries: Path, name: str) -> None:
    """Each overlay of examples/kustomize builds the chart's objects with some values, in some namespace."""
    values, namespace = OVERLAYS[name]
    text = chart.text(values, namespace=namespace)
    # The manifests are those of a release in the namespace of its name: what is the cluster's has no suffix.
    wanted = {key: one for key, one in plain(text.replace(".scheduling", "")).items() if not key.startswith("Pod ")}
    built = plain(kustomized(control_plane_binaries, CHART.parent / "examples" / "kustomize" / name))
    made = built.pop(f"Namespace /{namespace}")
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert sorted(built) == sorted(wanted)
    assert [key for key in wanted if built[key] != wanted[key]] == []
