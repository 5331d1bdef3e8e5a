"""Devices for claims that no pod uses yet, chosen by an engine of our own: how full a cluster is before a run."""

from __future__ import annotations

import msgspec

from podberth.engine.engine import Engine
from podberth.engine.instructions import PreBindWrite
from podberth.engine.stimuli import Cycle, PreBindWritten, Put
from podberth.framework.binding import Patch
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.kube.client import Client, list_items
from podberth.kube.resources import DEVICES, NODES, RESOURCE_CLAIMS
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from podberth.testing.workloads.writes import for_each

_NAME = "allocation"
_CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": _NAME}],
}


class AllocationError(Exception):
    """A claim for which no node has devices left: the text says which."""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str


class _Status(msgspec.Struct):
    allocation: msgspec.Raw | None = None


class _Claim(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


async def allocate(client: Client, namespace: str) -> None:
    """Write an allocation to each claim of a namespace that has none. Raises AllocationError, ApiError, Unreachable."""
    decoder, engine = Decoder(), Engine(build(decode(_CONFIGURATION), registry()))
    for resource in (NODES, *DEVICES):
        async for raw in list_items(client, resource.path()):
            engine.handle(Put(decoder.of_kind(resource.kind)(raw)), 0.0)
    path = RESOURCE_CLAIMS.path(namespace)
    claims = [msgspec.json.decode(raw, type=_Claim) async for raw in list_items(client, path)]
    waiting = [claim.metadata.name for claim in claims if claim.status.allocation is None]

    async def write(name: str) -> None:
        change = {"status": {"allocation": _allocation(engine, decoder, namespace, name)}}
        await client.patch(f"{path}/{name}/status", msgspec.json.encode(change))

    await for_each(waiting, write)


def _allocation(engine: Engine, decoder: Decoder, namespace: str, claim: str) -> object:
    """Return what a pod with this claim would get. It stays in the engine, so that its devices are taken."""
    pod = {
        "metadata": {"name": claim, "namespace": namespace, "uid": claim},
        "spec": {
            "schedulerName": _NAME,
            "containers": [{"name": "main", "resources": {"claims": [{"name": "devices"}]}}],
            "resourceClaims": [{"name": "devices", "resourceClaimName": claim}],
        },
    }
    engine.handle(Put(decoder.pod(msgspec.json.encode(pod))), 0.0)
    done = engine.handle(Cycle(), 0.0)
    while writes := [write for one in done if isinstance(one, PreBindWrite) for write in one.writes]:
        patches = [write for write in writes if isinstance(write, Patch)]
        for patch in patches:
            if "allocation" in patch.change.get("status", {}):
                return patch.change["status"]["allocation"]
        done = engine.handle(PreBindWritten(claim, {patch.key: patch.resource_version for patch in patches}), 0.0)
    raise AllocationError(f"ResourceClaim {namespace}/{claim}: no node has devices left for it")
