"""What we serve with: a mounted pair of files, followed when they change, or a certificate of our own making.

OpenSSL takes keys from files only; ours pass through memory that has a file's name (memfd), so that nothing is written
where the root file system is read-only.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

OWN_DAYS = 365
BACKDATE = timedelta(hours=1)


class CertificateError(ValueError):
    """Files that can't be served with: one line that names them and what was expected."""


class Certificate:
    """A server's TLS context; new connections get what `refresh` found last."""

    def __init__(self, cert_file: str | None = None, key_file: str | None = None) -> None:
        """Raises CertificateError."""
        self.context = _context()
        self._files = None if cert_file is None or key_file is None else (cert_file, key_file)
        self._pair: tuple[bytes, bytes] | None = None
        self._until: datetime | None = None
        if self._files is not None:
            self.refresh()

    def refresh(self) -> bool:
        """Look at the files, or at the age of our own; True when there is something new to serve.

        Raises CertificateError, and goes on with what it had.
        """
        if self._files is not None:
            return self._load(*self._read(*self._files), self._files[0])
        if self._until is not None and datetime.now(UTC) < self._until:
            return False
        certificate, key = self_signed()
        self._until = datetime.now(UTC) + timedelta(days=OWN_DAYS * 2 / 3)
        return self._load(certificate, key, "our own certificate")

    def _read(self, cert_file: str, key_file: str) -> tuple[bytes, bytes]:
        found = []
        for name in (cert_file, key_file):
            try:
                found.append(Path(name).read_bytes())
            except OSError as error:
                raise CertificateError(f"{name}: {(error.strerror or type(error).__name__).lower()}") from None
        return found[0], found[1]

    def _load(self, certificate: bytes, key: bytes, name: str) -> bool:
        if (certificate, key) == self._pair:
            return False
        with _as_file(certificate) as cert_file, _as_file(key) as key_file:
            try:
                # First on one that nobody uses: a pair that does not fit would leave the live one half changed.
                for context in (_context(), self.context):
                    context.load_cert_chain(cert_file, key_file, password=_no_password)
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                reason = getattr(error, "reason", None) or str(error) or type(error).__name__
                raise CertificateError(
                    f"{name}: expected a certificate in PEM form that fits its key ({reason})"
                ) from None
        self._pair = certificate, key
        return True


def self_signed() -> tuple[bytes, bytes]:
    """A certificate for this host, and its key, both PEM. Who asks has no reason to trust it, but nobody listens in."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()[:64]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host or "berth")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + timedelta(days=OWN_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), secret


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A name under which these bytes can be read while the block runs, by us alone."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("berth-tls", os.MFD_CLOEXEC)
        name = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, name = tempfile.mkstemp(prefix="berth-tls-")  # mode 0600
    try:
        os.write(descriptor, content)
        yield name
    finally:
        os.close(descriptor)
        if not name.startswith("/proc/"):
            Path(name).unlink()


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    """OpenSSL would ask the terminal; an encrypted key can't be used here."""
    raise ValueError("the key is encrypted")
