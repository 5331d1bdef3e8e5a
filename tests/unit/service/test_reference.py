"""The reference pages are what the code declares."""

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
MAKE = REFERENCE / "make.py"


@pytest.mark.parametrize("script", sorted(path.name for path in REFERENCE.glob("*.py")))
def test_pages_are_current(script: str) -> None:
    """`make reference` would change nothing."""
    made = runpy.run_path(str(REFERENCE / script))
    pages = made["pages"]() if "pages" in made else {made["PAGE"]: made["page"]()}
    for path, text in pages.items():
        assert path.read_text() == text


def test_names_are_unique() -> None:
    """No family is declared twice."""
    names = [family.name for family in runpy.run_path(str(MAKE))["scheduler"]()]
    assert len(names) == len(set(names))
