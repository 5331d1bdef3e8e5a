"""A whole run: the world of a plan, from its first second to the judgement."""

from __future__ import annotations

import gc
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, TypeVar

import structlog

from podberth.apiserver.rules.status import StatusError, expired, internal
from podberth.apiserver.rules.strategy import GIVEN
from tests.storm import casting, casting_groups, happenings
from tests.storm.actors import Controllers, Nodes, Size, periodically
from tests.storm.berth import Berth
from tests.storm.budgets import Budgets
from tests.storm.deadlines import Deadlines
from tests.storm.devices import Devices
from tests.storm.evictor import Evictor
from tests.storm.gangs import Gangs
from tests.storm.judge import PROMPT_SECONDS, Judge
from tests.storm.judge_gangs import LOOK_SECONDS as GANGS_SECONDS
from tests.storm.judge_watches import LOOK_SECONDS
from tests.storm.kopfed import simulated
from tests.storm.loop import Loop, Timeline
from tests.storm.network import Network
from tests.storm.plan import CALM_SECONDS, NAMESPACES, REPLICAS, Plan
from tests.storm.policies import Policies
from tests.storm.policing import Admission, OperatorProcess, Webhook
from tests.storm.process import EPOCH, Process
from tests.storm.rival import Rival
from tests.storm.server import Server

BACKUP_SECONDS = 5.0
RECOVERY_SECONDS = 150.0
"""In the calm, all is well after so long: the longest is a silent watch (67 s), then a list, then backoffs."""
STEP_SECONDS = 10.0
"""How often a run that is to end with the first violation is looked at."""
PATIENCE_SECONDS = 60.0
"""I4: a pod that fits waits no longer. These are the last seconds of the recovery."""
_LOOKS = (37.0, 23.0, 8.0, 0.0)
"""Seconds before the end of them at which is looked again, out of step with a backoff of ten seconds: a pod may preempt
others again and again, whose successors another scheduler binds at once."""

REST_SECONDS = 0.3
"""The end is judged when no pod has been written for so long,"""
REST_MOST_SECONDS = 30.0
"""or at last so much later."""


@dataclass
class Outcome:
    """What came of a run."""

    plan: Plan
    violations: list[str]
    digest: str
    happened: Counter[str]
    hits: Counter[str]
    survived: Counter[str]
    """What got done all the same: pods bound, evicted, reviewed."""
    turns: int
    trace: list[str] = field(repr=False)


AnyProcess = TypeVar("AnyProcess", bound=Process)


class World:
    """All of it."""

    def __init__(self, plan: Plan, *, keep: bool = False) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.trace: list[str] = []
        self.hits: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.survived: Counter[str] = Counter()
        self.lease_gone_at = float("-inf")
        self.knew_the_lease: set[str] = set()
        """Who has certainly seen the Lease before it was deleted last, and who held it."""
        self.trouble_ends = float("-inf")
        """When the last thing that keeps news from getting through is over."""
        self.delay_ends = float("-inf")
        """The same of what keeps requests from being answered soon."""
        self.absences: list[tuple[float, float]] = []
        """When the API server was away, or stood still: from when, until when."""
        self.lost_at: dict[str, float] = {}
        """Kind → when an event of it was last lost."""
        self.lossy = False
        """Whether an event may have been lost, or have been on its way for long."""
        self.logged: list[str] = []
        self._keep = keep
        self._digest = hashlib.sha256()
        self.timeline = Timeline()
        self.loop = Loop(self.timeline, "world")
        self.network = Network(self.loop, self._rng("network"))
        self.server = Server(Loop(self.timeline, "api"), self.network, self._rng("server"), self.wall)
        self.server.on_restore = self._restored
        self.evictors: list[Evictor] = []
        self.admissions: list[Admission] = []
        self.operators: list[OperatorProcess] = []
        self.policies: Policies | None = None
        self.devices: Devices | None = None
        self.budgets: Budgets | None = None
        self.gangs = Gangs(self) if casting.GANGS in plan.cast else None
        self.judge = Judge(self)
        self.nodes = Nodes(self.server, self.loop, self._rng("nodes"))
        self.controllers = Controllers(self.server, self.loop, self._rng("controllers"))
        self.berths = [
            Berth(name, self.timeline, self.network, self.seed, clock)
            for name, clock in zip(REPLICAS, plan.clocks, strict=True)
        ]
        self._cast()
        self.network.on_send = self._sent
        self.network.on_cut = lambda loop: self.judge.watches.unheard(loop.name)

    def _cast(self) -> None:
        """Who else is there: the clocks of `a` and `b` are those of the machines."""

        def two(kind: type[AnyProcess], name: str) -> list[AnyProcess]:
            return [
                kind(f"{name}-{machine}", self.timeline, self.network, self.seed, clock)
                for machine, clock in zip("ab", self.plan.clocks, strict=True)
            ]

        for berth in self.berths:
            berth.profile = casting_groups.profile(self.plan.cast)
        if casting_groups.ROOMS in self.plan.cast:
            Deadlines(self)
        if "evictor" in self.plan.cast:
            self.evictors = two(Evictor, "evictor")
            self.nodes.disks = {name: "ssd" if i % 3 else "hdd" for i, (name, *_) in enumerate(self.plan.nodes)}
            self.budgets = Budgets(self.server, self.loop, self._rng("budgets"))
        if "devices" in self.plan.cast:
            self.devices = Devices(self)
            self.controllers.claim = self.devices.claim
        if self.gangs is not None:
            self.controllers.join = self.gangs.join
        if "policies" in self.plan.cast:
            self.policies = Policies(self)
            self.admissions, self.operators = two(Admission, "admission"), two(OperatorProcess, "operator")
            self.controllers.webhook = Webhook(self.admissions, self.network, self.loop, self._rng("webhook"))
            self.controllers.on_review = self.policies.reviewed

    # -- what others ask of it -----------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.timeline.now

    def wall(self) -> float:
        """The right time."""
        return EPOCH + self.now

    def note(self, line: str) -> None:
        """A line of the trace."""
        line = f"{self.timeline.now:.6f} {line}"
        self._digest.update(line.encode())
        if self._keep:
            self.trace.append(line)

    def hit(self, effect: dict[str, Any]) -> None:
        """A fault met something."""
        self.hits[" ".join(f"{name}={value}" for name, value in effect.items())] += 1

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Do this later."""
        self.loop.call_later(seconds, do)

    def berth(self, name: str) -> Berth:
        return next(berth for berth in self.berths if berth.name == name)

    @property
    def processes(self) -> list[Process]:
        """All of ours."""
        return [*self.berths, *self.evictors, *self.admissions, *self.operators]

    def process(self, name: str) -> Process:
        return next(process for process in self.processes if process.name == name)

    def seconds(self, stamp: str) -> float:
        """The world's time of an RFC 3339 time that the server has given."""
        return datetime.fromisoformat(stamp).timestamp() - EPOCH

    def start_server(self) -> None:
        if not self.server.up:
            self.server.start()

    def status_error(self, code: int) -> StatusError:
        return (
            expired("injected")
            if code == 410
            else StatusError(code, "", "injected")
            if code != 500
            else internal("injected")
        )

    def broken(self) -> list[str]:
        """What nobody handled, in any process, and what Berth calls a bug of its own."""
        loops = [self.loop, self.server.loop, *(loop for process in self.processes for loop in process.loops)]
        return [f"{loop.name}: {what}" for loop in loops for what in loop.broken] + self.logged

    # -- a run ---------------------------------------------------------------------------------------------------

    def run(self, *, to_the_end: bool = True) -> Outcome:
        """Run it to its end, or to its first violation."""
        with self._given():
            try:
                self._begin()
                if to_the_end or not self._violates_early():
                    self._storm()
            finally:
                for loop in (
                    self.loop,
                    self.server.loop,
                    *(loop for process in self.processes for loop in process.loops),
                ):
                    loop.wind_up()
        return Outcome(
            self.plan,
            self.judge.violations,
            self._digest.hexdigest(),
            self.happened,
            self.hits,
            self.survived,
            self.timeline.turns,
            self.trace,
        )

    def _begin(self) -> None:
        call = self.server.call
        for namespace in NAMESPACES:
            call("user", "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        high = {"metadata": {"name": "high"}, "value": 1000}
        call("user", "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
        for name, cpu, pods, zone in self.plan.nodes:
            self.nodes.join(name, Size(cpu, pods, zone))
        if self.devices is not None:
            self.devices.begin()
        Rival(self.server, self.loop, self._rng("rival"), self.plan.rival_every)
        periodically(self.loop, BACKUP_SECONDS, self.server.back_up)
        for happening in self.plan.happenings:
            self.loop.call_later(happening.at, self._happen, happening)
        for process in self.processes:
            self.loop.call_later(0.5 * self._rng(process.name).random(), process.start)
        periodically(self.loop, LOOK_SECONDS, self.judge.watches.look)
        if self.judge.gangs is not None:
            periodically(self.loop, GANGS_SECONDS, self.judge.gangs.look)
        if self.judge.rooms is not None:
            periodically(self.loop, GANGS_SECONDS, self.judge.rooms.look)

    def _violates_early(self) -> bool:
        """Run it until something is violated, but no longer than until the end is judged."""
        timeline = self.timeline
        last = self.plan.seconds - CALM_SECONDS + RECOVERY_SECONDS - PATIENCE_SECONDS
        while not self.judge.violations and timeline.now < last:
            timeline.run(min(timeline.now + STEP_SECONDS, last))
        return bool(self.judge.violations)

    def _storm(self) -> None:
        calm = self.plan.seconds - CALM_SECONDS
        self.timeline.run(calm + RECOVERY_SECONDS - PATIENCE_SECONDS)
        waiting = self.judge.waiting()
        for left in _LOOKS:
            self.timeline.run(calm + RECOVERY_SECONDS - left)
            waiting &= self.judge.waiting()
        for pod in sorted(waiting):
            self.judge.say("I4", f"{pod} fits, and has waited for {PATIENCE_SECONDS:g} s")
        self._come_to_rest()
        self.judge.finish()

    def _come_to_rest(self) -> None:
        """Pods come and go until the end, and nobody knows yet of what was stored a moment ago."""
        given_up = self.now + REST_MOST_SECONDS
        while self.now - self.judge.changed_at < REST_SECONDS and self.now < given_up:
            self.timeline.run(self.now + 0.05)

    def _happen(self, happening: happenings.Happening) -> None:
        self.happened[happening.kind] += 1
        if happening.kind == "lease-gone":
            self.lease_gone_at = self.now
            quiet = self.now - self.trouble_ends > PROMPT_SECONDS
            self.knew_the_lease = {berth.user for berth in self.berths if berth.alive} if quiet else set()
        self._trouble(happening)
        happenings.begin(self, happening)

    def _trouble(self, happening: happenings.Happening) -> None:
        """Whether this keeps news from getting through, and how long."""
        given = dict(happening.args)
        if happening.kind in happenings.OPEN_EYED:
            return
        if happening.kind in happenings.AWAY and self.server.up:
            self.absences.append((self.now, self.now + given["seconds"]))
        if given.get("what") == "create pods/binding" and given.get("code") == 429:
            return  # who is asked to wait knows that nothing was done
        lasts = sum(given.get(part, 0.0) for part in ("seconds", "after", "late", "orphan"))
        self.trouble_ends = max(self.trouble_ends, self.now + lasts)
        if happening.kind not in happenings.WATCHES_ONLY:
            self.delay_ends = self.trouble_ends
        harmless = happening.kind == "watch-lines" and given["how"] != "lost"
        self.lossy = self.lossy or not (harmless or happening.kind in ("compact", "kill", "terminate"))

    def _restored(self) -> None:
        self.judge.restored()
        self.judge.nodes.restored()
        self.judge.watches.restored()
        if self.judge.evictions is not None:
            self.judge.evictions.restored()
        if self.judge.gangs is not None:
            self.judge.gangs.restored()
        self.after(3.0, self._look_again)

    def _look_again(self) -> None:
        if not self.server.up:
            self.after(2.0, self._look_again)
            return
        self.nodes.look_again()
        self.controllers.look_again()
        if self.budgets is not None:
            self.budgets.look()

    def _sent(self, loop: Loop, data: bytes) -> None:
        if data[:4] != b"POST":
            return
        if self.judge.evictions is not None and loop.name.startswith("evictor"):
            self.judge.evictions.sent(data)
        if b"/binding HTTP" in data[:300]:
            for berth in self.berths:
                if berth.loop is loop:
                    self.judge.leading(berth, data)

    def _rng(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    @contextmanager
    def _given(self) -> Iterator[None]:
        """The server's uids and times follow from the seed; logs are heard; the collector keeps out of it."""
        before = GIVEN.wall, GIVEN.uid, GIVEN.suffix
        configured = structlog.get_config()
        uids = iter(range(1, 1 << 32))
        rng = self._rng("names")
        GIVEN.wall = self.wall
        GIVEN.uid = lambda: f"{next(uids):08x}-0000-4000-8000-000000000000"
        GIVEN.suffix = lambda: "".join(rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        structlog.configure(processors=[self._hear], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        try:
            with uncollected():
                yield
        finally:
            GIVEN.wall, GIVEN.uid, GIVEN.suffix = before
            structlog.configure(**configured)

    def _hear(self, logger: Any, name: str, event: MutableMapping[str, Any]) -> Any:
        if event.get("exc_info"):
            import traceback

            self.logged.append(f"log: {event['event']}: {traceback.format_exc(limit=-3)}")
        raise structlog.DropEvent


@contextmanager
def uncollected() -> Iterator[None]:
    """While this lasts, the garbage collector does not look for cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def run(plan: Plan, *, keep: bool = False, to_the_end: bool = True) -> Outcome:
    """Run a plan in a world of its own; without `to_the_end`, no longer than to its first violation.

    The collector is back once nobody refers to the world any more. It would look through all of it before that, and
    find nothing, and once again when the world is over.
    """
    with uncollected(), simulated():
        world = World(plan, keep=keep)
        outcome = world.run(to_the_end=to_the_end)
        world.server.forget()
        del world
        return outcome
