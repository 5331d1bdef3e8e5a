"""The settings of `berth admission`, checked: its address, its names, and what it registers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from podberth.policy.native.admission_policies import name_of
from podberth.policy.settings import ServiceSettings, SettingsError, seconds

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
    configuration: str = "zz-berth-admission"
    """Name of both webhook configurations: mutating ones are asked by name, and we want to see what others wrote."""
    register: bool = True
    secret: str = "berth-admission-tls"
    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    overlap_seconds: float = 300.0
    """The least seconds for which two certificates, or CAs in files, are trusted before the newer one is served and
    before the older one goes.
    """
    drain_seconds: float = 10.0
    """Seconds from SIGTERM until no connection is accepted: readiness probes and endpoints need to notice."""

    def __post_init__(self) -> None:
        ServiceSettings.__post_init__(self)
        if bool(self.cert_file) != bool(self.key_file):
            raise SettingsError("--cert-file and --key-file: want both or neither")
        if self.ca_file is not None and self.cert_file is None:
            raise SettingsError("--ca-file: only goes with --cert-file and --key-file")
        if self.url and not _is_base(self.url):
            raise SettingsError(f"--url {self.url}: want https://host[:port], as the API server can reach it")
        seconds("--overlap", self.overlap_seconds)
        seconds("--drain", self.drain_seconds)
        if self.failure_policy not in FAILURE_POLICIES:
            raise SettingsError(f"--failure-policy {self.failure_policy}: want one of {', '.join(FAILURE_POLICIES)}")

    @property
    def binding(self) -> str:
        """Return the name of the MutatingAdmissionPolicyBinding by which the API server enforces the policies."""
        return name_of(self.release)

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


def _is_base(url: str) -> bool:
    """Return whether API servers can be told to call this URL, and a certificate can name its host."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    beside = parts.query or parts.fragment or parts.username
    return parts.scheme == "https" and bool(host) and host.isascii() and not beside
