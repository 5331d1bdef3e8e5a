"""A page in headless Chromium, driven over the DevTools protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"),
    *("disable-component-update", "disable-sync", "disable-dev-shm-usage", "remote-debugging-port=0"),
)
LOCAL = ("file:", "data:")
BROKEN = """
[...document.querySelectorAll('body *')].filter(one => !one.closest('pre, svg, .hidden')).flatMap(one =>
  [...one.childNodes].filter(part => part.nodeType === Node.TEXT_NODE).flatMap(part => {
    const line = at => {
      const range = document.createRange();
      range.setStart(part, at);
      range.setEnd(part, at + 1);
      return range.getBoundingClientRect().top;
    };
    const text = part.data;
    const joined = i => i && /[\\w.]{2}/.test(text.slice(i - 1, i + 1)) && line(i - 1) < line(i);
    const broken = [...text].some((_, i) => joined(i));
    const apart = part.nextSibling?.nodeName === 'WBR' && !/[-\\/=:]$/.test(text);
    return broken || apart ? [text.trim()] : [];
  }))
"""


class Tab:
    """One page in the browser. `complaints`: console errors, uncaught exceptions, requests that leave the page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, own: tuple[str, ...]) -> None:
        self.complaints: list[Any] = []
        self._own = own
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads(await self._socket.receive_str(timeout=120))
            event, data = message.get("method"), message.get("params")
            if event == "Runtime.exceptionThrown" or (event == "Log.entryAdded" and data["entry"]["level"] == "error"):
                self.complaints.append(data)
            if event == "Network.requestWillBeSent" and not data["request"]["url"].startswith(self._own):
                self.complaints.append(data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    async def visit(self, address: str) -> None:
        """Load a page, and whatever it names."""
        await self.call("Page.navigate", url=address)
        await self.ask("new Promise(done => document.readyState === 'complete' ? done() : onload = done)")

    async def ask(self, script: str) -> Any:
        """The value of an expression, promises awaited."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def overflows(self, width: int) -> bool:
        """Whether a screen of so many pixels would scroll sideways."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000}
        await self.call("Emulation.setDeviceMetricsOverride", **screen)
        return bool(await self.ask("document.documentElement.scrollWidth") > width)

    async def broken_words(self) -> list[str]:
        """The texts with a word that goes on in the next line. A name may do so after a dash or a slash."""
        return list(await self.ask(BROKEN))

    async def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


@asynccontextmanager
async def opened(chromium: Path, page: Path | str, profile: Path) -> AsyncIterator[Tab]:
    """A browser with the page loaded: a file, or an address, whose server alone may then be asked."""
    address = page if isinstance(page, str) else page.as_uri()
    own = (*LOCAL, "blob:", address) if isinstance(page, str) else LOCAL
    process = await asyncio.create_subprocess_exec(
        chromium, *(f"--{flag}" for flag in FLAGS), f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(120):
            while b"DevTools listening on " not in (line := await process.stderr.readline()):
                assert line, "the browser ended"
        port = line.decode().split("ws://")[1].split("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{port}/json/list") as answer:
                tools = next(each for each in await answer.json() if each["type"] == "page")["webSocketDebuggerUrl"]
            async with session.ws_connect(tools, max_msg_size=0) as socket:
                tab = Tab(socket, own)
                for domain in ("Runtime", "Log", "Network", "Page"):
                    await tab.call(f"{domain}.enable")
                await tab.visit(address)
                yield tab
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
