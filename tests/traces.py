"""Spans as trees, wherever they come from, and a `berth run --tracing` that sends some."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sysconfig
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from podberth.apiserver import ApiServer
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from tests.builders import Object, configuration, node, pod, profile

PATIENCE = 60.0
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
_SCRIPT = Path(sysconfig.get_path("scripts")) / "berth"


class Seen(Struct):
    """A span, wherever it comes from."""

    id: int
    parent: int
    name: str
    about: dict[str, Any]
    begin: int
    end: int
    failed: bool


class Traces:
    """Spans as trees."""

    def __init__(self, spans: Iterable[Seen]) -> None:
        self.spans = sorted(spans, key=lambda span: (span.begin, span.end))

    def attempts(self, name: str) -> list[Seen]:
        """Return the roots of a pod's attempts."""
        return [span for span in self.spans if span.name == "Schedule" and span.about["k8s.pod.name"] == name]

    def below(self, span: Seen) -> list[Seen]:
        """Return the children of a span, in the order of their begin."""
        return [child for child in self.spans if child.parent == span.id]

    def names(self, span: Seen) -> list[str]:
        """Return the names of a span's children."""
        return [child.name for child in self.below(span)]

    def child(self, span: Seen, name: str) -> Seen:
        """Return the one child with this name."""
        (found,) = [child for child in self.below(span) if child.name == name]
        return found


async def create(client: Client, path: str, *bodies: Object) -> None:
    """Create these objects; nodes lose the taint that a server gives to each new one."""
    for body in bodies:
        await client.create(path, msgspec.json.encode(body))
        if path == NODES:
            await client.patch(f"{path}/{body['metadata']['name']}", b'{"spec": {"taints": null}}')


async def until(found: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is there."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                if await found():
                    return
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited for {what}") from None


async def one_pod(home: Path, where: str, **environment: str) -> None:
    """Have `berth run --tracing` bind the pod `web` to the node `n1`, send its spans to a collector, and end."""
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        await create(client, NODES, node("n1"))
        kubeconfig = home / "kubeconfig"
        named = {"name": "c", "cluster": {"server": server.url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {"token": "t"}}]
        config = {"clusters": [named], "contexts": [context], "users": users, "current-context": "c"}
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
        settings = home / "config.yaml"
        settings.write_text(json.dumps(configuration(profile(), leaderElection={"leaderElect": False})))
        berth = await asyncio.create_subprocess_exec(
            *(str(_SCRIPT), "run", "--tracing", "--secure-port=0"),
            *(f"--kubeconfig={kubeconfig}", f"--config={settings}"),
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": where, **environment},
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await create(client, PODS, pod("web"))

            async def found() -> bool:
                return b'"Scheduled"' in await client.get("/apis/events.k8s.io/v1/namespaces/default/events")

            await until(found, "the event")
            berth.send_signal(signal.SIGTERM)
            _, said = await asyncio.wait_for(berth.communicate(), PATIENCE)
        finally:
            if berth.returncode is None:
                berth.kill()
    assert berth.returncode == 0, said.decode()
