"""Finds the disruption budget that an eviction draws on, if any, and says why one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from podberth.apiserver.rules.status import JsonObject, StatusError, forbidden

MAX_DISRUPTED_PODS = 2000
_NO = "Cannot evict pod as it would violate the pod's disruption budget."


class Evicted(NamedTuple):
    """The facts of a pod that count: its phase, and whether it is being deleted and ready."""

    phase: str
    terminating: bool
    ready: bool

    @property
    def guarded(self) -> bool:
        """Return whether budgets are asked: not about a pod that has ended, not begun, or is being deleted
        (canIgnorePDB).
        """
        return self.phase not in {"Succeeded", "Failed", "Pending"} and not self.terminating


class Budget(NamedTuple):
    """The facts of a budget that count, one that selects the pod. `seen`: its controller has seen the spec as it is
    now.

    `told`: reason and message of the condition by which nothing is allowed.
    """

    name: str
    allowed: int
    healthy: int
    desired: int
    seen: bool = True
    always_allow: bool = False
    disrupted: int = 0
    told: tuple[str, str] | None = None


def draws_on(pod: Evicted, budgets: Sequence[Budget]) -> Budget | None:
    """Return the budget of which the eviction uses up one disruption; None: it costs nothing. Raises StatusError.

    An unready pod that does not count towards its budget costs nothing.
    """
    if not pod.guarded or not budgets:
        return None
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError(500, "", text)
    budget = budgets[0]
    if not pod.ready and (budget.always_allow or budget.healthy >= budget.desired > 0):
        return None
    if not budget.seen:
        raise _too_many(f"The disruption budget {budget.name} is still being processed by the server.", 10)
    if budget.allowed < 0:
        raise forbidden("policy", "poddisruptionbudget", budget.name, "pdb disruptions allowed is negative")
    if budget.disrupted > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", budget.name, why)
    if budget.allowed == 0:
        raise _too_many(_why_not(budget), 0)
    return budget


def _too_many(cause: str, retry_after: int) -> StatusError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", _NO, details, retry_after)


def _why_not(budget: Budget) -> str:
    name, told = budget.name, budget.told
    no = f"The disruption budget {name} does not allow evicting pods currently"
    if told is not None and told[0] == "SyncFailed":
        return f"{no} because it failed sync: {told[1]}"
    if budget.healthy <= budget.desired:
        return f"The disruption budget {name} needs {budget.desired} healthy pods and has {budget.healthy} currently"
    return no if told is None else f"{no} ({told[0]}): {told[1]}"
