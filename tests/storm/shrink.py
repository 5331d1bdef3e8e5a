"""Leave out of a failing run whatever it does not need to fail: delta debugging over its happenings.

A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input (2002), the algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.storm.happenings import Happening
from tests.storm.plan import Plan
from tests.storm.world import Outcome

MOST_RUNS = 400


def invariants(outcome: Outcome) -> set[str]:
    """Which invariants a run has violated."""
    return {violation.partition(":")[0] for violation in outcome.violations}


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, most: int = MOST_RUNS) -> Plan:
    """A smaller plan that still fails: no part of it can be left out, if there was time to try all."""
    kept, parts, runs = list(plan.happenings), 2, 0
    while len(kept) >= 2 and runs < most:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            runs += 1
            if fails(_with(plan, fewer)):
                kept, parts = fewer, max(parts - 1, 2)
                break
            if runs >= most:
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return _with(plan, kept)


def _with(plan: Plan, kept: list[Happening]) -> Plan:
    return replace(plan, happenings=tuple(kept))
