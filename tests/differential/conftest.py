"""The fixtures `oracle` and `compiler`; tests that use them are marked `real`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.once import BuildError, UnreachableError
from tests.controlplane.program import Program
from tests.differential.client import Oracle
from tests.differential.selectors import Compiler

PROGRAMS = {"oracle": build.ORACLE, "compiler": build.CEL}
BUILT = {name: pytest.StashKey[Path | UnreachableError | BuildError]() for name in PROGRAMS}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs one of the programs, before `-m` selects."""
    for item in items:
        if PROGRAMS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker("real")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, in sight: where nothing is cached, a build takes longer than a test may."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())} & PROGRAMS.keys()
    if session.config.option.collectonly or not wanted:
        return
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for name in sorted(wanted):
            session.config.stash[BUILT[name]] = _built(PROGRAMS[name])


def _built(program: Program) -> Path | UnreachableError | BuildError:
    try:
        return program.command()
    except (UnreachableError, BuildError) as error:
        return error


def _program(config: pytest.Config, name: str) -> Path:
    built = config.stash[BUILT[name]]
    if isinstance(built, UnreachableError):
        pytest.skip(f"no {name}, what its build needs is out of reach: {built}")
    if isinstance(built, BuildError):
        raise built
    return built


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Oracle:
    """kube-scheduler's own plugins."""
    return Oracle(_program(pytestconfig, "oracle"))


@pytest.fixture(scope="session")
def compiler(pytestconfig: pytest.Config) -> Compiler:
    """Kubernetes' own compiler of selectors."""
    return Compiler(_program(pytestconfig, "compiler"))
