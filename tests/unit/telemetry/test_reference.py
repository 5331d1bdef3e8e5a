"""The metrics reference is what the code declares."""

import runpy
from pathlib import Path

MAKE = Path(__file__).parents[3] / "docs" / "reference" / "make.py"


def test_metrics_page_is_current() -> None:
    """`make reference` would change nothing."""
    made = runpy.run_path(str(MAKE))
    assert made["PAGE"].read_text() == made["page"]()


def test_names_are_unique() -> None:
    """No family is declared twice."""
    names = [family.name for family in runpy.run_path(str(MAKE))["scheduler"]()]
    assert len(names) == len(set(names))
