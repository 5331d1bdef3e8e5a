"""The evictor as a state machine: `handle(stimulus, now)` returns instructions. No clock, no log, no waiting.

Stages of a broken promise: GRACE (first observation: a change in the watch), READING (second: the API is read), then
each gate in turn: breaker, owner, tokens, target. At a closed gate the pod is HELD, an Event says which gate and until
when, and the API is read again before the next try. EVICTING until the API has answered; LEAVING until the pod is gone.
`observed` is what the watch has shown, `gates` decides which pods may pass, `notices` which Events are recorded.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from podberth.engine.stimuli import Gone, Put
from podberth.evictor.conflicted import Conflicted
from podberth.evictor.followed import PATIENT, Broken, ClosedGate, Gate, Stage, breach
from podberth.evictor.gates import Appointments, Gates, Settings
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
    Restored,
    Stimulus,
    Turn,
    WasRead,
)
from podberth.evictor.notices import Notices, broken_events, event_once, gate_events, has_news
from podberth.evictor.observed import CONFLICT, QUESTIONS, Observed, Seen, size
from podberth.evictor.target import find_target
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod

_TWO_BUDGETS = "more than one PodDisruptionBudget"


class Then(Enum):
    """The next step after the answer to an eviction."""

    LEAVE = auto()
    """Wait until the pod is gone."""
    RETRY = auto()
    """Try again, with backoff."""
    REST = auto()
    """Trying again soon does not help: somebody has to do something about it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of an answer. `result`: label of the metric; `event`: reason of its Event, empty for none.

    `evicted` is true if the pod was evicted; None: it may have been, or may yet be.
    """

    result: str
    then: Then
    event: str = ""
    evicted: bool | None = False


def meaning(answer: Answered, *, observe: bool) -> Meaning:
    """Return the meaning of one answer. A 409 (a namesake of a pod that is gone, or a budget just written by another
    client) passes by itself.
    """
    match answer.status:
        case status if 200 <= status < 300:
            if observe:
                return Meaning("observed", Then.REST, "WouldEvict")
            return Meaning("evicted", Then.LEAVE, "Evicted", evicted=True)
        case 429 if answer.budget:
            return Meaning("budget", Then.RETRY, "DisruptionBudget")
        case 429:
            return Meaning("throttled", Then.RETRY)
        case 404:
            return Meaning("gone", Then.RETRY)
        case 409:
            return Meaning("conflict", Then.RETRY)
        case 0:
            return Meaning("unanswered", Then.RETRY, evicted=None)
        case 500 if _TWO_BUDGETS in answer.message:
            return Meaning("two_budgets", Then.REST, "TwoDisruptionBudgets")
        case 403:
            return Meaning("forbidden", Then.REST, "EvictionRefused")
        case status if status >= 500:
            return Meaning("error", Then.RETRY, "EvictionFailed", evicted=None)
    return Meaning("refused", Then.REST, "EvictionRefused")


PROOFS = 10
"""The number of a node's pods for which another node is searched in one turn; the others follow, a second apart."""
_NEXT_TURN_SECONDS = 1.0
_READ_RATE, _READ_BURST = 5.0, 20
"""Nodes read per second, and at once, only to report pods that a gate holds back anyway."""
MOST_DUE = 2000
"""The largest number of due promises that one look handles."""
_LEAVING_SECONDS = 60.0
"""After the API said yes to an eviction, a pod that nothing has shown to go for so long is looked at anew.

By then a comparison has found what the watch lost, so perhaps a restore from a backup has undone the eviction. Should
the pod be on its way all the same, the second observation says so.
"""
_MEANT_BEFORE = "the pod was asked to go and is gone, though the API's answer to that is not known: counted as evicted"


class Evictor:
    """The evictor during one term as leader. `rng` returns numbers from 0 to 1, for jitter."""

    def __init__(
        self, frameworks: Mapping[str, Framework], settings: Settings, rng: Callable[[], float], now: float
    ) -> None:
        self.observed = Observed(frameworks, bare_pods=settings.bare_pods)
        self._conflicted = Conflicted(self.observed)
        self._gates = Gates(settings, now)
        self.breaker, self._owners = self._gates.breaker, self._gates.owners
        self.evictions: Counter[tuple[str, str]] = Counter()
        """(reason, result) → how many: berth_evictions_total."""
        self._frameworks = frameworks
        self._settings = settings
        self._rng = rng
        self.broken: dict[str, Broken] = {}
        """UID → the promise of a pod, while it is broken."""
        self._on_node: dict[str, set[str]] = {}
        """Name of a node → UIDs of `broken` there. Its row may be another node's by the time of a look."""
        self._asked: dict[str, tuple[Broken, Turn]] = {}
        """UID → evictions without an answer: the watch may be quicker than the answer."""
        self._leaving: dict[str, float] = {}
        """UID of a pod whose eviction the API accepted and that the watch does not show as going → engine time until
        which it is not asked for again.
        """
        self._reads = Appointments(_READ_RATE, _READ_BURST)
        self._notices = Notices(now)
        self._due: list[tuple[float, int, str]] = []
        self._ticket = 0
        self._stale = True

    def waiting(self) -> dict[str, int]:
        """Return broken promises by stage: berth_evictions_waiting."""
        found = dict.fromkeys(map(str, Stage), 0)
        for broken in self.broken.values():
            found[broken.stage] += 1
        return found

    def held(self) -> dict[str, int]:
        """Return broken promises by the gate that holds their pod back: berth_evictions_held."""
        found = dict.fromkeys(map(str, Gate), 0)
        for broken in self.broken.values():
            if broken.closed_gate is not None:
                found[broken.closed_gate.gate] += 1
        return found

    def next_look(self, now: float) -> float | None:
        """Return the engine time at which a Look has something to do; None: only news can give it something."""
        if self.observed.has_news:
            return now
        nodes = self.observed.cluster.nodes.count
        own = (self._due[0][0] if self._due else None, self._notices.next(now), self.breaker.next_word(nodes))
        times = (*own, self.observed.next_conflict())
        return min((at for at in times if at is not None), default=None)

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Apply one stimulus at engine time `now` (seconds, monotonic) and return what to do about it."""
        match stimulus:
            case Put(thing):
                self.observed.put(thing, now)
                if isinstance(thing, Pod):
                    return self._seen_to_go(thing, now)
            case Gone():
                self.observed.gone(stimulus)
                return self._seen_to_go(stimulus, now)
            case Look(fresh):
                return self._look(now) if fresh else self._look_away()
            case WasRead():
                return self._was_read(stimulus, now)
            case NotRead(name):
                for broken in self._reading(name):
                    self._hold(broken, now + self._backoff(broken))
            case Answered():
                return self._answered(stimulus, now)
            case Restored(pod, turn):
                if self._owners.restore(stimulus, now, there=self.observed.stays(pod.uid)):
                    return [RecordPodEvent(pod, "Normal", "Evicted", _MEANT_BEFORE, turn=turn)]
        return []

    # -- the first observation -----------------------------------------------------------------------------------

    def _look_away(self) -> list[Instruction]:
        """Stop observing and deciding while the cache is stale."""
        self._stale = True
        return []

    def _look(self, now: float) -> list[Instruction]:
        if self._stale:
            # Changes in between may have been missed: every grace period starts again.
            self._stale = False
            self._start_all(now)
        seen = self.observed.look(now)
        self._observe(seen, now)
        done: list[Instruction] = [
            RecordPodEvent(pod, "Warning", "InvalidPromise", problem) for pod, problem in seen.unreadable
        ]
        self.observed.claims.expire(now)
        self._owners.forget(now)
        self._leaving = {uid: until for uid, until in self._leaving.items() if until > now}
        done += self._look_at_breaker(now)
        done += [Read(node) for node in self._due_nodes(now)]
        return done + self._held_events(now)

    def _observe(self, seen: Seen, now: float) -> None:
        for uid in seen.lost:
            self._forget(uid, mended=self.breaker.open)
        for uid, reason in seen.broken.items():
            broken, anew = self.broken.get(uid), uid in seen.by_node
            if broken is None:
                followed, anew = self.observed.followed[uid], True
                broken = self.broken[uid] = Broken(followed, reason, seen.before.get(followed.node))
                self._on_node.setdefault(followed.node, set()).add(uid)
            elif broken.reason == CONFLICT != reason:
                broken.reason, anew = reason, True
                self._conflicted.forget(broken)
            broken.conflicts = broken.conflicts or uid in seen.conflicts
            if broken.reason == CONFLICT:
                self._conflicted.look(broken)
            if not anew or broken.stage not in PATIENT:
                continue
            if (until := self._leaving.get(uid, now)) > now:
                # The API said yes, and it goes, whatever it asks for or its node offers since then.
                broken.stage = Stage.LEAVING
                self._wake_at(broken, until)
            else:
                self._start(broken, now)
            if uid in seen.by_node:
                self.breaker.broke(broken.followed.node, now)
        for uid in seen.mended:
            known = self.broken.get(uid)
            if known is None or known.reason == CONFLICT:
                continue
            if known.conflicts and self._conflicted.look(known) is not None:
                known.reason = CONFLICT  # it is told of once
                if known.stage in PATIENT:
                    self._start(known, now)
                self._mended(known.followed.node)
            else:
                self._forget(uid, mended=True)

    def _forget(self, uid: str, *, mended: bool) -> None:
        """Forget a promise that is not broken any more. `mended`: its node counts no more once all promises there
        hold.
        """
        broken = self.broken.pop(uid, None)
        if broken is None:
            return
        self._conflicted.forget(broken)
        node = broken.followed.node
        here = self._on_node[node]
        here.discard(uid)
        if not here:
            del self._on_node[node]
        if mended:
            self._mended(node)

    def _mended(self, node: str) -> None:
        """Have a node count no more if all that pods ask of it holds. What others have broken is not the node's."""
        if all(self.broken[uid].reason == CONFLICT for uid in self._on_node.get(node, ())):
            self.breaker.mended(node)

    def _look_at_breaker(self, now: float) -> list[Instruction]:
        was = self.breaker.open
        note = self.breaker.look(self.observed.cluster.nodes.count, now)
        if was and not self.breaker.open:
            self._start_all(now)
        if not note:
            return []
        if self.breaker.open:
            return [RecordEvictorEvent("Warning", "EvictionBreakerOpen", note)]
        return [RecordEvictorEvent("Normal", "EvictionBreakerClosed", note)]

    def _due_nodes(self, now: float) -> Iterable[str]:
        """Return the nodes to read: a promise there is due, and either no gate is closed or that was not reported
        yet.
        """
        nodes: dict[str, None] = {}
        for _ in range(MOST_DUE):
            if not self._due or self._due[0][0] > now:
                break
            _, ticket, uid = heapq.heappop(self._due)
            broken = self.broken.get(uid)
            if broken is None or broken.ticket != ticket:
                continue
            if broken.stage is Stage.LEAVING:
                self._start(broken, now)
                continue
            node = broken.followed.node
            if shut := self._closed_gate(broken, now):
                if broken.confirmed:
                    self._hold_before(shut, broken, now)
                    continue
                if node not in nodes and (wait := self._reads.wait(node, now)):
                    self._hold(broken, now + wait)
                    continue
            broken.stage = Stage.READING
            nodes[node] = None
            if broken.conflict is not None and (others := self._conflicted.others_on(broken)) is not None:
                nodes[others] = None
        return nodes

    def _start_all(self, now: float) -> None:
        """Start every grace again; a promise that has to wait longer for another reason still does."""
        for broken in self.broken.values():
            if broken.stage in PATIENT:
                by_breaker = broken.closed_gate is not None and broken.closed_gate.gate is Gate.BREAKER
                held = broken.due if broken.stage is Stage.HELD and not by_breaker else now
                self._start(broken, now)
                self._wake_at(broken, max(held, broken.due))

    def _start(self, broken: Broken, now: float) -> None:
        broken.since = now
        broken.confirmed, broken.others_read, broken.closed_gate = False, False, None
        broken.stage = Stage.GRACE
        self._wake_at(broken, now + self._settings.grace)

    def _hold(self, broken: Broken, until: float, shut: ClosedGate | None = None) -> None:
        broken.stage, broken.closed_gate = Stage.HELD, shut
        self._wake_at(broken, until)

    def _hold_before(self, shut: ClosedGate, broken: Broken, now: float) -> None:
        """Hold a pod before a closed gate, and queue the notice about it."""
        self._hold(broken, now + shut.seconds, shut)
        if has_news(broken):
            self._notices.put(broken.followed.pod.namespace, broken.followed.pod.uid)

    def _wake_at(self, broken: Broken, at: float) -> None:
        self._ticket += 1
        broken.due, broken.ticket = at, self._ticket
        heapq.heappush(self._due, (at, self._ticket, broken.followed.pod.uid))

    # -- the second observation, and the gates -------------------------------------------------------------------

    def _reading(self, node: str) -> list[Broken]:
        """Return the promises for which a node was read: the first of each namespace, then the second of each, and so
        on.
        """
        here = (self.broken[uid] for uid in self._on_node.get(node, ()))
        reading = (broken for broken in here if broken.stage is Stage.READING)
        place: Counter[str] = Counter()
        ranked = []
        for broken in sorted(reading, key=lambda b: b.ticket):
            namespace = broken.followed.pod.namespace
            ranked.append((place[namespace], broken.ticket, broken))
            place[namespace] += 1
        return [broken for _, _, broken in sorted(ranked, key=lambda one: one[:2])]

    def _was_read(self, read: WasRead, now: float) -> list[Instruction]:
        done: list[Instruction] = []
        news: list[Broken] = []
        proofs, questions = 0, 0
        self._conflicted.was_read(frozenset(uid for uid, pod in read.pods.items() if not pod.terminating))
        for broken in self._reading(read.name):
            if questions >= QUESTIONS:
                self._hold(broken, now + _NEXT_TURN_SECONDS)
                continue
            questions += size(broken.followed.wanted)
            if self._stale or not self._is_still_broken(broken, read):
                self._start(broken, now)
                if broken.reason == CONFLICT and broken.conflict is None:
                    self._forget(broken.followed.pod.uid, mended=True)
                continue
            if broken.conflict is not None and not broken.others_read:
                self._hold(broken, now + _NEXT_TURN_SECONDS)
                continue
            if not broken.confirmed and "PromiseBroken" not in broken.told and broken.conflict is None:
                news.append(broken)
            broken.confirmed = True
            if shut := self._closed_gate(broken, now):
                self._hold_before(shut, broken, now)
            elif proofs == PROOFS:
                self._hold(broken, now + _NEXT_TURN_SECONDS)
            elif self._conflicted.waits(broken):
                self._hold(broken, now + self._settings.grace)
            else:
                proofs += 1
                done += broken_events(broken)
                done += self._try(broken, now)
        if news and read.node is not None:
            first, more = news[0], f" and {len(news) - 1} more" if len(news) > 1 else ""
            note = f"no longer what {first.followed.pod.key}{more} asked for: {first.breach}"
            done.append(RecordNodeEvent(read.name, read.node.uid, "Warning", "PromiseBroken", note))
        return done + self._held_events(now)

    def _is_still_broken(self, broken: Broken, read: WasRead) -> bool:
        """Return whether the API still shows the promise as broken; if not, the watch will show the same soon."""
        live = read.pods.get(broken.followed.pod.uid)
        if read.node is None or live is None or live.terminating or live.finished or live.node_name != read.name:
            return False
        wanted = self.observed.wanted(live)
        conflict = self._conflicted.look(broken) if broken.reason == CONFLICT else None
        if wanted != broken.followed.wanted:
            return False
        if not wanted.holds(read.name, read.node.labels):
            broken.breach = breach(wanted, read.name, read.node.labels, broken.before)
            return True
        broken.breach = "" if conflict is None else conflict.text
        return conflict is not None

    def _closed_gate(self, broken: Broken, now: float) -> ClosedGate | None:
        return self._gates.closed(broken.followed, now)

    def _try(self, broken: Broken, now: float) -> list[Instruction]:
        """Search another node for a pod that no gate holds back, and ask for its eviction if there is one."""
        followed = broken.followed
        pod, node = followed.pod, followed.node
        target = find_target(pod, followed.wanted, self._frameworks[pod.scheduler_name], self.observed.cluster)
        if target.row is None:
            self._hold(broken, now + self._backoff(broken))
            note = f"stays on node {node}, no other node can take it now ({broken.breach}): {target.text}"
            said = event_once(broken, "Warning", "NoOtherNode", note)
            self.evictions[broken.reason, "no_target"] += len(said)
            return said
        self._gates.tokens.take(node, pod.namespace, now)
        self.observed.claims.add(pod, target.row, now)
        broken.stage, broken.closed_gate = Stage.EVICTING, None
        turn = self._owners.turn(pod)
        self._owners.asked(pod, now)
        self._asked[pod.uid] = (broken, turn)
        return [Evict(pod, node, target.text, broken.reason, broken.breach, turn)]

    # -- the answer ----------------------------------------------------------------------------------------------

    def _answered(self, answer: Answered, now: float) -> list[Instruction]:
        observe = self._settings.observe
        meant = meaning(answer, observe=observe)
        broken, turn = self._asked.pop(answer.uid)
        pod = broken.followed.pod
        stays = self.observed.stays(answer.uid)
        self.evictions[broken.reason, meant.result] += 1
        turn = replace(turn, asked_at="" if observe else answer.asked_at)
        evicted = self._owners.answered(pod, turn, now, evicted=not observe and meant.evicted, stays=stays)
        if not evicted:
            self.observed.claims.drop(answer.uid)
        said = self._said(broken, answer, meant, turn if evicted else None)
        if meant.then is Then.LEAVE and stays:
            self._leaving[answer.uid] = now + _LEAVING_SECONDS
        if self.broken.get(answer.uid) is not broken:
            return said if evicted else []  # mended, or gone, while the API was asked
        match meant.then:
            case Then.LEAVE:
                broken.stage = Stage.LEAVING
                self._wake_at(broken, now + _LEAVING_SECONDS)
            case Then.RETRY:
                self._hold(broken, now + self._backoff(broken, answer.retry_after))
            case Then.REST:
                self._hold(broken, now + self._settings.rest)
        return said

    def _said(self, broken: Broken, answer: Answered, meant: Meaning, turn: Turn | None) -> list[Instruction]:
        note = f"{answer.message} ({broken.breach})" if answer.message else broken.breach
        if turn is not None:
            # The record for the next leader: each eviction has one, also of a pod that did not leave the first time.
            note = note if meant.evicted else _MEANT_BEFORE
            return [RecordPodEvent(broken.followed.pod, "Normal", "Evicted", note, turn=turn)]
        if not meant.event:
            return []
        kind = "Normal" if 200 <= answer.status < 300 else "Warning"
        return event_once(broken, kind, meant.event, note)

    def _backoff(self, broken: Broken, at_least: float = 0.0) -> float:
        """Return seconds until the next try: doubling, jittered, and never less than the server asked for."""
        step = min(self._settings.retry * 2.0 ** min(broken.tries, 32), self._settings.retry_most)
        broken.tries += 1
        return max(step * (0.5 + 0.5 * self._rng()), at_least * (1.0 + 0.25 * self._rng()))

    def _held_events(self, now: float) -> list[Instruction]:
        """Tell of pods that a gate holds back, as many as may be told of now."""
        done: list[Instruction] = []
        while (uid := self._notices.take(now)) is not None:
            if (broken := self.broken.get(uid)) is not None and has_news(broken):
                done += gate_events(broken)
        return done

    def _seen_to_go(self, pod: Pod | Gone, now: float) -> list[Instruction]:
        """Count a pod that goes as evicted if the outcome of its eviction was unknown; return the Event about it."""
        if self.observed.stays(pod.uid):
            return []
        # Should it be there again, then as a backup has it, and nobody has asked that it go.
        self._leaving.pop(pod.uid, None)
        if (turn := self._owners.lost(pod.uid, now)) is None:
            return []
        gone = pod if isinstance(pod, Gone) else Gone("Pod", pod.namespace, pod.name, pod.uid)
        return [RecordPodEvent(gone, "Normal", "Evicted", _MEANT_BEFORE, turn=turn)]
