"""The settings of `berth admission`, checked: its address, its names, and what it registers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from podberth.policy.settings import ServiceSettings, SettingsError, seconds

WORKERS, MOST_WORKERS = 2, 16
"""The usual and the largest number of workers. A namespace uses one at most, so that with two it never blocks another
one alone; two namespaces that use both share them with others.
"""
FAILURE_POLICIES = ("Ignore", "Fail")


@dataclass(frozen=True, slots=True)
class Settings(ServiceSettings):
    """`url` (https://host[:port]) replaces the Service in the webhook configurations, for servers outside a cluster."""

    port: int = 8443
    lease: str = "berth-admission"
    service: str = "berth-admission"
    service_port: int = 443
    url: str = ""
    failure_policy: str = "Ignore"
    """The failurePolicy of the validating webhook; the mutating one's is always Ignore."""
    workers: int = WORKERS
    """The number of processes that judge expensive reviews; 0: threads of the server."""
    configuration: str = "zz-berth-admission"
    """Name of both webhook configurations: mutating ones are asked by name, and we want to see what others wrote."""
    owner: str = ""
    """A ClusterRole that owns the webhook configurations, so that they are deleted with it. Empty: they stay."""
    register: bool = True
    leave_native: bool = False
    """True if policies are left to the API server where their status says that it enforces them."""
    secret: str = "berth-admission-tls"
    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    overlap_seconds: float = 300.0
    """The least seconds for which two CAs are trusted before the newer one signs and before the older one goes."""
    count_seconds: float = 15.0
    """Between two rounds of writing what was counted into the policies' statuses; 0 is never."""
    drain_seconds: float = 10.0
    """Seconds from SIGTERM until no connection is accepted: readiness probes and endpoints need to notice."""

    def __post_init__(self) -> None:
        ServiceSettings.__post_init__(self)
        if bool(self.cert_file) != bool(self.key_file):
            raise SettingsError("--cert-file and --key-file: want both or neither")
        if self.ca_file is not None and self.cert_file is None:
            raise SettingsError("--ca-file: only goes with --cert-file and --key-file")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
                raise SettingsError(f"--url {self.url}: want https://host[:port], as the API server can reach it")
        seconds("--overlap", self.overlap_seconds)
        seconds("--drain", self.drain_seconds)
        seconds("--count-interval", self.count_seconds)
        if not 0 <= self.workers <= MOST_WORKERS:
            raise SettingsError(f"--workers {self.workers}: want 0 to {MOST_WORKERS}")
        if self.failure_policy not in FAILURE_POLICIES:
            raise SettingsError(f"--failure-policy {self.failure_policy}: want one of {', '.join(FAILURE_POLICIES)}")

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names and addresses that the serving certificate is for: the Service's, and the URL's host."""
        inside = f"{self.service}.{self.namespace}.svc"
        found = [inside, f"{inside}.cluster.local", f"{self.service}.{self.namespace}"]
        if host := urlsplit(self.url).hostname:
            try:
                found.insert(0, str(ipaddress.ip_address(host)))
            except ValueError:
                found.insert(0, host)
        return tuple(found)
