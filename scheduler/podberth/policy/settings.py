"""Settings that admission server and operator share, checked. What one of them holds for true, the other has to."""

from __future__ import annotations

from dataclasses import dataclass

from podberth.policy.exempt import NAMESPACES
from podberth.policy.keys import Reserved
from podberth.policy.options import Options

ENFORCEMENTS = ("auto", "native", "webhook")
"""The values of `--enforcement`."""


class SettingsError(ValueError):
    """Settings that can't work. The text is one line that names option, value and what was expected."""


def seconds(option: str, value: float) -> None:
    """Raise SettingsError unless this is a time of less than a month."""
    if not 0 <= value < 86400 * 30:
        raise SettingsError(f"{option} {value:g}: want seconds, 0 or more")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """`namespace` is ours: of the Secret, of our Lease, and of the schedulers' Leases that count."""

    namespace: str
    host: str = ""
    """The address to listen on; empty: all addresses."""
    port: int = 0
    lease: str = ""
    scheduler_lease: str = "berth"
    profiles: tuple[str, ...] = ()
    """The profiles of a scheduler whose Lease does not name them; empty: its own name."""
    exempt_namespaces: tuple[str, ...] = ()
    allowed_prefixes: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserve_known: bool = True
    """True if the keys of `podberth.policy.keys` are kept from policies."""
    stamp: bool = True
    """True if every pod gets its QoS class as an annotation. Rules know the class in any case."""
    release: str = "berth"
    """The names of our admission policies begin with it: no two operators of a cluster may share it."""
    enforcement: str = "webhook"
    """Who enforces policies: the one switch of a release."""
    owner: str = ""
    """A ClusterRole that owns what we make for the whole cluster: that goes when it goes. Empty: it stays."""

    def __post_init__(self) -> None:
        if not self.namespace:
            raise SettingsError("--namespace: want the namespace that Berth runs in")
        if not 0 <= self.port < 65536:
            raise SettingsError(f"--port {self.port}: want 0 to 65535")
        if self.enforcement not in ENFORCEMENTS:
            raise SettingsError(f"--enforcement {self.enforcement}: want one of {', '.join(ENFORCEMENTS)}")

    @property
    def reserved(self) -> Reserved:
        """The keys that policies may not write."""
        return self.options.reserved

    @property
    def options(self) -> Options:
        """The facts that hold for every object."""
        return Options(
            own_namespace=self.namespace,
            allowed_prefixes=self.allowed_prefixes,
            reserved_prefixes=self.reserved_prefixes,
            reserve_known=self.reserve_known,
            stamp=self.stamp,
        )

    @property
    def exempt(self) -> tuple[str, ...]:
        """Namespaces without policies: the control plane's, our own, and those named."""
        return tuple(dict.fromkeys((*NAMESPACES, self.namespace, *self.exempt_namespaces)))
