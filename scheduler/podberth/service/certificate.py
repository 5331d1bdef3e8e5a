"""The serving certificate: two mounted files, read again when they change, or a self-signed one; and the CAs whose
client certificates are accepted.

OpenSSL takes keys from files only; ours pass through memory that has a file's name (memfd), so that nothing is written
where the root file system is read-only.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from podberth.kube.connection import as_file, no_password

if TYPE_CHECKING:
    from cryptography import x509

OWN_DAYS = 365
BACKDATE = timedelta(hours=1)


class CertificateError(ValueError):
    """Files that can't be served with: one line that names them and what was expected."""


class Certificate:
    """A server's TLS context; new connections get what `refresh` found last.

    `context` is another object when other CAs count: a context can't be made to forget one.
    """

    def __init__(self, cert_file: str | None = None, key_file: str | None = None) -> None:
        """Raises CertificateError."""
        self.context = serving_context()
        self.authorities_file: str | None = None
        self._files = None if cert_file is None or key_file is None else (cert_file, key_file)
        self._pair: tuple[bytes, bytes] | None = None
        self._until: datetime | None = None
        self._authorities = b""
        if self._files is not None:
            self.refresh()

    def follow_authorities(self, file: str) -> None:
        """Trust the CAs in this file, whatever is in it. Raises CertificateError."""
        self.authorities_file = file
        self.refresh_authorities()

    def refresh(self) -> bool:
        """Look at the files, or at the age of our own; True when there is something new to serve.

        Raises CertificateError, and goes on with what it had.
        """
        if self._files is not None:
            certificate, key = (_read(name) for name in self._files)
            return self.load(certificate, key, self._files[0])
        if self._until is not None and datetime.now(UTC) < self._until:
            return False
        certificate, key = self_signed()
        self._until = datetime.now(UTC) + timedelta(days=OWN_DAYS * 2 / 3)
        return self.load(certificate, key, "our own certificate")

    def refresh_authorities(self) -> bool:
        """Look at the file of the CAs, if there is one; True when it has changed. Raises CertificateError."""
        file = self.authorities_file
        return file is not None and self.trust(_read(file), file)

    def trust(self, bundle: bytes, name: str) -> bool:
        """Accept client certificates that these CAs (PEM) have signed, and no others. False: they were trusted already.

        Raises CertificateError that says `name`, and goes on with those it had.
        """
        if bundle == self._authorities:
            return False
        context = serving_context()
        try:
            context.load_verify_locations(cadata=bundle.decode("ascii", "ignore"))  # what is no ASCII is a remark
        except (OSError, ValueError) as error:
            raise CertificateError(f"{name}: expected certificates of CAs in PEM form ({reason(error)})") from None
        # A client without a certificate may have a token.
        context.verify_mode = ssl.CERT_OPTIONAL
        if self._pair is not None:
            load_pair(self._pair, context)
        self.context, self._authorities = context, bundle
        return True

    def load(self, certificate: bytes, key: bytes, name: str) -> bool:
        """Serve this pair (PEM) from the next handshake on; False when it is served already.

        Raises CertificateError that says `name`, and goes on with what it had.
        """
        if (certificate, key) == self._pair:
            return False
        try:
            # First on one that nobody uses: a pair that does not fit would leave the live one half changed.
            load_pair((certificate, key), serving_context(), self.context)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise CertificateError(
                f"{name}: expected a certificate in PEM form that fits its key ({reason(error)})"
            ) from None
        self._pair = certificate, key
        return True


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CertificateError(f"{name}: {(error.strerror or 'it can not be read').lower()}") from None


def load_pair(pair: tuple[bytes, bytes], *contexts: ssl.SSLContext) -> None:
    """Have these contexts serve a certificate with its key, both PEM. Raises OSError, ValueError."""
    with as_file(pair[0]) as cert_file, as_file(pair[1]) as key_file:
        for context in contexts:
            context.load_cert_chain(cert_file, key_file, password=no_password)


def reason(error: Exception) -> str:
    """Return OpenSSL's word for what is wrong with a certificate or key."""
    said = getattr(error, "reason", None) or re.sub(r" ?\(_ssl\.c:\d+\)|^\[SSL\] ", "", str(error))
    return said or "unreadable"


def self_signed(names: Sequence[str] = (), now: datetime | None = None) -> tuple[bytes, bytes]:
    """Return a certificate and its key, both PEM, for DNS names and addresses; without any, for this host.

    Clients can verify it only if they know this certificate. It is good for `OWN_DAYS` from `now` on.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()[:64]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth" if names else host or "berth")])
    now = now or datetime.now(UTC)
    known = [_general_name(one) for one in names or ("localhost", host)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + timedelta(days=OWN_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), secret


def _general_name(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def serving_context() -> ssl.SSLContext:
    """Return a context for a server, which has no certificate yet."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Python 3.13 turned on RFC 5280 strictness, which many clusters' CAs and their clients do not meet; Go has none
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
