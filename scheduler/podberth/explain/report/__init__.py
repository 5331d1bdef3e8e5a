"""Draws tables for a terminal, and pages for a browser, of what `podberth.explain` found.

What draws an answer is imported when it is asked for: a table needs no templates, and JSON needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podberth.explain.report.capacity import CapacityTable, GangCapacityTable
    from podberth.explain.report.cluster import PendingTable, RemovableTable
    from podberth.explain.report.explanation import ExplanationTable
    from podberth.explain.report.group import GroupTable
    from podberth.explain.report.pages import (
        capacity_page,
        explanation_page,
        gang_capacity_page,
        group_page,
        pending_page,
        removable_page,
    )
    from podberth.explain.report.simulation_page import outcome_page
    from podberth.explain.report.simulation_tables import OutcomeTable

__all__ = [
    "CapacityTable",
    "ExplanationTable",
    "GangCapacityTable",
    "GroupTable",
    "OutcomeTable",
    "PendingTable",
    "RemovableTable",
    "capacity_page",
    "explanation_page",
    "gang_capacity_page",
    "group_page",
    "outcome_page",
    "pending_page",
    "removable_page",
]
_MODULES = {
    "CapacityTable": "capacity",
    "GangCapacityTable": "capacity",
    "PendingTable": "cluster",
    "RemovableTable": "cluster",
    "ExplanationTable": "explanation",
    "GroupTable": "group",
    "capacity_page": "pages",
    "explanation_page": "pages",
    "gang_capacity_page": "pages",
    "group_page": "pages",
    "pending_page": "pages",
    "removable_page": "pages",
    "outcome_page": "simulation_page",
    "OutcomeTable": "simulation_tables",
}


def __getattr__(name: str) -> Any:
    """Import what draws an answer."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
