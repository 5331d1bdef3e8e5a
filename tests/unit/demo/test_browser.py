"""The page in a real browser."""

from pathlib import Path

from scheduler.demo.recording import page_data
from scheduler.report.demo_page import demo_page
from tests.browser.axe import dressed, faults
from tests.browser.tab import opened
from tests.unit.demo.conftest import Told


async def test_the_page_works(chromium: Path, axe: Path, told: Told, tmp_path: Path) -> None:
    """Without a complaint: the scrubber, arrow keys, play, a click on a pod, and no sideways scrolling on a phone."""
    page = tmp_path / "page.html"
    page.write_text(demo_page(page_data(told.recording)), encoding="utf-8")
    titles = [step.title for step in told.recording.steps]
    now = "document.getElementById('now').textContent"
    async with opened(chromium, page, tmp_path / "profile") as tab:
        assert await tab.ask(now) == titles[0]
        await tab.ask(
            "{ const s = document.getElementById('scrub'); s.value = 7; s.dispatchEvent(new Event('input')); }"
        )
        assert await tab.ask(now) == titles[7]
        for key, want in (("ArrowRight", 8), ("ArrowLeft", 7), ("End", len(titles) - 1), ("Home", 0)):
            await tab.press(key)
            assert await tab.ask(now) == titles[want]
        changed = (
            "new Promise(done => new MutationObserver(done).observe(document.getElementById('now'), {childList: true}))"
        )
        await tab.ask(f"document.getElementById('play').click(), {changed}")
        assert await tab.ask(now) == titles[1]
        await tab.ask("document.getElementById('play').click()")
        await tab.press("End")
        await tab.ask("document.querySelector('[data-pod=\"db-1\"]').click()")
        why = await tab.ask("document.getElementById('why').textContent")
        assert told.step("db-1", "bound").title in why
        assert "Winner and runner-up" in why
        found = []
        for scheme in ("light", "dark"):
            await dressed(tab, scheme)
            found += [f"{scheme}: {fault}" for fault in await faults(tab, axe)]
        assert found == []
        for width in (3840, 375, 320):
            assert not await tab.overflows(width)
        assert tab.complaints == []
