"""The settings of `berth operator`, checked."""

from __future__ import annotations

from dataclasses import dataclass

from podberth.policy.keys import is_subdomain
from podberth.policy.native.policy_set import RELEASE_LABEL, label_of
from podberth.policy.operator.listing import DEFAULT_KINDS, KindError, resource
from podberth.policy.settings import ServiceSettings, SettingsError, seconds

LONGEST_RELEASE = 200
"""Characters: names of objects have 253, of which what follows takes the rest."""


@dataclass(frozen=True, slots=True)
class Settings(ServiceSettings):
    """`port` is for probes."""

    port: int = 8081
    lease: str = "berth-operator"
    watched: tuple[str, ...] = ()
    """Namespaces whose policies are looked at; empty is all."""
    webhook: str = "zz-berth-admission"
    """The name of the webhook configurations; empty where there is no admission server."""
    audit_kinds: tuple[str, ...] = DEFAULT_KINDS
    audit_seconds: float = 900.0
    """Between two counts of all objects; 0 is never."""

    @property
    def selector(self) -> str:
        """The labels of all that the API server enforces for this release."""
        return f"{RELEASE_LABEL}={label_of(self.release)}"

    def __post_init__(self) -> None:
        ServiceSettings.__post_init__(self)
        seconds("--audit-interval", self.audit_seconds)
        if not is_subdomain(self.release) or len(self.release) > LONGEST_RELEASE:
            raise SettingsError(
                f"--release {self.release[:60]}: want at most {LONGEST_RELEASE} small letters, digits, - and ."
            )
        try:
            for kind in self.audit_kinds:
                resource(kind)
        except KindError as error:
            raise SettingsError(f"--audit-kind {error}") from None
