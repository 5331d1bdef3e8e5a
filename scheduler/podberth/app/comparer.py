"""Compares the cache with a fresh list on SIGUSR2, and logs the differences.

Mirrors kube-scheduler `backend/cache/debugger` (comparer.go, dumper.go). A list and a watch are never of one moment, so
only what differs twice in a row counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TypeVar

import structlog

from podberth.app.scheduler import Scheduler
from podberth.app.watch import LIVE_PODS
from podberth.engine.engine import Engine
from podberth.framework.profiles import annotated
from podberth.kube.client import Client, list_pages
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.objects import MALFORMED
from podberth.kube.reflector import decoded
from podberth.kube.resources import NODES, PODS, Resource
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod

Found = TypeVar("Found")
AT_ONCE = 250
"""Objects that are compared in one turn of the event loop."""
SETTLE_SECONDS = 2.0
SHOWN = 50

log = structlog.get_logger("cache")


class Comparer:
    """Compares one scheduler's cache with what its API server lists."""

    def __init__(self, client: Client, scheduler: Scheduler) -> None:
        self.found: int | None = None
        """The number of differences that the last comparison found; None before the first."""
        self._client = client
        self._scheduler = scheduler
        self._asked = asyncio.Event()

    def soon(self) -> None:
        """Dump and compare at the next occasion; may be called from a signal handler of the loop."""
        self._asked.set()

    async def run(self) -> None:
        """Dump and compare each time `soon` was called, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            self.dump()
            try:
                found = await self._look()
                if found:
                    await asyncio.sleep(SETTLE_SECONDS)
                    again = set(await self._look())
                    found = [line for line in found if line in again]
            except (ApiError, Unreachable) as error:
                log.error("the cache could not be compared", error=str(error)[:300])
                continue
            self.found = len(found)
            (log.error if found else log.info)("cache compared", differences=len(found), first=found[:SHOWN])

    def dump(self) -> None:
        """Log what the cache holds, and every pending pod."""
        engine = self._scheduler.engine
        cluster = engine.cluster
        log.info(
            "cache dumped",
            nodes=cluster.nodes.count,
            pods=len(cluster),
            assumed=cluster.assumed(),
            in_flight=engine.in_flight,
            queue={place.value: count for place, count in engine.queue.counts().items()},
        )
        for queued, _ in zip(engine.queue, range(SHOWN), strict=False):
            pod = queued.pod
            log.info(
                "pod waits",
                pod=pod.key,
                profile=pod.scheduler_name,
                attempt=queued.attempts,
                queue=queued.place.value,
                plugins=sorted(queued.plugins),
            )

    async def _look(self) -> list[str]:
        decoder = Decoder(annotated(self._scheduler.engine.queue.frameworks))
        nodes = [node async for node in self._list(NODES, decoder.node)]
        pods = [pod async for pod in self._list(PODS, decoder.pod, {"fieldSelector": LIVE_PODS})]
        found = []
        for line in differences(self._scheduler.engine, nodes, pods):
            if line is None:
                await asyncio.sleep(0)
            else:
                found.append(line)
        return found

    async def _list(
        self, resource: Resource, decode: Callable[[bytes], Found], selectors: Mapping[str, str] | None = None
    ) -> AsyncIterator[Found]:
        """Yield every object that can be read; the reflector has logged the others."""

        def readable(raw: bytes) -> Found | None:
            with contextlib.suppress(*MALFORMED):
                return decode(raw)
            return None

        async for _, page in list_pages(self._client, resource.path(), selectors):
            await asyncio.sleep(0)
            # One decoder for both: the loop waits for the thread before it decodes the next object.
            async for found in decoded(page.items or [], readable, readable):
                if found is not None:
                    yield found


def differences(engine: Engine, nodes: list[Node], pods: list[Pod]) -> Iterator[str | None]:
    """Yield one line for each object that differs in the cache. Now and then None, so that the scheduler has a turn.

    An object that changes in between may be reported as a difference; the next comparison does not find it.
    """
    cluster, queue = engine.cluster, engine.queue
    cached = {node.name: node for _, node in cluster.nodes.live()}
    listed = {node.name: node for node in nodes}
    for i, name in enumerate(sorted(cached.keys() | listed.keys())):
        if i % AT_ONCE == 0:
            yield None
        yield from _node(name, cached.get(name), listed.get(name))
    uids = {pod.uid for pod in pods}
    for i, pod in enumerate(pods):
        if i % AT_ONCE == 0:
            yield None
        placement = cluster.placement(pod.uid)
        where = None if placement is None else cluster.nodes.names[placement.row]
        if pod.node_name and where != pod.node_name:
            yield f"pod {pod.key}: cached on {where or 'no node'}, listed on {pod.node_name}"
        elif not pod.node_name and placement is not None and not placement.assumed:
            yield f"pod {pod.key}: cached on {where}, listed on no node"
        elif _waits(pod, engine) and placement is None and pod.uid not in queue:
            yield f"pod {pod.key}: waits for us, and is not in the queue"
    yield None
    # Copies: both change between two turns.
    for i, placement in enumerate(list(cluster.placements())):
        if i % AT_ONCE == 0:
            yield None
        if placement.pod.uid not in uids:
            yield f"pod {placement.pod.key}: cached on {cluster.nodes.names[placement.row]}, not listed"
    for i, queued in enumerate(list(queue)):
        if i % AT_ONCE == 0:
            yield None
        if queued.pod.uid not in uids:
            yield f"pod {queued.pod.key}: in the queue, not listed"


def _waits(pod: Pod, engine: Engine) -> bool:
    return not pod.node_name and not pod.terminating and pod.scheduler_name in engine.queue.frameworks


def _node(name: str, cached: Node | None, listed: Node | None) -> Iterator[str]:
    if cached is None or listed is None:
        yield f"node {name}: {'not cached' if cached is None else 'not listed'}"
        return
    for what in ("labels", "taints", "unschedulable", "allocatable", "allowed_pods"):
        has, should = getattr(cached, what), getattr(listed, what)
        if has != should:
            yield f"node {name}: {what} cached as {str(has)[:200]}, listed as {str(should)[:200]}"
