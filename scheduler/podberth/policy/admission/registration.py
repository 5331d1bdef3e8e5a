"""The two webhook configurations: what they should be, and the leader, who keeps them so.

A watch says at once when somebody edits or deletes one; every five seconds they are read anyway, in case the watch
has gone quiet. They stay when we go: an API server that finds nobody applies the failurePolicy, which was a choice.
They go with the ClusterRole that owns them, where one is named: removing a release removes it.

Where the API server itself enforces the policies of the release, the operator deletes the configurations, and nobody
writes them again for as long as a binding says so (`Registration.native`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.objects import Change, MarkedMeta, Partial
from podberth.kube.objects import partial as metadata
from podberth.kube.reflector import Reflector
from podberth.kube.resources import CLUSTER_ROLES, MUTATING_BINDINGS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from podberth.policy.admission.settings import Settings
from podberth.policy.native import requests
from podberth.policy.native.admission_policies import IN_FORCE
from podberth.policy.spec import GROUP
from podberth.service.applied import apply
from podberth.service.certificate import CertificateError

PATHS = {MUTATING_WEBHOOKS.plural: "/mutate", VALIDATING_WEBHOOKS.plural: "/validate"}
TIMEOUT_SECONDS = 3
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "admission"}
FIELD_MANAGER = "berth-admission"
LOOK_SECONDS = 5.0
PAUSE_SECONDS = 0.5
"""Between two looks, so that a quarrel with another controller over a configuration is no busy loop."""

log = structlog.get_logger("registration")

Object = dict[str, Any]


class _Binding(msgspec.Struct):
    metadata: MarkedMeta


_binding = msgspec.json.Decoder(_Binding).decode


def desired(settings: Settings, resource: Resource, bundle: bytes | None, owner_uid: str | None = None) -> Object:
    """Return one of the two configurations; without a bundle the caBundle is left to whoever injects it.

    Every field is spelled out, also where it is the default, so that whoever changes one finds it changed back.
    `owner_uid`: of the ClusterRole `settings.owner`, with which the garbage collector removes them.
    """
    path = PATHS[resource.plural]
    client: Object
    if settings.url:
        client = {"url": settings.url.rstrip("/") + path}
    else:
        place = {"namespace": settings.namespace, "name": settings.service, "port": settings.service_port}
        client = {"service": {**place, "path": path}}
    if bundle is not None:
        client["caBundle"] = base64.b64encode(bundle).decode()
    hook: Object = {
        "name": f"{path[1:]}.metadatapolicy.{GROUP}",
        "clientConfig": client,
        "rules": requests.rules(),
        "failurePolicy": settings.failure_policy if resource is VALIDATING_WEBHOOKS else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                # The name's label, which only the API server writes.
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*settings.exempt]}
            ]
        },
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "matchConditions": requests.of_resources(),
    }
    if resource is MUTATING_WEBHOOKS:
        hook["reinvocationPolicy"] = "IfNeeded"
    meta: Object = {"name": settings.configuration, "labels": LABELS}
    if owner_uid is not None:
        owner = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "name": settings.owner,
            "uid": owner_uid,
        }
        meta["ownerReferences"] = [owner]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "webhooks": [hook]}


def _like(found: Any, wanted: Any) -> bool:
    """Return whether both are equal in the fields that we name: others inject a caBundle, or default what is new."""
    if isinstance(wanted, dict) and wanted:
        return isinstance(found, dict) and all(_like(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_like, found, wanted))
    return bool(found == wanted)


class Certificates(Protocol):
    """A source of certificates: a Secret or files."""

    @property
    def bundle(self) -> bytes | None:
        """The certificates to publish."""

    async def advance(self, published: bool) -> None:
        """Rotate what is due."""


class Registration:
    """Keeps both webhook configurations as they should be.

    `allowed` is asked before each write: whether we lead at this moment. `repairs` counts what had to be written after
    the first time.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        certificates: Certificates,
        allowed: Callable[[], bool],
    ) -> None:
        self.repairs = 0
        self.native = False
        """True while the API server enforces the policies by itself, so that the configurations are not kept."""
        self.differs = False
        """True while the operator enforces in a way that the settings rule out, so that its `--enforcement` differs."""
        self._client = client
        self._settings = settings
        self._certificates = certificates
        self._allowed = allowed
        self._awake = asyncio.Event()
        self._published: tuple[bytes | None, float] | None = None
        self._complained: dict[str, str] = {}

    @property
    def published(self) -> bool:
        """Return whether both configurations were as they should be since this replica leads, or are not needed."""
        return self._published is not None

    def wake(self) -> None:
        """Look now: something may have changed."""
        self._awake.set()

    async def lead(self) -> None:
        """Reconcile until cancelled."""
        self._published = None
        async with asyncio.TaskGroup() as tasks:
            watched = [
                (resource, self._settings.configuration) for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            ]
            if self._settings.enforcement != "webhook":
                watched.append((MUTATING_BINDINGS, self._settings.binding))
            for resource, name in watched:
                selector = f"metadata.name={name}"
                tasks.create_task(
                    Reflector(self._client, resource, metadata.decode, self._changed, field_selector=selector).run()
                )
            while True:
                self._awake.clear()
                await self.reconcile()
                await asyncio.sleep(PAUSE_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._awake.wait()

    async def reconcile(self) -> None:
        """Write what differs, then rotate certificates if it is time."""
        if not await self._attempt("binding", self._see):
            return
        bundle = self._certificates.bundle
        if not self.native:
            done = [
                await self._attempt(r.plural, partial(self._one, r, bundle))
                for r in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            ]
            if not all(done):
                return
        if self._published is None or self._published[0] != bundle:
            self._published = bundle, time.monotonic()
        since = time.monotonic() - self._published[1]
        published = since >= self._settings.overlap_seconds
        await self._attempt("certificates", partial(self._certificates.advance, published))

    async def _attempt(self, what: str, act: Callable[[], Awaitable[None]]) -> bool:
        try:
            if not self._allowed():
                return False
            await act()
        except (ApiError, Unreachable, CertificateError) as error:
            if self._complained.get(what) != str(error):
                self._complained[what] = str(error)
                log.error("could not write it, trying again", what=what, error=str(error)[:300])
            return False
        self._complained.pop(what, None)
        return True

    async def _see(self) -> None:
        """See whether the API server enforces the policies by itself, so that the configurations are not needed.

        The binding is read right before the configurations are, whatever the watch says: it may be behind, and would
        have us write what the operator has just deleted.
        """
        in_force = False
        webhook_only = self._settings.enforcement == "webhook"
        try:
            body = await self._client.get(MUTATING_BINDINGS.path(None, self._settings.binding))
        except ApiError as error:
            # 404: there is none, or this API server has no such kind. Who keeps the webhook in any case only looks.
            if error.status != 404 and not webhook_only:
                raise
        else:
            in_force = (read_answer(body, _binding).metadata.annotations or {}).get(IN_FORCE) == "true"
        if in_force and webhook_only and not self.differs:
            log.error(
                "the operator has the API server enforce policies, and this server keeps the webhook all the same: "
                "want the same --enforcement for both",
                enforcement=self._settings.enforcement,
                binding=self._settings.binding,
            )
        self.differs = in_force and webhook_only
        native = in_force and not webhook_only
        if native != self.native:
            log.info("the API server enforces policies by itself" if native else "the webhook is to enforce policies")
        self.native = native

    async def _one(self, resource: Resource, bundle: bytes | None) -> None:
        wanted = desired(self._settings, resource, bundle, await self._owner())
        before = await self._version(resource.path(None, self._settings.configuration))

        def means(found: Object) -> bool:
            return _like(found.get("webhooks"), wanted["webhooks"])

        found = await apply(self._client, resource, None, wanted, FIELD_MANAGER, means)
        if found["metadata"]["resourceVersion"] != before:
            self._wrote(resource, "repaired" if before else "created")

    async def _version(self, path: str) -> str:
        """Return the resourceVersion of an object; empty when it is not there."""
        try:
            return read_answer(await self._client.get(path), metadata.decode).metadata.resource_version
        except ApiError as error:
            if error.status != 404:
                raise
            return ""

    async def _owner(self) -> str | None:
        """Return the owner's UID. It is read each time, as a role that was deleted and created again has another."""
        if not self._settings.owner:
            return None
        found = read_answer(await self._client.get(CLUSTER_ROLES.path(None, self._settings.owner)), metadata.decode)
        return found.metadata.uid

    def _wrote(self, resource: Resource, how: str) -> None:
        if self._published is not None:
            self.repairs += 1
        log.info("webhook configuration written", kind=resource.kind, name=self._settings.configuration, how=how)

    def _changed(self, changes: list[Change[Partial]], _replaced: bool) -> None:
        if changes:
            self._awake.set()
