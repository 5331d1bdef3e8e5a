"""Certificates from files that somebody else rotates: cert-manager's Secret as a volume, or a company's own CA.

Looked at every two seconds; while files are missing, half written or do not fit each other, the last pair that worked
is served. CAs that were in the file a while ago stay in the bundle for the overlap, because kubelets update the
volumes of different replicas a minute apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import structlog

from podberth.policy.admission import certificates
from podberth.policy.admission.certificates import CertificateError
from podberth.policy.admission.tls import ServingTls

LOOK_SECONDS = 2.0

log = structlog.get_logger("certificates")


class MountedFiles:
    """A certificate, its key and, if API servers are to trust the CA by our doing, the CA's certificates."""

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
        found = certificates.certificates(self._ca_file.read_bytes())
        if not found:
            raise CertificateError(f"{self._ca_file}: expected CA certificates in PEM form")
        now = time.monotonic()
        self._last_seen |= dict.fromkeys(found, now)
        self._last_seen = {pem: seen for pem, seen in self._last_seen.items() if now - seen < self._overlap}
