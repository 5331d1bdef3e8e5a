"""manifests/ is what the chart renders, and applies as a whole."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.chart.rendering import CHART, documents, keys

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


def test_kustomization(control_plane_binaries: Path) -> None:
    """Everything but the evictor is in it."""
    command: list[str | Path] = [control_plane_binaries / "kubectl", "kustomize", MANIFESTS]
    built = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = [file for file in MANIFESTS.glob("*.yaml") if not file.name.startswith(("evictor", "kustomization"))]
    wanted = keys([document for file in files for document in documents(file.read_text())])
    assert keys(list(documents(built))) == wanted
