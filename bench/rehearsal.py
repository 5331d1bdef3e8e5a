"""A workload of `bench/workloads` carried out on an engine alone: no API server, no sockets, each decision timed.

What the watches would bring is put in as JSON would give it. A measured pod comes (Put), is decided (Cycle), its
Binding is answered (Bound) and its echo comes in (Put), the latter two some pods later, as on a real API server.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.contenders import profile_for
from bench.crowd import crowd, rendered
from bench.rehearsed_claims import KIND, Claims
from podberth.apiserver.rules.patch import strategic
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction, PreBindWrite, Preempt
from podberth.engine.stimuli import Bound, Cycle, Follows, Gone, Put, Stimulus, Tick
from podberth.explain.objects import resource_claims
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model.kinds import Decoder, Modelled
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, NATIVE_KIND
from podberth.plugins.registry import registry
from podberth.testing.workloads import objects
from podberth.testing.workloads.objects import merged
from podberth.testing.workloads.workload import (
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
    Stage,
    UpdateAny,
    Workload,
)

NAME = "bench"
_HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_LAG = 40
"""Decisions between a pod's own and the API server's word of it."""
_RATE = 500
"""Measured pods a second: what a churn's interval is counted in."""
_PATIENCE = 100
"""Seconds, in engine time, that pods get to be bound after the last has come."""
_CROWD: dict[str, str | int] = {"cpu": "10m", "memory": "50Mi"}


class Timed(msgspec.Struct, frozen=True):
    """What one Cycle took, in milliseconds."""

    cpu: float
    wall: float


class Rehearsal:
    """One workload on one engine, with a crowd of pods that were placed before."""

    def __init__(self, workload: Workload, placed: int) -> None:
        """`placed`: pods on the nodes before the measured ones, in all."""
        document = {"profiles": [{"schedulerName": NAME, **profile_for(workload)}]}
        self.engine = Engine(build(decode({**_HEAD, **document}), registry()))
        self._taken: list[Timed] = []
        self._shapes: set[object] = set()
        self._there: dict[tuple[str, str, str], dict[str, Any]] = {}
        """What came, by kind, namespace and name, where a step changes or deletes something."""
        self._keeps = any(step.update_any or step.delete_pods for step in workload.steps)
        self.came = 0
        """How many measured pods came."""
        self._decoder = Decoder()
        self._claims = Claims(self._decoder)
        self._workload = workload
        self._now = 0.0
        self._priorities: dict[str, int] = {}
        self._spread: dict[str, int] = {}
        self._churns: list[Churn] = []
        self._late: deque[Bind] = deque()
        self._unbound: set[str] = set()
        self._leaving: deque[Pod] = deque()
        """Bound pods of a step with `steady`, which go when as many more are bound."""
        self._set_up(placed)

    def run(self, count: int) -> list[Timed]:
        """Decide `count` pods of each measured step, and any others that the workload has come meanwhile.

        A decision that finds no node is among them, with what preemption it leads to.
        """
        for number, step in [*enumerate(self._workload.steps)][self._workload.lasting :]:
            match step.operation:
                case CreatePods() as pods:
                    self._come(number, pods, count if pods.measured else pods.count)
                case UpdateAny() as update:
                    self._update(update, count if update.measured else update.count)
                case DeletePods() as unwanted:
                    self._delete(unwanted)
                case Churn() as churn:
                    self._churns.append(churn)
                case Barrier(stage_requirement=Stage.SCHEDULED):
                    self._settle()
                case CreateNodes() | CreateObjects() as made:
                    self._make(made)
                    self._cycles()
        self._settle()
        return self._taken

    def _come(self, number: int, pods: CreatePods, count: int) -> None:
        """So many pods of a step come, each is decided, and churn goes on beside those that are measured."""
        if pods.gang is not None:
            count = max(count // pods.gang, 1) * pods.gang
            self._groups(number, pods, pods.gang)
        for i, pod in zip(range(count), self._pods(number, pods), strict=False):
            if pods.measured:
                self._shapes.add(pod.shape)
                self.came += 1
                for churn in self._churns:
                    every = max(1, round(churn.interval * _RATE))
                    if i % every == 0:
                        self._churn(churn, i // every)
            if pods.waits:
                self._unbound.add(pod.uid)
            self._handle(Put(pod))
            self._cycles()

    def _settle(self) -> None:
        """Time goes on until all pods that somebody waits for are bound."""
        for _ in range(_PATIENCE):
            while self._late:
                self._confirm(self._late.popleft())
            if not self._unbound:
                return
            self._now += 1.0
            self._handle(Tick())
            self._cycles()
        raise RuntimeError(f"{self._workload.name}: {len(self._unbound)} pods found no node")

    def _update(self, update: UpdateAny, count: int) -> None:
        kind = update.object["kind"]
        for raw in self._rendered(self._within(update.object, update.namespace), count):
            change = msgspec.json.decode(raw)
            key = (kind, change["metadata"].get("namespace", ""), change["metadata"]["name"])
            self._show(key, strategic(kind, self._there[key], change))

    def _delete(self, unwanted: DeletePods) -> None:
        while self._late:
            self._confirm(self._late.popleft())
        for key, document in list(self._there.items()):
            meta = document["metadata"]
            labels = meta.get("labels", {}).items()
            if key[:2] != ("Pod", f"{NAME}-{unwanted.namespace}") or not unwanted.label_selector.items() <= labels:
                continue
            if meta.get("finalizers"):
                self._show(key, merged(document, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
            else:
                uid = self._pod(msgspec.json.encode(self._there.pop(key))).uid
                self._unbound.discard(uid)
                self._handle(Gone(*key, uid))
                self._cycles()

    def _show(self, key: tuple[str, str, str], document: dict[str, Any]) -> None:
        """The watch brings an object that has changed."""
        self._there[key] = document
        self._handle(Put(self._decoded(key[0], msgspec.json.encode(document))))
        self._cycles()

    @property
    def shapes(self) -> int:
        """How many shapes the measured pods had."""
        return len(self._shapes)

    @property
    def gang(self) -> int:
        """How many of the measured pods start together."""
        return self._measured_step[1].gang or 1

    @property
    def _measured_step(self) -> tuple[int, CreatePods]:
        steps = enumerate(step.create_pods for step in self._workload.steps)
        return next((number, pods) for number, pods in steps if pods is not None and pods.measured)

    def _cycles(self) -> None:
        while self.engine.has_work:
            wall, cpu = time.perf_counter(), time.thread_time()
            done = self.engine.handle(Cycle(), self._now)
            spent = time.thread_time() - cpu
            self._taken.append(Timed(1000 * spent, 1000 * (time.perf_counter() - wall)))
            self._follow(done)
            while len(self._late) > _LAG:
                self._confirm(self._late.popleft())

    def _handle(self, stimulus: Stimulus) -> None:
        self._now += 0.001
        self._follow(self.engine.handle(stimulus, self._now))

    def _follow(self, done: list[Instruction]) -> None:
        """What the API server would do."""
        for one in done:
            match one:
                case Bind():
                    self._late.append(one)
                    self._unbound.discard(one.pod.uid)
                case PreBindWrite():
                    self._handle(self._claims.write(one))
                case Preempt():
                    for victim in one.victims:
                        self._handle(Gone("Pod", victim.namespace, victim.name, victim.uid))

    def _confirm(self, bind: Bind) -> None:
        self._handle(Bound(bind.pod.uid))
        for stimulus in self._claims.seen(bind.pod):
            self._handle(stimulus)
        self._handle(Put(msgspec.structs.replace(bind.pod, node_name=bind.node)))
        if self._keeps:
            kept = self._there["Pod", bind.pod.namespace, bind.pod.name]
            kept["spec"]["nodeName"] = bind.node
        if self._steady is not None:
            self._leaving.append(bind.pod)
            if len(self._leaving) > self._steady:
                self._end(self._leaving.popleft())

    @property
    def _steady(self) -> int | None:
        """How many measured pods are there at a time; None: they stay."""
        return self._measured_step[1].steady

    def _end(self, pod: Pod) -> None:
        self._handle(Gone("Pod", pod.namespace, pod.name, pod.uid))
        for stimulus in self._claims.ended(pod):
            self._handle(stimulus)

    def _set_up(self, placed: int) -> None:
        bound = 0
        for number, step in enumerate(self._workload.steps[: self._workload.lasting]):
            match step.operation:
                case CreateNamespaces() as made:
                    self._spread[made.name] = made.count
                    name = f"{NAME}-{made.name}-$(i)"
                    document = {"metadata": {"name": name, "labels": made.labels}}
                    for raw in self._rendered(document, made.count):
                        self._handle(Put(self._decoder.of_kind("Namespace")(raw)))
                case CreatePods() as pods:
                    bound += pods.count
                    if pods.gang is not None:
                        self._groups(number, pods, pods.gang)
                    for pod in self._pods(number, pods):
                        self._handle(Put(pod))
                case CreateNodes() | CreateObjects() as made:
                    self._make(made)
        for raw in crowd(max(0, placed - bound), self._workload.nodes, NAME, _CROWD):
            self._handle(Put(self._decoder.pod(raw)))
        while self.engine.queue.has_pending_work:  # as `berth run` does before it is synced
            self._handle(Tick())

    def _make(self, made: CreateNodes | CreateObjects) -> None:
        if isinstance(made, CreateObjects):
            self._objects(made)
            return
        for raw in self._rendered(objects.node(made.node, made.allocatable), made.count):
            self._handle(Put(self._known("Node", raw)))

    def _objects(self, made: CreateObjects) -> None:
        if made.object["kind"] == "PriorityClass":
            name = made.object["metadata"]["name"].replace("$(run)", NAME)
            self._priorities[name] = made.object["value"]
            return
        document = self._within(objects.other(made.object, NAME), made.namespace)
        for raw in self._rendered(document, made.count):
            match made.object["kind"]:
                case resource_claims.TEMPLATE_KIND:
                    self._claims.learn(raw)
                case kind if kind == KIND:
                    self._handle(self._claims.put(raw))
                case kind:
                    self._handle(Put(self._known(kind, raw)))

    def _groups(self, number: int, pods: CreatePods, gang: int) -> None:
        """The pod groups of a step: all of them are there before the first pod."""
        self._handle(Follows(NATIVE, True))
        document = self._within(objects.group(number, gang, pods.group), pods.namespace)
        document["metadata"]["uid"] = f"{document['metadata']['namespace']}/{document['metadata']['name']}"
        for raw in self._rendered(document, pods.count // gang):
            claims, named = self._claims.before_group(raw)
            for stimulus in (*claims, Put(self._decoder.of_kind(NATIVE_KIND)(named))):
                self._handle(stimulus)

    def _pods(self, number: int, pods: CreatePods) -> Iterator[Pod]:
        document = objects.pod(f"pod-{number}-$(i)", "nobody" if pods.bound else NAME, pods.pod, pods.requests)
        if pods.bound:
            document["spec"]["nodeName"] = "$(pool)-node-$(i % nodes)"
        if pods.gang is not None:
            document = objects.in_group(document, number, pods.gang)
        namespace = pods.namespace or f"{pods.namespaces}-$(i % {self._spread[pods.namespaces or '']})"
        document = self._within(document, namespace)
        if not any(resource_claims.templated(document["spec"])):
            for raw in self._rendered(document, pods.count):
                pod = self._known("Pod", raw)
                assert isinstance(pod, Pod)
                yield pod
            return
        document["metadata"]["uid"] = f"{document['metadata']['namespace']}/{document['metadata']['name']}"
        for raw in self._rendered(document, pods.count):
            claims, named = self._claims.before(raw)
            for stimulus in claims:
                self._handle(stimulus)
            yield self._pod(named)

    def _pod(self, raw: bytes) -> Pod:
        """As the API server makes it: with a UID."""
        pod = self._decoder.pod(raw)
        pod.uid = pod.key
        return pod

    def _within(self, document: dict[str, Any], namespace: str | None) -> dict[str, Any]:
        """The document with what the API server adds: its namespace, and the priority of its class."""
        document = msgspec.json.decode(msgspec.json.encode(document))
        if namespace is not None:
            document["metadata"]["namespace"] = f"{NAME}-{namespace}"
        named = document.get("spec", {}).pop("priorityClassName", None)
        if named is not None:
            document["spec"]["priority"] = self._priorities[named.replace("$(run)", NAME)]
        return document

    def _churn(self, churn: Churn, turn: int) -> None:
        for each in churn.objects:
            kind = each["kind"]
            namespace = None if kind == "Node" else churn.namespace
            document = self._within(objects.other(each, NAME), namespace)
            one = [*self._rendered(document, turn + 1)][-2:]
            if churn.recreate and len(one) > 1:
                old = self._decoded(kind, one[0])
                self._handle(Gone(kind, getattr(old, "namespace", ""), old.name, getattr(old, "uid", "")))
            self._handle(Put(self._decoded(kind, one[-1])))

    def _known(self, kind: str, raw: bytes) -> Modelled:
        """An object as it comes, which is kept if a step may change it."""
        if self._keeps:
            document = msgspec.json.decode(raw)
            meta = document["metadata"]
            self._there[kind, meta.get("namespace", ""), meta["name"]] = document
        return self._decoded(kind, raw)

    def _decoded(self, kind: str, raw: bytes) -> Modelled:
        return self._pod(raw) if kind == "Pod" else self._decoder.of_kind(kind)(raw)

    def _rendered(self, document: dict[str, Any], count: int) -> Iterator[bytes]:
        return rendered(document, count, self._workload.nodes, NAME)
