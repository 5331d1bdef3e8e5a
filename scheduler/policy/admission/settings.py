"""What `berth admission` is told, checked: where it serves, under which names, and what it registers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.policy.exempt import NAMESPACES

WORKERS, MOST_WORKERS = 2, 16
"""With two, a namespace, which has one worker at most, never stands in another's way; two that do share with others."""
FAILURE_POLICIES = ("Ignore", "Fail")


class SettingsError(ValueError):
    """Settings that can't work: one line that names option, value and what was expected."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`url` (https://host[:port]) replaces the Service in the webhook configurations, for servers outside a cluster."""

    namespace: str
    host: str = ""
    """Address to listen on; empty is every one."""
    port: int = 8443
    service: str = "berth-admission"
    service_port: int = 443
    url: str = ""
    failure_policy: str = "Ignore"
    """The validating webhook's; the mutating one's is always Ignore."""
    exempt_namespaces: tuple[str, ...] = ()
    allowed_prefixes: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserve_known: bool = True
    """Whether the keys of `policy.powers` are kept from policies."""
    workers: int = WORKERS
    """Processes that judge what is dear; 0: threads of the server's own."""
    scheduler_lease: str = "berth"
    profiles: tuple[str, ...] = ()
    """What the scheduler's Lease stands for when it does not say itself; empty is its own name."""
    configuration: str = "zz-berth-admission"
    """Name of both webhook configurations: mutating ones are asked by name, and we want to see what others wrote."""
    owner: str = ""
    """A ClusterRole that owns them: they go when it goes. Empty: they stay."""
    register: bool = True
    secret: str = "berth-admission-tls"
    lease: str = "berth-admission"
    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    overlap_seconds: float = 300.0
    """For how long two CAs are trusted, at least, before the newer one signs and before the older one goes."""
    count_seconds: float = 15.0
    """Between two rounds of writing what was counted into the policies' statuses; 0 is never."""
    drain_seconds: float = 10.0
    """From SIGTERM until no connection is accepted: readiness probes and endpoints need to notice."""

    def __post_init__(self) -> None:
        if bool(self.cert_file) != bool(self.key_file):
            raise SettingsError("--cert-file and --key-file: want both or neither")
        if self.ca_file is not None and self.cert_file is None:
            raise SettingsError("--ca-file: only goes with --cert-file and --key-file")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
                raise SettingsError(f"--url {self.url}: want https://host[:port], as the API server can reach it")
        for word, seconds in (
            ("--overlap", self.overlap_seconds),
            ("--drain", self.drain_seconds),
            ("--count-interval", self.count_seconds),
        ):
            if not 0 <= seconds < 86400 * 30:
                raise SettingsError(f"{word} {seconds:g}: want seconds, 0 or more")
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

    @property
    def exempt(self) -> tuple[str, ...]:
        """Namespaces without policies: the control plane's, our own, and those named."""
        return tuple(dict.fromkeys((*NAMESPACES, self.namespace, *self.exempt_namespaces)))
