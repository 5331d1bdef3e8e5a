"""Findings of the analysis."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

Kind = Literal[
    "invalid",
    "dead-rule",
    "conflicting-writes",
    "self-poison",
    "not-idempotent",
    "owner-selector",
    "no-live-scheduler",
    "no-action",
    "void-writes",
    "stamp-written",
    "reserved-key",
    "over-bound",
    "not-native",
    "undecided",
]


class Finding(Struct, frozen=True):
    """One thing found. `example` is an object that shows it; `rules` and `policies` are named in order."""

    kind: Kind
    policies: tuple[str, ...]
    rules: tuple[str, ...]
    message: str
    example: dict[str, Any] | None = None


class Report(Struct, frozen=True):
    """The findings about the policies of one namespace."""

    findings: Sequence[Finding] = ()
    steps: int = 0
    """The steps that the analysis took: of the solver, and of reading the rules."""

    def of(self, *kinds: Kind) -> list[Finding]:
        """Return the findings of some kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    @property
    def decided(self) -> bool:
        """Return whether every question was answered within the bound."""
        return not self.of("undecided")

    @property
    def self_consistent(self) -> bool:
        """Return whether a second pass changes nothing and never rejects (the condition SelfConsistent)."""
        return not self.of("self-poison", "not-idempotent", "undecided")
