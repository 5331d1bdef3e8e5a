"""Follows the cluster: a reflector for each kind, whose changes become stimuli. `Freshness` says if that is all.

A decision on an old view of the cluster binds pods to nodes that are gone, and double-books room that others have
taken. The API server checks neither. So while nodes or pods can't be followed, nothing is scheduled, and everybody is
told.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec
import structlog

from podberth.app.metrics import TOO_LARGE
from podberth.cache.devices import Devices
from podberth.engine.stimuli import Follows, Gone, Put, Stimulus
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.listwatch import Phase
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import MALFORMED, Added, Change, Deleted
from podberth.kube.reflector import IDLE_SECONDS, Reflector, beside
from podberth.kube.resources import BY_KIND, DEVICES, GROUPS, NODES, PODS, SCHEDULING, Resource
from podberth.model.devices import CLAIM, ClaimKey
from podberth.model.kinds import Decoder, Modelled
from podberth.model.limits import LIMITS, Limits
from podberth.model.mistakes import misfit
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup, api_of_kind
from podberth.plugins.dynamic_resources.selecting import EVALUATING
from podberth.service.log import RateLimit
from podberth.service.metrics import Counter

NEEDED = (NODES, PODS)
"""Kinds that every decision needs. RBAC may refuse the others; decisions are then made without them."""
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods use nothing of a node, and there may be many, so they are not watched."""
STALE_SECONDS = IDLE_SECONDS + 10.0
"""A kind of which nothing was heard for so long is not followed: silence alone ends a watch before."""
CHECK_NEEDED_SECONDS, CHECK_OTHERS_SECONDS = 20.0, 60.0
"""Seconds between comparisons of a kind with a list, less or more a quarter."""
ASK_SECONDS = 20.0
ASKED_AT_ONCE = 16
"""Claims that are asked for at a time; the others have their turn the next time."""
OTHERS = "other"
REASONS = frozenset(
    (
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    )
)
"""The reasons that kubelets give for pods that they do not admit (pkg/kubelet/lifecycle/predicate.go, cm/admission)."""
_TROUBLE_SECONDS = 1.0
_NO_SUCH_KIND = 404

log = structlog.get_logger("scheduler")


class Freshness:
    """Makes the reflectors, and says whether their view is fresh enough to decide on; `wake` is called when it is."""

    def __init__(self, wake: Callable[[], None], machine: Machine = MACHINE) -> None:
        self.reflectors: list[Reflector[Any]] = []
        self.listed = asyncio.Event()
        """The first lists are in: watches may be opened."""
        self.restores = 0
        """The number of times that the API server's data turned out to be that of a backup."""
        self._needed: list[Reflector[Any]] = []
        self._wake = wake
        self._machine = machine
        self._malformed = RateLimit(clock=machine.monotonic)
        self._told = ""
        self._to_relist: list[Reflector[Any]] = []
        """Reflectors that may still know objects from before a backup was restored."""

    def follow(
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[msgspec.Raw], Any],
        deliver: Callable[[list[Change[Any]], bool], None],
        *,
        decode_large: Callable[[msgspec.Raw], Any],
        on_deleted: Callable[[msgspec.Raw], None] | None = None,
        on_restored: Callable[[Resource], None] | None = None,
    ) -> None:
        """Follow a kind. The functions are those of `Reflector`; `on_restored` is called in place of `restored`."""
        reflector = Reflector(
            client,
            resource,
            decode,
            deliver,
            decode_large=decode_large,
            field_selector=LIVE_PODS if resource is PODS else "",
            on_malformed=self.malformed,
            on_refused=self.refused,
            check_seconds=CHECK_NEEDED_SECONDS if resource in NEEDED else CHECK_OTHERS_SECONDS,
            on_lost=self.lost,
            on_restored=on_restored or self.restored,
            on_trust=self.trust,
            on_deleted=on_deleted,
            last=_gives if resource is BY_KIND[CLAIM] else None,
            listed=self.listed,
            rng=self._machine.chance,
            clock=self._machine.monotonic,
        )
        self.listen(reflector)

    def listen(self, reflector: Reflector[Any]) -> None:
        """Take this reflector into account, too."""
        self.reflectors.append(reflector)
        if reflector.resource in NEEDED:
            self._needed.append(reflector)

    @property
    def may_decide(self) -> bool:
        """Return whether anything may be decided now."""
        return all(reflector.trusted for reflector in self._needed) and not self.gap()

    def gap(self) -> str:
        """Return what can't be seen, and why; empty when all is well, and before the first list."""
        for reflector in self._needed:
            kind = reflector.resource.called
            if not reflector.has_synced:
                continue
            if reflector.refused is not None:
                return f"not allowed to follow {kind}s: {reflector.refused}"
            if reflector.astray:
                return _of_backup(reflector)
            silent = reflector.staleness() or 0.0
            if silent > STALE_SECONDS:
                return f"nothing heard of {kind}s for {silent:.0f}s: {reflector.last_error or 'the watch is silent'}"
        # A pod that is unbound again has lost the devices and volumes that its claims seem to have.
        return next(map(_of_backup, self._not_relisted()), "")

    @property
    def relisting(self) -> bool:
        """Return whether some kind was not listed again since etcd was restored from a backup."""
        return next(self._not_relisted(), None) is not None

    def _not_relisted(self) -> Iterator[Reflector[Any]]:
        if self._to_relist:
            self._to_relist = [reflector for reflector in self._to_relist if reflector.astray]
        return (one for one in self._to_relist if one.has_synced and one.refused is None)

    def missing(self) -> str:
        """Return the kinds whose first list is awaited, each with the reason; empty when none is."""
        return ", ".join(
            f"{one.resource.called} ({one.refused or one.last_error or 'the first list is under way'})"
            for one in self.awaited()
        )

    def awaited(self) -> list[Reflector[Any]]:
        """Return the reflectors that have not listed yet, without kinds that RBAC refuses and no decision needs."""
        return [one for one in self.reflectors if not one.has_synced and (one.refused is None or one in self._needed)]

    def without(self) -> str:
        """Return the forbidden kinds without which decisions are made, each with the server's answer; empty: none."""
        return ", ".join(
            f"{one.resource.called} ({one.refused})"
            for one in self.reflectors
            if one not in self._needed and one.refused is not None and one.refused.status != _NO_SUCH_KIND
        )

    def tell(self) -> None:
        """Log when scheduling pauses and when it goes on; call it now and then."""
        gap = self.gap()
        if bool(gap) != bool(self._told):
            if gap:
                log.error("the cluster can't be seen, so nothing is decided", reason=gap)
            else:
                log.info("the cluster can be seen again", reason=self._told)
                self._wake()
        self._told = gap

    def check_soon(self) -> None:
        """Compare nodes and pods with lists soon: a pod found no room, and pods that seem to have it may be gone."""
        for reflector in self._needed:
            reflector.check_soon()

    def malformed(self, resource: Resource, key: tuple[str, str] | None, error: Exception) -> None:
        """Log that an object can't be read, and that decisions are made without it; some lines for each namespace."""
        what = "an object can't be read and is left out"
        whose = (resource.called, key[0] if key else "")
        self._malformed.write(whose, log.error, what, kind=resource.called, key=key, error=misfit(error)[:300])

    def refused(self, resource: Resource, error: ApiError | None) -> None:
        """Log that a kind can't be followed, and why; None: it can again."""
        if error is None:
            log.info("allowed to list and watch again", kind=resource.called)
        elif error.status == _NO_SUCH_KIND and resource not in NEEDED:
            log.info("the API server does not have this kind: scheduling without it", kind=resource.called)
        else:
            log.error("not allowed to follow", kind=resource.called, needed=resource in NEEDED, error=str(error)[:300])
        self._wake()

    def lost(self, resource: Resource, objects: int) -> None:
        """Log that a reflector found its watch to have lost events."""
        log.warning("events were lost, listing again", kind=resource.called, objects=objects)

    def restored(self, resource: Resource | None = None) -> None:
        """Have all kinds listed again, because etcd was restored from a backup.

        `resource`: the kind whose reflector found that by resourceVersions, and lists it again by itself. None: a pod
        was seen to have left its node.
        """
        log.error(
            "etcd was restored from a backup; listing everything again",
            seen_at="a pod that has left its node" if resource is None else resource.called,
        )
        for reflector in self.reflectors:
            if reflector.resource != resource:
                reflector.stray()
        self._to_relist = list(self.reflectors)
        self.restores += 1

    def trust(self) -> None:
        """Wake the loop if all is well, because a reflector has heard from the server again."""
        if self.may_decide:
            self._wake()


def _of_backup(reflector: Reflector[Any]) -> str:
    return f"the API server's data is that of a backup, and its {reflector.resource.called}s are not listed yet"


def _gives(change: Change[Any]) -> bool:
    """Return whether a change may give a claim devices.

    A list has no order in time: what was freed in a gap of the watch has to be heard of before what was given then, or
    one device seems to be given to two claims.
    """
    return not isinstance(change, Deleted) and change.object.allocation is not None


class ClusterWatch:
    """The reflectors of all kinds that decisions need.

    `receive` gets what becomes of a change; `wake` is called when something else has come that the loop waits for;
    `placed_too_large` is told once of each pod that has a node and is beyond a limit.
    """

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        originals: Originals,
        receive: Callable[[Stimulus], None],
        wake: Callable[[], None],
        placed_too_large: Callable[[Pod], None],
        *,
        limits: Limits = LIMITS,
        machine: Machine,
        read: Callable[[str, Modelled, bytes], None] | None = None,
    ) -> None:
        """`read` is told of each object that was decoded, and its bytes; of large ones in their thread."""
        self.too_large = Counter(TOO_LARGE)
        self.placed_too_large: dict[str, Pod] = {}
        """Pods that have a node and are beyond a limit, by UID."""
        self._hear_too_large = placed_too_large
        self._sizes: dict[str, tuple[str, str]] = {}
        """UID → the limit that a pod is beyond, and if it waits or is placed, as it was counted."""
        self.freshness = Freshness(wake, machine)
        self.refusals = Refusals(frameworks)
        self._originals = originals
        self._read = read
        self._receive = receive
        self._wake = wake
        self._told: dict[str, tuple[str, ...]] = {}
        """UID → the problems of an object, which are said once."""
        self._incomplete = RateLimit(clock=machine.monotonic)
        self._followed: set[str] = set()
        """API groups of pod groups."""
        self._evaluating: asyncio.Future[Any] | None = None
        """The import of what knows CEL, once there are devices or claims."""
        self._decoder = Decoder(annotated(frameworks), limits=limits)
        self._decoder_beside = self._decoder.beside()
        for resource in (*SCHEDULING, *DEVICES, *GROUPS):
            self._follow(client, resource)

    @property
    def reflectors(self) -> list[Reflector[Any]]:
        """Return the reflectors of all kinds."""
        return self.freshness.reflectors

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Return what has to run for this: it goes on until it is cancelled, or until something breaks."""
        return [*(reflector.run() for reflector in self.reflectors), self._tell_troubles()]

    def follow(self, frameworks: Mapping[str, Framework], limits: Limits, *, anew: bool) -> None:
        """Follow the cluster for other profiles. All pods are put again if `anew`, or if they are read differently.

        So are all nodes if plugins read other annotations of them.
        """
        read = annotated(frameworks)
        other_nodes = read.of_nodes != self._decoder.annotated.of_nodes
        anew = self._decoder.follow(read, limits) or anew
        self._decoder_beside.follow(read, limits)
        self.refusals.ours = frameworks
        for reflector in self.reflectors:
            if (anew and reflector.resource is PODS) or (other_nodes and reflector.resource is NODES):
                reflector.redeliver()

    async def compare_claims(self, seconds: float) -> bool:
        """Compare the claims that are known with a list, and repair them; return whether that was done in time."""
        return await self._reflector(BY_KIND[CLAIM]).compare(seconds)

    def _reflector(self, resource: Resource) -> Reflector[Any]:
        return next(one for one in self.reflectors if one.resource is resource)

    def _follow(self, client: Client, resource: Resource) -> None:
        kind = resource.called

        def keeping(decode: Callable[[bytes], Modelled]) -> Callable[[bytes], Modelled]:
            return self._originals.keeping(kind, decode, lambda thing: self._reflector(resource).outdated(thing))

        self.freshness.follow(
            client,
            resource,
            keeping(self._told_of(kind, self._decoder.of_kind(kind))),
            partial(self._hear, resource),
            decode_large=keeping(self._told_of(kind, self._decoder_beside.of_kind(kind))),
            on_deleted=self.refusals.see if resource is PODS else None,
        )

    def _told_of(self, kind: str, decode: Callable[[bytes], Modelled]) -> Callable[[bytes], Modelled]:
        """Return the same decoding function, which tells who wants to know."""
        read = self._read
        if read is None:
            return decode

        def tell(raw: bytes) -> Modelled:
            thing = decode(raw)
            read(kind, thing, raw)
            return thing

        return tell

    def _hear(self, resource: Resource, changes: list[Change[Any]], replaced: bool) -> None:
        if changes and resource in DEVICES and self._evaluating is None:
            self._evaluating = beside(import_module, EVALUATING)  # 25 ms, in which the event loop goes on
        self._deliver(resource, changes)
        if replaced and resource in GROUPS:
            self._tell_followed(resource)

    def _deliver(self, resource: Resource, changes: list[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                key = change.namespace, change.name
                self._receive(Gone(resource.called, *key, change.uid))
                if not self._reflector(resource).knows(*key):  # else the bytes are those of one that was made anew
                    self._originals.drop(resource.called, *key)
                self._told.pop(change.uid, None)
                self._sizes.pop(change.uid, None)
                self.placed_too_large.pop(change.uid, None)
            else:
                if isinstance(change.object, Pod):
                    self._count_too_large(change.object)
                self._warn_of_problems(change.object)
                self._receive(Put(change.object, isinstance(change, Added)))
        self._wake()

    def _tell_followed(self, resource: Resource) -> None:
        """A kind of pod groups was listed, or all of it is gone with its API: tell the engine whether it counts."""
        followed = self._reflector(resource).phase is not Phase.EMPTY
        api = api_of_kind(resource.called)
        if followed != (api in self._followed):
            self._followed ^= {api}
            self._receive(Follows(api, followed))

    def _count_too_large(self, pod: Pod) -> None:
        """Count a pod that is beyond a limit, once: it waits for us, or it has a node, whoever bound it."""
        if pod.too_large is None:
            if pod.uid in self._sizes:
                del self._sizes[pod.uid]
                self.placed_too_large.pop(pod.uid, None)
            return
        placed = bool(pod.node_name)
        size = (pod.too_large.limit, "placed" if placed else "waiting")
        if self._sizes.get(pod.uid) == size or not (placed or pod.scheduler_name in self.refusals.ours):
            return
        self._sizes[pod.uid] = size
        self.too_large.add(1, *size)
        if placed:
            self.placed_too_large[pod.uid] = pod
            self._hear_too_large(pod)

    def _warn_of_problems(self, thing: Modelled) -> None:
        """Log once which parts of an object can't be read; the rest of it counts. Namespaces have some lines each."""
        match thing:
            case Node(problems=problems):
                what = "parts of a node can't be read and are left out"
            case Pod():
                what, problems = "parts of a pod can't be read and are left out", thing.shape.warnings
                if thing.too_large is not None:
                    problems = (*problems, thing.too_large.text)
            case PodGroup(problems=problems):
                what = "parts of a pod group can't be read and are left out"
            case _:
                return
        if problems and self._told.get(thing.uid) != problems:
            self._told[thing.uid] = problems
            whose = (what, "" if isinstance(thing, Node) else thing.namespace)
            told = {type(thing).__name__.lower(): str(thing.key), "problems": list(problems)[:5]}
            self._incomplete.write(whose, log.warning, what, **told)

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


class Originals:
    """Objects as the API server sent them, for HTTP extenders, which get whole objects.

    By kind, namespace and name; empty for kinds that nobody asks for.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._kept: dict[str, dict[tuple[str, str], bytes]] = {kind: {} for kind in kinds}

    def keeping(
        self, kind: str, decode: Callable[[bytes], Any], outdated: Callable[[Any], bool]
    ) -> Callable[[bytes], Any]:
        """Return the same decoding function, which keeps the bytes if the kind is wanted, but not those of an object
        that is `outdated`: a watch may repeat events.
        """
        kept = self._kept.get(kind)
        if kept is None:
            return decode

        def keep(raw: bytes) -> Any:
            thing = decode(raw)
            if not outdated(thing):
                kept[(thing.namespace, thing.name)] = bytes(raw)
            return thing

        return keep

    def get(self, kind: str, namespace: str, name: str) -> msgspec.Raw | None:
        """Return the object as JSON; None: it is not kept."""
        found = self._kept.get(kind, {}).get((namespace, name))
        return msgspec.Raw(found) if found is not None else None

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object that is gone."""
        self._kept.get(kind, {}).pop((namespace, name), None)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""


class _Ended(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_ended = msgspec.json.Decoder(_Ended)


class Refusals:
    """Counts pods that a kubelet refused, because the room that the scheduler saw on the node was taken.

    The kubelet says so by the phase Failed and a reason. The watch of pods leaves out those that have ended, so such a
    pod is seen as deleted: its room is free again at once, and whoever made it makes another. `ours`: the profiles,
    other schedulers' pods are not counted.
    """

    def __init__(self, ours: Collection[str]) -> None:
        self.counted: Tally[str] = Tally()
        """Refused pods by the kubelet's reason."""
        self.ours = ours

    def see(self, raw: msgspec.Raw) -> None:
        """Count the pod if a kubelet refused it. `raw`: the last state of a pod that has ended or was deleted."""
        text = bytes(raw)
        if b'"Failed"' not in text:
            return
        try:
            pod = _ended.decode(text)
        except MALFORMED:
            return  # it is gone, whatever it was: the cache has heard of that by its metadata
        status = pod.status
        refused = status.reason in REASONS or status.reason.startswith("OutOf")
        if status.phase != "Failed" or not refused or pod.spec.scheduler_name not in self.ours:
            return
        self.counted[status.reason if status.reason in REASONS else OTHERS] += 1
        log.warning(
            "refused by the kubelet",
            pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
            profile=pod.spec.scheduler_name,
            node=pod.spec.node_name,
            reason=status.reason,
            error=status.message[:300],
        )


class UnshownClaims:
    """Asks for claims that were written for a pod and that the watch never shows.

    A claim that Berth makes for extended resources may be deleted again at once. If the watch loses both events,
    nothing tells that its devices are free: no list has the claim, and none ever had. All else that a watch loses is
    found by comparison (`podberth.kube.cross_check`). `devices` gives the columns as they are now.
    """

    def __init__(self, client: Client, devices: Callable[[], Devices], receive: Callable[[Stimulus], None]) -> None:
        self._client = client
        self._devices = devices
        self._receive = receive
        self._before: dict[ClaimKey, str] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Ask for claims that were not shown the last time either."""
        unshown = self._devices().unshown()
        late = [key for key, version in unshown.items() if self._before.get(key) == version]
        self._before = unshown
        for key in islice(late, ASKED_AT_ONCE):
            if await self._is_gone(key):
                log.warning("a claim is gone, and its watch has not said so", claim="/".join(key))
                self._receive(Gone(CLAIM, *key, ""))

    async def _is_gone(self, key: ClaimKey) -> bool:
        try:
            await self._client.get(BY_KIND[CLAIM].path(*key))
        except ApiError as error:
            return error.status == 404
        except Unreachable:
            pass  # asked again the next time
        return False
