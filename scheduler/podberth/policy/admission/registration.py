"""Keeps the webhook configurations as they should be; the leader does it, together with the rotation of certificates.

A watch says at once when somebody edits or deletes one; every five seconds they are read anyway, in case the watch
has gone quiet. They stay when we go: an API server that finds nobody applies the failurePolicy, which was a choice.
They go with the ClusterRole that owns them, where one is named: removing a release removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.objects import Change, Partial
from podberth.kube.objects import partial as metadata
from podberth.kube.reflector import Reflector
from podberth.kube.resources import Resource
from podberth.policy.admission import webhooks
from podberth.policy.admission.certificates import CertificateError
from podberth.policy.admission.settings import Settings
from podberth.policy.admission.webhooks import MUTATING, OWNERS, VALIDATING, desired, repaired

LOOK_SECONDS = 5.0
PAUSE_SECONDS = 0.5
"""Between two looks, so that a quarrel with another controller over a configuration is no busy loop."""

log = structlog.get_logger("registration")


class Certificates(Protocol):
    """A source of certificates: `secret` or `mounted`."""

    @property
    def bundle(self) -> bytes | None:
        """The CAs to publish."""

    async def advance(self, published: bool) -> None:
        """Rotate what is due."""


class Registration:
    """Keeps both webhook configurations as they should be.

    `allowed` is asked before each write: whether we lead at this moment. `left` tells the namespaces that the
    configurations leave out. `repairs` counts what had to be written after the first time.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        certificates: Certificates,
        allowed: Callable[[], bool],
        left: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.repairs = 0
        self._left = left
        self._told_left: tuple[str, ...] = ()
        self._written_left: dict[str, tuple[str, ...]] = {}
        self._client = client
        self._settings = settings
        self._certificates = certificates
        self._allowed = allowed
        self._awake = asyncio.Event()
        self._published: tuple[bytes | None, float] | None = None
        self._complained: dict[str, str] = {}

    @property
    def published(self) -> bool:
        """Return whether both configurations were as they should be since this replica leads."""
        return self._published is not None

    def wake(self) -> None:
        """Look now: something may have changed."""
        self._awake.set()

    async def lead(self) -> None:
        """Reconcile until cancelled."""
        self._published = None
        async with asyncio.TaskGroup() as tasks:
            for resource in (MUTATING, VALIDATING):
                selector = f"metadata.name={self._settings.configuration}"
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
        bundle, left = self._certificates.bundle, self._left()
        if left != self._told_left:
            log.info("namespaces whose policies the API server enforces by itself", namespaces=len(left))
            self._told_left = left
        done = [await self._attempt(r.plural, partial(self._one, r, bundle, left)) for r in (MUTATING, VALIDATING)]
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

    async def _one(self, resource: Resource, bundle: bytes | None, left: tuple[str, ...]) -> None:
        wanted = desired(self._settings, resource, bundle, await self._owner(), left)
        path = resource.path(None, self._settings.configuration)
        try:
            body = await self._client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            await self._client.create(resource.path(), msgspec.json.encode(wanted))
            self._wrote(resource, "created")
            return
        read_answer(body, webhooks.configuration)
        due = repaired(msgspec.json.decode(body), wanted)
        if due is not None:
            await self._client.replace(path, msgspec.json.encode(due))
            self._wrote(resource, "repaired" if self._written_left.get(resource.plural, left) == left else "updated")
        self._written_left[resource.plural] = left

    async def _owner(self) -> str | None:
        """Return the owner's UID. It is read each time, as a role that was deleted and created again has another."""
        if not self._settings.owner:
            return None
        found = read_answer(await self._client.get(OWNERS.path(None, self._settings.owner)), metadata.decode)
        return found.metadata.uid

    def _wrote(self, resource: Resource, how: str) -> None:
        if self._published is not None and how != "updated":
            self.repairs += 1
        log.info("webhook configuration written", kind=resource.kind, name=self._settings.configuration, how=how)

    def _changed(self, changes: list[Change[Partial]], _replaced: bool) -> None:
        if changes:
            self._awake.set()
