"""Carries out a workload's steps in a cluster, and times its measured pods."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from podberth.explain.objects import resource_claims
from podberth.kube.client import STRATEGIC_MERGE_PATCH, Client, list_items
from podberth.kube.errors import ApiError
from podberth.kube.objects import partial
from podberth.kube.resources import NAMESPACES, NODES, POD_GROUPS, PODS, Resource
from podberth.testing.workloads import objects
from podberth.testing.workloads.allocation import allocate
from podberth.testing.workloads.objects import KINDS, LABEL, Template, merged
from podberth.testing.workloads.workload import (
    AllocateClaims,
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
    Mode,
    Operation,
    Sleep,
    Stage,
    UpdateAny,
    Workload,
)
from podberth.testing.workloads.writes import (
    LET_GO,
    Bindings,
    ClaimController,
    Key,
    create_all,
    delete_labelled,
    delete_one,
    for_each,
    names,
)

_PASSING = f"{LABEL}-passing"
"""The label of what is made beside a scheduler: it goes with the run's pods. What was made for all schedulers stays."""
_CHURNED = f"{LABEL}-churn"
"""The label of what churn makes: nobody waits for it."""
_LOOKS = 0.5
"""Seconds between two looks at which pods are attempted, but at least as long as a look takes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times that a run showed. Moments are time.monotonic() seconds."""

    pods: int
    started: float
    """When the scheduler was started (backlog), or the first measured pod was created (stream)."""
    bound: list[float]
    """When each measured pod was bound, in order."""
    waited: list[float]
    """Seconds from a measured pod's creation (backlog: from the start of the scheduler) to its binding, ascending."""


async def nobody() -> None:
    """Start nothing: the scheduler runs already."""


def _at_ease() -> None:
    """Check nothing."""


class Driver:
    """One workload in one cluster, for one or several schedulers, one after the other.

    `run` begins all names and is the value of the label on all objects; it has to be new to the cluster. `pool` is the
    same for nodes, when another run has made them. `makes_claims`: do the claim controller's work, as no
    kube-controller-manager runs there.
    """

    def __init__(
        self, client: Client, workload: Workload, run: str, *, pool: str = "", makes_claims: bool = False
    ) -> None:
        self._client = client
        self._claims = ClaimController(client) if makes_claims else None
        self._workload = workload
        self._run = run
        self._pool = pool or run
        self._namespaces: set[str] = set()
        self._spread: dict[str, int] = {}
        self._measured: list[str] = []
        self._set_up = False

    @property
    def measured_namespaces(self) -> list[str]:
        """Return where the measured pods are created."""
        return self._measured

    async def set_up(self) -> None:
        """Make what lasts: nodes, namespaces, objects, pods that are created bound. What is there is left alone."""
        for number, step in enumerate(self._workload.steps[: self._workload.lasting]):
            await self._make(number, step.operation)
        self._set_up = True

    async def _make(self, number: int, operation: Operation, passing: bool = False) -> None:
        """Carry out a step that needs no scheduler. `passing`: one runs, and what is made goes when it ends."""
        match operation:
            case CreateNodes() as nodes if passing or self._pool == self._run:
                document = objects.node(nodes.node, nodes.allocatable)
                await self._create(nodes.count, _marked(document, passing), NODES.path(), again=not passing)
            case CreateNamespaces() as namespaces:
                self._spread[namespaces.name] = namespaces.count
                for i in range(namespaces.count):
                    await self._namespace(f"{namespaces.name}-{i}", namespaces.labels)
            case CreateObjects() as made:
                if made.namespace is not None:
                    await self._namespace(made.namespace)
                await self._objects(made, passing)
            case CreatePods() as pods:
                if pods.gang is not None:
                    await self._groups(number, pods, pods.gang)
                await self._pods(number, pods, "nobody")
            case AllocateClaims(namespace):
                await allocate(self._client, self._name(namespace))

    async def _objects(self, made: CreateObjects, passing: bool) -> None:
        """Create the objects of one step. Their status is written afterwards, since no create takes it."""
        kind, status = made.object["kind"], made.object.get("status")
        document = _marked(objects.other(made.object, ""), passing)
        path = self._path(KINDS[kind], made.namespace)
        template = self._template(document, made.count)
        if kind == resource_claims.TEMPLATE_KIND and self._claims is not None and made.namespace is not None:
            for i in range(made.count):
                self._claims.learn(self._name(made.namespace), template.render(i))
        statuses = None if status is None else self._template({"status": status}, made.count)

        async def follow(index: int, answer: bytes) -> None:
            if kind == POD_GROUPS.kind:
                await self._follow_group(index, answer)
            if statuses is not None:
                name = partial.decode(answer).metadata.name
                await self._client.patch(f"{path}/{name}/status", statuses.render(index))

        posts = ((path, template.render(i)) for i in range(made.count))
        await create_all(self._client, posts, again=not passing, then=follow)

    async def measure(
        self,
        scheduler_name: str,
        mode: Mode,
        start: Callable[[], Awaitable[None]] = nobody,
        check: Callable[[], None] = _at_ease,
    ) -> Timing:
        """Create the pods of this scheduler, start it when the mode says so, and wait until the measured are bound.

        Raises ApiError, Unreachable, and whatever `start` and `check` raise.
        """
        if not self._set_up:
            await self.set_up()
        wanted: set[Key] = set()
        sent: dict[Key, float] = {}
        async with Bindings(self._client, self._run) as bindings, _Background() as background:
            started = time.monotonic()
            if mode is Mode.STREAM:
                await start()
            churns: list[Churn] = []
            expected: list[tuple[CreatePods, set[Key]]] = []
            steps = [*enumerate(self._workload.steps)][self._workload.lasting :]
            for number, step in steps:
                match step.operation:
                    case CreatePods() as pods:
                        if pods.gang is not None:
                            await self._groups(number, pods, pods.gang)
                        if pods.measured and not wanted and mode is Mode.STREAM:
                            started = time.monotonic()
                        noted = sent if pods.measured else None
                        if pods.steady is None:
                            keys = await self._pods(number, pods, scheduler_name, noted)
                        else:
                            keys = await self._steady(number, pods, scheduler_name, noted, bindings, check)
                        if pods.waits:
                            expected.append((pods, set(keys)))
                        if pods.measured:
                            wanted.update(keys)
                        if pods.awaited and mode is Mode.STREAM:
                            await bindings.wait(_all_in(bindings, set(keys)), self._workload.patience, check)
                    case Churn() as churn if mode is Mode.STREAM:
                        background.start(self._churn(churn, scheduler_name, background))
                    case Churn() as churn:
                        churns.append(churn)
                    case Barrier(stage_requirement=Stage.ATTEMPTED) as barrier if mode is Mode.STREAM:
                        await self._wait_attempted(barrier, scheduler_name, check)
                    case Barrier() as barrier if mode is Mode.STREAM:
                        awaited = set().union(*(keys for pods, keys in expected if _is_behind(barrier, pods)))
                        await bindings.wait(_all_in(bindings, awaited), self._workload.patience, check)
                    case Sleep(seconds) if mode is Mode.STREAM:
                        await asyncio.sleep(seconds)
                    case UpdateAny() as update:
                        await self._update(update)
                    case DeletePods(waits=True) as unwanted:
                        await self._delete(unwanted)
                    case DeletePods() as unwanted:
                        background.start(self._delete(unwanted, background))
                    case CreateNodes() | CreateObjects() | AllocateClaims() as made:
                        await self._make(number, made, passing=True)
            if mode is Mode.BACKLOG:
                started = time.monotonic()
                for churn in churns:
                    background.start(self._churn(churn, scheduler_name, background))
                await start()
            await bindings.wait(_all_in(bindings, wanted), self._workload.patience, check)
            done = {key: bindings.at[key] for key in wanted if key in bindings.at}
        return Timing(
            pods=len(wanted),
            started=started,
            bound=sorted(done.values()),
            waited=sorted(moment - max(sent[key], started) for key, moment in done.items()),
        )

    async def clear(self) -> None:
        """Remove what `measure` made, and make again what the scheduler removed."""
        for step in self._workload.steps:
            match step.operation:
                case CreatePods(bound=False) as pods:
                    for namespace in self._namespaces_of(pods):
                        await self._remove(PODS, namespace)
                        if pods.gang is not None:
                            await self._remove(POD_GROUPS, namespace)
        for kind, made_in in self._passing():
            if kind is POD_GROUPS and made_in is not None:
                await self._remove(kind, made_in)
            else:
                await delete_labelled(self._client, self._path(kind, made_in), f"{_PASSING}={self._run}")
        await self._clear_claims()
        for number, step in enumerate(self._workload.steps):
            match step.operation:
                case CreatePods(bound=True) as pods if self._evicts:
                    there = {key for namespace in self._namespaces_of(pods) for key in await self._there(namespace)}
                    await self._pods(number, pods, "nobody", without=there)

    async def _remove(self, kind: Resource, namespace: str) -> None:
        """Remove the objects of a kind in a namespace; pods and pod groups with their finalizers.

        These are the workload's, and that of pod groups, which kube-controller-manager would take away.
        """
        path, label = kind.path(self._name(namespace)), f"{LABEL}={self._run}"
        await delete_labelled(self._client, path, label)
        made = [step.create_pods.pod for step in self._workload.steps if step.create_pods]
        of_pods = kind is PODS and any("finalizers" in each.get("metadata", {}) for each in made)
        if not of_pods and kind is not POD_GROUPS:
            return

        async def let_go(name: str) -> None:
            try:
                await self._client.patch(f"{path}/{name}", LET_GO)
            except ApiError as error:
                if error.status != 404:  # a controller was there first
                    raise

        await for_each(await names(self._client, path, label), let_go)

    def _passing(self) -> list[tuple[Resource, str | None]]:
        """Return the collections of what was made beside a scheduler."""
        found: dict[tuple[Resource, str | None], None] = {}
        for step in self._workload.steps[self._workload.lasting :]:
            match step.operation:
                case CreateNodes():
                    found[NODES, None] = None
                case CreateObjects() as made:
                    found[KINDS[made.object["kind"]], made.namespace] = None
                case Churn() as churn:
                    found |= {(KINDS[each["kind"]], churn.namespace): None for each in churn.objects}
        return list(found)

    async def tear_down(self, *, keep_nodes: bool = False) -> None:
        """Remove everything of the run: pods, objects, nodes, namespaces."""
        label = f"{LABEL}={self._run}"
        await self._clear_claims()
        kinds = [KINDS[s.create_objects.object["kind"]] for s in self._workload.steps if s.create_objects]
        kinds += [POD_GROUPS for s in self._workload.steps if s.create_pods and s.create_pods.gang is not None]
        kinds += [KINDS[o["kind"]] for s in self._workload.steps if s.churn for o in s.churn.objects]
        for namespace in sorted(self._namespaces):
            for kind in dict.fromkeys([PODS, *(kind for kind in kinds if kind.namespaced)]):
                await self._remove(kind, namespace)
        for kind in dict.fromkeys(kind for kind in kinds if not kind.namespaced and kind is not NODES):
            await delete_labelled(self._client, kind.path(), label)
        if not keep_nodes:
            await delete_labelled(self._client, NODES.path(), f"{LABEL}={self._pool}")
        for namespace in sorted(self._namespaces):
            await delete_one(self._client, NAMESPACES.path(name=self._name(namespace)))

    async def _clear_claims(self) -> None:
        """Remove the claims of pods that are gone."""
        if self._claims is not None:
            made = [step.create_pods for step in self._workload.steps if step.create_pods]
            of_pods = {name for pods in made if not pods.bound for name in self._namespaces_of(pods)}
            await self._claims.clear(sorted(self._name(name) for name in of_pods if name in self._namespaces))

    @property
    def _evicts(self) -> bool:
        """Return whether a scheduler may remove pods of this workload: some have a priority."""
        made = [step.create_pods.pod for step in self._workload.steps if step.create_pods]
        made += [each for step in self._workload.steps if step.churn for each in step.churn.objects]
        return any("priorityClassName" in each.get("spec", {}) for each in made)

    async def _pods(
        self,
        number: int,
        pods: CreatePods,
        scheduler_name: str,
        sent: dict[Key, float] | None = None,
        without: Container[Key] = (),
    ) -> list[Key]:
        """Create the pods of one step, but for those `without`; the keys of all. `sent` gets when each was sent."""
        keys, made = await self._prepared(number, pods, scheduler_name)
        wanted = [i for i in range(pods.count) if keys[i] not in without]

        def note(index: int, moment: float) -> None:
            if sent is not None:
                sent[keys[wanted[index]]] = moment

        async def follow(_index: int, answer: bytes) -> None:
            if self._claims is not None and "resourceClaims" in pods.pod.get("spec", {}):
                await self._claims.follow(answer)

        posts = ((PODS.path(keys[i][0]), made.render(i)) for i in wanted)
        await create_all(self._client, posts, rate=pods.rate, again=True, sent=note, then=follow)
        return keys

    async def _steady(
        self,
        number: int,
        pods: CreatePods,
        scheduler_name: str,
        sent: dict[Key, float] | None,
        bindings: Bindings,
        check: Callable[[], None],
    ) -> list[Key]:
        """Create the pods of one step, a few at a time: one that is bound is deleted, and the next is created."""
        keys, made = await self._prepared(number, pods, scheduler_name)
        waiting = iter(range(pods.count))
        until = time.monotonic() + pods.seconds if pods.seconds is not None else math.inf
        created: list[Key] = []

        async def work() -> None:
            for i in waiting:
                if time.monotonic() > until:
                    return
                namespace, name = keys[i]
                created.append(keys[i])
                if sent is not None:
                    sent[keys[i]] = time.monotonic()
                answer = await self._client.create(PODS.path(namespace), made.render(i))
                if self._claims is not None:
                    await self._claims.follow(answer)
                await bindings.wait_for(keys[i])
                await delete_one(self._client, PODS.path(namespace, name))
                if self._claims is not None:
                    await self._claims.end(namespace, name, answer)

        try:
            async with asyncio.TaskGroup() as tasks:
                workers = [tasks.create_task(work()) for _ in range(pods.steady or 1)]
                await bindings.wait(lambda: all(each.done() for each in workers), self._workload.patience, check)
                for worker in workers:
                    worker.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return created

    async def _prepared(self, number: int, pods: CreatePods, scheduler_name: str) -> tuple[list[Key], Template]:
        """Return the keys of the pods of one step, and what they are made from. Their namespaces are there then."""
        namespaces = self._namespaces_of(pods)
        for namespace in namespaces:
            await self._namespace(namespace)
            if pods.measured and self._name(namespace) not in self._measured:
                self._measured.append(self._name(namespace))
        document = objects.pod(f"pod-{number}-$(i)", scheduler_name, pods.pod, pods.requests)
        if pods.bound:
            document["spec"]["nodeName"] = "$(pool)-node-$(i % nodes)"
        if pods.gang is not None:
            document = objects.in_group(document, number, pods.gang)
        named = [self._name(namespace) for namespace in namespaces]
        name = self._template(document["metadata"]["name"], pods.count)
        keys = [(named[i % len(named)], msgspec.json.decode(name.render(i), type=str)) for i in range(pods.count)]
        return keys, self._template(document, pods.count)

    async def _groups(self, number: int, pods: CreatePods, gang: int) -> None:
        """Create the pod groups of one step: anew for each scheduler, as a group's condition stays once it is true."""
        for namespace in self._namespaces_of(pods):
            await self._namespace(namespace)
            path = POD_GROUPS.path(self._name(namespace))
            document = objects.group(number, gang, pods.group)
            await self._create(pods.count // gang, document, path, then=self._follow_group)

    async def _follow_group(self, _index: int, answer: bytes) -> None:
        if self._claims is not None:
            await self._claims.follow_group(answer)

    async def _there(self, namespace: str) -> list[Key]:
        """Return the pods of a namespace."""
        name = self._name(namespace)
        return [(name, each) for each in await names(self._client, PODS.path(name), f"{LABEL}={self._run}")]

    async def _create(
        self,
        count: int,
        document: Mapping[str, object],
        path: str,
        *,
        again: bool = True,
        then: Callable[[int, bytes], Awaitable[None]] | None = None,
    ) -> None:
        made = self._template(document, count)
        await create_all(self._client, ((path, made.render(i)) for i in range(count)), again=again, then=then)

    def _template(self, document: object, count: int) -> Template:
        words = {"run": self._run, "pool": self._pool}
        return Template(document, words, {"count": count, "nodes": self._workload.nodes})

    async def _churn(self, churn: Churn, scheduler_name: str, background: _Background) -> None:
        """Create and delete objects until the measured pods are bound."""
        await self._namespace(churn.namespace)
        mark = {"metadata": {"labels": {_CHURNED: "true"}}}
        each_made = [objects.other(each, scheduler_name) for each in churn.objects]
        documents = [_marked(merged(each, mark), passing=True) for each in each_made]
        paths = [self._path(KINDS[each["kind"]], churn.namespace) for each in documents]
        templates = [self._template(each, 1) for each in documents]
        due, i = time.monotonic(), 0
        rounds = deque[list[str]]()  # what was made and is not deleted yet
        while not await background.over_in(due - time.monotonic()):
            due += churn.interval
            deletes = churn.recreate and (churn.number is None or i // churn.number % 2 == 1)
            for path in rounds.popleft() if deletes and rounds else ():
                await delete_one(self._client, path)
            if churn.number is None or (not deletes and (churn.recreate or i < churn.number)):
                made_now = []
                for path, made in zip(paths, templates, strict=True):
                    body = made.render(i)
                    await create_all(self._client, [(path, body)], again=True)
                    made_now.append(f"{path}/{partial.decode(body).metadata.name}")
                rounds.append(made_now)
            i += 1

    async def _update(self, update: UpdateAny) -> None:
        """Change the objects of one step: themselves or a subresource, and then their status."""
        document = {key: value for key, value in update.object.items() if key not in ("kind", "apiVersion")}
        name = self._template(document["metadata"]["name"], update.count)
        status = document.pop("status", None)
        base = self._path(KINDS[update.object["kind"]], update.namespace)
        parts = [(update.subresource, document)] + ([] if status is None else [("status", {"status": status})])
        changes = [(f"/{part}" if part else "", self._template(each, update.count)) for part, each in parts]

        async def work(i: int) -> None:
            path = f"{base}/{msgspec.json.decode(name.render(i))}"
            for suffix, change in changes:
                await self._client.patch(f"{path}{suffix}", change.render(i), STRATEGIC_MERGE_PATCH)

        await for_each(range(update.count), work, update.rate)

    async def _delete(self, unwanted: DeletePods, background: _Background | None = None) -> None:
        """Delete the pods of one step that are there when it begins, in the background no longer than that goes on."""
        path = PODS.path(self._name(unwanted.namespace))
        labels = {LABEL: self._run, **unwanted.label_selector}
        there = await names(self._client, path, ",".join(f"{key}={value}" for key, value in labels.items()))
        wanted = (name for name in there if background is None or not background.is_over)
        await for_each(wanted, lambda name: delete_one(self._client, f"{path}/{name}"), unwanted.rate)

    async def _wait_attempted(self, barrier: Barrier, scheduler_name: str, check: Callable[[], None]) -> None:
        """Wait until the scheduler has bound each pod of the run, or reported that it fits nowhere (or is gated).

        Of those that the barrier is for.
        """
        until = time.monotonic() + self._workload.patience
        labels = [f"{LABEL}={self._run}", f"!{_CHURNED}", *(f"{k}={v}" for k, v in barrier.label_selector.items())]
        chosen = {
            "labelSelector": ",".join(labels),
            "fieldSelector": f"spec.nodeName=,spec.schedulerName={scheduler_name}",
        }
        paths = [PODS.path(self._name(namespace)) for namespace in barrier.namespaces] or [PODS.path()]
        began = 0.0
        while began < until:
            check()
            began = time.monotonic()
            pending = [_pending.decode(raw) for path in paths async for raw in list_items(self._client, path, chosen)]
            if all(any(one.type == "PodScheduled" for one in pod.status.conditions) for pod in pending):
                return
            await asyncio.sleep(max(_LOOKS, time.monotonic() - began))

    async def _namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            metadata = {"name": self._name(name), "labels": {LABEL: self._run, **(labels or {})}}
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await self._create(1, document, NAMESPACES.path())

    def _namespaces_of(self, pods: CreatePods) -> list[str]:
        if pods.namespace is not None:
            return [pods.namespace]
        assert pods.namespaces is not None
        return [f"{pods.namespaces}-{i}" for i in range(self._spread[pods.namespaces])]

    def _path(self, resource: Resource, namespace: str | None) -> str:
        return resource.path(self._name(namespace) if resource.namespaced and namespace else None)

    def _name(self, namespace: str) -> str:
        return f"{self._run}-{namespace}"


def _marked(document: dict[str, Any], passing: bool) -> dict[str, Any]:
    return merged(document, {"metadata": {"labels": {_PASSING: "$(run)"}}}) if passing else document


class _Condition(msgspec.Struct):
    type: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pending(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_pending = msgspec.json.Decoder(_Pending)


def _all_in(bindings: Bindings, keys: set[Key]) -> Callable[[], bool]:
    """Return whether all of these are bound; asked often, so counted first."""
    wanted = frozenset(keys)
    return lambda: len(bindings.at) >= len(wanted) and wanted <= bindings.at.keys()


def _is_behind(barrier: Barrier, pods: CreatePods) -> bool:
    """Return whether a barrier waits for the pods of a step."""
    labels = pods.pod.get("metadata", {}).get("labels", {})
    of = (pods.namespace or pods.namespaces) in barrier.namespaces or not barrier.namespaces
    return of and barrier.label_selector.items() <= labels.items()


class _Background:
    """Tasks that go on until the block ends, and then end by themselves: what they have begun, they finish."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _Background:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Begin one."""
        self._tasks.append(asyncio.ensure_future(work))

    @property
    def is_over(self) -> bool:
        """Return whether the block has ended."""
        return self._over.is_set()

    async def over_in(self, seconds: float) -> bool:
        """Wait so long, or until the end; True at the end."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._over.wait()
        except TimeoutError:
            pass
        return self.is_over


class Figures(msgspec.Struct, rename="camel", frozen=True):
    """One run. Rates in pods a second, times in milliseconds unless named seconds; None is not known."""

    pods: int
    bound: int
    rate: float | None
    """(n - 1) / (last - first binding) as a watch saw them."""
    first_seconds: float | None
    """First binding after the start of the scheduler (backlog) or of the creates (stream)."""
    wait_p50: float | None
    """Create to bound; in a backlog from the start of the scheduler."""
    wait_p99: float | None


def figures(timing: Timing) -> Figures:
    """Return the figures of a run."""
    bound = timing.bound
    long = bound[-1] - bound[0] if len(bound) > 1 else 0.0
    return Figures(
        pods=timing.pods,
        bound=len(bound),
        rate=(len(bound) - 1) / long if long else None,
        first_seconds=bound[0] - timing.started if bound else None,
        wait_p50=quantile(timing.waited, 0.5, 1000),
        wait_p99=quantile(timing.waited, 0.99, 1000),
    )


def quantile(ascending: Sequence[float], part: float, times: float = 1.0) -> float | None:
    """Return the smallest value that this part of them does not exceed, `times` something; None of nothing."""
    if not ascending:
        return None
    return ascending[max(-(-int(part * 1000) * len(ascending) // 1000) - 1, 0)] * times
