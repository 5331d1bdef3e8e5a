"""The page in a real browser."""

import itertools
import json
import re
from pathlib import Path

from podberth.explain.report.pages import demo_page
from podberth.testing.demo.recording import page_data
from tests.browser.axe import dressed, faults
from tests.browser.tab import opened
from tests.unit.testing.demo.conftest import Told

LONG = {
    "a1": "gpu-pool-large-node-07",
    "b2": "ip-10-0-0-1.eu-west-1.compute.internal",
    "db-1": "checkout-worker-6c9f5d7b8-x2x4k",
}


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


async def test_names_of_other_clusters(chromium: Path, told: Told, tmp_path: Path) -> None:
    """On somebody's own cluster names are longer: they stay whole on a phone, and it need not scroll sideways."""
    text = json.dumps(page_data(told.recording))
    for short, name in LONG.items():
        text = re.sub(rf"\b{short}\b", name, text)
    page = tmp_path / "page.html"
    page.write_text(demo_page(json.loads(text)), encoding="utf-8")
    async with opened(chromium, page, tmp_path / "profile") as tab:
        await tab.press("End")
        for pod in (LONG["db-1"], "report-0"):
            await tab.ask(f"document.querySelector('[data-pod=\"{pod}\"]').click()")
            for width in (320, 420):
                assert not await tab.overflows(width)
                broken = await tab.broken_words()
                assert [words for words in broken if any(name in words for name in LONG.values())] == []


BOX = "(one => (({top, bottom, left, right}) => [top, bottom, left, right])(one.getBoundingClientRect()))"


async def test_on_a_phone(chromium: Path, told: Told, tmp_path: Path) -> None:
    """400 px: the first screen shows the cluster, the answer to a click stands beside its pod, and no ticks touch."""
    page = tmp_path / "page.html"
    page.write_text(demo_page(page_data(told.recording)), encoding="utf-8")
    async with opened(chromium, page, tmp_path / "profile") as tab:
        await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        screen = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        await tab.call("Emulation.setDeviceMetricsOverride", **screen)
        await tab.call("Page.navigate", url=f"{page.as_uri()}?still")
        await tab.ask("new Promise(done => document.readyState === 'complete' ? done() : onload = done)")
        player = await tab.ask(f"{BOX}(document.getElementById('player'))")
        nodes = await tab.ask(f"[...document.querySelectorAll('.node')].map({BOX})")
        assert len([bottom for _, bottom, *_ in nodes if bottom <= player[0]]) >= len(nodes) / 2
        marks = await tab.ask(f"[...document.querySelectorAll('#marks button')].map({BOX})")
        assert all(right <= left for (_, _, _, right), (_, _, left, _) in itertools.pairwise(marks))
        await tab.press("End")
        for pod in ("db-1", "report-0"):
            clicked = f"document.querySelector('.chip[data-pod=\"{pod}\"]')"
            await tab.ask(f"{clicked}.click()")
            chip, why = await tab.ask(f"[{clicked}, document.getElementById('why')].map({BOX})")
            assert 0 <= chip[0] < chip[1] <= why[0] < why[1] <= player[0]
        await tab.ask("document.querySelector('.follow').click()")
        assert not await tab.overflows(400)
