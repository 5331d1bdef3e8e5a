"""MetadataPolicies for one act: the admission server of `berth admission` in this process, and policies it enforces.

It registers its webhooks with the API server, which then asks it over HTTPS about every create, as in a cluster.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.resources import METADATA_POLICIES, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from podberth.policy.admission.replica import Replica
from podberth.policy.admission.settings import Settings
from podberth.testing.demo.cast import Object, namespace
from podberth.testing.demo.play import LateError

OWN_NAMESPACE = "berth"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition")
LOOK_SECONDS = 0.02
PATIENCE = 15.0


class Policed:
    """These policies enforced in a namespace, from the beginning to the end of an `async with` block."""

    def __init__(self, connection: Connection, where: str, policies: Sequence[Object]) -> None:
        self._client = Client(connection, qps=-1)
        self._where = where
        self._policies = policies
        port = _free_port()
        settings = Settings(
            namespace=OWN_NAMESPACE,
            host="127.0.0.1",
            port=port,
            url=f"https://127.0.0.1:{port}",
            overlap_seconds=0.0,
            drain_seconds=0.0,
        )
        self._configuration = settings.configuration
        self._replica = Replica(self._client, settings)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        client = await self._client.__aenter__()
        await client.create(NAMESPACES.path(), msgspec.json.encode(namespace(OWN_NAMESPACE)))
        await client.create(CRDS.path(), msgspec.json.encode(_definition()))
        self._running = asyncio.create_task(self._replica.run())
        try:
            for policy in self._policies:
                await client.create(METADATA_POLICIES.path(self._where), msgspec.json.encode(policy))
            await self._until(lambda: self._replica.registration.published, "the webhooks to be registered")
            known = len(self._policies)
            await self._until(lambda: self._replica.cache.counts() == (known, 0), "the policies to be known")
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._replica.end()
            await asyncio.gather(self._running, return_exceptions=error is not None)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            await self._client.delete(resource.path(name=self._configuration))
        for policy in self._policies:
            await self._client.delete(METADATA_POLICIES.path(self._where, policy["metadata"]["name"]))
        await self._client.__aexit__(kind, error, trace)

    async def _until(self, claim: Callable[[], bool], what: str) -> None:
        """Wait; what breaks the admission server comes out here.

        Raises LateError.
        """
        assert self._running is not None
        try:
            async with asyncio.timeout(PATIENCE):
                while not claim():
                    await asyncio.sleep(LOOK_SECONDS)
                    if self._running.done():
                        self._running.result()
        except TimeoutError:
            raise LateError(f"waited {PATIENCE:g} s for {what}, in vain") from None


def _definition() -> Object:
    """Return the CRD, without the rules of manifests/crd-metadatapolicies.yaml: the admission server checks policies,
    too.
    """
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": METADATA_POLICIES.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": CRDS.kind,
        "metadata": {"name": f"{METADATA_POLICIES.plural}.{METADATA_POLICIES.group}"},
        "spec": {
            "group": METADATA_POLICIES.group,
            "scope": "Namespaced",
            "names": {"plural": METADATA_POLICIES.plural, "kind": METADATA_POLICIES.kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _free_port() -> int:
    """Return a port that the system has just given, so most likely nobody else has it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
