"""Reload the configuration when its file changes or SIGHUP comes: all of it or nothing, and say what is different."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from podberth.app.lease import lease_annotations
from podberth.app.metrics import RELOAD_OK, RELOADS
from podberth.app.scheduler import Scheduler
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.runtime import Framework
from podberth.kube.lease import Elector
from podberth.model.mistakes import as_json
from podberth.service.metrics import Asked, Counter, Instrument

POLL_SECONDS = 2.0
AT_START = ("leader_election", "client_connection", "extenders")
"""Fields that are read at start only; a change needs a restart."""

log = structlog.get_logger("configuration")


class Source(Struct, frozen=True):
    """A configuration comes from a file, is read, and becomes profiles. Both functions raise ReloadError."""

    path: str | None
    """Of the file; None: there is none."""
    read: Callable[[], SchedulerConfiguration]
    build: Callable[[SchedulerConfiguration], Mapping[str, Framework]]
    """Returns the profiles of a configuration, by name."""


class ReloadError(Exception):
    """A configuration that can't be used; each line names file, field and value."""


class Reloader:
    """Keeps a scheduler on the last good configuration."""

    def __init__(
        self,
        scheduler: Scheduler,
        elector: Elector | None,
        config: SchedulerConfiguration,
        source: Source,
    ) -> None:
        self.config = config
        self.error = ""
        self._scheduler = scheduler
        self._elector = elector
        self._path = None if source.path is None else Path(source.path)
        self._source = source
        self._asked = asyncio.Event()
        self._seen = self._signature()
        self._reloads = Counter(RELOADS)

    def soon(self) -> None:
        """Reload at the next occasion; may be called from a signal handler of the loop."""
        self._asked.set()

    async def run(self) -> None:
        """Follow the file until cancelled."""
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                seen = self._signature()
                if seen is None or seen == self._seen:
                    continue
            self._asked.clear()
            self.reload()

    def reload(self) -> None:
        """Read the configuration and use it from the next cycle on. If it has an error, nothing changes."""
        self._seen = self._signature()
        if self._path is None:
            log.warning("nothing was reloaded, as there is no configuration file")
            return
        try:
            asked = self._source.read()
            # A plugin may read what needs a restart: NodeResourcesFit leaves to extenders what they manage.
            config = replace(asked, **{name: getattr(self.config, name) for name in AT_START})
            frameworks = self._source.build(config)
        except ReloadError as error:
            self.error = str(error)
            self._reloads.add(1, "error")
            log.error(
                "the configuration was not reloaded, the one before stays in use", errors=str(error).splitlines()[:20]
            )
            return
        later = [path for path, _, _ in _differences("", to_builtins(config), to_builtins(asked))]
        changes = list(differences(self.config, config))
        self.error = ""
        self._reloads.add(1, "success")
        self.config = config
        if later:
            log.warning("needs a restart to take effect", fields=later[:50])
        if changes:
            self._scheduler.reconfigure(config, frameworks)
            if self._elector is not None:
                self._elector.annotations = lease_annotations(config)
        log.info("configuration reloaded", changes=changes[:50])

    def notes(self) -> dict[str, str]:
        """Return warnings for /readyz?verbose."""
        return {"configuration": f"not reloaded: {'; '.join(self.error.splitlines())}"} if self.error else {}

    def instruments(self) -> list[Instrument]:
        """Return the metrics of reloads."""
        return [self._reloads, Asked(RELOAD_OK, lambda: {(): float(not self.error)})]

    def _signature(self) -> tuple[int, int, int] | None:
        """Return a value that changes whenever the file does; None while there is no file."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def differences(old: SchedulerConfiguration, new: SchedulerConfiguration) -> Iterator[str]:
    """Return `field: old → new` for each field that differs, by its path."""
    for path, before, now in _differences("", to_builtins(old), to_builtins(new)):
        yield f"{path}: {_shown(before)} → {_shown(now)}"


_NOTHING = object()


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, old, new) of each field that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(inner, old.get(key, _NOTHING), new.get(key, _NOTHING))
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            pair = (values[i] if i < len(values) else _NOTHING for values in (old, new))
            yield from _differences(f"{path}[{i}]", *pair)
    elif old != new:
        yield path, old, new


def _shown(value: Any) -> str:
    return "nothing" if value is _NOTHING else as_json(value, 200)
