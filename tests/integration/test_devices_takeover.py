"""The leader dies between the writes of a claim, on a real API server: the next one finishes what was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.devices import device
from tests.integration import checks
from tests.integration.berth import START, Harbour
from tests.integration.devices import Devices, claiming
from tests.integration.objects import node
from tests.integration.proxy import Proxy
from tests.integration.test_two_at_once import SECONDS, TAKEOVER

AddNodes = Callable[..., None]
WRITTEN = ["PATCH c", "PATCH c", "PATCH status", "POST binding"]
"""What a new leader writes for the first pod with a claim, `c`, in this order: its finalizer, the claim once more (to
know that its watch has caught up), its allocation, and the Binding."""


class Deadly(Proxy):
    """A proxy that passes on some writes of claims and Bindings, and kills who sends the next one."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.kill: Callable[[], None] = lambda: None
        self.left = 0
        """So many writes are passed on."""
        self.passed: list[str] = []
        self.killed = ""

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        written = request.method != "GET" and ("/resourceclaims/" in request.path or request.path.endswith("/binding"))
        if not written:
            return await super()._pass(request)
        what = f"{request.method} {request.path.rpartition('/')[2]}"
        if len(self.passed) == self.left:
            self.killed = self.killed or what
            await asyncio.to_thread(self.kill)
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=503)
        self.passed.append(what)
        return await super()._pass(request)


@pytest.fixture
def deadly(audited: ControlPlane) -> Iterator[Deadly]:
    """Between the first leader and the API server."""
    between = Deadly(audited)
    with between:
        yield between


@pytest.fixture
def devices(audited: ControlPlane, audited_namespace: str, add_nodes: AddNodes) -> Iterator[Devices]:
    """Two nodes with one device each."""
    made = Devices(audited, audited_namespace)
    names = [f"{made.name}-a", f"{made.name}-b"]
    add_nodes(audited, [node(name, "zone-0") for name in names])
    made.make_class()
    for name in names:
        made.make_slice(name, device("d0"))
    yield made
    made.close()


@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_the_leader_dies_between_the_writes_of_a_claim(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, devices: Devices, deadly: Deadly, written: int
) -> None:
    """After so many writes: the pod gets a device all the same, one only, and the claim is reserved for it alone."""
    name = f"berth-{audited_namespace}"
    election: Object = {"leaderElect": True, "resourceNamespace": audited_namespace}
    election |= SECONDS
    first = harbour.berth_at(deadly.kubeconfig(harbour.home / "deadly"), name, replica="-one", leaderElection=election)
    wait_for("the first to lead", lambda: first.lines("leads"), START)
    second = harbour.berth(audited, name, replica="-two", leaderElection=election)
    deadly.left, deadly.kill = written, first.kill
    devices.make_claim("c")
    devices.add("p", name, resourceClaims=claiming("c"))
    wait_for("the first to be killed", lambda: deadly.killed and not first.running, START)
    assert [*deadly.passed, deadly.killed] == WRITTEN[: written + 1]
    wait_for("the standby to lead", lambda: second.lines("leads"), TAKEOVER)
    pods = checks.wait_bound(audited.api, audited_namespace, 1)
    checks.bound_once_each(audited, audited_namespace, pods)
    assert devices.misplaced() == []
    (claim,) = devices.claims()
    assert [user["uid"] for user in claim["status"]["reservedFor"]] == [pods[0]["metadata"]["uid"]]
    assert sum(devices.given().values()) == 1
    second.end()
