"""The engine on virtual time, beside an API server that accepts everything at once: `berth run` without a cluster.

`podberth.explain.simulate.plan` asks it what would happen; worlds with arrivals and departures are played through it.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.engine import Engine
from podberth.engine.instructions import (
    SCHEDULER_ERROR,
    Bind,
    Failed,
    Instruction,
    PostFilterWrite,
    PreBindWrite,
    Preempt,
    SetGroupCondition,
)
from podberth.engine.queue.fair_share import FREE
from podberth.engine.stimuli import Bound, Cycle, Follows, Gone, PreBindWritten, Put, Stimulus, Tick
from podberth.explain.objects.resource_claims import KIND, ClaimWrites, left_by
from podberth.framework.binding import Delete, Write, next_version
from podberth.framework.decision import Decision
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey, PodGroup
from podberth.model.shape import PodShape

_PATIENCE = 60.0
"""Seconds of virtual time without a binding after which the simulation ends."""
_OF_DEVICES = frozenset(("DynamicResources",))


class UndecidedError(Exception):
    """A pod was not decided: a plugin failed, or the attempt cost too much."""


class Simulation:
    """The engine beside a server that says yes, and what became of pods, by UID. `now` is virtual time in seconds;
    who plays a trace moves it."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        cluster: Cluster | None = None,
        *,
        seed: int = 0,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self._frameworks = frameworks
        self.engine = Engine(
            frameworks, seed=seed, initial_backoff=initial_backoff, max_backoff=max_backoff, cluster=cluster
        )
        self.now = 0.0
        self.bound: dict[str, tuple[Pod, str]] = {}
        """The pod and the node that it went to, in the order of the bindings."""
        self.failed: dict[str, tuple[Pod, str]] = {}
        """The pod and what was last said of it; it waits on."""
        self.undecided: dict[str, str] = {}
        """UID → message, for pods of `failed` whose last attempt ended with an error, and not for want of room."""
        self.preempted: dict[str, tuple[Pod, Pod, str]] = {}
        """The victim, the pod that it made room for, and the node."""
        self.conditions: dict[GroupKey, str] = {}
        """Why pod groups do not start, as it was last said of them."""
        self._newly: list[str] = []
        self._beyond: dict[tuple[str, PodShape], frozenset[str]] = {}
        """(profile, shape) → the plugins that have to do with a pod after its decision."""
        self._unheard: set[str] = set()
        """UIDs of pods that were placed while nobody waited: the engine knows them from the columns only."""
        self._claim_writes = ClaimWrites()

    @property
    def cluster(self) -> Cluster:
        """Return the columns."""
        return self.engine.cluster

    def where(self, uid: str) -> tuple[Pod, str] | None:
        """Return a pod that has a node, and the node; None: it has none.

        It was bound, or holds the node until its volumes, or those of others of its group, are made. Nobody makes them
        here.
        """
        placement = None if uid in self.bound else self.cluster.placement(uid)
        if placement is None or not placement.assumed:
            return self.bound.get(uid)
        return placement.pod, self.cluster.nodes.names[placement.row] or ""

    @property
    def placed(self) -> dict[str, tuple[Pod, str]]:
        """Return by UID what `where` says of each pod."""
        held = {one.pod.uid for one in self.cluster.placements() if one.assumed}
        return self.bound | {uid: where for uid in held if (where := self.where(uid)) is not None}

    def framework(self, pod: Pod) -> Framework:
        """Return the framework that schedules a pod."""
        return self._frameworks[pod.scheduler_name]

    def put(self, thing: Modelled) -> None:
        """Apply an object that was added or changed."""
        if isinstance(thing, PodGroup) and thing.key.api not in self.cluster.pod_groups.followed:
            self._tell(Follows(thing.key.api, True))
        self._tell(Put(thing))

    def gone(self, kind: str, namespace: str, name: str, uid: str, *, comes_again: bool = False) -> None:
        """Apply a deletion. `comes_again`: the next pod has the same name, and claims without devices."""
        for known in (self.bound, self.failed, self.undecided):
            known.pop(uid, None)
        if kind == "Pod" and uid in self._unheard:
            self._unheard.remove(uid)
            if not len(self.engine.queue):
                self.cluster.drop_pod(uid)
                return
        pod = self._pod(uid) if kind == "Pod" else None
        self._tell(Gone(kind, namespace, name, uid))
        if pod is not None:
            for stimulus in self._without(pod, comes_again=comes_again):
                self._tell(stimulus)

    def _pod(self, uid: str) -> Pod | None:
        """Return a pod that is placed, or waits."""
        placement = self.cluster.placement(uid)
        if placement is not None:
            return placement.pod
        queued = self.engine.queue.get(uid)
        return None if queued is None else queued.pod

    def _without(self, pod: Pod, *, comes_again: bool = False) -> list[Stimulus]:
        """Return the watch events of a pod's claims once it is gone."""
        found = left_by(pod, self.cluster.devices, comes_again=comes_again)
        return [Put(claim) if there else Gone(KIND, *claim.key, claim.uid) for claim, there in found]

    def newly_bound(self) -> list[str]:
        """Return the UIDs of pods bound since the last call."""
        found, self._newly = self._newly, []
        return found

    def put_all(self, things: Iterable[Modelled]) -> None:
        """Apply several objects, one after the other."""
        for thing in things:
            self.put(thing)

    def repeat(self, pod: Pod, equals: Iterable[Pod]) -> int:
        """Bind equals of a pod that was bound, until one fits nowhere or a plugin fails; return how many.

        As `put` and `work` would, without the queue: nobody comes between pods that arrive together. None where more
        has to be done for each than to decide it. Whoever waits for a pod to be placed is told of each.
        """
        framework = self.framework(pod)
        if not self._only_decides(framework, pod):
            return 0
        done = 0
        for equal in equals:
            if self._placed(framework, equal) is None:
                break
            done += 1
        return done

    def place(self, pod: Pod) -> Decision | None:
        """Bind a pod that would be tried next if it were put, as `put` and `work` would, without queue and binding
        cycle; return the decision.

        None: nothing was done, so it has to be put. It fits nowhere, it is held, a plugin failed, or more has to be
        done for it than to decide. Those who observe the engine hear of nothing.
        """
        framework = self.framework(pod)
        if not self._only_decides(framework, pod) or framework.profile.percentage or pod.shape.steps > FREE:
            return None
        if pod.scheduling_group is not None or self.cluster.reservations.by_profile:
            return None
        try:
            return None if framework.held_by(pod, self.cluster) else self._placed(framework, pod)
        except PluginError:
            return None  # the engine tells it

    def _placed(self, framework: Framework, pod: Pod) -> Decision | None:
        """Decide and bind a pod for which nothing else has to be done; None: a plugin failed, or it fits nowhere."""
        cluster, engine = self.cluster, self.engine
        try:
            decision = framework.decide_quickly(pod, cluster)
        except PluginError:
            return None  # the engine tells it of the next pod
        if not len(decision.feasible):
            return None
        node = cluster.nodes.names[engine.choice.row(decision)] or ""
        placed = replace(pod, node_name=node)
        if len(engine.queue):
            self._tell(Put(placed))
        else:
            cluster.put_pod(placed)
            self._unheard.add(pod.uid)
        self.bound[pod.uid] = (placed, node)
        return decision

    def _only_decides(self, framework: Framework, pod: Pod) -> bool:
        """Return whether nothing has to be reserved, waited for or written to bind pods of this shape."""
        key = (framework.profile.name, pod.shape)
        beyond = self._beyond.get(key)
        if beyond is None:
            beyond = self._beyond[key] = _beyond(framework, pod.shape)
        if beyond == _OF_DEVICES:  # asked about each resource that devices may serve; here nothing does
            return not (pod.shape.claims or self.cluster.devices.served)
        return not beyond

    def work(self) -> None:
        """Schedule until no pod in the queue is active."""
        while self.engine.has_work:
            self._tell(Cycle())

    def wait_until(self, time: float) -> None:
        """Let virtual time pass, and schedule: on the way, backoffs end."""
        while self._tick(time):
            pass
        self.now = time

    def settle(self) -> None:
        """Schedule, and let virtual time pass (backoffs end, victims make room) until no more pods are bound."""
        since, bound = self.now, len(self.bound)
        self.work()
        while self._tick(since + _PATIENCE):
            if len(self.bound) != bound:
                since, bound = self.now, len(self.bound)

    def _tick(self, until: float) -> bool:
        """Go on to the time at which something is due next, and schedule; return whether that is not after `until`."""
        due = self.engine.next_tick()
        if due is None or due > until:
            return False
        self.now = max(self.now, due)
        self._tell(Tick())
        self.work()
        return True

    def _tell(self, stimulus: Stimulus) -> None:
        waiting = [stimulus]
        while waiting:
            for instruction in self.engine.handle(waiting.pop(0), self.now):
                waiting += self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> list[Stimulus]:
        """Return the API server's answer to an instruction, and what its watches show after it."""
        match instruction:
            case Bind(pod=pod, node=node):
                for known in (self.failed, self.undecided):
                    known.pop(pod.uid, None)
                placed = replace(pod, node_name=node, nominated_node_name="")
                self.bound[pod.uid] = (placed, node)
                self._newly.append(pod.uid)
                return [Bound(pod.uid), Put(placed)]
            case PreBindWrite(pod=pod, writes=writes):
                # What was written of volumes never shows on a watch, so the pod keeps its node and its assumed volumes.
                answer = PreBindWritten(pod.uid, {write.key: next_version(write) for write in writes})
                return [*self._seen(writes), answer]
            case PostFilterWrite(writes=writes):
                return self._seen(writes)
            case Failed(pod=pod, reason=reason, message=message):
                self.failed[pod.uid] = (pod, message)
                if reason == SCHEDULER_ERROR:
                    self.undecided[pod.uid] = message
                else:
                    self.undecided.pop(pod.uid, None)
            case SetGroupCondition(group=group, status=status, message=message):
                if status == "True":
                    self.conditions.pop(group.key, None)
                else:
                    self.conditions[group.key] = message
            case Preempt(pod=pod, node=node, victims=victims):
                for victim in victims:
                    # For a group, the command names the whole cluster in place of a node.
                    was = self.where(victim.uid)
                    self.preempted[victim.uid] = (victim, pod, was[1] if was else victim.node_name or node)
                    self.bound.pop(victim.uid, None)
                    self._unheard.discard(victim.uid)
                gone: list[Stimulus] = [Gone("Pod", victim.namespace, victim.name, victim.uid) for victim in victims]
                return gone + [stimulus for victim in victims for stimulus in self._without(victim)]
        return []

    def _seen(self, writes: Iterable[Write]) -> list[Stimulus]:
        """Return the watch events for claims that were written."""
        found: list[Stimulus] = []
        devices = self.cluster.devices
        for write in writes:
            claim = self._claim_writes.after(write, devices)
            if claim is not None:
                found.append(Put(claim))
            elif isinstance(write, Delete):
                known = devices.claims.get(write.key[1:])
                found += [Gone(*write.key, write.uid)] if known is not None else []
        return found


def _beyond(framework: Framework, shape: PodShape) -> frozenset[str]:
    plugins = framework.profile.plugins
    always = [*plugins("permit"), *plugins("post_bind"), *plugins("bind")[1:]]
    asked = [each for point in ("reserve", "pre_bind") for each in plugins(point) if point not in each.skips(shape)]
    return frozenset(plugin.name for plugin in (*always, *asked))
