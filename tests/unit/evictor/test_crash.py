"""However often the leader is killed, and wherever: no successor is evicted sooner than the spacing allows.

The engine, the writer and what they write are the real ones. The API below is a list of Events and a table of pods; it
answers one request at a time, when the test says so, or never.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from podberth.app.evictor.evictions import past_evictions, seconds
from podberth.app.evictor.watcher import restored
from podberth.app.evictor.writer import Writer
from podberth.engine.stimuli import Gone, Put
from podberth.evictor.evictor import Evictor
from podberth.evictor.gates import Settings
from podberth.evictor.messages import Evict, Instruction, Look, Read, Stimulus
from podberth.framework.config import decode
from podberth.framework.profiles import annotated, build
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Cause, Details, Unreachable
from podberth.kube.machine import Machine
from podberth.kube.writes import Regarding, meta_time
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import Object
from tests.registered import registry
from tests.unit.evictor.conftest import CONFIG, EPOCH, OWNER, disk, keeping

KEPT_SECONDS = 3600.0
"""For how long the API server keeps Events (--event-ttl), by its default."""
SETTINGS = Settings(
    changed_share=1.0,
    grace=1.0,
    node_rate=100.0,
    node_burst=100,
    namespace_rate=100.0,
    namespace_burst=100,
    cluster_rate=100.0,
    cluster_burst=100,
)
BUDGET = ApiError(429, "TooManyRequests", "no", Details(causes=[Cause("DisruptionBudget")]), 0.0)
FRAMEWORKS = build(decode(CONFIG), registry())
STOPS = ["nothing"] * 4 + ["get", "Evicting", "eviction", "Evicted"]
LEASE = Regarding("coordination.k8s.io/v1", "Lease", "berth", "berth-evictor", "")


@dataclass(eq=False)
class Request:
    """One that waits for its turn. `effect` is what it does at the server, and gives its answer."""

    what: str
    effect: Callable[[], bytes]
    answer: asyncio.Future[bytes]


@dataclass
class Api:
    """Pods, Events and a clock; the leaders' own clocks are wrong by `skew` seconds."""

    now: float = 1000.0
    skew: float = 0.0
    budget: bool = False
    pods: dict[str, Object] = field(default_factory=dict)
    events: list[Object] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    evicted: list[tuple[float, Object]] = field(default_factory=list)
    nodes: tuple[Object, ...] = (disk("bad", "hdd", pods="500"), disk("good", pods="500"))

    def clock(self) -> str:
        """The server's time."""
        return meta_time(EPOCH + self.now)

    def stored(self) -> list[bytes]:
        """The Events that the server has not dropped yet."""
        kept = [
            one
            for one in self.events
            if seconds(one["metadata"]["creationTimestamp"]) > EPOCH + self.now - KEPT_SECONDS
        ]
        return [msgspec.json.encode(one) for one in kept]

    async def create(self, path: str, body: bytes, **_: Any) -> bytes:
        """An Event."""

        def effect() -> bytes:
            made = msgspec.json.decode(body)
            made["metadata"]["creationTimestamp"] = self.clock()
            self.events.append(made)
            return msgspec.json.encode(made)

        return await self._wait(msgspec.json.decode(body)["reason"], effect)

    async def request(self, verb: str, path: str, **_: Any) -> bytes:
        """An eviction."""
        name = path.split("/")[-2]

        def effect() -> bytes:
            if name not in self.pods:
                raise ApiError(404)
            if self.budget:
                raise BUDGET
            self.evicted.append((self.now, self.pods.pop(name)))
            return b"{}"

        return await self._wait("eviction", effect)

    async def get(self, path: str, **how: Any) -> bytes:
        """A node, its pods, or one pod."""
        last = path.rpartition("/")[2]

        def effect() -> bytes:
            if "fieldSelector" in how.get("query", ""):
                return wire.encode({"metadata": {}, "items": list(self.pods.values())})
            if last in self.pods:
                return wire.encode(self.pods[last])
            for node in self.nodes:
                if node["metadata"]["name"] == last:
                    return wire.encode(node)
            raise ApiError(404)

        return await self._wait("get", effect)

    async def _wait(self, what: str, effect: Callable[[], bytes]) -> bytes:
        request = Request(what, effect, asyncio.get_running_loop().create_future())
        self.waiting.append(request)
        return await request.answer

    def serve(self, request: Request, *, lose: bool) -> None:
        """Do what a request asks for; `lose`: its answer does not arrive."""
        self.waiting.remove(request)
        try:
            answer = request.effect()
        except ApiError as error:
            request.answer.set_exception(Unreachable("reset") if lose else error)
            return
        if lose:
            request.answer.set_exception(Unreachable("reset"))
        else:
            request.answer.set_result(answer)


class Crashes(RuleBasedStateMachine):
    """Leaders come and are killed; one owner's pods land on a node that is wrong, again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.api = Api()
        self.number = self.replicas = 0
        self.machine = Machine(monotonic=lambda: self.api.now, wall=lambda: EPOCH + self.api.now + self.api.skew)
        self.seen: dict[str, Object] = {}

    @initialize(pods=st.integers(1, 3), skew=st.sampled_from([0.0, 900.0, -900.0]))
    def begin(self, pods: int, skew: float) -> None:
        self.api.skew = skew
        self.replicas = pods
        self.replace_pods()
        self.lead()

    # -- leaders -------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """A new process: it lists everything, and reads what others wrote."""
        self.inbox: list[Stimulus] = []
        self.decoder = Decoder(annotated(FRAMEWORKS))
        rng = random.Random(1).random
        self.evictor = Evictor(FRAMEWORKS, SETTINGS, rng, self.api.now)
        self.writer = Writer(
            cast(Client, self.api),
            self.inbox.append,
            self.decoder,
            lambda: True,
            LEASE,
            "me",
            observe=False,
            machine=self.machine,
        )
        past = past_evictions(self.api.stored())
        for node in self.api.nodes:
            self.handle(Put(self.decoder.node(wire.encode(node))))
        self.seen = {}
        self.watch()
        for earlier in restored(past, EPOCH + self.api.now):
            self.handle(earlier)
        self.turn()

    def handle(self, stimulus: Stimulus) -> None:
        for instruction in self.evictor.handle(stimulus, self.api.now):
            self.carry_out(instruction)

    def carry_out(self, instruction: Instruction) -> None:
        async def begin() -> None:
            match instruction:
                case Read():
                    self.writer.read(instruction)
                case Evict():
                    self.writer.evict(instruction)
                case _:
                    self.writer.tell(instruction)

        self.loop.run_until_complete(begin())

    def watch(self) -> None:
        """The watch brings what changed."""
        for name in self.seen.keys() - self.api.pods.keys():
            meta = self.seen.pop(name)["metadata"]
            self.handle(Gone("Pod", "default", name, meta["uid"]))
        for name, pod in self.api.pods.items():
            if name not in self.seen:
                self.seen[name] = pod
                self.handle(Put(self.decoder.pod(wire.encode(pod))))

    def turn(self) -> None:
        """Let tasks go on as far as they can, and the engine hear what they say."""

        async def go_on() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.loop.run_until_complete(go_on())
        while self.inbox:
            self.handle(self.inbox.pop(0))
            self.loop.run_until_complete(go_on())

    # -- what happens --------------------------------------------------------------------------------------------

    def add_pod(self) -> None:
        """A pod of the owner lands on the node that is wrong."""
        self.number += 1
        made = keeping(f"web-{self.number}", "bad", cpu="1m", meta={"ownerReferences": [OWNER]})
        made["metadata"] |= {"creationTimestamp": self.api.clock(), "uid": f"uid-{self.number}"}
        self.api.pods[f"web-{self.number}"] = made

    def replace_pods(self) -> None:
        """The owner's controller makes up for those that are gone."""
        if len(self.api.pods) < self.replicas:
            self.api.now += 1
        while len(self.api.pods) < self.replicas:
            self.add_pod()

    @rule(seconds=st.sampled_from([2.0, 20.0, 290.0, 301.0, 650.0]), stop=st.sampled_from(STOPS), lose=st.booleans())
    def go_on(self, seconds: float, stop: str, lose: bool) -> None:
        """Time passes, and requests get their turn up to the first of a kind: it waits, or its answer gets lost."""
        self.api.now += seconds
        for _ in range(3):
            self.replace_pods()
            self.watch()
            self.handle(Look(fresh=True))
            self.turn()
            for _ in range(40):
                if not self.api.waiting:
                    break
                request = next((one for one in self.api.waiting if one.what != stop), None)
                if request is None and not lose:
                    return
                self.api.serve(request or self.api.waiting[0], lose=request is None)
                self.turn()
            self.api.now += SETTINGS.grace

    @rule(more=st.integers(1, 2))
    def scale(self, more: int) -> None:
        """The owner wants other pods."""
        self.replicas = 1 + (self.replicas + more) % 3

    @rule()
    def budget_changes(self) -> None:
        self.api.budget = not self.api.budget

    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data: Any) -> None:
        if self.api.pods:
            del self.api.pods[data.draw(st.sampled_from(sorted(self.api.pods)))]

    @rule(arrives=st.booleans(), down=st.sampled_from([0.0, 15.0, 200.0]))
    def kill(self, arrives: bool, down: float) -> None:
        """The leader ends at once. What it had sent may arrive all the same."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        waiting, self.api.waiting = self.api.waiting, []
        for request in waiting:
            if arrives and request.what in ("eviction", "Evicting", "Evicted"):
                try:
                    request.effect()
                except ApiError:
                    continue
        self.loop.run_until_complete(asyncio.sleep(0))
        self.api.now += down
        self.lead()

    @invariant()
    def spaced(self) -> None:
        """Worked out from what the server did, by its clock: who came after an eviction waits, and ever longer."""
        rounds: list[tuple[float, int]] = []
        for at, pod in self.api.evicted:
            created, number = seconds(pod["metadata"]["creationTimestamp"]) - EPOCH, 1
            for before, round_ in rounds:
                spacing = min(SETTINGS.owner_backoff * 2 ** (round_ - 1), SETTINGS.owner_backoff_most)
                if created > before:
                    assert at - before >= spacing, f"evicted {at - before:g} s after round {round_}, want {spacing:g}"
                    if at - before <= SETTINGS.owner_backoff_most:
                        number = max(number, round_ + 1)
            rounds.append((at, number))

    def teardown(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


def test_spacing_survives_any_crash() -> None:
    """Budgets refuse, answers get lost, clocks are wrong, and leaders die between any two requests."""
    run_state_machine_as_test(
        Crashes,
        settings=settings(
            max_examples=int(os.environ.get("BERTH_EXAMPLES", "60")),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
