"""Who rejected which row, of a decision."""

import numpy as np

from podberth.framework.decision import Decision, narrowed_text
from podberth.framework.status import Reason


def against(decision: Decision) -> dict[int, list[str]]:
    """Row → the reasons against it."""
    found: dict[int, list[str]] = {}
    if decision.verdict is not None:
        return {row: [decision.verdict[1].text] for row in range(decision.nodes)}
    if decision.left_out is not None:
        for row in np.flatnonzero(decision.left_out).tolist():
            found[row] = [narrowed_text(decision)]
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            for row in np.flatnonzero(where).tolist():
                found.setdefault(row, []).append(reason.text)
    return found


def first_against(decision: Decision, row: int | None) -> tuple[str, Reason] | None:
    """The plugin that rejects a row, and its first reason; None if none does, or if there is no such row."""
    if row is None:
        return None
    if decision.left_out is not None and row < len(decision.left_out) and decision.left_out[row]:
        return decision.narrowed_by[0], Reason(narrowed_text(decision), unresolvable=True)
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            if row < len(where) and where[row]:
                return rejected.plugin, reason
    return None
