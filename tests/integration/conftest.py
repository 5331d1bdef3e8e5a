"""Fixtures of the integration tests: schedulers as processes, a control plane that keeps an audit, nodes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import namespaces
from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import POD_GROUPS, Cluster, ControlPlane
from tests.integration.admission import Policed
from tests.integration.berth import Harbour
from tests.integration.classes import CLASSES, make_class
from tests.integration.installed import Installed
from tests.integration.objects import NODES, pods_path

LEFT = (
    NODES,
    CLASSES,
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
)
"""Collections of what a test could leave on a control plane that others use too."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show the end of the logs of what the test started, under a failed test."""
    report = yield
    if report.failed:
        for started in getattr(item, "funcargs", {}).values():
            if isinstance(started, (Harbour, Installed, Policed)):
                report.sections += started.logs()
    return report


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A control plane that tests share is the same after each of them: what one leaves behind, another one meets."""
    names = [name for name in ("control_plane", "audited") if name in request.fixturenames]
    shared = [cluster for cluster in map(request.getfixturevalue, names) if cluster.owned]
    before = [_there(cluster) for cluster in shared]
    yield
    for cluster, was in zip(shared, before, strict=True):
        left = sorted(_there(cluster) - was)
        assert not left, f"the test left on a shared control plane: {left}"


def _there(cluster: Cluster) -> set[str]:
    """What tests may leave behind: pods and claims, and what is in no namespace."""
    return {
        f"{path.rpartition('/')[2]} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        for path in LEFT
        for one in _listed(cluster, path)
    }


def _listed(cluster: Cluster, path: str) -> list[Object]:
    """The objects of a collection; none if the API server, which may be an older one, does not serve it."""
    try:
        return cluster.api.list(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return []


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    """Starts schedulers; they end with the test."""
    opened = Harbour(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def audited(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of our own that records each Binding: who asked, which UID, which node, what came of it."""
    with ControlPlane(audit=True) as cluster:
        yield cluster


@pytest.fixture
def audited_namespace(audited: ControlPlane) -> Iterator[str]:
    """A namespace for one test on the audited control plane."""
    name = namespaces.create(audited.api)
    yield name
    namespaces.remove(audited.api, name, by_hand=True)


@pytest.fixture
def urgent(control_plane: Cluster) -> Iterator[str]:
    """The name of a priority class above all that have none."""
    name = f"urgent-{secrets.token_hex(4)}"
    make_class(control_plane.api, name, 1000)
    yield name
    control_plane.api.delete(f"{CLASSES}/{name}")


@pytest.fixture
def add_nodes() -> Iterator[Callable[..., None]]:
    """`add_nodes(cluster, bodies)`: create nodes, which go when the test ends."""
    pool = secrets.token_hex(4)
    used: list[Cluster] = []

    def add(cluster: Cluster, bodies: list[Object]) -> None:
        used.append(cluster)
        for body in bodies:
            body["metadata"]["labels"]["pool"] = pool
        cluster.api.create_many(NODES, bodies)

    yield add
    for cluster in {id(cluster): cluster for cluster in used}.values():
        cluster.api.delete(f"{NODES}?labelSelector=pool%3D{pool}")


@pytest.fixture(scope="module")
def prepared(control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policed]:
    """A control plane for a module (webhooks for everything are nobody else's business), with our manifests."""
    with ControlPlane(audit=True) as cluster:
        found = Policed(cluster, tmp_path_factory.mktemp("policies"))
        found.prepare()
        yield found


@pytest.fixture
def policed(prepared: Policed) -> Iterator[Policed]:
    """The same, without replicas or registrations from before."""
    yield prepared
    prepared.unregister()


@pytest.fixture(scope="module")
def gated(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of a module's own that has pod groups, and records each Binding."""
    with ControlPlane(audit=True, apiserver_args=POD_GROUPS) as cluster:
        yield cluster


@pytest.fixture
def space(gated: ControlPlane) -> Iterator[str]:
    """A namespace for one test. Its groups go with the control plane: nobody here takes their finalizers off."""
    name = namespaces.create(gated.api)
    yield name
    gated.api.delete(f"{pods_path(name)}")
