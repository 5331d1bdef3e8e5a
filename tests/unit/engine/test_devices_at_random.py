"""Random changes of devices, claims and nodes: what is kept is right, and no device is given twice."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction, PostFilterWrite, PreBindWrite, Verified
from podberth.engine.stimuli import Bound, PreBindWriteFailed
from podberth.framework.binding import Patch
from podberth.model.devices import FINALIZER
from tests.builders import Object, node, pod
from tests.devices import asks, claim, claiming, device, device_class, first_of, request, resource_slice

from .api import Api
from .conftest import CONFIG, Harness

MODELS = ("x", "y")
SELECTORS = [(), ('device.attributes["gpu.test"].model == "x"',), ('device.attributes["gpu.test"].index > 0',)]
NODES = ("a", "b", "c", "d", "e", "f")


class Run:
    """One engine, verified at each decision, with an API server that answers late, or not at all."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.harness = Harness(CONFIG, verify=1)
        self.api = Api(self.harness, device_class(), device_class("x", *SELECTORS[1]))
        self.open: list[PreBindWrite] = []
        self.late: list[tuple[str, str, str]] = []
        self.pods: dict[str, Object] = {}
        self.number = 0
        for name in NODES:
            self.api.put(node(name))
            self.slice(name)
        self.net()

    def slice(self, name: str) -> None:
        """A node's devices change."""
        found = [
            device(f"d{i}", model=self.dice.choice(MODELS), index=i, **self._taint())
            for i in range(self.dice.randint(0, 3))
        ]
        self.api.put(resource_slice(name, *found, node=name))

    def _taint(self) -> dict[str, Any]:
        return {"_taints": [{"key": "k", "effect": "NoSchedule"}]} if self.dice.random() < 0.1 else {}

    def net(self) -> None:
        """So do devices that several nodes reach."""
        where = {"allNodes": True} if self.dice.random() < 0.5 else {"nodeName": self.dice.choice(NODES)}
        self.api.put(resource_slice("net", *[device(f"n{i}", model="x", index=i) for i in range(2)], **where))

    def arrive(self) -> None:
        """A pod comes with a claim."""
        self.number += 1
        name = f"p{self.number}"
        asked = request("r", "gpu", *self.dice.choice(SELECTORS), count=self.dice.randint(1, 2))
        if self.dice.random() < 0.3:
            asked = first_of("r", two=asks("x", count=2), one=asks())
        self.api.put(claim(f"c-{name}", asked, meta={"finalizers": [FINALIZER]}))
        self.pods[name] = claiming(pod(name), f"c-{name}")
        self.api.put(self.pods[name])

    def leave(self) -> None:
        """A pod goes, and its claim a while later."""
        if self.pods:
            name = self.dice.choice(sorted(self.pods))
            del self.pods[name]
            self.harness.lose("Pod", "default", name, f"default/{name}")
            self.late.append(("ResourceClaim", "default", f"c-{name}"))

    def claim_goes(self) -> None:
        """At last."""
        if self.late:
            key = self.late.pop(self.dice.randrange(len(self.late)))
            self.open = [one for one in self.open if all(write.key != key for write in one.writes)]
            self.harness.lose(*key, f"claim/{key[2]}")

    def relabel(self) -> None:
        """A node changes, or goes and comes again."""
        name = self.dice.choice(NODES)
        if self.dice.random() < 0.3:
            self.harness.lose("Node", "", name)
        self.api.put(node(name, labels={"disk": self.dice.choice("xyz")}))

    def reclass(self) -> None:
        """A class selects other devices."""
        self.api.put(device_class("x", *self.dice.choice(SELECTORS)))

    def answer(self) -> None:
        """A write is answered, and the watch may be late."""
        if not self.open:
            return
        write = self.open.pop(self.dice.randrange(len(self.open)))
        if self.dice.random() < 0.2:
            self.carry(self.harness.handle(PreBindWriteFailed(write.pod.uid, 403, "no", {})))
            return
        self.carry(self.harness.handle(self.api.write(write)))
        if self.dice.random() < 0.7:
            for one in write.writes:
                self.carry(self.api.show(one.key))

    def decide(self) -> None:
        """Pods are scheduled."""
        self.harness.after(self.dice.choice((0, 3, 30)))
        self.carry(self.harness.cycles())

    def carry(self, said: list[Instruction]) -> None:
        for one in said:
            match one:
                case Verified(difference=difference):
                    assert difference is None, difference
                case PreBindWrite():
                    self.open.append(one)
                case Bind(pod=bound, node=where):
                    self.carry(self.harness.handle(Bound(bound.uid)))
                    if bound.name in self.pods:
                        spec = {**self.pods[bound.name]["spec"], "nodeName": where}
                        self.api.put({**self.pods[bound.name], "spec": spec})
                case PostFilterWrite(writes=writes):
                    for write in writes:
                        assert isinstance(write, Patch)
                        self.carry(self.api.edit(write.key, **write.change))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_right(seed: int) -> None:
    """Each decision is taken again with nothing kept, and what is counted agrees with the objects."""
    run = Run(seed)
    steps = [run.arrive] * 6 + [run.decide] * 6 + [run.answer] * 6 + [run.leave, run.claim_goes] * 2
    steps += [run.relabel, run.reclass, run.net, lambda: run.slice(run.dice.choice(NODES))]
    for _ in range(150):
        run.dice.choice(steps)()
        claims = run.harness.engine.cluster.devices.allocated.claims.values()
        given = Counter(device.id for allocation in claims for device in allocation.devices)
        assert set(given.values()) <= {1}
    assert validate(run.harness.engine.cluster) == []
