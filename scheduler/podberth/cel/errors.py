"""How an evaluation may end without a result."""

from collections.abc import Callable
from typing import Any


class EvaluationError(Exception):
    """An expression failed at run time; the text is cel-go's. `cost` and `steps` are what it had taken by then."""

    cost: int = 0
    steps: int = 0


class AbortError(EvaluationError):
    """An error that no `&&` or `||` makes up for: cel-go panics there."""


class CostLimitError(AbortError):
    """An evaluation cost more than is allowed."""


class EffortError(AbortError):
    """An evaluation took more steps than its caller lets it take. Kubernetes would have gone on."""


def works(convert: Callable[..., Any]) -> Callable[..., bool]:
    """The function that tells whether a conversion takes its arguments: it fails for others with an EvaluationError."""

    def check(*args: Any) -> bool:
        try:
            convert(*args)
        except AbortError:
            raise
        except EvaluationError:
            return False
        return True

    return check
