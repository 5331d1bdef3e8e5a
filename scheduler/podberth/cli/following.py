"""A live cluster, change by change, as `berth shadow` follows it: lists and watches, and nothing else."""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Raw

from podberth.cli import live
from podberth.cli.errors import InputError, complain
from podberth.explain.shadow.record import Change
from podberth.kube.changes import Change as Changed
from podberth.kube.changes import Deleted
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError
from podberth.kube.reflector import Reflector
from podberth.kube.resources import DEVICES, GROUPS, NODES, PODS, SCHEDULING, Resource
from podberth.kube.wire import Partial, partial

FOLLOWED = (*SCHEDULING, *DEVICES, *GROUPS)
"""The kinds that are listed and watched."""
_NEEDED = (NODES, PODS)
_OFTEN_ABSENT = (*DEVICES, *GROUPS)
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_NO_SUCH_KIND = 404
_TICK_SECONDS = 0.5


class _Item(Partial):
    """An object's bytes, with what list and watch read of it."""

    raw: Raw = Raw()


def _item(raw: Raw) -> _Item:
    return _Item(partial.decode(raw).metadata, raw)


class Following:
    """Follows a cluster until told to stop. `receive` gets each change, `tick` the time now and then."""

    def __init__(
        self, connection: Connection, receive: Callable[[Change], None], tick: Callable[[float], None], *, timeout: float
    ) -> None:
        """`timeout`: seconds until nodes and pods have to be listed."""
        self._connection = connection
        self._receive = receive
        self._tick = tick
        self._timeout = timeout
        self._started = 0.0
        self._stopping = asyncio.Event()
        self._reflectors: list[Reflector[_Item]] = []

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    async def run(self, seconds: float | None) -> None:
        """Follow until stopped, interrupted, or, once everything is listed, for so many seconds.

        Raises InputError if nodes and pods can't be listed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(RuntimeError, ValueError):  # not in the main thread: whoever started it stops it
                loop.add_signal_handler(number, self.stop)
        self._started = time.monotonic()
        async with Client(self._connection) as client:
            self._reflectors = [self._reflector(client, resource) for resource in FOLLOWED]
            try:
                async with asyncio.TaskGroup() as tasks:
                    running = [tasks.create_task(each.run()) for each in self._reflectors]
                    wrong = await self._sync()
                    if wrong is None:
                        await self._go_on(None if seconds is None else time.monotonic() + seconds)
                    for task in running:
                        task.cancel()
            except ExceptionGroup as group:
                # What `receive` raises ends it: the reader of standard output is gone, or the disk is full.
                raise group.exceptions[0] from None
        if wrong is not None:
            raise InputError(wrong)

    def _reflector(self, client: Client, resource: Resource) -> Reflector[_Item]:
        return Reflector(
            client,
            resource,
            _item,
            lambda changes, listed: self._deliver(resource, changes, listed=listed),
            field_selector=_LIVE_PODS if resource is PODS else "",
            on_refused=self._refused,
        )

    def _deliver(self, resource: Resource, changes: list[Changed[_Item]], *, listed: bool) -> None:
        at = time.monotonic() - self._started
        for change in changes:
            if self._stopping.is_set():
                return
            if isinstance(change, Deleted):
                gone = (change.namespace, change.name, change.uid)
                self._receive(Change(at=at, kind=resource.called, gone=gone, listed=listed))
            else:
                self._receive(Change(at=at, kind=resource.called, object=change.object.raw, listed=listed))

    def _refused(self, resource: Resource, error: ApiError | None) -> None:
        absent = error is not None and error.status == _NO_SUCH_KIND and resource in _OFTEN_ABSENT
        if error is not None and resource not in _NEEDED and not absent:
            complain([f"can't follow {resource.plural}: {error}; left out"])

    async def _sync(self) -> str | None:
        """Wait for the first lists; what is wrong if they do not come."""
        host, until = self._connection.host, time.monotonic() + self._timeout
        silent: float | None = time.monotonic() + live.SILENCE
        while not self._stopping.is_set():
            missing = [each for each in self._reflectors if not each.has_synced]
            refused = next((each for each in missing if each.refused is not None and each.resource in _NEEDED), None)
            if refused is not None:
                return f"can't follow {refused.resource.plural} of {host}: {refused.refused}"
            left = [each for each in missing if each.refused is None]
            if not left:
                self._receive(Change(at=time.monotonic() - self._started, synced=True))
                return None
            if silent is not None and time.monotonic() > silent and len(left) == len(self._reflectors):
                silent = None
                complain([live.not_answered(host, self._timeout)])
            if time.monotonic() > until:
                why = next((str(each.last_error) for each in left if each.last_error is not None), "no answer")
                return f"can't list {left[0].resource.plural} of {host}: {why}"
            await self._nap(0.02)
        return None

    async def _go_on(self, until: float | None) -> None:
        errors = 0
        told = False
        while not self._stopping.is_set():
            left = _TICK_SECONDS if until is None else min(until - time.monotonic(), _TICK_SECONDS)
            if left <= 0:
                return
            await self._nap(left)
            self._tick(time.monotonic() - self._started)
            failing = [each for each in self._reflectors if each.refused is None and each.last_error is not None]
            now = sum(each.counts.errors for each in failing)
            if now > errors and not told:
                told = True
                complain([f"a watch of {self._connection.host} failed, trying again: {failing[0].last_error}"])
            errors = now

    async def _nap(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
