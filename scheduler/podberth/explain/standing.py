"""How a node that somebody else chose stands in a decision of ours."""

import numpy as np

from podberth.framework.decision import Decision


def place_of(decision: Decision, row: int | None) -> int | None:
    """The place of a row among the feasible ones, None if it is not one of them."""
    at = int(np.searchsorted(decision.feasible, -1 if row is None else row))
    return at if at < len(decision.feasible) and decision.feasible[at] == row else None


def given_away(decision: Decision, row: int | None) -> int | None:
    """The best total less that of a row, in points of the profile's scores; None if the row is not feasible.

    It is 0 for each feasible row when nothing was scored.
    """
    at = place_of(decision, row)
    if at is None or decision.totals is None:
        return None if at is None else 0
    return int(decision.totals.max() - decision.totals[at])
