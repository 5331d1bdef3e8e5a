"""Nodes and pods as the API server shows them, by watches of the demo's own: the tour shows these, and not what the
scheduler believes."""

import asyncio
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from podberth.kube.client import Client
from podberth.kube.objects import Change, Deleted
from podberth.kube.reflector import Reflector
from podberth.kube.resources import NODES, PODS
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod

LIVE = "status.phase!=Succeeded,status.phase!=Failed"


class LateError(Exception):
    """Something that had to happen did not happen in time."""


class Mirror:
    """Nodes and pods as the server has them. `now` is a monotonic clock; `seen` when each pod first had a node."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.seen: dict[str, float] = {}
        self.version = 0
        self._now = now
        self._changed = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()
        decoder = Decoder()
        self._reflectors: list[Reflector[Any]] = [
            Reflector(client, NODES, decoder.node, self._put_nodes),
            Reflector(client, PODS, decoder.pod, self._put_pods, field_selector=LIVE),
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        await self.until(lambda: all(reflector.has_synced for reflector in self._reflectors), "the first lists", 15.0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod, if the server has it."""
        return self.pods.get(f"{namespace}/{name}")

    def on(self, node: str) -> Iterator[Pod]:
        """The pods of one node, in the order of their names."""
        return iter(sorted((pod for pod in self.pods.values() if pod.node_name == node), key=lambda pod: pod.key))

    def used(self, node: str) -> int:
        """The milli-cores that the pods of a node ask for."""
        return sum(pod.shape.requests.get("cpu", 0) for pod in self.on(node))

    async def until(self, claim: Callable[[], bool], what: str, seconds: float) -> None:
        """Return once the claim holds; it is looked at after each change.

        Raises LateError.
        """
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(claim)
        except TimeoutError:
            raise LateError(f"waited {seconds:g} s for {what}, in vain") from None

    def stir(self) -> None:
        """Have all claims looked at again: something they read has changed."""
        self.version += 1
        task = asyncio.create_task(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _put_nodes(self, changes: list[Change[Node]], replaced: bool) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self.nodes.pop(change.name, None)
            else:
                self.nodes[change.object.name] = change.object
        self.stir()

    def _put_pods(self, changes: list[Change[Pod]], replaced: bool) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self.pods.pop(f"{change.namespace}/{change.name}", None)
            else:
                pod = change.object
                self.pods[pod.key] = pod
                if pod.node_name:
                    self.seen.setdefault(pod.uid, self._now())
        self.stir()
