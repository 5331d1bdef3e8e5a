"""The enforcement of each policy of a namespace: by the API server itself, by the webhook, or by nobody. Pure.

`enforcer` asks this before it writes anything, and again for what is said in the statuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from podberth.policy.operator.judge import Condition, Stored

Enforce = Literal["auto", "native", "webhook"]
ENFORCEMENTS: tuple[Enforce, ...] = ("auto", "native", "webhook")
"""The values of `--enforcement`."""
Way = Literal["Native", "Webhook", "None"]


class Enforcement(msgspec.Struct, frozen=True):
    """The one who enforces a policy, the reason in one word, and a sentence."""

    way: Way
    reason: str
    message: str
    older: bool = False
    """An older version of the policy is in force."""

    @property
    def condition(self) -> Condition:
        """As a condition of the policy."""
        if self.reason in ("NotAccepted", "ExemptNamespace"):
            return Condition("Enforced", "Unknown", self.reason, self.message)
        return Condition("Enforced", "False" if self.way == "None" else "True", self.reason, self.message)


NATIVE = Enforcement("Native", "Native", "the API server enforces the policy by itself")
OLDER = Enforcement("Native", "Native", "the API server enforces an older version of the policy for now", older=True)
STARTING = "the API server takes over in some seconds"


def way_of(status: Mapping[str, Any]) -> str:
    """Return who enforces a policy, as its status says."""
    held = status.get("enforcement")
    return str(held.get("way", "")) if isinstance(held, dict) else ""


def since_of(status: Mapping[str, Any]) -> str:
    """Since when, as its status says."""
    held = status.get("enforcement")
    return str(held.get("since", "")) if isinstance(held, dict) else ""


def block(found: Enforcement, stored: Stored, now: str) -> dict[str, Any]:
    """`status.enforcement`: the time is kept while the way stays, the generation while an older version is in force."""
    before = stored.status.get("enforcement")
    kept = before if isinstance(before, dict) and before.get("way") == found.way else {}
    generation = kept.get("generation", 0) if found.older else stored.generation
    return {"way": found.way, "since": kept.get("since") or now, "generation": generation}


class Rules(msgspec.Struct, frozen=True):
    """The settings of a release. `webhook`: whether it has one that could enforce."""

    enforcement: Enforce
    webhook: bool
    missing: str = ""
    """Why the API server can't enforce policies by itself; empty when it can."""

    @property
    def native(self) -> bool:
        """Return whether the API server is to enforce what it can."""
        return not self.missing and (self.enforcement != "webhook" or not self.webhook)

    @property
    def falls_back(self) -> bool:
        """Return whether the webhook enforces where the API server can't."""
        return self.webhook and self.enforcement != "native"

    def otherwise(self, reason: str, message: str) -> Enforcement:
        """A policy that the API server does not enforce."""
        if self.falls_back:
            return Enforcement("Webhook", reason, message)
        return Enforcement("None", reason, f"not enforced: {message}")

    def starting(self, answer: str) -> Enforcement:
        """A policy whose admission policies are not in force yet; `answer` is what was said in their place."""
        message = f"a dry run does not show that the API server enforces the policy: {answer}" if answer else STARTING
        return Enforcement("Webhook" if self.webhook else "None", "Starting", message)


def ways(
    rules: Rules,
    stored: Sequence[Stored],
    *,
    exempt: bool,
    native: frozenset[str],
    stays: Mapping[str, tuple[str, str]],
    in_force: bool,
    written: bool,
    answer: str = "",
) -> dict[str, Enforcement]:
    """Return who enforces each policy. `stays`: reason and message of those that are not `native`.

    A policy that is enforced natively already stays so until its new objects are in force, in an older version if it
    was edited. `answer`: as for `Rules.starting`.
    """
    found: dict[str, Enforcement] = {}
    for one in stored:
        if exempt:
            found[one.name] = Enforcement("None", "ExemptNamespace", "not enforced: the namespace is exempt")
        elif one.policy is None:
            found[one.name] = Enforcement("None", "NotAccepted", "not enforced: the policy is not accepted")
        elif one.name in native:
            kept = way_of(one.status) == "Native"
            same = kept and written and one.status["enforcement"].get("generation") == one.generation
            found[one.name] = NATIVE if in_force or same else OLDER if kept else rules.starting(answer)
        elif not rules.native:
            switched = rules.enforcement == "webhook"
            message = "this release leaves policies to the webhook" if switched else rules.missing
            found[one.name] = rules.otherwise("Switched" if switched else "KindsMissing", message)
        else:
            reason, message = stays.get(one.name, ("NotNative", ""))
            full = reason == "TooManyNamespaces"
            nobody = Enforcement("None", reason, f"not enforced: {message}")
            found[one.name] = rules.otherwise(reason, message) if full else nobody
    return found
