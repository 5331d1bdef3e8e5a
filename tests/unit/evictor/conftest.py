"""An evictor in virtual time, an API of plain dicts behind it, and words for what happens."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.stimuli import Gone, Put
from podberth.evictor.evictor import Evictor
from podberth.evictor.gates import Settings
from podberth.evictor.messages import (
    Answered,
    Evict,
    Instruction,
    Look,
    NotRead,
    Read,
    RecordEvictorEvent,
    RecordNodeEvent,
    RecordPodEvent,
    Stimulus,
    WasRead,
)
from podberth.framework.config import decode
from podberth.framework.profiles import annotated, build
from podberth.kit import Plugin, Pod
from podberth.kube.writes import meta_time
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.promise import ANNOTATION
from tests import builders
from tests.builders import Object
from tests.registered import registry


class Steady(Plugin):
    """Has a profile's pods keep to what they require, as RequiredDuringExecution may."""

    name = "Steady"
    required_during_execution = True

    def pre_enqueue(self, pod: Pod) -> None:
        """Hold no pod."""


CONFIG = builders.configuration(
    builders.profile("berth"),
    builders.profile("strict", RequiredDuringExecution={"allPods": True}),
    builders.profile("seed", {"multiPoint": {"enabled": [{"name": "AnnotationAffinity"}]}}),
    builders.profile("lax", {"filter": {"disabled": [{"name": "RequiredDuringExecution"}]}}),
)
_STEADY = {"enabled": [{"name": "Steady"}], "disabled": [{"name": "RequiredDuringExecution"}]}
WITH_STEADY = {**CONFIG, "profiles": [*CONFIG["profiles"], builders.profile("steady", {"multiPoint": _STEADY})]}
GRACE = 30.0
EPOCH = 1_767_268_800.0
"""Unix time at engine time 0, by the server's clock: 2026-01-01T12:00:00Z."""
OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
DISKS = '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}'


def keeping(name: str, on: str | None, promise: str | None = DISKS, **spec: Any) -> Object:
    """A pod of a ReplicaSet that carries a promise."""
    meta = spec.pop("meta", {})
    made = builders.pod(name, spec.pop("cpu", "100m"), on=on, **spec)
    made["metadata"] |= {"ownerReferences": [OWNER], "resourceVersion": "1", **meta}
    if promise is not None:
        made["metadata"]["annotations"] = {ANNOTATION: promise, **made["metadata"].get("annotations", {})}
    return made


RECORDS = RecordPodEvent | RecordNodeEvent | RecordEvictorEvent


class Harness:
    """Drives one evictor; time moves only when told to. Reads are answered from what was put, unless `deaf`."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        frameworks = build(decode(WITH_STEADY), {**registry(), Steady.name: Steady})
        self.decoder = Decoder(annotated(frameworks))
        self.settings = replace(Settings(changed_share=1.0), **settings)
        self.evictor = Evictor(frameworks, self.settings, lambda: 0.5, self.now)
        self.objects: dict[tuple[str, str], Object] = {}
        self.asked: dict[str, str] = {}
        """UID → when its eviction was asked for, by the server's clock."""
        self.deaf = False
        self.said: list[Instruction] = []

    def put(self, *objects: Object) -> None:
        """The watch brings these."""
        for document in objects:
            self.store(document)
            self.tell(Put(self._decoded(document)))

    def store(self, document: Object) -> None:
        """Change what the API has, without the watch's telling."""
        meta = document["metadata"]
        key = (document["kind"], f"{meta.get('namespace', '')}/{meta['name']}")
        old = self.objects.get(key, {"metadata": {}})["metadata"]
        same = old.get("uid") == meta.get("uid")
        meta.setdefault("creationTimestamp", old["creationTimestamp"] if same else self.clock())
        self.objects[key] = document

    def clock(self) -> str:
        """The time by the server's clock."""
        return meta_time(EPOCH + self.now)

    def lose(self, kind: str, name: str, uid: str = "", namespace: str = "default") -> None:
        """An object is gone."""
        namespace = "" if kind == "Node" else namespace
        self.objects.pop((kind, f"{namespace}/{name}"), None)
        self.tell(Gone(kind, namespace, name, uid or f"{namespace}/{name}"))

    def tell(self, stimulus: Stimulus) -> list[Instruction]:
        done = self.evictor.handle(stimulus, self.now)
        self.said += done
        self.asked.update({one.pod.uid: self.clock() for one in done if isinstance(one, Evict)})
        return done

    def look(self, *, fresh: bool = True) -> list[Evict]:
        """Look, answer the reads, and give what is to be evicted."""
        evictions = []
        for instruction in self.tell(Look(fresh)):
            if isinstance(instruction, Read) and not self.deaf:
                evictions += [one for one in self.tell(self.read(instruction.node)) if isinstance(one, Evict)]
        return evictions

    def after(self, seconds: float, *, fresh: bool = True) -> list[str]:
        """Let time pass; the names of the pods that are to be evicted."""
        self.now += seconds
        return [eviction.pod.name for eviction in self.look(fresh=fresh)]

    def read(self, name: str) -> WasRead | NotRead:
        """The node and its pods as the API has them."""
        node = self.objects.get(("Node", f"/{name}"))
        pods = [self._decoded(o) for (kind, _), o in self.objects.items() if kind == "Pod"]
        here = {pod.uid: pod for pod in pods if pod.node_name == name}
        return WasRead(name, None if node is None else self._decoded(node), here)

    def answer(self, name: str, status: int, message: str = "", **more: Any) -> None:
        uid = f"default/{name}"
        self.tell(Answered(uid, status, message, asked_at=self.asked.get(uid, ""), **more))

    def reasons(self) -> list[str]:
        """Reasons of all that was told."""
        return [one.reason for one in self.said if isinstance(one, RECORDS)]

    def notes(self, reason: str) -> list[str]:
        return [one.note for one in self.said if getattr(one, "reason", "") == reason and hasattr(one, "note")]

    def breaker(self) -> list[str]:
        return [one.reason for one in self.said if isinstance(one, RecordEvictorEvent)]

    def _decoded(self, document: Object) -> Any:
        return self.decoder.of_kind(document["kind"])(wire.encode(document))


@pytest.fixture
def harness() -> Iterator[Harness]:
    """Two nodes with an SSD, and the profiles berth and strict."""
    made = Harness()
    made.put(disk("a"), disk("b"))
    made.look()
    yield made
    assert validate(made.evictor.observed.cluster) == []


def disk(name: str, kind: str | None = "ssd", **more: Any) -> Object:
    """A node with this kind of disk."""
    return builders.node(name, labels={} if kind is None else {"disk": kind}, **more)
