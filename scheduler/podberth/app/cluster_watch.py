"""What is followed of the cluster: a reflector for each kind, whose changes become stimuli."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import structlog

from podberth.app.freshness import NEEDED, Freshness, Malformed, check_seconds, log_refusal
from podberth.app.originals import Originals
from podberth.app.refusals import Refusals
from podberth.engine.stimuli import Follows, Gone, Put, Stimulus
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.beside import beside
from podberth.kube.changes import Added, Change, Deleted
from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.listwatch import Phase
from podberth.kube.machine import Machine
from podberth.kube.reflector import Reflector
from podberth.kube.resources import DEVICES, GROUPS, PODS, SCHEDULING, Resource
from podberth.model.devices import CLAIM
from podberth.model.kinds import Decoder, Modelled
from podberth.model.limits import LIMITS, Limits
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup, api_of_kind
from podberth.plugins.dynamic_resources.selecting import EVALUATING
from podberth.service.log import RateLimit

log = structlog.get_logger("scheduler")

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods use nothing of a node, and there may be many, so they are not watched."""
_TROUBLE_SECONDS = 1.0


class ClusterWatch:
    """The reflectors of all kinds that decisions need.

    `receive` gets what becomes of a change; `wake` is called when something else has come that the loop waits for.
    """

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        originals: Originals,
        refusals: Refusals,
        receive: Callable[[Stimulus], None],
        wake: Callable[[], None],
        *,
        limits: Limits = LIMITS,
        machine: Machine,
    ) -> None:
        self._originals = originals
        self._refusals = refusals
        self._receive = receive
        self._wake = wake
        self._machine = machine
        self._told: dict[str, tuple[str, ...]] = {}
        """What is wrong with objects, by UID: it is said once."""
        self._malformed = Malformed(machine.monotonic)
        self._incomplete = RateLimit(clock=machine.monotonic)
        self._followed: set[str] = set()
        """API groups of pod groups."""
        self._evaluating: asyncio.Future[Any] | None = None
        """The import of what knows CEL, once there are devices or claims."""
        self._decoder = Decoder(annotated(frameworks), limits=limits)
        self._decoder_beside = self._decoder.beside()
        self.reflectors = [self._reflector(client, resource) for resource in (*SCHEDULING, *DEVICES, *GROUPS)]
        self.freshness = Freshness(self.reflectors, NEEDED, wake)

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Return what has to run for this: it goes on until it is cancelled, or until something breaks."""
        return [*(reflector.run() for reflector in self.reflectors), self._tell_troubles()]

    def awaited(self) -> list[str]:
        """The kinds that are not listed yet, without those that RBAC refuses and no decision needs."""
        return [
            r.resource.called
            for r in self.reflectors
            if not r.has_synced and (r.refused is None or r.resource in NEEDED)
        ]

    def follow(self, frameworks: Mapping[str, Framework], limits: Limits, *, anew: bool) -> None:
        """Go by other profiles. All pods are put again if asked for, and if the profiles read pods differently."""
        anew = self._decoder.follow(annotated(frameworks), limits) or anew
        self._decoder_beside.follow(annotated(frameworks), limits)
        for reflector in self.reflectors:
            if anew and reflector.resource is PODS:
                reflector.redeliver()

    async def compare_claims(self, seconds: float) -> bool:
        """Compare the claims that are known with a list, and repair them; whether that was done in time."""
        return await next(one for one in self.reflectors if one.resource.called == CLAIM).compare(seconds)

    def _reflector(self, client: Client, resource: Resource) -> Reflector[Any]:
        kind, keeping = resource.called, self._originals.keeping
        return Reflector(
            client,
            resource,
            keeping(kind, self._decoder.of_kind(kind)),
            partial(self._hear, resource),
            decode_large=keeping(kind, self._decoder_beside.of_kind(kind)),
            field_selector=LIVE_PODS if resource is PODS else "",
            on_malformed=self._malformed,
            on_refused=self._refused,
            check_seconds=check_seconds(resource),
            on_lost=lambda *lost: self.freshness.lost(*lost),
            on_back=lambda of: self.freshness.back(of),
            on_trust=lambda: self.freshness.trust(),
            rng=self._machine.chance,
            clock=self._machine.monotonic,
            on_deleted=self._refusals.see if resource is PODS else None,
        )

    def _hear(self, resource: Resource, changes: list[Change[Any]], replaced: bool) -> None:
        if changes and resource in DEVICES and self._evaluating is None:
            self._evaluating = beside(import_module, EVALUATING)  # 25 ms, in which the event loop goes on
        self._deliver(resource.called, changes)
        if replaced and resource in GROUPS:
            self._tell_followed(resource)

    def _deliver(self, kind: str, changes: list[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._receive(Gone(kind, change.namespace, change.name, change.uid))
                self._originals.drop(kind, change.namespace, change.name)
                self._told.pop(change.uid, None)
            else:
                self._warn_of_problems(change.object)
                self._receive(Put(change.object, isinstance(change, Added)))
        self._wake()

    def _tell_followed(self, resource: Resource) -> None:
        """A kind of pod groups was listed, or all of it is gone with its API: tell the engine whether it counts."""
        reflector = next(one for one in self.reflectors if one.resource is resource)
        followed = reflector.phase is not Phase.EMPTY
        api = api_of_kind(resource.called)
        if followed != (api in self._followed):
            self._followed ^= {api}
            self._receive(Follows(api, followed))

    def _warn_of_problems(self, thing: Modelled) -> None:
        """Log once which parts of an object can't be read; the rest of it counts. Namespaces have some lines each."""
        match thing:
            case Node(problems=problems):
                what = "parts of a node can't be read and are left out"
            case Pod():
                what, problems = "parts of a pod can't be read and are left out", thing.shape.warnings
                if thing.too_large is not None:
                    problems = (*problems, thing.too_large)
            case PodGroup(problems=problems):
                what = "parts of a pod group can't be read and are left out"
            case _:
                return
        if problems and self._told.get(thing.uid) != problems:
            self._told[thing.uid] = problems
            whose = (what, "" if isinstance(thing, Node) else thing.namespace)
            told = {type(thing).__name__.lower(): str(thing.key), "problems": list(problems)[:5]}
            self._incomplete.write(whose, log.warning, what, **told)

    def _refused(self, resource: Resource, error: ApiError | None) -> None:
        log_refusal(resource, error)
        self._wake()

    async def _tell_troubles(self) -> None:
        """While lists and watches fail, log one line for all kinds together."""
        told = [0] * len(self.reflectors)
        while True:
            await asyncio.sleep(_TROUBLE_SECONDS)
            self.freshness.tell()
            failing = [r for r, errors in zip(self.reflectors, told, strict=True) if r.counts.errors > errors]
            told = [r.counts.errors for r in self.reflectors]
            failing = [r for r in failing if r.refused is None and r.last_error is not None]
            if failing:
                kinds = [r.resource.called for r in failing]
                log.warning("list or watch failed, trying again", kinds=kinds, error=str(failing[0].last_error)[:300])
