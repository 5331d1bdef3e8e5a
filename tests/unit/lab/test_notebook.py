"""The notebook in examples/ runs from its first cell to its last, and keeps no outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def ran() -> Any:
    """The notebook after a run in its directory."""
    read: Any = nbformat.read  # it has no types
    book = read(EXAMPLES / "lab.ipynb", as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in book.cells if cell.cell_type == "code")
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    return book


def _said(book: Any, kind: str) -> list[Any]:
    cells = (cell for cell in book.cells if cell.cell_type == "code")
    return [out.data[kind] for cell in cells for out in cell.outputs if kind in out.get("data", {})]


def test_it_shows_tables_and_pictures(ran: Any) -> None:
    """Two pictures that are drawn here, with both configurations, and three tables."""
    pictures = _said(ran, "image/svg+xml")
    assert len(pictures) == 2
    assert all("default" in picture and "packed" in picture for picture in pictures)
    assert len(_said(ran, "text/html")) == 3


def test_packing_is_better_for_pods_that_need_a_node(ran: Any) -> None:
    """What the text says of the figures is true."""
    (first, *_, last) = (text for text in _said(ran, "text/plain") if "default" in text)
    waits = {line.split("┆")[0].strip("│ "): line for line in first.splitlines() if "┆" in line}
    default, packed = (float(part.strip(" │")) for part in waits["waiting_mean_s"].split("┆")[1:])
    assert default > 20 * packed
    assert "second half" in last
