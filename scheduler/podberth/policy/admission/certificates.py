"""The admission server's own certificates: what to make of them when, as a pure function of what there is.

A CA and a serving certificate signed by it, both P-256 (a handshake costs the server half a millisecond; RSA ten
times that). To rotate, a new CA first only joins the bundle that API servers trust; once that bundle is published
everywhere it signs a new serving certificate; once every replica serves that, the old CA leaves the bundle. So at
each moment every certificate in use is trusted. `secret` stores it, `tls` serves it, `registration` publishes it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

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

CA_DAYS = 3650
SERVING_DAYS = 365
RENEW_AT = 2 / 3
"""The part of its life after which a certificate is replaced."""
BACKDATE = timedelta(minutes=5)
"""The time by which certificates are backdated: the API server's clock may be behind ours."""


class CertificateError(ValueError):
    """Certificates or keys that can't be used. The text never contains their content."""


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
