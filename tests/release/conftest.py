"""Fixtures of the release's tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def release() -> ModuleType:
    """packaging/release.py, which is no package."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
