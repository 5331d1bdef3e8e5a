"""The work of kube-controller-manager's claim controller, for clusters where none runs.

Claims are made from templates for the pods and pod groups that ask for them, and go with these. Claims that pods
share by name are free again afterwards. Each scheduler finds claims that were made in the same way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from podberth.explain.objects import resource_claims
from podberth.explain.objects.resource_claims import Templated, templated
from podberth.kube.client import Client
from podberth.kube.resources import POD_GROUPS, PODS, RESOURCE_CLAIMS, Resource
from podberth.testing.workloads.writes import delete_one, for_each, items

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


class _Holder(msgspec.Struct):
    """A pod or a pod group."""

    metadata: _Metadata
    spec: dict[str, Any]

    def group(self) -> str:
        """The name of the group that the pod is in; empty: it is in none."""
        name: str = self.spec.get("schedulingGroup", {}).get("podGroupName", "")
        return name


class ClaimController:
    """Makes and removes the claims of one run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._templates: dict[tuple[str, str], dict[str, Any]] = {}
        self._of_groups: dict[tuple[str, str], set[Templated]] = {}
        """The claims that the pods of a group share."""

    def learn(self, namespace: str, template: bytes) -> None:
        """A ResourceClaimTemplate was created."""
        document = msgspec.json.decode(template)
        self._templates[namespace, document["metadata"]["name"]] = document

    async def follow(self, answer: bytes) -> None:
        """A pod was created: make its claims, and name them in its status. Raises ApiError."""
        pod = _holder.decode(answer)
        meta = pod.metadata
        shared = self._of_groups.get((meta.namespace, pod.group()), ())
        await self._make(PODS, pod, shared)

    async def follow_group(self, answer: bytes) -> None:
        """A pod group was created: make the claims that its pods share, and name them in its status."""
        group = _holder.decode(answer)
        self._of_groups[group.metadata.namespace, group.metadata.name] = set(templated(group.spec))
        await self._make(POD_GROUPS, group)

    async def _make(self, kind: Resource, holder: _Holder, shared: Container[Templated] = ()) -> None:
        meta = holder.metadata
        asked = [each for each in templated(holder.spec) if (meta.namespace, each.template) in self._templates]
        named = []
        for each in asked:
            if each in shared:
                named.append(resource_claims.named(holder.group(), each))
                continue
            template = self._templates[meta.namespace, each.template]
            made = resource_claims.claim(
                template, each, owner=meta.name, namespace=meta.namespace, uid=meta.uid, of_group=kind is POD_GROUPS
            )
            await self._client.create(RESOURCE_CLAIMS.path(meta.namespace), msgspec.json.encode(made))
            named.append(resource_claims.named(meta.name, each))
        if named:
            change = {"status": {"resourceClaimStatuses": named}}
            path = kind.path(meta.namespace, meta.name, "status")
            await self._client.patch(path, msgspec.json.encode(change))

    async def end(self, namespace: str, pod: str, answer: bytes) -> None:
        """A pod that was created with this answer was deleted: its claims go."""
        for each in templated(_holder.decode(answer).spec):
            path = RESOURCE_CLAIMS.path(namespace, resource_claims.claim_name(pod, each.name))
            await self._client.patch(path, _LET_GO)
            await delete_one(self._client, path)

    async def clear(self, namespaces: Iterable[str]) -> None:
        """All pods of these namespaces were deleted: their claims go, and those that they shared are free."""
        for namespace in namespaces:
            found = [_claim.decode(item) async for item in items(self._client, RESOURCE_CLAIMS.path(namespace))]
            await for_each(found, self._clear)

    async def _clear(self, claim: _Claim) -> None:
        meta = claim.metadata
        path = RESOURCE_CLAIMS.path(meta.namespace, meta.name)
        if any(owner.kind in (PODS.kind, POD_GROUPS.kind) for owner in meta.owner_references):
            if meta.finalizers:
                await self._client.patch(path, _LET_GO)
            await delete_one(self._client, path)
        elif claim.status.reserved_for:
            await self._client.patch(f"{path}/status", _FREED)
            await self._client.patch(path, _LET_GO)


_holder, _claim = msgspec.json.Decoder(_Holder), msgspec.json.Decoder(_Claim)
