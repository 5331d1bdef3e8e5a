"""No pod waits as unschedulable while a fresh look would place it, or find somebody to preempt.

A small cluster goes through nodes that come, grow, are cordoned and go; pods of several priorities that arrive, are
bound by others, shrink and leave; victims that take their time or stay; nominations that are lost. After each step
the engine schedules until nothing is active. Whoever waits for an event then must have a reason to.
"""

from random import Random
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, ClearNomination, Instruction, PatchCondition, Preempt
from podberth.engine.queue.queued import Place, QueuedPod
from podberth.engine.stimuli import VictimStays
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from tests.builders import configuration, container, node, pod
from tests.registered import registry

from .conftest import Harness

CONFIG = configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
NODES = 4
MOST_CYCLES = 300
"""More than any step needs: pods that wake each other for ever would be a fault of their own."""

PRELUDE = [
    *(("node", i, 4, "") for i in range(NODES)),
    *(("place", i % NODES, (2, (0, 5)[i % 2], "")) for i in range(2 * NODES)),
]
"""A full cluster of two priorities."""

STEPS = 60
SEEDS = 40
WEIGHTS = {
    "arrive": 6,
    "place": 2,
    "leave": 2,
    "victim leaves": 2,
    "victim stays": 1,
    "shrink": 1,
    "node": 1,
    "node goes": 1,
    "bound by others": 1,
    "nominate": 1,
    "confirm": 1,
    "bind fails": 1,
}


def _step(random: Random) -> tuple[Any, ...]:
    """What happens next; a number says to which of the pods that it may happen to."""
    (kind,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
    which, on = random.randrange(30), random.randrange(NODES)
    sort = random.choice(("", "", "", "never", "apart", "zone", "tolerant", "port"))
    made = random.randint(1, 4), random.choice((0, 5, 5, 10)), sort
    match kind:
        case "arrive":
            return kind, made
        case "place":
            return kind, on, made
        case "node":
            return kind, on, random.choice((2, 4, 4, 6)), random.choice(("", "", "", "cordoned", "spot"))
        case "node goes":
            return kind, on
        case "bound by others":
            return kind, which, on
        case "nominate":
            return kind, which, random.randint(-2, NODES - 1)
    return kind, which


class World:
    """The API server and the kubelets of one engine."""

    def __init__(self) -> None:
        self.harness = Harness(CONFIG)
        self.engine = self.harness.engine
        self.cluster = self.engine.cluster
        self.documents: dict[str, Any] = {}
        self.binding: list[Bind] = []
        self.victims: list[Pod] = []
        self.fresh = build(decode(CONFIG), registry())["berth"]

    def take(self, step: tuple[Any, ...]) -> None:
        """One thing happens, and whatever it sets off."""
        match step:
            case "arrive", made:
                self._put(self._made(*made))
            case "place", i, made:
                self._put(self._made(*made), f"n{i}")
            case "leave", i if self.documents:
                self._leave(_nth(list(self.documents), i))
            case "victim leaves", i if self.victims:
                self._leave(_nth(self.victims, i).uid)
            case "victim stays", i if self.victims:
                victim = _nth(self.victims, i)
                self.victims.remove(victim)
                self._heed(self.harness.handle(VictimStays(victim)))
            case "shrink", i if self.documents:
                self._shrink(_nth(list(self.documents.values()), i))
            case "node", i, cpu, kind:
                taints = ["spot:NoSchedule"] if kind == "spot" else []
                zone = "ab"[i % 2]
                made = node(f"n{i}", cpu=f"{cpu}", zone=zone, taints=taints, cordoned=kind == "cordoned")
                self._heed(self.harness.tell(made))
            case "node goes", i:
                self._heed(self.harness.lose("Node", "", f"n{i}"))
                self._collect(f"n{i}")
            case "bound by others", i, n if self._waiting():
                self._put(_nth(self._waiting(), i), f"n{n}")
            case "nominate", i, n if self._waiting():
                document = _nth(self._waiting(), i)
                document["status"]["nominatedNodeName"] = f"n{n}" if n >= 0 else ""
                self._put(document)
            case "confirm", i if self.binding:
                bind = _nth(self.binding, i)
                self.binding.remove(bind)
                self.harness.bound(bind.pod.uid)
                self._put(self.documents[bind.pod.uid], bind.node)
            case "bind fails", i if self.binding:
                bind = _nth(self.binding, i)
                self.binding.remove(bind)
                self._heed(self.harness.bind_failed(bind.pod.uid))
        self._settle()

    def mistold(self) -> list[str]:
        """Of whom the story says something else than is."""
        found = []
        wanted = {queued.pod.uid: queued.place.value for queued in self.engine.queue}
        wanted |= {bind.pod.uid: "assumed" for bind in self.binding if self._is_assumed(bind.pod.uid)}
        for uid, state in wanted.items():
            timeline = self.engine.history.story(uid)
            told = None if timeline is None else timeline.state
            if told != state:
                found.append(f"{uid}: {state}, told as {told}")
        return found

    def _is_assumed(self, uid: str) -> bool:
        placement = self.cluster.placement(uid)
        return placement is not None and placement.assumed

    def sleepers(self) -> list[str]:
        """Who waits for an event, and need not."""
        waiting = [queued for queued in self.engine.queue if queued.place is Place.UNSCHEDULABLE]
        return [f"{queued.pod.name} {why}" for queued in waiting if (why := self._reason_to_wake(queued))]

    def _reason_to_wake(self, queued: QueuedPod) -> str:
        waiting = queued.pod
        decision = self.fresh.decide(waiting, self.cluster)
        if len(decision.feasible):
            return f"fits on {[self.cluster.nodes.names[row] for row in decision.feasible]}"
        found = self.fresh.post_filter_result(waiting, self.cluster, decision)
        if found.node and not self._waits_for_victims(waiting):
            return f"could preempt {[victim.name for victim in found.victims]} on {found.node}"
        return ""

    def _waits_for_victims(self, waiting: Pod) -> bool:
        kept = self.cluster.nominations.node_of.get(waiting.uid)
        row = self.cluster.nodes.live_row(kept) if kept else None
        there = [] if row is None else self.cluster.pods_on(row)
        return any(other.terminating and other.preempted and other.priority < waiting.priority for other in there)

    def _settle(self) -> None:
        self._heed(self.harness.tick(1.5))
        for _ in range(MOST_CYCLES):
            if not self.engine.has_work:
                return
            self._heed(self.harness.cycle())
        raise AssertionError("pods wake each other for ever")

    def _heed(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case Bind():
                    self.binding.append(one)
                case Preempt():
                    self.victims += one.victims
                    for victim in one.victims:
                        self._is_asked_to_go(victim)
                case PatchCondition(pod=nominated, nominated=str(name)):
                    self._show_nomination(nominated, name)
                case ClearNomination(nominated):
                    self._show_nomination(nominated, "")

    def _show_nomination(self, nominated: Pod, name: str) -> None:
        document = self.documents.get(nominated.uid)
        if document is not None and document["status"].get("nominatedNodeName", "") != name:
            document["status"]["nominatedNodeName"] = name
            self._heed(self.harness.tell(document))

    def _is_asked_to_go(self, victim: Pod) -> None:
        """It has its condition, which may be shown, and is not deleted yet."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        self.documents[victim.uid]["status"]["conditions"] = [condition]

    def _made(self, size: int, priority: int, kind: str) -> Any:
        more: dict[str, Any] = {}
        if kind == "zone":
            more["select"] = {"zone": "b"}
        if kind == "tolerant":
            more["tolerate"] = ["spot"]
        if kind == "apart":
            more["apart"] = ["app=web per zone"]
        if kind == "port":
            more["containers"] = [container(cpu=f"{size}", ports=["80"])]
        made = pod(f"p{self.harness.now}", cpu=f"{size}", priority=priority, labels={"app": "web"}, **more)
        made["kind"] = "Pod"
        if kind == "never":
            made["spec"]["preemptionPolicy"] = "Never"
        return made

    def _put(self, document: Any, on: str = "") -> None:
        uid = document["metadata"]["uid"]
        self.documents[uid] = document
        if on:
            document["spec"]["nodeName"] = on
            self.binding = [bind for bind in self.binding if bind.pod.uid != uid]
        self._heed(self.harness.tell(document))

    def _shrink(self, document: Any) -> None:
        (container,) = document["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": "1"}}
        self._put(document)

    def _leave(self, uid: str) -> None:
        document = self.documents.pop(uid)
        self.binding = [bind for bind in self.binding if bind.pod.uid != uid]
        self.victims = [victim for victim in self.victims if victim.uid != uid]
        self._heed(self.harness.lose("Pod", "default", document["metadata"]["name"], uid))

    def _collect(self, gone: str) -> None:
        """What the pod garbage collector does when a node is gone; nobody can be bound to it any more."""
        for bind in [bind for bind in self.binding if bind.node == gone]:
            self.binding.remove(bind)
            self._heed(self.harness.bind_failed(bind.pod.uid))
        for uid, document in list(self.documents.items()):
            if document["spec"].get("nodeName") == gone:
                self._leave(uid)

    def _waiting(self) -> list[Any]:
        """Pods that nobody has bound, as far as the API knows."""
        return [document for document in self.documents.values() if "nodeName" not in document["spec"]]


def _nth(things: list[Any], i: int) -> Any:
    return things[i % len(things)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nobody_sleeps(seed: int) -> None:
    """Whoever waits for an event neither fits anywhere nor could preempt anybody, unless its victims are leaving."""
    random, world = Random(seed), World()
    happened = [*PRELUDE, *(_step(random) for _ in range(STEPS))]
    for i, step in enumerate(happened):
        world.take(step)
        assert world.sleepers() == [], f"after {happened[: i + 1]}"
        assert world.mistold() == [], f"after {happened[: i + 1]}"
    assert validate(world.cluster) == []
