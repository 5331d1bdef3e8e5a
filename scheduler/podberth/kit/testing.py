"""Tests a plugin: a real engine schedules with it, and each of its answers is compared with a second one.

```python
from podberth.kit.testing import node, pod, prove

def test_maintenance():
    nodes = [node("a", labels={"maintenance": "soon"}), node("b")]
    proof = prove(NoMaintenance, nodes=nodes, pods=[pod("web")])
    assert proof.nodes == {"web": "b"}
```

`prove` raises AssertionError with a sentence that names what is wrong: a declaration, an exception with file and line,
a call that blocks, an answer that is none, a decision that differs from the same with nothing kept, an answer for some
nodes that differs from the one for all, a pod that sleeps although a node takes it, a count that drifted.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import (
    Bind,
    BoundByPlugin,
    Failed,
    Instruction,
    Misbehaved,
    PreBindWrite,
    RunCall,
    Verified,
)
from podberth.engine.stimuli import (
    Bound,
    CallEnded,
    CallFailed,
    Cycle,
    Gone,
    PreBindWritten,
    Put,
    Refreshed,
    Stimulus,
    Tick,
)
from podberth.explain.judging.schema import Misfit, fitting, meant, schemas
from podberth.explain.rejections import Asking
from podberth.framework.binding import next_version
from podberth.framework.config import decode
from podberth.framework.declaration import declared, problems_of
from podberth.framework.explaining import Inquiry
from podberth.framework.guard import described, place_of
from podberth.framework.interface import Plugin
from podberth.framework.profiles import annotated, build
from podberth.framework.status import PluginError
from podberth.framework.verify import contradictions
from podberth.kit.blocking import watched
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE

Object = dict[str, Any]
"""An object of the API, as JSON has it."""
_CONFIG: Object = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_GIVEN = ("cpu", "memory", "labels", "annotations", "namespace")
_OWN_ANNOTATIONS = ("kubernetes.io/", "podberth.dev/")
"""The prefixes of annotations that Kubernetes and Berth read themselves, so that no plugin declares them."""
_REFRESH = 5
"""The number of changes after which sources have another value."""
_MOST_CYCLES = 10_000
_EXPLAINED = 3
"""The number of nodes for which each reason is explained."""
_BETWEEN = 20.0
"""Seconds between two changes: backoffs are over, and no pod has waited so long that it is tried again for that."""


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a node with room for 110 pods; `spec` are fields of its spec (`taints=[…]`, `unschedulable=True`).

    Raises TypeError for what the spec does not have.
    """
    about = {"name": name, "uid": f"node-{name}", "annotations": dict(annotations or {})}
    return {
        "kind": "Node",
        "metadata": {**about, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": _fields("Node", name, spec),
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "128Mi",
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a pod of one container; `spec` are fields of its spec (`priority=10`, `nodeSelector={…}`).

    Raises TypeError for what the spec does not have.
    """
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    about = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return {
        "kind": "Pod",
        "metadata": {**about, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"schedulerName": "berth", "containers": [container], **_fields("Pod", name, spec)},
    }


def _fields(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    """Return these fields, if a spec of this kind has them. Raises TypeError."""
    wanted, misfits = f"core.v1.{kind}Spec", list[Misfit]()
    plain = msgspec.json.decode(msgspec.json.encode(spec))
    known = schemas().types[wanted].fields
    strange = [f"it has no {key}{meant(key, (*known, *_GIVEN))}" for key in plain if key not in known]
    fitting({key: value for key, value in plain.items() if key in known}, f"&{wanted}", misfits, strict=False)
    wrong = [*strange, *(misfit.text for misfit in misfits)]
    if wrong:
        raise TypeError(f'{kind.lower()}("{name}"), which takes fields of the spec: {"; ".join(wrong)}')
    return dict(spec)


@dataclass
class Proof:
    """The outcome for the pods that were given, before anything changed."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Pod → its node. A pod of another namespace than `default` is called NAMESPACE/NAME."""
    messages: dict[str, str] = field(default_factory=dict)
    """Pod → the FailedScheduling message of its last attempt."""


def _called(pod: Pod) -> str:
    return pod.name if pod.namespace in ("", "default") else pod.key


def prove(
    plugin: type[Plugin],
    *,
    nodes: Sequence[Object],
    pods: Sequence[Object],
    others: Iterable[Object] = (),
    args: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
    changes: int = 100,
    seed: int = 0,
) -> Proof:
    """Schedule these pods with a plugin in the default profile, then change the cluster, and check all answers on the
    way.

    `others` are objects of other kinds, `args` the plugin's pluginConfig. `sources` are the values of its sources, by
    name; now and then they have their defaults instead. Nothing is fetched. `changes`: how often something happens
    afterwards, drawn by `seed`: pods go and come, nodes go, come, are cordoned, and exchange their labels.
    Raises AssertionError; ConfigError for arguments that are refused.
    """
    problems = problems_of(plugin, plugin.name)
    assert not problems, f"{plugin.__name__}: {'; '.join(problems)}"
    trial = _Trial(plugin, args, sources or {})
    trial.put(*others, *nodes, *pods)
    trial.settle()
    proof = Proof(dict(trial.nodes), dict(trial.messages))
    for i, what in enumerate(_happenings(Random(seed), list(nodes), list(pods), changes)):
        trial.now += _BETWEEN
        trial.put(*what) if isinstance(what, list) else trial.handle(what)
        trial.settle()
        trial.second_opinion(seed)
        if sources and i % _REFRESH == 0:
            trial.refresh(default=i % (2 * _REFRESH) == 0)
            trial.settle()
            trial.second_opinion(seed)
    faults = validate(trial.engine.cluster)
    assert not faults, f"after all this, counts are wrong: {faults[0]}"
    return proof


class _Trial:
    """One engine, and an API server that agrees to everything."""

    def __init__(self, plugin: type[Plugin], args: Mapping[str, Any] | None, sources: Mapping[str, Any]) -> None:
        self.name = plugin.name
        self._values = sources
        self._failed: list[PluginError] = []
        profile: Object = {"schedulerName": "berth", "plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}
        if args is not None:
            profile["pluginConfig"] = [{"name": plugin.name, "args": dict(args)}]
        frameworks = build(decode({**_CONFIG, "profiles": [profile]}), {**IN_TREE, plugin.name: plugin})
        self._framework = frameworks["berth"]
        self._framework.guard.timed = self._watch
        self._framework.guard.failed = self._failed.append
        self.engine = Engine(frameworks, verify=1)
        self._read = annotated(frameworks)
        self._decoder = Decoder(self._read)
        self._sources = self._framework.profile.sources
        known = [name for _, name in self._sources]
        for name in sources:
            assert name in known, f"{self.name} has no source {name}: it has {', '.join(known) or 'none'}"
        self._documents: dict[str, Object] = {}
        self.now = 0.0
        self.nodes: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.refresh(default=False)

    def refresh(self, *, default: bool) -> None:
        """Set the sources to the values that were given, or to their defaults."""
        for (plugin, name), source in self._sources.items():
            if name in self._values and source.set(source.default if default else self._values[name]):
                self.handle(Refreshed("berth", plugin))

    def _watch(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        if plugin.name != self.name:
            return point(*args)
        with watched():
            return point(*args)

    def put(self, *documents: Object) -> None:
        """Add or change objects."""
        for document in documents:
            self._check_annotations(document)
            self._documents[document["metadata"].get("uid", "")] = document
            self.handle(Put(self._decoder.of_kind(document["kind"])(msgspec.json.encode(document))))

    def handle(self, stimulus: Stimulus) -> None:
        """Pass a stimulus to the engine, and carry out its instructions."""
        instructions = self.engine.handle(stimulus, self.now)
        for error in self._failed:
            raise AssertionError(f"{error}, at {error.at}")
        for instruction in instructions:
            self._carry_out(instruction)

    def _check_annotations(self, document: Object) -> None:
        """Check that the plugin declares the annotations of a document: others would be missing when it looks."""
        kind, about = document["kind"], document["metadata"]
        read = {"Node": self._read.of_nodes, "Pod": self._read.of_pods}
        for key in about.get("annotations") or () if kind in read else ():
            assert key in read[kind] or any(own in key for own in _OWN_ANNOTATIONS), (
                f"{kind} {about['name']} has the annotation {key}, which {self.name} does not declare: "
                f'reads = Reads({kind.lower()}_annotations=("{key}",))'
            )

    def settle(self) -> None:
        """Schedule until there is nothing to do."""
        self.handle(Tick())
        for _ in range(_MOST_CYCLES):
            if not self.engine.has_work:
                return
            self.handle(Cycle())
        raise AssertionError(f"{self.name}: pods are tried again and again, without end")

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Verified(difference=difference) if difference is not None:
                what, where = ", ".join(difference.what), ", ".join(difference.nodes)
                raise AssertionError(
                    f"{self.name}: a decision differs from the same with nothing kept, in {what}, about node {where}; "
                    f"the fault is in: {difference.blame}. Does depends_on, or signature, leave something out?"
                )
            case Misbehaved(error=error):
                raise AssertionError(str(error))
            case Failed(pod=waiting, reason=reason, message=message):
                assert reason == "Unschedulable" or f'"{self.name}"' not in message, message
                self.messages[_called(waiting)] = message
            case Bind(pod=bound, node=where) | BoundByPlugin(pod=bound, node=where):
                self.nodes[_called(bound)] = where
                self.messages.pop(_called(bound), None)
                document = self._documents[bound.uid]
                if isinstance(instruction, Bind):
                    self.handle(Bound(bound.uid))
                self.put({**document, "spec": {**document["spec"], "nodeName": where}})
            case PreBindWrite(pod=waiting, writes=writes):
                self.handle(PreBindWritten(waiting.uid, {write.key: next_version(write) for write in writes}))
            case RunCall(call=call):
                try:
                    with watched(coroutine=True) as step:
                        answer = asyncio.run(asyncio.wait_for(call.start(), call.seconds))
                except Exception as error:  # noqa: BLE001 (whatever the plugin raises, as the scheduler does)
                    told = f"{described(error)}, at {place_of(error, call.start)}"
                    assert not step.found, str(call.error(told))
                    self.handle(CallFailed(call.pod.uid, call, told))
                else:
                    self.handle(CallEnded(call.pod.uid, call, answer))

    def second_opinion(self, seed: int) -> None:
        """Compare the plugin's answers for some rows with those for all rows, and find waiting pods that fit a node."""
        cluster, framework = self.engine.cluster, self._framework
        plugin: Any = framework.plugin(self.name)
        points = declared(plugin).points
        looks = bool(points & {"pre_filter", "filter"}) and not points & {"reserve", "permit"}
        count = cluster.nodes.rows
        rows = np.array(sorted(Random(seed).sample(range(count), min(3, count))), dtype=np.intp)
        for uid in list(self._documents):
            queued = self.engine.queue.get(uid)
            if queued is None:
                continue
            found = contradictions(plugin, queued.pod, cluster, rows, framework.guard)
            assert not found, f"{self.name}: {found[0]}"
            asking = Asking(Inquiry(queued.pod, cluster), framework)
            for reason, where in plugin.filter(queued.pod, cluster) if "filter" in points else ():
                for row in np.flatnonzero(where & cluster.nodes.alive[:count])[:_EXPLAINED].tolist():
                    asking.detail(row, self.name, reason)
                    asking.fixes(row, self.name, [reason])
            assert not asking.notes, next(iter(asking.notes.values()))
            if self.name in queued.plugins and looks:
                fits = framework.apart().decide(queued.pod, cluster).feasible
                assert not len(fits), (
                    f"{self.name}: pod {queued.pod.name} waits, although node {cluster.nodes.names[fits[0]]} takes it: "
                    "events names too few changes, or a hint says no where it should say yes"
                )


def _happenings(random: Random, nodes: list[Object], pods: list[Object], changes: int) -> Iterable[list[Object] | Gone]:
    """Yield random changes: lists of objects to put, or an object that is gone."""
    there = {node["metadata"]["name"]: node for node in nodes}
    placed = [document["metadata"] for document in pods]
    for i in range(changes):
        document = random.choice(nodes)
        name = document["metadata"]["name"]
        match random.choice(("pod goes", "pod goes", "pod comes", "pod comes", "labels", "cordon", "node goes")):
            case "pod goes" if placed:
                about = placed.pop(random.randrange(len(placed)))
                yield Gone("Pod", about["namespace"], about["name"], about["uid"])
            case "labels":
                labels = {**random.choice(nodes)["metadata"]["labels"], "kubernetes.io/hostname": name}
                there[name] = {**document, "metadata": {**document["metadata"], "labels": labels}}
                yield [there[name]]
            case "cordon":
                now = there.get(name, document)
                there[name] = {**now, "spec": {**now["spec"], "unschedulable": random.random() < 0.5}}
                yield [there[name]]
            case "node goes" if len(there) > 1 and name in there:
                del there[name]
                yield Gone("Node", "", name, document["metadata"]["uid"])
            case _ if pods:
                like = random.choice(pods)
                about = {**like["metadata"], "name": f"{like['metadata']['name']}-{i}", "uid": f"change-{i}"}
                placed.append(about)
                yield [{**like, "metadata": about}]
