"""The page in a real browser, driven over the DevTools protocol; skipped where there is no Chromium."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scheduler.demo.recording import page_data
from scheduler.report.demo_page import demo_page
from tests.unit.demo.conftest import Told

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
FLAGS += ("disable-component-update", "disable-sync", "disable-dev-shm-usage", "remote-debugging-port=0")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


class Tab:
    """One page in the browser. `complaints`: its console errors and uncaught exceptions."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[Any] = []
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads(await self._socket.receive_str(timeout=30))
            event, data = message.get("method"), message.get("params")
            if event == "Runtime.exceptionThrown" or (event == "Log.entryAdded" and data["entry"]["level"] == "error"):
                self.complaints.append(data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    async def ask(self, script: str) -> Any:
        """The value of an expression, promises awaited."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


@asynccontextmanager
async def opened(page: Path, profile: Path) -> AsyncIterator[Tab]:
    """A browser with the page loaded."""
    process = await asyncio.create_subprocess_exec(
        str(CHROMIUM), *(f"--{flag}" for flag in FLAGS), f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"DevTools listening on " not in (line := await process.stderr.readline()):
                assert line, "the browser ended"
        port = line.decode().split("ws://")[1].split("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{port}/json/list") as answer:
                address = next(each for each in await answer.json() if each["type"] == "page")["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Runtime", "Log", "Page"):
                    await tab.call(f"{domain}.enable")
                await tab.call("Page.navigate", url=page.as_uri())
                await tab.ask("new Promise(done => document.readyState === 'complete' ? done() : onload = done)")
                yield tab
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_page_works(told: Told, tmp_path: Path) -> None:
    """Without a complaint: the scrubber, arrow keys, play, a click on a pod, and no sideways scrolling on a phone."""
    page = tmp_path / "page.html"
    page.write_text(demo_page(page_data(told.recording)), encoding="utf-8")
    titles = [step.title for step in told.recording.steps]
    now = "document.getElementById('now').textContent"
    async with opened(page, tmp_path / "profile") as tab:
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
        await tab.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=True)
        assert await tab.ask("document.documentElement.scrollWidth") <= 420
        assert tab.complaints == []
