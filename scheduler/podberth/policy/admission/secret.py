"""Certificates in a Secret that all replicas share: whoever comes first makes it, the leader rotates it.

Writes carry the resourceVersion they are based on; who loses the race (409) takes what the winner wrote. A Secret that
is deleted is put back as it was. A Secret of that name that is not ours and holds something is never overwritten.
`mounted` is the other source of certificates; both give `replica` a `bundle` and fill `tls`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import Backoff
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import Resource
from podberth.policy.admission import certificates
from podberth.policy.admission.certificates import CertificateError, Material
from podberth.policy.admission.tls import ServingTls

SECRETS = Resource("", "v1", "secrets", True, "Secret")
KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
OURS = {"app.kubernetes.io/managed-by": "berth"}
ROTATE = "podberth.dev/rotate-before"
"""Annotation (RFC 3339): a CA made before this moment is replaced, with the same overlap as ever."""

CHECK_SECONDS = 60.0
"""Seconds between comparisons of the known Secret with the stored one: a lost event may be that of a new CA."""

log = structlog.get_logger("certificates")


class Secret(Partial):
    """The few fields of a Secret that are read."""

    metadata: MarkedMeta
    data: dict[str, str] | None = None

    @property
    def ours(self) -> bool:
        """Return whether we may write the Secret: it has our labels, or no data."""
        return not self.data or OURS.items() <= (self.metadata.labels or {}).items()

    @property
    def rotate_before(self) -> datetime | None:
        """Return the time in the annotation; None if there is none that can be read."""
        text = (self.metadata.annotations or {}).get(ROTATE)
        try:
            return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
        except ValueError:
            log.warning("the annotation is not a time, it is ignored", annotation=ROTATE)
            return None

    def material(self) -> Material:
        """Return the content of the Secret. Raises CertificateError."""
        try:
            parts = [base64.b64decode((self.data or {})[key], validate=True) for key in KEYS]
        except (KeyError, binascii.Error, ValueError) as error:
            raise CertificateError(f"the Secret lacks one of {', '.join(KEYS)}") from error
        return certificates.read(*parts)


_decode = msgspec.json.Decoder(Secret).decode


class SharedSecret:
    """The Secret `namespace/name`; `names` are what the certificate is to be good for."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        names: tuple[str, ...],
        tls: ServingTls,
        *,
        overlap: timedelta,
        on_change: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.material: Material | None = None
        self._client = client
        self._path = SECRETS.path(namespace, name)
        self._collection = SECRETS.path(namespace)
        self._head: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}
        self._meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": OURS}
        self._names = names
        self._tls = tls
        self._overlap = overlap
        self._on_change = on_change
        self._now = now
        self._missing = asyncio.Event()
        self.reflector: Reflector[Secret] = Reflector(
            client,
            SECRETS,
            _decode,
            self._changed,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            check_seconds=CHECK_SECONDS,
        )

    @property
    def bundle(self) -> bytes | None:
        """The CAs that API servers are to trust."""
        return None if self.material is None else self.material.bundle

    async def ready(self) -> None:
        """Wait until there is a certificate to serve; the log says why while there is none."""
        backoff = Backoff(random.random, cap=10.0)
        while True:
            try:
                await self.ensure()
                return
            except (ApiError, Unreachable, CertificateError) as error:
                log.error("there is no certificate to serve yet", secret=self._meta["name"], error=str(error)[:300])
                await asyncio.sleep(backoff.failed(asyncio.get_running_loop().time()))

    async def follow(self) -> None:
        """Take over what others write, put the Secret back when it is deleted; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run())
            while True:
                await self._missing.wait()
                self._missing.clear()
                await self.ready()

    async def ensure(self) -> None:
        """Read the Secret, or make it. Any replica may."""
        found = await self._read()
        if found is not None and found.data:
            try:
                self._take(found.material())
                return
            except CertificateError as error:
                if not found.ours:
                    why = f"{error}, and it does not have Berth's label: it is left as it is"
                    raise CertificateError(why) from error
                log.error("the Secret was damaged and is written again", error=str(error))
        await self._store(found, self._advanced(None, published=True) if self.material is None else self.material)

    async def advance(self, published: bool) -> None:
        """Rotate what is due. For the leader; `published` as in `certificates.advance`."""
        found = await self._read()
        if found is None or not found.data:
            await self.ensure()
            return
        material = found.material()
        self._take(material)
        if not found.ours:
            return
        due = self._advanced(material, published=published, rotate_before=found.rotate_before)
        if due is not material:
            log.info(
                "certificates rotated",
                new_ca=due.authorities[0].pem != material.authorities[0].pem,
                new_serving=due.serving != material.serving,
                cas=len(due.authorities),
            )
            await self._store(found, due)

    def _advanced(
        self, material: Material | None, *, published: bool, rotate_before: datetime | None = None
    ) -> Material:
        return certificates.advance(
            material,
            self._names,
            self._now(),
            published=published,
            overlap=self._overlap,
            rotate_before=rotate_before,
        )

    async def _read(self) -> Secret | None:
        try:
            return read_answer(await self._client.get(self._path), _decode)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _store(self, found: Secret | None, material: Material) -> None:
        """Write it where `found` was; what another replica wrote meanwhile wins."""
        parts = (material.bundle, material.authority_key, material.serving, material.serving_key)
        data = {key: base64.b64encode(part).decode() for key, part in zip(KEYS, parts, strict=True)}
        try:
            if found is None:
                body = {**self._head, "metadata": self._meta, "data": data}
                await self._client.create(self._collection, msgspec.json.encode(body))
            else:
                # Data and our label only: annotations and owners of the Secret are not ours to lose.
                meta = {"resourceVersion": found.resource_version, "uid": found.uid, "labels": OURS}
                await self._client.patch(self._path, msgspec.json.encode({"metadata": meta, "data": data}))
        except ApiError as error:
            if error.status != 409:
                raise
            winner = await self._read()
            if winner is None:
                raise
            material = winner.material()
        self._take(material)

    def _take(self, material: Material) -> None:
        new_bundle = self.bundle != material.bundle
        new_pair = self._tls.load(material.serving, material.serving_key)
        self.material = material
        if new_pair:
            log.info("serving certificate loaded", good_until=material.leaf.not_valid_after_utc.isoformat())
        if new_pair or new_bundle:
            self._on_change()

    def _changed(self, changes: list[Change[Secret]], _replaced: bool) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._missing.set()
                continue
            try:
                self._take(change.object.material())
            except CertificateError as error:
                log.error("the Secret has no usable certificate, the one before stays in use", error=str(error))
                self._missing.set()
