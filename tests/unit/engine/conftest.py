"""An engine in virtual time, fed with plain API dicts; its columns are validated at the end of every test."""

from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction
from podberth.engine.pod_groups import cycle as group_cycle
from podberth.engine.stimuli import BindFailed, Bound, Cycle, Gone, Put, Stimulus, Tick
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.limits import LIMITS, Limits
from tests.registered import registry

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "berth"}, {"schedulerName": "packed"}],
}


NO_LIMITS = Limits(**dict.fromkeys(Limits.__struct_fields__, 1 << 30))
"""For tests of work that is done in turns, which pods within the limits hardly need."""


class Harness:
    """Drives one engine; time moves only when told to."""

    def __init__(
        self,
        config: dict[str, Any] = CONFIG,
        *plugins: Any,
        verify: int = 0,
        limits: Limits = LIMITS,
    ) -> None:
        """`plugins`: classes that are there beside the in-tree ones; `config` has to enable them."""
        self.now = 1000.0
        self.decoder = Decoder(limits=limits)
        there = {**registry(), **{plugin.name: plugin for plugin in plugins}}
        self.engine = Engine(build(decode(config), there), verify=verify)

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        return self.engine.handle(stimulus, self.now)

    def put(self, *objects: dict[str, Any]) -> None:
        """Feed objects; a pod without uid gets its name as uid."""
        for document in objects:
            document["metadata"].setdefault("uid", document["metadata"]["name"])
            import msgspec

            self.handle(Put(self.decoder.of_kind(document["kind"])(msgspec.json.encode(document))))

    def tell(self, document: dict[str, Any]) -> list[Instruction]:
        """Feed one object that has its uid; what the engine wants done about it."""
        return self.handle(Put(self.decoder.of_kind(document["kind"])(wire.encode(document))))

    def lose(self, kind: str, namespace: str, name: str, uid: str = "") -> list[Instruction]:
        """An object is gone; what the engine wants done about it."""
        return self.handle(Gone(kind, namespace, name, uid))

    def gone(self, kind: str, name: str, namespace: str = "default") -> None:
        self.handle(Gone(kind, namespace, name, name))

    def cycle(self) -> list[Instruction]:
        return self.handle(Cycle())

    def cycles(self) -> list[Instruction]:
        """Schedule until the active queue is empty."""
        found: list[Instruction] = []
        while self.engine.has_work:
            found += self.cycle()
        return found

    def binds(self) -> dict[str, str]:
        """Schedule until nothing is active; pod name → node."""
        return {i.pod.name: i.node for i in self.cycles() if isinstance(i, Bind)}

    def bound(self, uid: str) -> None:
        self.handle(Bound(uid))

    def bind_failed(self, uid: str, status: int = 500, message: str = "boom") -> list[Instruction]:
        return self.handle(BindFailed(uid, status, message))

    def after(self, seconds: float) -> None:
        """Let time pass."""
        self.tick(seconds)

    def tick(self, seconds: float) -> list[Instruction]:
        """Let time pass; what the engine wants done about it."""
        self.now += seconds
        return self.handle(Tick())


@pytest.fixture
def harness() -> Iterator[Harness]:
    """An empty cluster with the profiles berth and packed."""
    harness = Harness()
    yield harness
    assert validate(harness.engine.cluster) == []


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    """A node with 32Gi, 110 pods and a hostname label."""
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, cpu: str = "100m", scheduler: str = "berth", **spec: Any) -> dict[str, Any]:
    """A waiting pod of one container."""
    labels = spec.pop("labels", {"app": name})
    meta = spec.pop("meta", {})
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, **meta},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


@pytest.fixture
def pod_by_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang's pods are tried in a turn each, also while nobody else is active."""
    monkeypatch.setattr(group_cycle, "AT_A_TURN", 1)
