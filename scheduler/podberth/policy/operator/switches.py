"""Who is to enforce the policies of each namespace: what its annotation says, else what the release says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector, follow
from podberth.kube.resources import NAMESPACES, Resource
from podberth.policy.operator.ways import ANNOTATION, SWITCHES, Switch

log = structlog.get_logger("switches")


class _Namespace(Partial):
    metadata: MarkedMeta


_decode = msgspec.json.Decoder(_Namespace).decode


class Switches:
    """Follows the namespaces; `changed(namespace)` is called when one says something else, or is gone."""

    def __init__(
        self, client: Client, default: Switch, changed: Callable[[str], None], machine: Machine = MACHINE
    ) -> None:
        self._client = client
        self._default = default
        self._changed = changed
        self._machine = machine
        self._said: dict[str, Switch] = {}
        self._known = asyncio.Event()

    def of(self, namespace: str) -> Switch:
        """Return what holds in this namespace."""
        return self._said.get(namespace, self._default)

    async def run(self) -> None:
        """Follow until cancelled."""
        self._said.clear()
        self._known.clear()
        reflector: Reflector[_Namespace] = Reflector(
            self._client,
            NAMESPACES,
            _decode,
            self._deliver,
            on_refused=self._refused,
            rng=self._machine.chance,
            clock=self._machine.monotonic,
        )
        await follow([reflector], self._known.set)

    async def known(self) -> None:
        """Return once all annotations are known, or can't be."""
        await self._known.wait()

    def _deliver(self, changes: list[Change[_Namespace]], _replaced: bool) -> None:
        for change in changes:
            name = change.name if isinstance(change, Deleted) else change.object.name
            before = self._said.pop(name, None)
            if isinstance(change, Deleted):
                self._changed(name)
                continue
            said = (change.object.metadata.annotations or {}).get(ANNOTATION)
            if said is not None and said not in SWITCHES:
                log.error(
                    "a namespace's annotation is not understood, the release's setting holds there",
                    namespace=name,
                    annotation=ANNOTATION,
                    value=said[:60],
                    want=", ".join(SWITCHES),
                )
            for known in SWITCHES:
                if said == known:
                    self._said[name] = known
            if self._said.get(name) != before:
                self._changed(name)

    def _refused(self, _: Resource, error: ApiError | None) -> None:
        if error is not None:
            self._known.set()
            log.error(
                "namespaces can't be watched: their annotations do not count, the release's setting holds",
                annotation=ANNOTATION,
                error=str(error)[:300],
            )
