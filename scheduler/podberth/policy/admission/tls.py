"""The TLS context that the server listens with: new certificates serve new connections, old connections stay.

OpenSSL reads keys from files only, so they pass through a private directory that is gone when `load` returns.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from podberth.policy.admission.certificates import CertificateError


class ServingTls:
    """One context for the life of the process; usable after the first `load`."""

    def __init__(self) -> None:
        self.context = _context()
        self._loaded: tuple[bytes, bytes] | None = None

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Serve this pair (PEM) from the next handshake on; False when it is served already.

        Raises CertificateError, and goes on with what it had.
        """
        if (certificate, key) == self._loaded:
            return False
        with tempfile.TemporaryDirectory(prefix="berth-admission-") as private:  # mode 0700
            paths = Path(private, "tls.crt"), Path(private, "tls.key")
            for path, pem in zip(paths, (certificate, key), strict=True):
                path.touch(0o600)
                path.write_bytes(pem)
            try:
                # First on one that nobody uses: a pair that does not fit would leave the live one half changed.
                for context in (_context(), self.context):
                    context.load_cert_chain(*paths, password=_no_password)
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                reason = getattr(error, "reason", None) or "unreadable"
                raise CertificateError(f"certificate and key can't be served together ({reason})") from error
        self._loaded = certificate, key
        return True


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # API servers keep no sessions; making tickets is a fifth of a handshake
    return context


def _no_password() -> str:
    """OpenSSL would ask the terminal; an encrypted key can't be used here."""
    raise ValueError("the key is encrypted")
