"""Who rejected which row, of a decision."""

import numpy as np

from scheduler.framework.decision import Decision, narrowed_text


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
