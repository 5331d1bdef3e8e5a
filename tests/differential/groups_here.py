"""What Berth's engine does with a case of pod groups. Its API server does at once what it is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.validate import validate
from podberth.engine.binding_table import State
from podberth.engine.engine import Engine
from podberth.engine.instructions import (
    AskExtenders,
    Bind,
    ClearNomination,
    Instruction,
    PatchCondition,
    PostFilterWrite,
    PreBindWrite,
    Preempt,
    SetGroupCondition,
    UnreserveWrite,
)
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import (
    Bound,
    Cycle,
    ExtendersAnswered,
    ExtendersFailed,
    Follows,
    Gone,
    PreBindWritten,
    Put,
    Stimulus,
    Tick,
)
from podberth.framework.binding import Patch, Write
from podberth.framework.config import decode
from podberth.framework.decision import Decision
from podberth.framework.events import ClusterEvent
from podberth.framework.extenders import EXTENDER, NodesAnswer, NodesQuestion, Question, Scores
from podberth.framework.interface import NODE, Assignment, Filters, Plugin, PostFilterResult
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, GroupKey
from podberth.plugins.default_preemption.plugin import DefaultPreemption
from podberth.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.differential.generate.dice import Object
from tests.registered import registry

MOST_CYCLES = 2_000
BACKOFF = 20.0


class ByName(Plugin):
    """Prefers nodes by their names, which end in a number, as the oracle's plugin of this name."""

    name = "ByName"
    depends_on = NODE

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints:
        """The number."""
        names = cluster.nodes.names
        return np.array([int((names[row] or "n0")[1:]) for row in feasible], dtype=np.int64)

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """The highest number of its nodes."""
        names = cluster.nodes.names
        return max(int((names[row] or "n0")[1:]) for row in assignment.placement.rows)


class SortedPlacements(TopologyPlacementGenerator):
    """Under the name of the oracle's plugin, which sorts upstream's placements by name."""

    name = "SortedPlacements"


class Drowsy(DefaultPreemption):
    """As kube-scheduler's plugin, it does not tell which filters keep a pod from nodes without victims."""

    name = "DefaultPreemption"

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision, filters: Filters) -> PostFilterResult:
        """As of `DefaultPreemption`."""
        return replace(super().post_filter(pod, cluster, decision, filters), in_the_way=frozenset())


class World:
    """Berth's engine on a case, with an API server that does at once what it is told."""

    def __init__(
        self,
        config: str,
        extender: Object | None = None,
        *,
        restless: bool = False,
        drowsy: bool = False,
        jumpy: bool = False,
    ) -> None:
        """`restless`: groups that failed are tried again after their backoff though nothing has happened, and once more
        when they lack pods. `drowsy`: what might help once victims are gone wakes nobody. `jumpy`: pods that an
        extender has refused are woken by whatever is written of groups, and by pods that come. `extender`: what
        one says of pods and nodes, as of the oracle's `ruledExtender`."""
        self._extender = extender
        self._restless = restless
        self._jumpy = jumpy
        read = json.loads(config)
        if extender is not None:
            verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": extender["weight"]}
            read["extenders"] = [{"urlPrefix": "http://ruled", **verbs}]
        decoded = decode(read)
        plugins: list[type[Plugin]] = [ByName, SortedPlacements, *([Drowsy] if drowsy else [])]
        self._engine = Engine(
            build(decoded, {**registry(), **{one.name: one for one in plugins}}),
            extenders=decoded.extenders,
        )
        # Nobody is charged: all pods are one namespace's, and kube-scheduler knows no shares (docs/equal.md).
        self._engine.queue.fair_share.charge = lambda namespace, steps, now: None  # type: ignore[method-assign]
        # A group is tried without anybody else in between, as there.
        self._engine.groups.in_a_row = sys.maxsize
        self._engine.queue.groups.has_before = lambda entry: False  # type: ignore[method-assign]
        if restless:
            self._engine.queue.groups.keeps_nodes = lambda entry: True  # type: ignore[method-assign]
        if drowsy:
            self._leave_asleep_where_nominations_end()
        self._decoder = Decoder()
        self._now = 1000.0
        self._version = 0
        self._objects: dict[tuple[str, str], Object] = {}
        self._cycles = 0
        self.bound: dict[str, str] = {}
        self.pods: dict[str, list[str]] = {}
        self.groups: dict[str, list[str]] = {}
        self.deleted: list[str] = []
        self._do(self._engine.handle(Follows(NATIVE, True), self._now))

    def _leave_asleep_where_nominations_end(self) -> None:
        """A pod that goes to another node than the one that was kept for it wakes nobody."""
        queue, wake = self._engine.queue, self._engine.queue.wake

        def wakes(event: ClusterEvent, *args: Any, **named: Any) -> None:
            about = named.get("about")
            if not (isinstance(about, Pod) and self._engine.binding.state(about.uid) is State.RESERVING):
                wake(event, *args, **named)

        queue.wake = wakes  # type: ignore[method-assign]

    def step(self, changes: Iterable[Object]) -> Object:
        """Make the changes, and let the engine work until nothing is left to try, also after all backoffs."""
        for change in changes:
            if "put" in change:
                self._put(change["put"])
            else:
                self._drop(change["drop"]["kind"], change["drop"]["metadata"]["name"])
            self._now += 0.001
        self._work()
        self._now += BACKOFF
        self._do(self._engine.handle(Tick(), self._now))
        if self._restless:
            for kind, name in list(self._objects):
                if kind == "PodGroup":
                    self._engine.queue.groups.changed(GroupKey("default", name, NATIVE), self._now, helps=True)
        self._work()
        wrong = validate(self._engine.cluster)
        assert wrong == [], wrong
        return {
            "bound": dict(self.bound),
            "pods": {name: list(said) for name, said in self.pods.items()},
            "groups": {name: list(said) for name, said in self.groups.items()},
            "deleted": sorted(self.deleted),
        }

    def _work(self) -> None:
        while self._engine.has_work:
            self._cycles += 1
            assert self._cycles < MOST_CYCLES, "cycles and no end"
            self._do(self._engine.handle(Cycle(), self._now))
            self._now += 0.001

    def _put(self, document: Object) -> None:
        self._version += 1
        kind, meta = document["kind"], document["metadata"]
        before = self._objects.get((kind, meta["name"]))
        document = json.loads(json.dumps(document))
        document["metadata"]["resourceVersion"] = str(self._version)
        if before is not None and "status" in before and "status" not in document:
            document["status"] = before["status"]
        self._objects[kind, meta["name"]] = document
        thing = self._decoder.of_kind(kind)(wire.encode(document))
        self._do(self._engine.handle(Put(thing, before is None), self._now))
        if kind == "PodGroup" or (kind == "Pod" and before is None and "nodeName" not in document["spec"]):
            self._wake_whom_an_extender_refused()

    def _wake_whom_an_extender_refused(self) -> None:
        """If Berth is to be as jumpy as kube-scheduler."""
        queue = self._engine.queue
        for queued in [one for one in queue if EXTENDER in one.plugins] if self._jumpy else ():
            if queued.place is Place.UNSCHEDULABLE and queued.group is None:
                queue.retry([queued.pod.uid], self._now)

    def _drop(self, kind: str, name: str) -> None:
        document = self._objects.pop((kind, name), None)
        if document is not None:
            self.bound.pop(name, None)
            self.pods.pop(name, None)
            meta = document["metadata"]
            self._do(self._engine.handle(Gone(kind, meta["namespace"], name, meta["uid"]), self._now))
            if kind == "PodGroup":
                self._wake_whom_an_extender_refused()

    def _do(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case PatchCondition(pod, reason, message):
                    self.pods[pod.name] = [reason, message]
                case SetGroupCondition():
                    self._set_condition(one)
                case Preempt():
                    self.deleted += [victim.name for victim in one.victims]
        for one in instructions:
            if isinstance(one, PreBindWrite):
                written = {patch.key: self._write(patch) for patch in one.writes}
                self._do(self._engine.handle(PreBindWritten(one.pod.uid, written), self._now))
                for _, _, name in written:
                    self._show("ResourceClaim", name)
            elif isinstance(one, (UnreserveWrite, PostFilterWrite)):
                for patch in one.writes:
                    self._write(patch)
                    self._show("ResourceClaim", patch.key[2])
        for one in instructions:
            if isinstance(one, Bind):
                self._do(self._engine.handle(Bound(one.pod.uid), self._now))
        for one in sorted((one for one in instructions if isinstance(one, Bind)), key=lambda bind: bind.pod.name):
            self.bound[one.pod.name] = one.node
            document = self._objects["Pod", one.pod.name]
            self._put({**document, "spec": {**document["spec"], "nodeName": one.node}})
        for one in instructions:
            match one:
                case Preempt():
                    for victim in one.victims:
                        self._drop("Pod", victim.name)
                case PatchCondition(nominated=str(node)):
                    self._nominate(one.pod.name, node)
                case ClearNomination():
                    self._nominate(one.pod.name, "")
                case AskExtenders():
                    self._do(self._engine.handle(self._answer(one.question), self._now))

    def _answer(self, question: Question) -> Stimulus:
        """What the extender says."""
        rule, name = self._extender, question.pod.name
        assert rule is not None
        assert isinstance(question, NodesQuestion)
        if name in rule["fails"]:
            return ExtendersFailed(question, "the extender fails")
        hopeless = dict.fromkeys((node for node in question.nodes if node in rule["hopeless"][name]), "never here")
        refused = dict.fromkeys(
            (node for node in question.nodes if node in rule["refuses"][name] and node not in hopeless), "not here"
        )
        kept = frozenset(question.nodes) - refused.keys() - hopeless.keys()
        scores = [Scores("http://ruled", rule["weight"], {node: rule["ranks"][name][node] for node in kept})]
        return ExtendersAnswered(question, NodesAnswer(kept, refused, hopeless, scores))

    def _nominate(self, name: str, node: str) -> None:
        """The watch shows for which node a pod is nominated, unless it is gone or bound."""
        document = self._objects.get(("Pod", name))
        if document is not None and not document["spec"].get("nodeName"):
            self._put({**document, "status": {**document.get("status", {}), "nominatedNodeName": node}})

    def _write(self, one: Write) -> str:
        """Carry out a write of a claim; the watch shows it afterwards."""
        assert isinstance(one, Patch)
        document = json.loads(json.dumps(self._objects["ResourceClaim", one.key[2]]))
        assert one.resource_version in ("", document["metadata"]["resourceVersion"]), "nobody else writes claims here"
        status = document.setdefault("status", {})
        for name, value in one.change.get("status", {}).items():
            if one.strategic:
                out = {each["uid"] for each in value}
                value = [each for each in status.get(name, ()) if each["uid"] not in out]
            status[name] = value
        document["metadata"].update(one.change.get("metadata", {}))
        if (status.get("allocation") or {}).get("allocationTimestamp"):
            del status["allocation"]["allocationTimestamp"]
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._objects["ResourceClaim", one.key[2]] = json.loads(json.dumps(document))
        return str(self._version)

    def _show(self, kind: str, name: str) -> None:
        thing = self._decoder.of_kind(kind)(wire.encode(self._objects[kind, name]))
        self._do(self._engine.handle(Put(thing, False), self._now))

    def _set_condition(self, one: SetGroupCondition) -> None:
        name = one.group.name
        if self.groups.get(name, ["", ""])[0] == "True" and one.status != "True":
            return
        said = [one.status, one.reason, one.message]
        if self.groups.get(name) == said:
            return
        self.groups[name] = said
        document = self._objects["PodGroup", name]
        condition = {"type": "PodGroupInitiallyScheduled", "status": one.status, "reason": one.reason}
        self._put({**document, "status": {"conditions": [{**condition, "message": one.message}]}})


def answer(asked: Object, *, restless: bool = False, drowsy: bool = False, jumpy: bool = False) -> list[Object]:
    """What the engine does in each step of a case. `restless`, `drowsy`, `jumpy`: as in `World`."""
    world = World(asked["config"], asked.get("extender"), restless=restless, drowsy=drowsy, jumpy=jumpy)
    return [world.step(step) for step in asked["steps"]]
