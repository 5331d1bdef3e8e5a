"""Bindings whose answers are lost, wrong or never come, on real processes: bound once, on nodes that have room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.integration import checks
from tests.integration.berth import START, Harbour
from tests.integration.objects import node, pod, pods_path
from tests.integration.proxy import Proxy, behind

FULL = 60
"""Pods that fill the nodes of a test."""


class Unreliable(Proxy):
    """A proxy that says something else than the API server, or nothing at all."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.lies = False
        """Of three pods, the first Binding of one is stored and answered with 504, of one not passed on, with a 502."""
        self.bindings: dict[str, int] = {}
        """Path → its number, of those that were lied about."""
        self._open: set[asyncio.BaseTransport | None] = set()
        self._dead: set[asyncio.BaseTransport | None] = set()

    def swallow(self) -> None:
        """Whatever is asked from now on over connections that are open now is not passed on, and never answered."""

        async def die() -> None:
            self._dead |= self._open

        asyncio.run_coroutine_threadsafe(die(), self._loop).result(30)

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        self._open.add(request.transport)
        if request.transport in self._dead:
            await asyncio.Event().wait()
        if not (self.lies and request.path.endswith("/binding")):
            return await super()._pass(request)
        if request.path in self.bindings:
            return await super()._pass(request)
        self.bindings[request.path] = len(self.bindings)
        match self.bindings[request.path] % 3:
            case 0:
                return web.Response(status=502, text="<html>bad gateway</html>")
            case 1:
                await super()._pass(request)
                return web.Response(status=504, text="<html>gateway timeout</html>")
            case _:
                return await super()._pass(request)


@pytest.fixture
def unreliable(audited: ControlPlane) -> Iterator[Unreliable]:
    """Between a scheduler and the API server."""
    between = Unreliable(audited)
    with between:
        yield between


def many(prefix: str, profile: str, where: str) -> list[Object]:
    """Pods of one CPU that fill the nodes of one test."""
    return [pod(f"{prefix}-{i}", profile, cpu="1", nodeSelector={"test": where}) for i in range(FULL)]


def room(where: str, prefix: str) -> list[Object]:
    """Nodes for so many pods, and not one more."""
    return [node(f"{prefix}-{where}-{i}", labels={"test": where}, cpu="4") for i in range(FULL // 4)]


def test_unknown_is_not_no(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    unreliable: Unreliable,
) -> None:
    """A third of the Bindings is stored and answered with 504, a third lost with a 502: each pod is bound once."""
    api, name = audited.api, f"berth-{audited_namespace}"
    add_nodes(audited, room(audited_namespace, "lied"))
    berth = behind(unreliable, harbour, name)
    unreliable.lies = True
    api.create_many(pods_path(audited_namespace), many("p", berth.scheduler_name, audited_namespace))
    pods = checks.wait_bound(api, audited_namespace, FULL)
    checks.bound_once_each(audited, audited_namespace, pods)
    assert checks.overfull(api) == []
    berth.end()  # the log is written a moment after what it tells of
    assert len(berth.lines("binding unanswered, asking for the pod")) >= FULL // 3
    assert berth.lines("binding failed") == []


def test_connections_that_swallow(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    unreliable: Unreliable,
) -> None:
    """All connections that are open swallow what is sent: the pods are bound over new ones, once each."""
    api, name = audited.api, f"berth-{audited_namespace}"
    add_nodes(audited, room(audited_namespace, "first") + room(audited_namespace, "second"))
    berth = behind(unreliable, harbour, name)
    path = pods_path(audited_namespace)
    api.create_many(path, many("first", berth.scheduler_name, audited_namespace))
    checks.wait_bound(api, audited_namespace, FULL)
    unreliable.swallow()
    api.create_many(path, many("second", berth.scheduler_name, audited_namespace))
    pods = checks.wait_bound(api, audited_namespace, 2 * FULL)
    checks.bound_once_each(audited, audited_namespace, pods)
    assert checks.overfull(api) == []
    # Events may still be under way on connections that swallow, and are cut off; every Binding was answered.
    assert berth.stop(START) == 0, berth.tail()
    assert berth.lines("binding unanswered, asking for the pod")
    assert berth.lines("stopped")[-1]["bound"] == 2 * FULL
