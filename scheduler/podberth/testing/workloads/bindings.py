"""A watch that notes when each pod of a run is bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlencode

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable, read_status
from podberth.kube.listwatch import LineSplitter
from podberth.kube.objects import list_page, partial, watch_event
from podberth.kube.resources import PODS
from podberth.testing.workloads.objects import LABEL

Key = tuple[str, str]
_SILENCE = 600.0


class Bindings:
    """Use as `async with`. `at`: (namespace, name) → time.monotonic() when the watch showed the pod on a node."""

    def __init__(self, client: Client, run: str) -> None:
        self.at: dict[Key, float] = {}
        self._client = client
        self._query = {"labelSelector": f"{LABEL}={run}", "fieldSelector": "spec.nodeName!="}
        self._version = ""
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._awaited: dict[Key, asyncio.Event] = {}

    async def __aenter__(self) -> Bindings:
        page = list_page.decode(await self._client.get(PODS.path(), query="limit=1"))
        self._version = page.metadata.resource_version
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._following is not None
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def wait(self, done: Callable[[], bool], patience: float, check: Callable[[], None]) -> bool:
        """Until `done` says so; False when `patience` seconds went by first.

        `check` is called twice a second and may raise; what ends the watch is raised here.
        """
        assert self._following is not None
        until = time.monotonic() + patience
        while not done():
            if self._following.done():
                self._following.result()
            check()
            if time.monotonic() > until:
                return False
            self._news.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._news.wait()
            except TimeoutError:
                continue
        return True

    async def wait_for(self, key: Key) -> None:
        """Until one pod is bound, however long that takes."""
        if key not in self.at:
            await self._awaited.setdefault(key, asyncio.Event()).wait()

    async def _follow(self) -> None:
        while True:
            query = {**self._query, "watch": "true", "resourceVersion": self._version}
            splitter = LineSplitter()
            async with self._client.stream(PODS.path(), query=urlencode(query), idle=_SILENCE) as stream:
                try:
                    while chunk := await stream.read():
                        self._note(splitter.feed(chunk))
                except Unreachable:
                    continue  # opened again from the last version seen: nothing is lost

    def _note(self, lines: list[bytes]) -> None:
        now = time.monotonic()
        for line in lines:
            event = watch_event.decode(line)
            if event.type == "ERROR":
                raise ApiError.from_event(read_status(event.object))
            metadata = partial.decode(event.object).metadata
            self._version = metadata.resource_version
            if event.type == "ADDED":
                key = (metadata.namespace, metadata.name)
                self.at.setdefault(key, now)
                if key in self._awaited:
                    self._awaited.pop(key).set()
        self._news.set()
