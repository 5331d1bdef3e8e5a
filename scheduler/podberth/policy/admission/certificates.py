"""The certificates that the webhook serves: two sources of them, and the TLS context that both fill.

`SharedSecret`: the admission server's own, in a Secret that all replicas share. Whoever comes first makes it, the
leader rotates it. A CA and a serving certificate signed by it, both P-256 (a handshake costs the server half a
millisecond; RSA ten times that). To rotate, a new CA first only joins the bundle that API servers trust; once that
bundle is published everywhere it signs a new serving certificate; once every replica serves that, the old CA leaves the
bundle. So at each moment every certificate in use is trusted. `advance` says what is to be done, as a pure function of
what there is.

`MountedFiles`: from files that somebody else rotates: cert-manager's Secret as a volume, or a company's own CA.

`registration` publishes the bundle of either.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
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
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import Backoff
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import Resource
from podberth.service.certificate import CertificateError, load_pair, reason, serving_context

CA_DAYS = 3650
SERVING_DAYS = 365
RENEW_AT = 2 / 3
"""The part of its life after which a certificate is replaced."""
BACKDATE = timedelta(minutes=5)
"""The time by which certificates are backdated: the API server's clock may be behind ours."""
LOOK_SECONDS = 2.0
"""Between two looks at mounted files."""
SECRETS = Resource("", "v1", "secrets", True, "Secret")
KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
OURS = {"app.kubernetes.io/managed-by": "berth"}
ROTATE = "podberth.dev/rotate-before"
"""Annotation (RFC 3339): a CA made before this moment is replaced, with the same overlap as ever."""

CHECK_SECONDS = 60.0
"""Seconds between comparisons of the known Secret with the stored one: a lost event may be that of a new CA."""

log = structlog.get_logger("certificates")


class ServingTls:
    """One TLS context for the life of the process; usable after the first `load`.

    New certificates serve new connections, old connections stay.
    """

    def __init__(self) -> None:
        self.context = serving_context()
        self.context.num_tickets = 0  # API servers keep no sessions; making tickets is a fifth of a handshake
        self._loaded: tuple[bytes, bytes] | None = None

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Serve this pair (PEM) from the next handshake on; False when it is served already.

        Raises CertificateError, and goes on with what it had.
        """
        if (certificate, key) == self._loaded:
            return False
        try:
            # First on one that nobody uses: a pair that does not fit would leave the live one half changed.
            load_pair((certificate, key), serving_context(), self.context)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise CertificateError(f"certificate and key can't be served together ({reason(error)})") from error
        self._loaded = certificate, key
        return True


# -- what is made and stored ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: its certificate, PEM."""

    pem: bytes
    certificate: x509.Certificate

    @property
    def made(self) -> datetime:
        """Return the time at which the certificate was made."""
        return self.certificate.not_valid_before_utc + BACKDATE


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the Secret: trusted CAs (newest first), the newest one's key, the serving certificate and its
    key.
    """

    authorities: tuple[Authority, ...]
    authority_key: bytes
    serving: bytes
    serving_key: bytes

    @property
    def bundle(self) -> bytes:
        """The CAs to trust, PEM."""
        return b"".join(authority.pem for authority in self.authorities)

    @property
    def leaf(self) -> x509.Certificate:
        """The serving certificate."""
        return x509.load_pem_x509_certificate(self.serving)

    @property
    def issuer(self) -> Authority | None:
        """The CA that signed the serving certificate."""
        leaf = self.leaf
        return next((a for a in self.authorities if _signed(leaf, a.certificate)), None)


def read(bundle: bytes, authority_key: bytes, serving: bytes, serving_key: bytes) -> Material:
    """Material from its stored parts, checked to belong together.

    Raises CertificateError.
    """
    try:
        certificates = x509.load_pem_x509_certificates(bundle)
        leaf = x509.load_pem_x509_certificate(serving)
        keys = [load_pem_private_key(key, None) for key in (authority_key, serving_key)]
    except (ValueError, TypeError) as error:
        raise CertificateError("the stored certificates or keys are not PEM that can be read") from error
    authorities = tuple(Authority(c.public_bytes(Encoding.PEM), c) for c in certificates)
    for certificate, key, what in ((certificates[0], keys[0], "CA"), (leaf, keys[1], "serving certificate")):
        if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
            raise CertificateError(f"the stored {what} and its key do not belong together")
    material = Material(authorities, authority_key, serving, serving_key)
    if material.issuer is None:
        raise CertificateError("the stored serving certificate was signed by none of the stored CAs")
    return material


def advance(
    material: Material | None,
    names: tuple[str, ...],
    now: datetime,
    *,
    published: bool,
    overlap: timedelta,
    rotate_before: datetime | None = None,
) -> Material:
    """Return the material as it should be now; the same object when nothing is to be done.

    `names` are the DNS names and addresses to serve, `published` says whether all CAs of `material` have been in the
    webhook configurations for at least `overlap`; a CA made before `rotate_before` is to be replaced.
    """
    if material is None:
        authority, key = _new_authority(now)
        return _sign(Material((authority,), key, b"", b""), names, now)
    leaf, newest, issuer = material.leaf, material.authorities[0], material.issuer
    ended = leaf.not_valid_after_utc <= now  # then nobody trusts it: there is nothing to wait for
    if issuer is not newest:
        return _sign(material, names, now) if published or ended else material
    if _worn(newest.certificate, now) or (rotate_before is not None and newest.made < rotate_before <= now):
        authority, key = _new_authority(now)
        joined = replace(material, authorities=(authority, *material.authorities), authority_key=key)
        return _sign(joined, names, now) if ended else joined
    if _worn(leaf, now) or not set(names) <= set(_names_of(leaf)):
        return _sign(material, names, now)
    if len(material.authorities) > 1 and now >= leaf.not_valid_before_utc + BACKDATE + overlap:
        return replace(material, authorities=(newest,))
    return material


def certificates(bundle: bytes) -> list[bytes]:
    """Return the certificates of a bundle, each as normalised PEM; none if the bundle can't be read."""
    try:
        return [c.public_bytes(Encoding.PEM) for c in x509.load_pem_x509_certificates(bundle)]
    except ValueError:
        return []


def _worn(certificate: x509.Certificate, now: datetime) -> bool:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begins + (ends - begins) * RENEW_AT


def _signed(leaf: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names_of(leaf: x509.Certificate) -> list[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _new_authority(now: datetime) -> tuple[Authority, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A serial in the name: Go picks a CA by subject, and two with one subject but other keys cost it wrong tries.
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "podberth.dev"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"berth admission CA {now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"),
        ]
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(Encoding.PEM), certificate), _pem(key)


def _sign(material: Material, names: tuple[str, ...], now: datetime) -> Material:
    """Return a new serving certificate from the newest CA."""
    authority = material.authorities[0].certificate
    authority_key = load_pem_private_key(material.authority_key, None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        x509.CertificateBuilder(
            authority.subject,
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth admission")]),
            key.public_key(),
            x509.random_serial_number(),
        )
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + timedelta(days=SERVING_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return replace(material, serving=certificate.public_bytes(Encoding.PEM), serving_key=_pem(key))


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


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
        except ValueError:
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
        """Rotate what is due. For the leader; `published` as in the function `advance`."""
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
        return advance(
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
        tls: ServingTls,
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
            new_pair = self._tls.load(self._cert_file.read_bytes(), self._key_file.read_bytes())
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
        self._last_seen |= dict.fromkeys(found, now)
        self._last_seen = {pem: seen for pem, seen in self._last_seen.items() if now - seen < self._overlap}
