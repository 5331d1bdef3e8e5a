"""What the API's answer to an eviction means (registry/core/pod/storage/eviction.go)."""

from dataclasses import dataclass
from enum import Enum, auto

from podberth.evictor.messages import Answered

_TWO_BUDGETS = "more than one PodDisruptionBudget"


class Then(Enum):
    """What to do next."""

    LEAVE = auto()
    """Wait until the pod is gone."""
    RETRY = auto()
    """Try again, with backoff."""
    REST = auto()
    """Trying again soon does not help: somebody has to do something about it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """`result`: label of the metric; `event`: reason of the Event about it, empty for none.

    `evicted`: whether the pod was evicted; None: it may have been, or may yet be.
    """

    result: str
    then: Then
    event: str = ""
    evicted: bool | None = False


def meaning(answer: Answered, *, observe: bool) -> Meaning:
    """One answer. A 409 is a namesake of the pod that is gone, or a budget just written by another: both pass."""
    match answer.status:
        case status if 200 <= status < 300:
            if observe:
                return Meaning("observed", Then.REST, "WouldEvict")
            return Meaning("evicted", Then.LEAVE, "Evicted", evicted=True)
        case 429 if answer.budget:
            return Meaning("budget", Then.RETRY, "DisruptionBudget")
        case 429:
            return Meaning("throttled", Then.RETRY)
        case 404:
            return Meaning("gone", Then.RETRY)
        case 409:
            return Meaning("conflict", Then.RETRY)
        case 0:
            return Meaning("unanswered", Then.RETRY, evicted=None)
        case 500 if _TWO_BUDGETS in answer.message:
            return Meaning("two_budgets", Then.REST, "TwoDisruptionBudgets")
        case 403:
            return Meaning("forbidden", Then.REST, "EvictionRefused")
        case status if status >= 500:
            return Meaning("error", Then.RETRY, "EvictionFailed", evicted=None)
    return Meaning("refused", Then.REST, "EvictionRefused")
