"""The fixture `oracle`; tests that use it are marked `real`, since it is built as the control plane is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.once import BuildError, UnreachableError
from tests.differential.client import Oracle

BUILT = pytest.StashKey[Path | UnreachableError | BuildError]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the oracle, before `-m` selects."""
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker("real")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, in sight: where nothing is cached, a build takes longer than a test may."""
    wanted = any("oracle" in getattr(item, "fixturenames", ()) for item in session.items)
    if session.config.option.collectonly or not wanted:
        return
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        try:
            session.config.stash[BUILT] = build.ORACLE.command()
        except (UnreachableError, BuildError) as error:
            session.config.stash[BUILT] = error


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Oracle:
    """kube-scheduler's own plugins."""
    built = pytestconfig.stash[BUILT]
    if isinstance(built, UnreachableError):
        pytest.skip(f"no oracle, what its build needs is out of reach: {built}")
    if isinstance(built, BuildError):
        raise built
    return Oracle(built)
