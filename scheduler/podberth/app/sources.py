"""Refreshes the sources of plugins beside the scheduling loop: `filter` and `score` never wait for what is outside."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from podberth.app import families
from podberth.app.calls import Guarded
from podberth.engine.stimuli import Refreshed, Stimulus
from podberth.framework.durations import text
from podberth.framework.guard import Guard, described
from podberth.framework.reads import Source
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.service.metrics import Asked, Counter, Instrument, Labels

log = structlog.get_logger("plugins")

Key = tuple[str, str, str]
"""(schedulerName, plugin, source)."""


class Sources:
    """The sources of all profiles. `answer` is told when one has another value."""

    def __init__(
        self, frameworks: Mapping[str, Framework], answer: Callable[[Stimulus], None], clock: Callable[[], float]
    ) -> None:
        self._frameworks = frameworks
        self._answer = answer
        self._clock = clock
        self._followed: dict[Key, _Followed] = {}
        self._refreshes = Counter(families.SOURCE_REFRESHES)

    async def run(self) -> None:
        """Refresh them until cancelled."""
        self.follow(self._frameworks)
        try:
            await asyncio.Event().wait()
        finally:
            await self._stop(self._followed.values())

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Refresh the sources of these profiles from now on. One that was there before goes on from its last value."""
        before = self._followed
        self._followed = {}
        for profile, framework in frameworks.items():
            for (plugin, name), source in framework.profile.sources.items():
                key = (profile, plugin, name)
                source.clock = self._clock
                old = before[key].source if key in before else None
                if old is not None and old.age is not None:
                    source.set(old.value, old.age)
                followed = self._followed[key] = _Followed(source, framework.guard, framework.plugin(plugin))
                followed.task = asyncio.create_task(self._refresh(key, followed))
        for gone in before.values():
            gone.end()

    async def first(self) -> None:
        """Return once each source was asked once, whatever came of it."""
        for followed in list(self._followed.values()):
            await followed.asked.wait()

    async def _stop(self, followed: Iterable["_Followed"]) -> None:
        tasks = [one.end() for one in followed]
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    async def _refresh(self, key: Key, followed: "_Followed") -> None:
        profile, plugin, name = key
        source = followed.source
        while True:
            where = {"plugin": plugin, "source": name}
            error, at = await followed.fetch()
            self._refreshes.add(1, *key, "error" if error else "success")
            if error and error != followed.error:
                at_line = {"at": at} if at else {}
                log.warning("a source is not refreshed, its last value counts", **where, **at_line, error=error)
            elif followed.error and not error:
                log.info("a source is refreshed again", **where)
            followed.error = error
            if followed.changed:
                self._answer(Refreshed(profile, plugin))
            followed.asked.set()
            await asyncio.sleep(source.interval)

    def notes(self) -> dict[str, str]:
        """Warnings for /readyz?verbose."""
        failing = [(key, one.error) for key, one in self._followed.items() if one.error]
        said = "; ".join(f"source {name} of plugin {plugin}: {error}" for (_, plugin, name), error in failing)
        return {"sources": said} if said else {}

    def instruments(self) -> list[Instrument]:
        """Ages, and how often they were refreshed."""
        ages = {key: one.source.age for key, one in self._followed.items()}
        known: dict[Labels, float] = {key: age for key, age in ages.items() if age is not None}
        return [self._refreshes, Asked(families.SOURCE_AGE, lambda: known)]


class _Followed:
    """A source that is refreshed."""

    def __init__(self, source: Source[Any], guard: Guard, plugin: Any) -> None:
        self.source = source
        self.asked = asyncio.Event()
        """Set once it was asked."""
        self.error = ""
        """What came of the last question; empty: a value."""
        self.changed = False
        """Whether the last question brought another value."""
        self.task: asyncio.Task[None] | None = None
        self._guard = guard
        self._plugin = plugin

    def end(self) -> "asyncio.Task[None] | None":
        """Ask no more; what is to be waited for."""
        if self.task is not None:
            self.task.cancel()
        return self.task

    async def fetch(self) -> tuple[str, str]:
        """Ask once: (what went wrong, and in which line); both empty: there is a value."""
        self.changed = False
        try:
            async with asyncio.timeout(self.source.timeout):
                value = await Guarded(self._guard, self._plugin, "fetch", self.source.fetch)
        except PluginError as error:
            return error.text, error.at
        except TimeoutError:
            return f"no answer within {text(self.source.timeout)}", ""
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return described(error), ""
        self.changed = self.source.set(value)
        return "", ""
