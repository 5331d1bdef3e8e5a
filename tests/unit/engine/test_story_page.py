"""docs/reference/story.md says what the code does."""

from pathlib import Path
from typing import get_args

from podberth.engine.history import FIRST, LONGEST, MOST
from podberth.engine.story import LONGEST_TEXT, Entry


def test_the_page_names_every_kind_and_field() -> None:
    """docs/reference/story.md is the contract: what an entry may have is in it, and so are the bounds."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "story.md").read_text()
    told = {"trace": "points", "until": "backoffSeconds"}
    rows = [line.split("|")[1:] for line in page.splitlines() if line.startswith("| `")]
    for kind in get_args(Entry):
        (row,) = [cells[-2] for cells in rows if f"`{kind.__struct_config__.tag}`" in cells[0]]
        for name in kind.__struct_encode_fields__:
            assert name == "at" or f"`{told.get(name, name)}`" in row, f"{kind.__name__}.{name}"
    assert f"first {FIRST} entries and its latest ones, {LONGEST} in all" in page
    assert f"Of all pods, {MOST:,} entries" in page
    assert f"has {LONGEST_TEXT}\n  characters at most" in page
