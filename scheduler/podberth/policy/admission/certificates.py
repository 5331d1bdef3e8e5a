"""The certificates that the webhook serves: two sources of them.

`SharedSecret`: the admission server's own, in a Secret that all replicas share. Whoever comes first makes it, the
leader renews it. It signs itself, so what API servers trust is this certificate and no CA. To renew it, a new one first
only joins the bundle that API servers trust; once that bundle is published everywhere it is served; once every replica
serves it, the old one leaves the bundle. So at each moment every certificate in use is trusted. `advance` says what is
to be done, as a pure function of what there is. The key is P-256: a handshake costs the server half a millisecond, and
with RSA ten times that.

`MountedFiles`: from files that somebody else renews: cert-manager's Secret as a volume, or a company's own CA.

`registration` publishes the bundle of either.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import Backoff
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import Resource
from podberth.service.certificate import BACKDATE, Certificate, CertificateError, self_signed

RENEW_AT = 2 / 3
"""The part of its life after which a certificate is replaced."""
LOOK_SECONDS = 2.0
"""Between two looks at mounted files."""
SECRETS = Resource("", "v1", "secrets", True, "Secret")
KEYS = ("ca.crt", "newest.key", "tls.crt", "tls.key")
OURS = {"app.kubernetes.io/managed-by": "berth"}
ROTATE = "podberth.dev/rotate-before"
"""Annotation (RFC 3339): a certificate made before this moment is replaced, with the same overlap as ever."""

CHECK_SECONDS = 60.0
"""Seconds between comparisons of the known Secret with the stored one: a lost event may be that of a renewal."""

log = structlog.get_logger("certificates")


# -- what is made and stored ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the Secret, PEM: trusted certificates, newest first, with the newest one's key, and the one of
    them that is served, with its key.
    """

    trusted: tuple[bytes, ...]
    newest_key: bytes
    serving: bytes
    serving_key: bytes

    @property
    def bundle(self) -> bytes:
        """The certificates to trust, PEM."""
        return b"".join(self.trusted)


def read(bundle: bytes, newest_key: bytes, serving: bytes, serving_key: bytes) -> Material:
    """Return material from its stored parts, once it is sure that they belong together.

    Raises CertificateError.
    """
    trusted = certificates(bundle)
    pairs = ((trusted[:1], newest_key, "newest"), (certificates(serving)[:1], serving_key, "serving"))
    for found, key, what in pairs:
        try:
            fits = found and _loaded(found[0]).public_key() == load_pem_private_key(key, None).public_key()
        except (ValueError, TypeError):
            fits = False
        if not fits:
            raise CertificateError(f"the stored {what} certificate and its key are no PEM, or do not belong together")
    material = Material(tuple(trusted), newest_key, pairs[1][0][0], serving_key)
    if material.serving not in trusted:
        raise CertificateError("the stored serving certificate is none of those to trust")
    return material


def advance(
    material: Material | None,
    names: tuple[str, ...],
    now: datetime,
    *,
    settled: bool,
    rotate_before: datetime | None = None,
) -> Material:
    """Return the material as it should be now; the same object when nothing is to be done.

    `names` are the DNS names and addresses to serve. `settled`: for at least the overlap nothing has changed, so that
    all of `material` is published and served everywhere. A certificate made before `rotate_before` is to be replaced.
    """
    if material is None:
        certificate, key = self_signed(names, now)
        return Material((certificate,), key, certificate, key)
    newest, serving = _loaded(material.trusted[0]), _loaded(material.serving)
    useless = serving.not_valid_after_utc <= now or not set(names) <= set(_names_of(serving))  # nothing to wait for
    if material.serving != material.trusted[0]:
        served = replace(material, serving=material.trusted[0], serving_key=material.newest_key)
        return served if settled or useless else material
    if len(material.trusted) > 1 and not useless:
        return replace(material, trusted=material.trusted[:1]) if settled else material
    begins, ends = newest.not_valid_before_utc, newest.not_valid_after_utc
    asked = rotate_before is not None and begins + BACKDATE < rotate_before <= now
    if not (useless or asked or now >= begins + (ends - begins) * RENEW_AT):
        return material
    certificate, key = self_signed(names, now)
    joined = replace(material, trusted=(certificate, *material.trusted), newest_key=key)
    return replace(joined, serving=certificate, serving_key=key) if useless else joined


def certificates(bundle: bytes) -> list[bytes]:
    """Return the certificates of a bundle, each as normalised PEM; none if the bundle can't be read."""
    try:
        return [c.public_bytes(Encoding.PEM) for c in x509.load_pem_x509_certificates(bundle)]
    except ValueError:
        return []


def _loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _names_of(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


# -- in a Secret ------------------------------------------------------------------------------------------------------


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
        except (ValueError, OverflowError):
            log.warning("the annotation is not a time, it is ignored", annotation=ROTATE)
            return None

    def material(self) -> Material:
        """Return the content of the Secret. Raises CertificateError."""
        try:
            parts = [base64.b64decode((self.data or {})[key], validate=True) for key in KEYS]
        except (KeyError, binascii.Error, ValueError) as error:
            raise CertificateError(f"the Secret lacks one of {', '.join(KEYS)}") from error
        return read(*parts)


_decode = msgspec.json.Decoder(Secret).decode


class SharedSecret:
    """The Secret `namespace/name`; `names` are what the certificate is to be good for.

    Writes carry the resourceVersion they are based on; who loses the race (409) takes what the winner wrote. A Secret
    that is deleted is put back as it was. A Secret of that name that is not ours and holds something is never
    overwritten.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        names: tuple[str, ...],
        tls: Certificate,
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
        self._since = now()
        """The last change of `material` was then, as far as this replica has seen."""
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
        """The certificates that API servers are to trust."""
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
        await self._store(found, self.material or advance(None, self._names, self._now(), settled=True))

    async def advance(self, published: bool) -> None:
        """Renew what is due. For the leader; `published`: the bundle has been in the configurations for the overlap."""
        found = await self._read()
        if found is None or not found.data:
            await self.ensure()
            return
        material = found.material()
        self._take(material)
        if not found.ours:
            return
        settled = published and self._now() - self._since >= self._overlap
        due = advance(material, self._names, self._now(), settled=settled, rotate_before=found.rotate_before)
        if due is not material:
            log.info(
                "certificates rotated",
                made=due.newest_key != material.newest_key,
                served=due.serving != material.serving,
                trusted=len(due.trusted),
            )
            await self._store(found, due)

    async def _read(self) -> Secret | None:
        try:
            return read_answer(await self._client.get(self._path), _decode)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _store(self, found: Secret | None, material: Material) -> None:
        """Write it where `found` was; what another replica wrote meanwhile wins."""
        parts = (material.bundle, material.newest_key, material.serving, material.serving_key)
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
        new_pair = self._tls.load(material.serving, material.serving_key, self._meta["name"])
        if material != self.material:
            self._since = self._now()
        self.material = material
        if new_pair:
            log.info("serving certificate loaded", good_until=_loaded(material.serving).not_valid_after_utc.isoformat())
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


# -- in files ---------------------------------------------------------------------------------------------------------


class MountedFiles:
    """A certificate, its key and, if API servers are to trust the CA by our doing, the CA's certificates.

    While files are missing, half written or do not fit each other, the last pair that worked is served. CAs that were
    in the file a while ago stay in the bundle for the overlap, because kubelets update the volumes of different
    replicas a minute apart.
    """

    def __init__(
        self,
        cert_file: Path,
        key_file: Path,
        ca_file: Path | None,
        tls: Certificate,
        *,
        overlap: timedelta,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._ca_file = ca_file
        self._tls = tls
        self._overlap = overlap.total_seconds()
        self._on_change = on_change
        self._last_seen: dict[bytes, float] = {}
        self._complained = ""

    @property
    def bundle(self) -> bytes | None:
        """The CAs that API servers are to trust; None when others see to that (cert-manager's cainjector)."""
        return None if self._ca_file is None else b"".join(sorted(self._last_seen))

    async def ready(self) -> None:
        """Wait until there is a certificate to serve; the log says why while there is none."""
        while not self.look():  # noqa: ASYNC110 - files announce nothing
            await asyncio.sleep(LOOK_SECONDS)

    async def follow(self) -> None:
        """Take over what changes, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    async def advance(self, published: bool) -> None:
        """Do nothing: the writer of the files rotates them."""

    def look(self) -> bool:
        """Read the files; True when what they hold is served."""
        before = self.bundle
        try:
            new_pair = self._tls.load(self._cert_file.read_bytes(), self._key_file.read_bytes(), str(self._cert_file))
            self._look_at_authorities()
        except (OSError, CertificateError) as error:
            said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            if said != self._complained:
                log.error("certificate files can't be used", error=said)
            self._complained = said
            return False
        self._complained = ""
        if new_pair:
            log.info("serving certificate loaded", file=str(self._cert_file))
        if new_pair or self.bundle != before:
            self._on_change()
        return True

    def _look_at_authorities(self) -> None:
        if self._ca_file is None:
            return
        found = certificates(self._ca_file.read_bytes())
        if not found:
            raise CertificateError(f"{self._ca_file}: expected CA certificates in PEM form")
        now = time.monotonic()
        earlier = {pem: seen for pem, seen in self._last_seen.items() if now - seen < self._overlap}
        self._last_seen = earlier | dict.fromkeys(found, now)
