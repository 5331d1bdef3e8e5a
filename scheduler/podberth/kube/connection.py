"""A connection says where the API server is and how to prove who we are: `kubeconfig` finds it, `client` uses it.

The certificates are files that others rotate (cert-manager, the kubelet's projected volumes), or come from a kubeconfig
or an exec plugin. The TLS context follows them, and a new context means new connections. The Authorization header comes
from a function: one that reads the kubeconfig, a token file or an exec plugin's output.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from podberth.kube.errors import ConfigError, Unreachable, described

CHECK_SECONDS = 1.0
RETRY_SECONDS = 10.0  # after a failed renewal, while the old header may still do
Pem: TypeAlias = str | bytes
"""The name of a file in PEM form, or what would be in it."""
Signature: TypeAlias = tuple[object, ...]


class Credential(Struct, frozen=True):
    """A header's value (None: the certificate says who we are) and for how many seconds to rely on it (None: ever)."""

    header: str | None
    good_for: float | None = None


class Credentials:
    """Renewed by `fetch`, which may block and raises ConfigError; `clock` is monotonic seconds."""

    def __init__(self, fetch: Callable[[], Credential], clock: Callable[[], float] = time.monotonic) -> None:
        self.header: str | None = None
        self.generation = 0
        self._fetch = fetch
        self._clock = clock
        self._due_at: float | None = clock()
        self._lock = threading.Lock()

    @property
    def due_in(self) -> float:
        """Return the seconds until the header should be renewed."""
        return float("inf") if self._due_at is None else self._due_at - self._clock()

    def due(self) -> bool:
        """Return whether the header should be renewed before it is used."""
        return self._due_at is not None and self._clock() >= self._due_at

    def renew(self) -> None:
        """Fetch a new one (blocking: files, processes). On ConfigError the old header stays and is due again soon."""
        with self._lock:
            self._due_at = self._clock() + RETRY_SECONDS
            found = self._fetch()
            self.header = found.header
            self._due_at = None if found.good_for is None else self._clock() + max(found.good_for, 1.0)
            self.generation += 1


def anonymous() -> Credentials:
    """Return credentials without a header, for servers that ask for none, and for client certificates."""
    return Credentials(lambda: Credential(None))


class Tls:
    """A client-side TLS context made from CA, client certificate and key, and made again when one of them changes.

    While a file is missing, half written or does not fit its key, the last context that worked stays in use.
    """

    def __init__(
        self,
        *,
        ca: Pem | None = None,
        certificate: Pem | None = None,
        key: Pem | None = None,
        verify: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ca = ca
        self._certificate = certificate
        self._key = key
        self._verify = verify
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._signature: Signature | None = None
        self._checked_at = float("-inf")

    def context(self) -> ssl.SSLContext:
        """Return the TLS context, made again if a file changed (they are looked at each second). Raises ConfigError."""
        now = self._clock()
        if self._context is None or now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            signature = self._sign()
            if self._context is None or (signature is not None and signature != self._signature):
                try:
                    self._context = self._build()
                    self._signature = signature
                except ConfigError:
                    if self._context is None:
                        raise
        return self._context

    def recheck(self) -> None:
        """Look at the files at the next use: a connection just failed."""
        self._checked_at = float("-inf")

    def present(self, certificate: Pem | None, key: Pem | None) -> None:
        """Use another client certificate (an exec plugin or the kubeconfig gave a new one)."""
        if (certificate, key) != (self._certificate, self._key):
            self._certificate = certificate
            self._key = key
            self.recheck()

    def elsewhere(self, *, ca: Pem | None, verify: bool) -> Tls:
        """Return the TLS of another server: the same client certificate, and other CAs."""
        return Tls(ca=ca, certificate=self._certificate, key=self._key, verify=verify, clock=self._clock)

    def _sign(self) -> Signature | None:
        """Return a value that changes whenever one of the three does; None while a file is missing."""
        found: list[object] = []
        for pem in (self._ca, self._certificate, self._key):
            if isinstance(pem, str):
                try:
                    stat = Path(pem).stat()
                except OSError:
                    return None
                found.append((pem, stat.st_mtime_ns, stat.st_size, stat.st_ino))
            else:
                found.append(pem)
        return tuple(found)

    def _build(self) -> ssl.SSLContext:
        context = self._trusting()
        # Python 3.13 turned on RFC 5280 strictness, which many clusters' CAs (no key usage) do not meet; Go has none
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._certificate is not None:
            pair = self._certificate, self._key or self._certificate
            try:
                with as_file(pair[0]) as certificate, as_file(pair[1]) as key:
                    context.load_cert_chain(certificate, key, password=no_password)
            except (OSError, ValueError) as error:
                missing = [pem for pem in pair if isinstance(pem, str) and not Path(pem).exists()]
                if missing:
                    wanted = f"{' and '.join(missing)}: no such file; expected a client certificate"
                else:
                    wanted = (
                        f"{_shown(pair[0])}: expected a client certificate in PEM form that fits the key in "
                        f"{_shown(pair[1])} ({described(error)})"
                    )
                raise ConfigError(wanted) from error
        return context

    def _trusting(self) -> ssl.SSLContext:
        if self._ca is None:
            return ssl.create_default_context()
        try:
            with as_file(self._ca) as name:
                return ssl.create_default_context(cafile=name)
        except FileNotFoundError as error:
            raise ConfigError(f"{_shown(self._ca)}: no such file; expected the cluster's CA certificates") from error
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"{_shown(self._ca)}: expected CA certificates in PEM form ({described(error)})"
            ) from error


@dataclass(frozen=True)
class Connection:
    """One API server, as found by `kubeconfig`; `host` is scheme://name[:port][/prefix] without a slash at the end.

    `source` says in a few words where this comes from, `namespace` is the context's (or the pod's own), `headers` go
    with each request (impersonation), `server_name` replaces the host's name in TLS.
    """

    host: str
    credentials: Credentials = field(default_factory=anonymous)
    tls: Tls | None = None
    server_name: str | None = None
    proxy: str | None = None
    user_agent: str = "berth"
    namespace: str = "default"
    source: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context to connect with; None: without TLS. Raises Unreachable if its files never worked."""
        try:
            return None if self.tls is None else self.tls.context()
        except ConfigError as error:
            raise Unreachable(f"no certificates: {described(error)}", sent=False) from error

    def recheck_tls(self) -> None:
        """Look whether certificates were rotated before the next connection."""
        if self.tls is not None:
            self.tls.recheck()


@contextmanager
def as_file(pem: Pem) -> Iterator[str]:
    """Yield the name of a file; what is no file yet is one while the block runs, which we alone can read.

    On Linux that is in memory, so that nothing is left even after a SIGKILL.
    """
    if isinstance(pem, str):
        yield pem
        return
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        file = os.memfd_create("berth-pem")  # closed on exec, like every file of Python
        name = f"/proc/self/fd/{file}"
    else:
        file, name = tempfile.mkstemp(prefix="berth-", suffix=".pem")  # mode 0600
    try:
        os.write(file, pem)
        yield name
    finally:
        os.close(file)
        if not name.startswith("/proc/"):
            Path(name).unlink()


def _shown(pem: Pem) -> str:
    return pem if isinstance(pem, str) else "inline data"


def no_password() -> str:
    """Refuse an encrypted key, for which OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")
