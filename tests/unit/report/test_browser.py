"""The pages that have no script in a real browser: readable, offline, and on a phone."""

from pathlib import Path

import pytest

from scheduler.report.page import page as explanation
from scheduler.report.simulation_page import outcome_page, study_page
from tests.browser.tab import opened
from tests.unit.report.test_simulation_page import EVIL, OUTCOME, STUDY
from tests.unit.whatif.story import BIG, explained

PAGES = [
    pytest.param(outcome_page(OUTCOME), ["ns/a", "ns/c", EVIL], id="outcome"),
    pytest.param(study_page(STUDY), ["pods placed", "3 of 4", EVIL], id="study"),
    pytest.param(explanation(explained(BIG)), ["shop/big fits on none of 5 nodes", "uncordon b-1"], id="explanation"),
]
UNSEEN = """
[...document.querySelectorAll('h1, h2, td, th, svg')].filter(one => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && one.textContent.trim() && (box.width === 0 || box.height === 0);
}).length
"""


@pytest.mark.parametrize(("text", "words"), PAGES)
async def test_the_page_works(chromium: Path, tmp_path: Path, text: str, words: list[str]) -> None:
    """What it says is visible, nothing is asked of a network, no script runs, and a phone need not scroll sideways."""
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    async with opened(chromium, file, tmp_path / "profile") as tab:
        seen = await tab.ask("document.body.innerText")
        assert [word for word in words if word not in seen] == []
        assert await tab.ask(UNSEEN) == 0
        for width in (1280, 375):
            assert not await tab.overflows(width)
        assert tab.complaints == []
