"""The settings of `berth operator`, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from podberth.policy.keys import is_subdomain
from podberth.policy.native.policy_set import RELEASE_LABEL, label_of
from podberth.policy.operator.listing import DEFAULT_KINDS, KindError, resource
from podberth.policy.settings import ServiceSettings, SettingsError, seconds

Enforce = Literal["auto", "native", "webhook"]
ENFORCEMENTS: tuple[Enforce, ...] = ("auto", "native", "webhook")
"""The values of `--enforcement`."""
LONGEST_RELEASE = 200
"""Characters: names of objects have 253, of which what follows takes the rest."""


@dataclass(frozen=True, slots=True)
class Settings(ServiceSettings):
    """`port` is for probes."""

    port: int = 8081
    lease: str = "berth-operator"
    watched: tuple[str, ...] = ()
    """Namespaces whose policies are looked at; empty is all."""
    release: str = "berth"
    """The names of our admission policies begin with it: no two operators of a cluster may share it."""
    enforcement: Enforce = "webhook"
    """The way in which policies are enforced: the one switch of a release."""
    webhook: str = "zz-berth-admission"
    """The name of the webhook configurations; empty where there is no admission server."""
    owner: str = ""
    """A ClusterRole that owns our admission policies: they go when it goes. Empty: they stay."""
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
        if self.enforcement not in ENFORCEMENTS:
            raise SettingsError(f"--enforcement {self.enforcement}: want one of {', '.join(ENFORCEMENTS)}")
        if not is_subdomain(self.release) or len(self.release) > LONGEST_RELEASE:
            raise SettingsError(
                f"--release {self.release[:60]}: want at most {LONGEST_RELEASE} small letters, digits, - and ."
            )
        try:
            for kind in self.audit_kinds:
                resource(kind)
        except KindError as error:
            raise SettingsError(f"--audit-kind {error}") from None
