"""What `berth operator` is told, checked."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.policy.operator.kinds import DEFAULT_KINDS, KindError, resource
from scheduler.policy.settings import ServiceSettings, SettingsError, seconds


@dataclass(frozen=True, slots=True)
class Settings(ServiceSettings):
    """`port` is for probes."""

    port: int = 8081
    lease: str = "berth-operator"
    watched: tuple[str, ...] = ()
    """Namespaces whose policies are looked at; empty is all."""
    audit_kinds: tuple[str, ...] = DEFAULT_KINDS
    audit_seconds: float = 900.0
    """Between two counts of all objects; 0 is never."""

    def __post_init__(self) -> None:
        ServiceSettings.__post_init__(self)
        seconds("--audit-interval", self.audit_seconds)
        try:
            for kind in self.audit_kinds:
                resource(kind)
        except KindError as error:
            raise SettingsError(f"--audit-kind {error}") from None
