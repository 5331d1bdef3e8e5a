"""The evictor as a state machine: `handle(stimulus, now)` returns instructions. No clock, no log, no waiting.

The way of a broken promise: GRACE (first observation: a change in the watch), READING (second: the API is read), then
each gate in turn: breaker, owner, tokens, target. A gate that is shut HOLDs it, and the API is read again before the
next try. EVICTING until the API has answered; LEAVING until the pod is gone. `census` says what is seen.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from scheduler.engine.eviction.answers import Meaning, Then, meaning
from scheduler.engine.eviction.breaker import Breaker
from scheduler.engine.eviction.census import Census, Seen
from scheduler.engine.eviction.followed import PATIENT, Broken, Stage
from scheduler.engine.eviction.messages import (
    Answered,
    Evict,
    Instruction,
    Look,
    NotRead,
    Read,
    Restored,
    Stimulus,
    TellAll,
    TellNode,
    TellPod,
    WasRead,
)
from scheduler.engine.eviction.owners import Owners, owner_key
from scheduler.engine.eviction.settings import Settings
from scheduler.engine.eviction.target import find_target
from scheduler.engine.eviction.tokens import Tokens
from scheduler.engine.eviction.wording import breach
from scheduler.engine.stimuli import Gone, Put
from scheduler.framework.runtime import Framework

PROOFS = 10
"""Pods of a node for which another node is looked for in one turn; the others' turns come a second apart."""
_NEXT_PROOF_SECONDS = 1.0
MOST_DUE = 2000
"""Promises that are due and are seen to in one look."""
_LEAVING_SECONDS = 600.0
"""After the API said yes to an eviction, a pod that is still there is looked at anew."""


class Evictor:
    """One leader's term. `rng` gives numbers from 0 to 1, for jitter."""

    def __init__(
        self, frameworks: Mapping[str, Framework], settings: Settings, rng: Callable[[], float], now: float
    ) -> None:
        self.census = Census(frameworks, bare_pods=settings.bare_pods)
        self.breaker = Breaker(settings.changed_share, settings.changed_window)
        self.evictions: Counter[tuple[str, str]] = Counter()
        """(reason, result) → how many: berth_evictions_total."""
        self._frameworks = frameworks
        self._settings = settings
        self._rng = rng
        self._tokens = Tokens(settings, now)
        self._owners = Owners(settings.owner_backoff, settings.owner_backoff_most)
        self._broken: dict[str, Broken] = {}
        self._on_row: dict[int, set[str]] = {}
        self._asked: dict[str, tuple[Broken, float]] = {}
        """Evictions without an answer, and when they were asked for: the watch may be quicker than the answer."""
        self._due: list[tuple[float, int, str]] = []
        self._ticket = 0
        self._stale = True

    def waiting(self) -> dict[str, int]:
        """Broken promises by stage: berth_evictions_waiting."""
        found = dict.fromkeys(map(str, Stage), 0)
        for broken in self._broken.values():
            found[broken.stage] += 1
        return found

    def next_look(self) -> float | None:
        """Engine time at which a Look has something to do; None: only news can give it something."""
        if self.census.has_news:
            return 0.0
        return None if self.breaker.open or not self._due else self._due[0][0]

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Apply one stimulus at engine time `now` (seconds, monotonic) and return what to do about it."""
        match stimulus:
            case Put(thing):
                self.census.put(thing, now)
            case Gone():
                self.census.gone(stimulus)
            case Look(fresh):
                return self._look(now) if fresh else self._look_away()
            case WasRead():
                return self._was_read(stimulus, now)
            case NotRead(name):
                for broken in self._reading(name):
                    self._hold(broken, now + self._backoff(broken))
            case Answered():
                return self._answered(stimulus, now)
            case Restored(owner, ago, wall):
                self._owners.restore(owner, ago, wall, now)
        return []

    # -- the first observation -----------------------------------------------------------------------------------

    def _look_away(self) -> list[Instruction]:
        """On a stale cache nothing is observed and nothing decided."""
        self._stale = True
        return []

    def _look(self, now: float) -> list[Instruction]:
        if self._stale:
            # What happened meanwhile nobody knows: every grace starts anew.
            self._stale = False
            self._start_all(now)
        seen = self.census.look()
        self._observe(seen, now)
        done: list[Instruction] = [
            TellPod(pod, "Warning", "InvalidPromise", problem) for pod, problem in seen.unreadable
        ]
        self.census.claims.expire(now)
        self._owners.forget(now)
        done += self._look_at_breaker(now)
        return done if self.breaker.open else done + [Read(node) for node in self._due_nodes(now)]

    def _observe(self, seen: Seen, now: float) -> None:
        for uid in seen.lost:
            self._forget(uid, mended=self.breaker.open)
        for uid, reason in seen.broken.items():
            broken = self._broken.get(uid)
            if broken is None:
                followed = self.census.followed[uid]
                broken = self._broken[uid] = Broken(followed, reason, seen.before.get(followed.row))
                self._on_row.setdefault(followed.row, set()).add(uid)
                self.census.mark(uid, broken=True)
            elif uid not in seen.by_node or broken.stage not in PATIENT:
                continue
            self._start(broken, now)
            if uid in seen.by_node:
                self.breaker.broke(self.census.node(broken.followed.row), now)
        for uid in seen.mended:
            self._forget(uid, mended=True)

    def _forget(self, uid: str, *, mended: bool) -> None:
        """A promise is not broken any more. `mended`: then its node counts no more, once it keeps all of them."""
        broken = self._broken.pop(uid, None)
        if broken is None:
            return
        self.census.mark(uid, broken=False)
        row = broken.followed.row
        here = self._on_row[row]
        here.discard(uid)
        if not here:
            del self._on_row[row]
            if mended:
                self.breaker.mended(self.census.node(row))

    def _look_at_breaker(self, now: float) -> list[Instruction]:
        nodes = self.census.cluster.nodes.count
        if not self.breaker.look(nodes, now):
            return []
        what = f"{self.breaker.count} of {nodes} nodes break promises at once, {self.breaker.limit(nodes)} may"
        if self.breaker.open:
            note = f"{what}: nothing is evicted until their labels are put back, or the limit is raised"
            return [TellAll("Warning", "EvictionBreakerOpen", note)]
        self._start_all(now)
        return [TellAll("Normal", "EvictionBreakerClosed", what)]

    def _due_nodes(self, now: float) -> Iterable[str]:
        """Nodes with promises that are due, and for which no gate is shut that only time opens."""
        nodes = []
        for _ in range(MOST_DUE):
            if not self._due or self._due[0][0] > now:
                break
            _, ticket, uid = heapq.heappop(self._due)
            broken = self._broken.get(uid)
            if broken is None or broken.ticket != ticket:
                continue
            if broken.stage is Stage.LEAVING:
                self._start(broken, now)
            elif wait := self._shut(broken, now):
                self._hold(broken, now + wait)
            else:
                broken.stage = Stage.READING
                nodes.append(self.census.node(broken.followed.row))
        return dict.fromkeys(nodes)

    def _start_all(self, now: float) -> None:
        """Every grace starts anew; who has to wait longer for another reason still does."""
        for broken in self._broken.values():
            if broken.stage in PATIENT:
                held = broken.due if broken.stage is Stage.HELD else now
                self._start(broken, now)
                self._wake_at(broken, max(held, broken.due))

    def _start(self, broken: Broken, now: float) -> None:
        broken.since = now
        broken.stage = Stage.GRACE
        self._wake_at(broken, now + self._settings.grace)

    def _hold(self, broken: Broken, until: float) -> None:
        broken.stage = Stage.HELD
        self._wake_at(broken, until)

    def _wake_at(self, broken: Broken, at: float) -> None:
        self._ticket += 1
        broken.due, broken.ticket = at, self._ticket
        heapq.heappush(self._due, (at, self._ticket, broken.followed.pod.uid))

    # -- the second observation, and the gates -------------------------------------------------------------------

    def _reading(self, node: str) -> list[Broken]:
        """The promises for which a node was read: each namespace's first, then each one's second, and so on."""
        row = self.census.cluster.nodes.row_of(node)
        here = self._on_row.get(row, ()) if row is not None else ()
        reading = (self._broken[uid] for uid in here if self._broken[uid].stage is Stage.READING)
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
        for number, broken in enumerate(self._reading(read.name)):
            if number >= PROOFS:
                self._hold(broken, now + _NEXT_PROOF_SECONDS)
                continue
            if self._stale or self.breaker.open or not self._is_still_broken(broken, read):
                self._start(broken, now)
                continue
            if not broken.told:
                broken.told.add("PromiseBroken")
                news.append(broken)
                note = f"node {read.name} is no longer what the pod asks for: {broken.breach}"
                done.append(TellPod(broken.followed.pod, "Warning", "PromiseBroken", note))
            done += self._try(broken, read.name, now)
        if news and read.node is not None:
            first, more = news[0], f" and {len(news) - 1} more" if len(news) > 1 else ""
            note = f"no longer what {first.followed.pod.key}{more} asked for: {first.breach}"
            done.append(TellNode(read.name, read.node.uid, "Warning", "PromiseBroken", note))
        return done

    def _is_still_broken(self, broken: Broken, read: WasRead) -> bool:
        """Whether the API says the same as the watch; if not, the watch will soon tell what the API says."""
        live = read.pods.get(broken.followed.pod.uid)
        if read.node is None or live is None or live.terminating or live.finished or live.node_name != read.name:
            return False
        wanted = self.census.wanted(live)
        if wanted != broken.followed.wanted or wanted.holds(read.name, read.node.labels):
            return False
        broken.breach = breach(wanted, read.name, read.node.labels, broken.before)
        return True

    def _shut(self, broken: Broken, now: float) -> float:
        """Seconds until the gates are open that only time opens: the owner's and the tokens'."""
        followed = broken.followed
        owner = self._owners.wait(followed.pod, followed.placed_at, now)
        return max(owner, self._tokens.wait(self.census.node(followed.row), followed.pod.namespace, now))

    def _try(self, broken: Broken, node: str, now: float) -> list[Instruction]:
        """Both observations are made: through the other gates, or wait before them."""
        followed = broken.followed
        pod = followed.pod
        if wait := self._shut(broken, now):
            self._hold(broken, now + wait)
            return []
        target = find_target(pod, followed.wanted, self._frameworks[pod.scheduler_name], self.census.cluster)
        if target.row is None:
            self._hold(broken, now + self._backoff(broken))
            note = f"stays on node {node}, no other node can take it now ({broken.breach}): {target.text}"
            said = self._tell_once(broken, "Warning", "NoOtherNode", note)
            self.evictions[broken.reason, "no_target"] += len(said)
            return said
        self._tokens.take(node, pod.namespace, now)
        self.census.claims.add(pod, target.row, now)
        broken.stage = Stage.EVICTING
        self._asked[pod.uid] = (broken, now)
        return [Evict(pod, node, target.text, broken.reason, broken.breach, owner_key(pod))]

    # -- the answer ----------------------------------------------------------------------------------------------

    def _answered(self, answer: Answered, now: float) -> list[Instruction]:
        meant = meaning(answer, observe=self._settings.observe)
        broken, asked_at = self._asked.pop(answer.uid)
        self.evictions[broken.reason, meant.result] += 1
        if meant.then is Then.LEAVE:
            self._owners.evicted(broken.followed.pod, broken.followed.placed_at, asked_at)
        else:
            self.census.claims.drop(answer.uid)
        said = self._said(broken, answer, meant)
        if self._broken.get(answer.uid) is not broken:
            return said if meant.then is Then.LEAVE else []  # mended, or gone, while the API was asked
        match meant.then:
            case Then.LEAVE:
                broken.stage = Stage.LEAVING
                self._wake_at(broken, now + _LEAVING_SECONDS)
            case Then.RETRY:
                self._hold(broken, now + self._backoff(broken, answer.retry_after))
            case Then.REST:
                self._hold(broken, now + self._settings.rest)
        return said

    def _said(self, broken: Broken, answer: Answered, meant: Meaning) -> list[Instruction]:
        if not meant.event:
            return []
        kind = "Normal" if 200 <= answer.status < 300 else "Warning"
        note = f"{answer.message} ({broken.breach})" if answer.message else broken.breach
        return self._tell_once(broken, kind, meant.event, note)

    def _backoff(self, broken: Broken, at_least: float = 0.0) -> float:
        """Seconds until the next try: doubling, jittered, and never less than the server asked for."""
        step = min(self._settings.retry * 2.0 ** min(broken.tries, 32), self._settings.retry_most)
        broken.tries += 1
        return max(step * (0.5 + 0.5 * self._rng()), at_least * (1.0 + 0.25 * self._rng()))

    def _tell_once(self, broken: Broken, kind: str, reason: str, note: str) -> list[Instruction]:
        if reason in broken.told:
            return []
        broken.told.add(reason)
        return [TellPod(broken.followed.pod, kind, reason, note)]
