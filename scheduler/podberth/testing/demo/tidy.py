"""Leaving a real cluster as it was found: also after an error, and on Ctrl-C."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, Resource
from podberth.testing.demo import cast, devices
from podberth.testing.demo.cast import Setting
from podberth.testing.demo.objects import namespace

NOW = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
GRACE = 4.0
"""Seconds that the cluster's own namespace controller gets before we look whether there is one."""
LONGEST = 12.0
CONFIG_MAPS = Resource("", "v1", "configmaps", True, "ConfigMap")
EVERYWHERE = "kube-root-ca.crt"
"""A ConfigMap that a controller manager puts into each namespace."""


class Tidy:
    """Makes the story's namespace; at the end of the block deletes it with all that is in it, and the story's nodes.

    `notice` hears what was and was not possible.
    """

    def __init__(self, client: Client, setting: Setting, notice: Callable[[str], None]) -> None:
        self._client = client
        self._setting = setting
        self._notice = notice

    async def __aenter__(self) -> Self:
        try:
            await self._client.create(NAMESPACES.path(), msgspec.json.encode(namespace(self._setting.namespace)))
        except ApiError:
            raise  # nothing was made
        except BaseException:
            await self._clean()  # who knows
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clean()

    async def _clean(self) -> None:
        setting = self._setting
        await self._delete(PODS.path(setting.namespace), "the pods")
        if setting.own_nodes:
            await self._clean_devices()
            for node in cast.nodes(setting):
                await self._delete(NODES.path(name=node["metadata"]["name"]), f"node {node['metadata']['name']}")
        if not await self._delete(NAMESPACES.path(name=setting.namespace), f"namespace {setting.namespace}"):
            return
        try:
            gone = await self._gone(GRACE) or await self._finish_by_hand() or await self._gone(LONGEST)
        except (ApiError, Unreachable) as problem:
            self._notice(f"Could not see namespace {setting.namespace} go: {problem}")
            return
        rest = "gone" if gone else "empty, and the cluster is deleting it"
        self._notice(f"Cleaned up: namespace {setting.namespace} is {rest}.")

    async def _clean_devices(self) -> None:
        try:
            await devices.let_claims_go(self._client, self._setting)
        except (ApiError, Unreachable) as error:
            if not (isinstance(error, ApiError) and error.status == 404):  # 404: the server has no devices
                self._notice(f"Could not delete the claims: {error}")
        for path, what in devices.left(self._setting):
            await self._delete(path, what)

    async def _delete(self, path: str, what: str) -> bool:
        try:
            await self._client.delete(path, NOW)
        except ApiError as error:
            if error.status == 404:
                return False
            self._notice(f"Could not delete {what}: {error}")
            return False
        except Unreachable as error:
            self._notice(f"Could not delete {what}: {error}. When the cluster is back: kubectl delete {what}")
            return False
        return True

    async def _gone(self, seconds: float) -> bool:
        """Return whether the namespace goes away in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if not await self._exists(NAMESPACES.path(name=self._setting.namespace)):
                return True
            await asyncio.sleep(0.1)
        return False

    async def _exists(self, path: str) -> bool:
        try:
            await self._client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _finish_by_hand(self) -> bool:
        """Return where no controllers run (envtest), do the namespace controller's part; False where they do.

        All that ever was in such a namespace is ours: pods, deleted before, their events, and a pod group.
        """
        name = self._setting.namespace
        path = NAMESPACES.path(name=name)
        found = msgspec.json.decode(await self._client.get(path))
        if (found.get("status") or {}).get("conditions") or await self._exists(CONFIG_MAPS.path(name, EVERYWHERE)):
            return False
        await self._delete(EVENTS.path(name), "the events")
        await self._delete(POD_GROUPS.path(name), "the pod groups")
        found["spec"]["finalizers"] = []
        await self._client.replace(f"{path}/finalize", msgspec.json.encode(found))
        return await self._gone(GRACE)
