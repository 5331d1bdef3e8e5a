"""Fixtures for tests on a real API server; those that use them are marked `real`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.browser.axe import axe as installed_axe
from tests.browser.install import chromium as installed_chromium
from tests.chart.build import TOOLS
from tests.chart.rendering import Chart
from tests.controlplane import build, namespaces
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.existing import ExistingCluster
from tests.controlplane.once import BuildError, UnreachableError
from tests.e2e import build as end_to_end
from tests.integration.beside import build as beside
from tests.parts.places import may_be_real

GIVEN = os.environ.get("BERTH_TEST_KUBECONFIG")
BUILT = pytest.StashKey[Path | UnreachableError | BuildError]()
COMMANDS = pytest.StashKey[dict[str, Path | UnreachableError | BuildError]]()
"""What tests run, of what they have as a fixture: the chart's tools, the browser, the garbage collector."""

# Whoever shares the cores decides how long an example takes: no test fails for that.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a real API server, or tools of chart and release, before `-m` selects."""
    for item in items:
        wanted = set(getattr(item, "fixturenames", ()))
        if {"control_plane", "control_plane_binaries", *TOOLS} & wanted:
            item.add_marker("real")
        if item.get_closest_marker("real") and not may_be_real(item.path.relative_to(item.config.rootpath)):
            raise pytest.UsageError(
                f"{item.nodeid} needs real processes: tests/parts/places.py does not name its folder"
            )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, in sight: a build takes longer than a test may."""
    if session.config.option.collectonly:
        return
    # What was imported and collected stays until the end: no collection of garbage looks through it again. Tests make
    # large things that last for milliseconds, so what is young is looked through less often, too.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    real = [item for item in session.items if "real" in item.keywords]
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        # In this order: the chart's tools share packages with the control plane.
        if real and not GIVEN:
            session.config.stash[BUILT] = _built(build.binaries)
        makers = {name: tool.command for name, tool in TOOLS.items()}
        makers |= {"chromium": installed_chromium, "axe": installed_axe}
        makers |= {"garbage_collector": build.GARBAGE_COLLECTOR.command, "end_to_end_tests": end_to_end.built}
        makers |= {"controllers": end_to_end.COMMANDS.built}
        others = (beside.KUEUE, beside.KARPENTER, beside.DESCHEDULER, beside.COLLECTOR)
        makers |= {program.name: program.command for program in others}
        wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
        session.config.stash[COMMANDS] = {name: _built(make) for name, make in makers.items() if name in wanted}


def _built(make: Callable[[], Path]) -> Path | UnreachableError | BuildError:
    try:
        return make()
    except (UnreachableError, BuildError) as error:
        return error


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip here rather than in a fixture: pytest's summary then has one line for all."""
    commands = item.config.stash[COMMANDS]
    wanted = [built for name, built in commands.items() if name in getattr(item, "fixturenames", ())]
    if "real" in item.keywords and BUILT in item.config.stash:
        wanted.append(item.config.stash[BUILT])
    for built in wanted:
        if isinstance(built, UnreachableError):
            pytest.skip(f"what the test runs can't be built or had here: {built}")
        if isinstance(built, BuildError):
            raise built


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show the end of the servers' logs under a failed test."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and isinstance(cluster, Cluster):
        report.sections += [(f"end of the log of {server.name}", server.tail(15)) for server in cluster.processes]
    return report


@pytest.fixture(autouse=True)
def _log_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command that ran in this process may have set up the log; the next test finds structlog's defaults.

    Loggers of modules are not bound for good when they are first used, or nobody could listen to them later.
    """
    configure = structlog.configure
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**how | {"cache_logger_on_first_use": False}))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def control_plane_binaries(pytestconfig: pytest.Config) -> Path:
    """For tests that start, and harm, a `ControlPlane` of their own: where its binaries are."""
    if GIVEN:
        pytest.skip("BERTH_TEST_KUBECONFIG is set, and this test starts a control plane of its own")
    built = pytestconfig.stash[BUILT]
    assert isinstance(built, Path)
    return built


def _command(name: str) -> Any:
    """A fixture of this name: a command that was built, or had, before the first test."""

    @pytest.fixture(scope="session", name=name)
    def found(pytestconfig: pytest.Config) -> Path:
        built = pytestconfig.stash[COMMANDS][name]
        assert isinstance(built, Path)
        return built

    return found


helm, kubeconform, promtool, chromium = map(_command, ("helm", "kubeconform", "promtool", "chromium"))
actionlint, helm_docs, krew = map(_command, ("actionlint", "helm_docs", "krew"))
validate_krew_manifest = _command("validate_krew_manifest")
axe = _command("axe")
"""The script that finds what keeps people from using a page."""
garbage_collector = _command("garbage_collector")
"""kube-controller-manager's; its only option is --kubeconfig."""
controllers = _command("controllers")
"""The directory of kube-controller-manager and kwok."""
end_to_end_tests = _command("end_to_end_tests")
"""Kubernetes' own, for ginkgo."""
kueue, karpenter, descheduler, collector = map(_command, ("kueue", "karpenter", "descheduler", "collector"))
"""Programs that work beside Berth; the second one only asks Karpenter's own code, the last one is OpenTelemetry's."""


@pytest.fixture(scope="session")
def chart(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Chart:
    """The chart, through Helm."""
    return Chart(helm, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The API server that all tests of a session share: leave no nodes behind, and harm nothing."""
    if not GIVEN:
        request.getfixturevalue("control_plane_binaries")
    with ExistingCluster(Path(GIVEN)) if GIVEN else ControlPlane() as cluster:
        yield cluster


@pytest.fixture
def real_namespace(control_plane: Cluster) -> Iterator[str]:
    """A namespace for one test on the real API server."""
    name = namespaces.create(control_plane.api)
    yield name
    namespaces.remove(control_plane.api, name, by_hand=control_plane.owned)
