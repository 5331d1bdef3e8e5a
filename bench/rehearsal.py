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
from scheduler.engine.engine import Engine
from scheduler.engine.instructions import Bind, Instruction, PreBindWrite, Preempt
from scheduler.engine.stimuli import Bound, Cycle, Follows, Gone, Put, Stimulus, Tick
from scheduler.framework.config import decode
from scheduler.framework.profiles import build
from scheduler.model.kinds import Decoder, Modelled
from scheduler.model.pod import Pod
from scheduler.model.pod_group import NATIVE, NATIVE_KIND
from scheduler.plugins.registry import registry
from scheduler.whatif import claim_templates
from scheduler.workloads import objects
from scheduler.workloads.workload import Churn, CreateNamespaces, CreateNodes, CreateObjects, CreatePods, Workload

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
        document = {"profiles": [{"schedulerName": NAME, **profile_for(workload.gates)}]}
        self.engine = Engine(build(decode({**_HEAD, **document}), registry()))
        self.shapes = 0
        """How many shapes the measured pods had."""
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
        """Decide `count` measured pods, and any others that the workload has come meanwhile.

        A decision that finds no node is among them, with what preemption it leads to.
        """
        taken: list[Timed] = []
        shapes = set()
        if self.gang > 1:
            count = max(count // self.gang, 1) * self.gang
        for i, pod in zip(range(count), self._measured(), strict=False):
            shapes.add(pod.shape)
            self.came += 1
            self._unbound.add(pod.uid)
            for churn in self._churns:
                every = max(1, round(churn.interval * _RATE))
                if i % every == 0:
                    self._churn(churn, i // every)
            self._handle(Put(pod))
            taken += self._cycles()
        self.shapes = len(shapes)
        while self._late:
            self._confirm(self._late.popleft())
        for _ in range(_PATIENCE):
            if not self._unbound:
                return taken
            self._now += 1.0
            self._handle(Tick())
            taken += self._cycles()
        raise RuntimeError(f"{self._workload.name}: {len(self._unbound)} pods found no node")

    @property
    def gang(self) -> int:
        """How many of the measured pods start together."""
        return self._measured_step[1].gang or 1

    @property
    def _measured_step(self) -> tuple[int, CreatePods]:
        steps = enumerate(step.create_pods for step in self._workload.steps)
        return next((number, pods) for number, pods in steps if pods is not None and pods.measured)

    def _cycles(self) -> list[Timed]:
        taken = []
        while self.engine.has_work:
            wall, cpu = time.perf_counter(), time.thread_time()
            done = self.engine.handle(Cycle(), self._now)
            spent = time.thread_time() - cpu
            taken.append(Timed(1000 * spent, 1000 * (time.perf_counter() - wall)))
            self._follow(done)
            while len(self._late) > _LAG:
                self._confirm(self._late.popleft())
        return taken

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
        for number, step in enumerate(self._workload.steps):
            match step.operation:
                case CreateNodes() as nodes:
                    document = objects.node(nodes.node, nodes.allocatable)
                    for raw in self._rendered(document, nodes.count):
                        self._handle(Put(self._decoder.node(raw)))
                case CreateNamespaces() as made:
                    self._spread[made.name] = made.count
                    name = f"{NAME}-{made.name}-$(i)"
                    document = {"metadata": {"name": name, "labels": made.labels}}
                    for raw in self._rendered(document, made.count):
                        self._handle(Put(self._decoder.namespace(raw)))
                case CreateObjects() as other:
                    self._objects(other)
                case CreatePods(measured=False) as pods:
                    bound += pods.count if pods.bound else 0
                    for pod in self._pods(number, pods):
                        self._handle(Put(pod))
                case Churn() as churn:
                    self._churns.append(churn)
        for raw in crowd(max(0, placed - bound), self._workload.nodes, NAME, _CROWD):
            self._handle(Put(self._decoder.pod(raw)))
        while self.engine.queue.has_pending_work:  # as `berth run` does before it is synced
            self._handle(Tick())

    def _objects(self, made: CreateObjects) -> None:
        if made.object["kind"] == "PriorityClass":
            name = made.object["metadata"]["name"].replace("$(run)", NAME)
            self._priorities[name] = made.object["value"]
            return
        document = self._within(objects.other(made.object, NAME), made.namespace)
        for raw in self._rendered(document, made.count):
            match made.object["kind"]:
                case claim_templates.KIND:
                    self._claims.learn(raw)
                case kind if kind == KIND:
                    self._handle(self._claims.put(raw))
                case kind:
                    self._handle(Put(self._decoded(kind, raw)))

    def _measured(self) -> Iterator[Pod]:
        for number, step in enumerate(self._workload.steps):
            if step.create_pods is not None and step.create_pods.measured:
                if step.create_pods.gang is not None:
                    self._groups(number, step.create_pods, step.create_pods.gang)
                yield from self._pods(number, step.create_pods)

    def _groups(self, number: int, pods: CreatePods, gang: int) -> None:
        """The pod groups of a step: all of them are there before the first pod."""
        self._handle(Follows(NATIVE, True))
        document = self._within(objects.group(number, gang, pods.group), pods.namespace)
        for raw in self._rendered(document, pods.count // gang):
            self._handle(Put(self._decoder.of_kind(NATIVE_KIND)(raw)))

    def _pods(self, number: int, pods: CreatePods) -> Iterator[Pod]:
        document = objects.pod(f"pod-{number}-$(i)", "nobody" if pods.bound else NAME, pods.pod, pods.requests)
        if pods.bound:
            document["spec"]["nodeName"] = "$(pool)-node-$(i % nodes)"
        if pods.gang is not None:
            document = objects.in_group(document, number, pods.gang)
        namespace = pods.namespace or f"{pods.namespaces}-$(i % {self._spread[pods.namespaces or '']})"
        document = self._within(document, namespace)
        if not any(claim_templates.templated(document["spec"])):
            yield from map(self._pod, self._rendered(document, pods.count))
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

    def _decoded(self, kind: str, raw: bytes) -> Modelled:
        return self._pod(raw) if kind == "Pod" else self._decoder.of_kind(kind)(raw)

    def _rendered(self, document: dict[str, Any], count: int) -> Iterator[bytes]:
        return rendered(document, count, self._workload.nodes, NAME)
