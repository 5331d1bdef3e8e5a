"""What `berth operator` is told, checked."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.policy.exempt import NAMESPACES
from scheduler.policy.operator.kinds import DEFAULT_KINDS
from scheduler.policy.powers import Reserved


class SettingsError(ValueError):
    """Settings that can't work: one line that names option, value and what was expected."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`namespace` is ours: of the Lease, and of the schedulers' Leases that count."""

    namespace: str
    watched: tuple[str, ...] = ()
    """Namespaces whose policies are looked at; empty is all."""
    lease: str = "berth-operator"
    scheduler_lease: str = "berth"
    profiles: tuple[str, ...] = ()
    """What the scheduler's Lease stands for when it has no annotation; empty is its own name."""
    exempt_namespaces: tuple[str, ...] = ()
    allowed_prefixes: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserve_known: bool = True
    audit_kinds: tuple[str, ...] = DEFAULT_KINDS
    audit_seconds: float = 900.0
    """Between two counts of all objects; 0 is never."""
    host: str = ""
    port: int = 8081
    """Of the probes."""

    def __post_init__(self) -> None:
        if not self.namespace:
            raise SettingsError("--namespace: want the namespace that the operator runs in")
        if not 0 <= self.audit_seconds < 86400 * 30:
            raise SettingsError(f"--audit-interval {self.audit_seconds:g}: want seconds, 0 or more")
        if not 0 <= self.port < 65536:
            raise SettingsError(f"--port {self.port}: want 0 to 65535")

    @property
    def reserved(self) -> Reserved:
        """The keys that policies may not write: as the admission server has it."""
        return Reserved(self.reserve_known, self.reserved_prefixes, self.allowed_prefixes)

    @property
    def exempt(self) -> frozenset[str]:
        """Namespaces where no policy applies: the admission server's own list has to be the same."""
        return frozenset((*NAMESPACES, self.namespace, *self.exempt_namespaces))
