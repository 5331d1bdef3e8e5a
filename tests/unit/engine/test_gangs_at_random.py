"""Gangs under whatever may happen: no part of one is bound, nothing is held in the end, and with room all are bound."""

from random import Random
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction, Withdraw
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import BindFailed, BindWithdrawn, Bound, Cycle, Follows, Gone, Put, Tick
from podberth.model import wire
from podberth.model.pod_group import NATIVE, GroupKey
from tests.builders import Object

from .conftest import CONFIG, Harness, node, pod

GROUPS = ("a", "b", "c")
STEPS = 120


class World(Harness):
    """Three gangs, some nodes, and an API server that answers late, or not at all, and refuses now and then."""

    def __init__(self, seed: int, config: Object = CONFIG) -> None:
        super().__init__(config)
        self.dice = Random(seed)
        self.objects: dict[tuple[str, str], Object] = {}
        self.posted: dict[str, str] = {}
        """Pod → node of a Binding without an answer."""
        self.names = 0
        self.do(Follows(NATIVE, True))

    def do(self, stimulus: Any) -> None:
        self.look(self.handle(stimulus))

    def look(self, said: list[Instruction]) -> None:
        """What is said at once: the first Bindings of a gang come with all that it needs."""
        binds = [one for one in said if isinstance(one, Bind)]
        for name in {one.pod.scheduling_group.name for one in binds if one.pod.scheduling_group is not None}:
            state = self.engine.cluster.pod_groups.state(GroupKey("default", name, NATIVE))
            assert state is not None
            assert state.object is not None, "a gang is bound without its group"
            new = [one.pod.name for one in binds if one.pod.scheduling_group == state.key]
            others = len(state.assigned) + sum(self.of(pod) == name for pod in self.posted)
            assert len(new) + others >= state.object.needed, f"only {new} of {name}"
        for one in said:
            if isinstance(one, Bind):
                self.posted[one.pod.name] = one.node
        for one in said:
            if isinstance(one, Withdraw) and self.posted.pop(one.pod.name, None) is not None:
                self.do(BindWithdrawn(one.pod.uid, one.message))

    def of(self, name: str) -> str:
        found = self.objects.get(("Pod", name), {"spec": {}})["spec"].get("schedulingGroup", {})
        return str(found.get("podGroupName", ""))

    def show(self, document: Object) -> None:
        meta = document["metadata"]
        meta.setdefault("uid", meta["name"])
        self.objects[document["kind"], meta["name"]] = document
        self.do(Put(self.decoder.of_kind(document["kind"])(wire.encode(document))))

    def lose_one(self, kind: str) -> None:
        names = [name for of, name in self.objects if of == kind]
        if names:
            name = self.dice.choice(names)
            self.drop(kind, name)

    def drop(self, kind: str, name: str) -> None:
        del self.objects[kind, name]
        self.posted.pop(name, None) if kind == "Pod" else None
        self.do(Gone(kind, "" if kind == "Node" else "default", name, name))

    def answer(self, *, well: bool = False) -> None:
        """The API server answers a Binding: it is there, or it is refused."""
        if not self.posted:
            return
        name = self.dice.choice(sorted(self.posted))
        where = self.posted.pop(name)
        refused = not well and self.dice.random() < 0.2
        if refused or ("Node", where) not in self.objects:
            self.do(BindFailed(name, self.dice.choice((409, 500, 0)), "boom"))
            return
        document = self.objects["Pod", name]
        shown = {**document, "spec": {**document["spec"], "nodeName": where}}
        first = self.dice.random() < 0.5
        if first:
            self.do(Bound(name))
        self.show(shown)
        if not first:
            self.do(Bound(name))

    def group(self, name: str, needed: int) -> None:
        self.show(
            {
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}},
            }
        )

    def member(self, of: str) -> None:
        self.names += 1
        gates: dict[str, Any] = {"schedulingGates": [{"name": "g"}]} if self.dice.random() < 0.1 else {}
        cpu = self.dice.choice(("500m", "1", "2"))
        self.show(pod(f"{of}{self.names}", cpu, schedulingGroup={"podGroupName": of}, **gates))

    def ungate(self) -> None:
        for (kind, name), document in list(self.objects.items()):
            if kind == "Pod" and "schedulingGates" in document["spec"]:
                spec = {key: value for key, value in document["spec"].items() if key != "schedulingGates"}
                self.show({**document, "spec": spec})
                assert self.objects["Pod", name] is not document
                return

    def something(self) -> None:
        """Whatever may happen."""
        dice = self.dice
        what = dice.random()
        if what < 0.25:
            self.do(Cycle())
        elif what < 0.40:
            self.member(dice.choice(GROUPS))
        elif what < 0.50:
            self.names += 1
            self.show(node(f"n{self.names}", dice.choice(("1", "2", "4"))))
        elif what < 0.55:
            self.lose_one("Node")
        elif what < 0.62:
            self.lose_one("Pod")
        elif what < 0.70:
            self.group(dice.choice(GROUPS), dice.choice((1, 2, 3, 5)))
        elif what < 0.73:
            self.lose_one("PodGroup")
        elif what < 0.76:
            self.names += 1
            self.show(pod(f"p{self.names}", "1", priority=dice.choice((0, 10))))
        elif what < 0.79:
            self.ungate()
        elif what < 0.94:
            self.answer()
        else:
            self.now += dice.choice((0.1, 1.0, 20.0, 150.0))
            self.do(Tick())

    def check(self) -> None:
        queue = self.engine.queue
        assert validate(self.engine.cluster) == []
        assert sum(queue.counts().values()) == len(queue)
        assert min(queue.counts().values()) >= 0

    def end(self) -> None:
        """All is answered, and time passes until nothing is to be done."""
        for _ in range(400):
            while self.engine.has_work or self.engine.binding.gathering.released:
                self.do(Cycle())
            while self.posted:
                self.answer(well=True)
            due = self.engine.next_tick()
            if not self.engine.has_work and (due is None or due > self.now + 310.0):
                return
            self.now = max(self.now, due or 0.0) + 0.01
            self.do(Tick())


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens(seed: int) -> None:
    world = World(seed)
    for name in GROUPS:
        world.group(name, 3)
    world.show(node("n0", "4"))
    for _ in range(STEPS):
        world.something()
        world.check()
    for name in GROUPS:
        if ("PodGroup", name) not in world.objects:
            world.group(name, 2)
    while any("schedulingGates" in one["spec"] for one in world.objects.values()):
        world.ungate()
    world.names += 1
    world.show(node(f"n{world.names}", "400"))
    for _ in range(4):
        world.end()
        world.now += 400.0
        world.do(Tick())
    world.check()
    engine = world.engine
    assert engine.cluster.assumed() == 0, "somebody holds what nobody gets"
    for name in GROUPS:
        state = engine.cluster.pod_groups.state(GroupKey("default", name, NATIVE))
        assert state is not None
        assert state.object is not None
        if len(state.pods) >= state.object.needed:
            assert not state.unscheduled, f"{name} waits, and there is room"
        else:
            assert all(engine.queue.get(uid) is not None for uid in state.unscheduled)
    assert set(engine.queue.counts()) == set(Place)
