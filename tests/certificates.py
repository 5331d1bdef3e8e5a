"""CAs of a test's own, and the certificates that they sign."""

from __future__ import annotations

import secrets
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
"""A CA has to say so, or Python 3.13 does not trust what it signs."""


class Authority:
    """A CA that signs certificates of clients and of servers."""

    def __init__(self, home: Path, name: str = "clients") -> None:
        self._home = home
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(self._name, self._name, self._key, timedelta(days=1)).add_extension(authority, critical=True)
        made = made.add_extension(_SIGNS, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.pem = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        self.file = home / f"{name}.crt"
        self.file.write_bytes(self.pem)

    def client(self, *attributes: tuple[x509.ObjectIdentifier, str], lasts: timedelta = timedelta(hours=1)) -> Path:
        """A certificate with this subject, and its key, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = _builder(subject, self._name, key, lasts).add_extension(usage, critical=False)
        file = self._home / f"client-{secrets.token_hex(4)}.pem"
        file.write_bytes(
            made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
            + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        return file

    def user(self, name: str, *groups: str) -> Path:
        """A certificate for a user in these groups."""
        return self.client(*((NameOID.ORGANIZATION_NAME, group) for group in groups), (NameOID.COMMON_NAME, name))

    def server(self, address: str, certificate: Path, key: Path) -> None:
        """Write the certificate of a server at this IP address, and its key, as a rotation does: the key first."""
        own = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = _builder(subject, self._name, own, timedelta(hours=1))
        for extension in (names, usage, issuer):
            made = made.add_extension(extension, critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        key.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))


def der(file: Path) -> bytes:
    """The certificate in a file, as TLS hands it on."""
    return ssl.PEM_cert_to_DER_cert(file.read_text().partition("-----BEGIN PRIVATE KEY")[0])


def showing(file: Path | None) -> ssl.SSLContext:
    """A client that shows this certificate, and asks for none."""
    context = ssl._create_unverified_context()
    if file is not None:
        context.load_cert_chain(file)
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + lasts)
    )
