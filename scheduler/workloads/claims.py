"""The work of kube-controller-manager's claim controller, for clusters where none runs.

Claims are made from templates for pods that ask for them, and go with their pods; claims that pods share by name are
free again afterwards. Each scheduler finds claims that were made in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.resources import PODS, RESOURCE_CLAIMS
from scheduler.whatif import claim_templates
from scheduler.whatif.claim_templates import templated
from scheduler.workloads.writes import delete_one, items

_AT_ONCE = 16
_LET_GO = msgspec.json.encode({"metadata": {"finalizers": None}})
_FREED = msgspec.json.encode({"status": {"allocation": None, "reservedFor": None, "devices": None}})


class _Owner(msgspec.Struct):
    kind: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    owner_references: list[_Owner] = []
    finalizers: list[str] = []


class _Status(msgspec.Struct, rename="camel"):
    reserved_for: list[msgspec.Raw] = []


class _Claim(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any]


class ClaimController:
    """Makes and removes the claims of one run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._templates: dict[tuple[str, str], dict[str, Any]] = {}

    def learn(self, namespace: str, template: bytes) -> None:
        """A ResourceClaimTemplate was created."""
        document = msgspec.json.decode(template)
        self._templates[namespace, document["metadata"]["name"]] = document

    async def follow(self, answer: bytes) -> None:
        """A pod was created: make its claims, and name them in its status. Raises ApiError."""
        pod = _pod.decode(answer)
        meta = pod.metadata
        asked = [each for each in templated(pod.spec) if (meta.namespace, each.template) in self._templates]
        for each in asked:
            template = self._templates[meta.namespace, each.template]
            made = claim_templates.claim(template, each, pod=meta.name, namespace=meta.namespace, uid=meta.uid)
            await self._client.create(RESOURCE_CLAIMS.path(meta.namespace), msgspec.json.encode(made))
        if asked:
            change = {"status": {"resourceClaimStatuses": claim_templates.status(meta.name, pod.spec)}}
            path = PODS.path(meta.namespace, meta.name, "status")
            await self._client.patch(path, msgspec.json.encode(change))

    async def end(self, namespace: str, pod: str, answer: bytes) -> None:
        """A pod that was created with this answer was deleted: its claims go."""
        for each in templated(_pod.decode(answer).spec):
            path = RESOURCE_CLAIMS.path(namespace, claim_templates.claim_name(pod, each.name))
            await self._client.patch(path, _LET_GO)
            await delete_one(self._client, path)

    async def clear(self, namespaces: Iterable[str]) -> None:
        """All pods of these namespaces were deleted: their claims go, and those that they shared are free."""
        for namespace in namespaces:
            found = [_claim.decode(item) async for item in items(self._client, RESOURCE_CLAIMS.path(namespace))]
            waiting = iter(found)

            async def work(waiting: Iterable[_Claim] = waiting) -> None:
                for claim in waiting:
                    await self._clear(claim)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_AT_ONCE, len(found))):
                    tasks.create_task(work())

    async def _clear(self, claim: _Claim) -> None:
        meta = claim.metadata
        path = RESOURCE_CLAIMS.path(meta.namespace, meta.name)
        if any(owner.kind == "Pod" for owner in meta.owner_references):
            if meta.finalizers:
                await self._client.patch(path, _LET_GO)
            await delete_one(self._client, path)
        elif claim.status.reserved_for:
            await self._client.patch(f"{path}/status", _FREED)
            await self._client.patch(path, _LET_GO)


_pod, _claim = msgspec.json.Decoder(_Pod), msgspec.json.Decoder(_Claim)
