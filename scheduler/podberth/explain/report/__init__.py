"""Says in words what `podberth.explain` found, and draws it on a terminal or as a page.

What makes a report of an answer is imported when it is asked for, because an answer as JSON needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podberth.explain.report.parts import Report

_DRAWN_BY = {
    "Explanation": ("explanation", "report"),
    "GroupExplanation": ("group", "report"),
    "Pending": ("cluster", "pending"),
    "Removals": ("cluster", "removable"),
    "Plan": ("cluster", "evictions"),
    "Capacity": ("capacity", "capacity"),
    "GangCapacity": ("capacity", "gang_capacity"),
    "Outcome": ("simulation", "report"),
}
"""Kind of answer → the module and the function that make a report of it."""


def report_of(answer: Any, **how: Any) -> "Report":
    """Return the report of an answer. `how`: as that function has it."""
    module, function = _DRAWN_BY[type(answer).__name__]
    found: Report = getattr(import_module(f"{__name__}.{module}"), function)(answer, **how)
    return found
