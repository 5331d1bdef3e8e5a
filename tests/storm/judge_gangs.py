"""What must hold of gangs, judged from the server's store.

G1: we begin no gang whose rest has no room: what stays bound of it below its minimum stays so because of others.
In the end, what is missing is bound where it fits (I4).
G2: who waits for the others of a gang gives back what it holds within the stated time. G3: the pods of a gang are where
its topology wants them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from podberth.apiserver.storage import Change
from podberth.engine.binding_table import State
from podberth.model.pod_group import COSCHEDULING, GroupKey
from tests.storm.actors import RIVAL, cpu_of, ended, node_of, room_of
from tests.storm.asked import Entry
from tests.storm.devices import OF_A_NODE, claimed, given
from tests.storm.gangs import Gangs, gang_of, needed

if TYPE_CHECKING:
    from tests.storm.judge import Judge
    from tests.storm.world import World

JsonObject = dict[str, Any]
LOOK_SECONDS = 5.0
BEGUN_SECONDS = 20.0
"""A gang that begins is complete after so long, if nothing comes between."""
EARLIER_SECONDS = 100.0
"""What has happened so long before a gang began may still come between: it may not be known yet."""
HELD_SECONDS = 300.0
"""Pods wait for the others of their gang no longer, if it does not say otherwise."""
LATE_SECONDS = 15.0
_HOLDS = (State.GROUP_DECIDING, State.GROUP_GATHERING)


@dataclass
class _Begun:
    """A gang of which some pods are bound, and never were enough."""

    at: float
    excused: bool = False
    """Something came between."""


class GangJudge:
    """Watches the gangs."""

    def __init__(self, world: World, judge: Judge, gangs: Gangs) -> None:
        self._world = world
        self._judge = judge
        self._gangs = gangs
        self._bound: dict[GroupKey, set[str]] = {}
        self._begun: dict[GroupKey, _Begun] = {}
        self.between = float("-inf")
        """When something last happened that may come between any gang's Bindings."""
        self._zones = {name: zone for name, _, _, zone in world.plan.nodes}
        self._held: dict[tuple[str, str], float] = {}
        """Life and UID → since when the pod holds a place, and waits for the others."""
        server = world.server
        for plural, hears in (("pods", _Pods(self)), ("nodes", _Nodes(self))):
            server.store.collection(server.registry.built_in(plural).collection).listeners[hears] = None

    def restored(self) -> None:
        """The past is another one."""
        self.between = self._world.now
        self._bound.clear()
        self._begun.clear()
        for pod in self._world.server.objects("pods"):
            if (key := gang_of(pod)) is not None and node_of(pod) and not ended(pod):
                self._bound.setdefault(key, set()).add(pod["metadata"]["uid"])

    def changed(self, change: Change) -> None:
        """A pod has come, changed, or is gone."""
        pod, uid = change.new.obj, change.new.uid
        key = gang_of(pod)
        lives = change.type != "DELETED" and not ended(pod)
        if key is None:
            if pod["spec"].get("schedulerName") == RIVAL and lives and node_of(pod):
                self.between = self._world.now
            return
        if (not lives or pod["metadata"].get("deletionTimestamp")) and key in self._begun:
            self._begun[key].excused = True  # a pod of it goes
        bound = self._bound.setdefault(key, set())
        if not lives:
            bound.discard(uid)
            if not bound:
                self._begun.pop(key, None)
        elif node_of(pod) and uid not in bound:
            bound.add(uid)
            if not self._lacks(key):
                self._begun.pop(key, None)
            elif len(bound) == 1:
                self._begun[key] = _Begun(self._world.now)

    def _lacks(self, unit: GroupKey) -> str:
        """What is missing for a gang to be complete; empty: nothing."""
        group = self._gangs.group(unit)
        if group is None:
            return ""
        has = len(self._bound.get(unit, ()))
        return "" if has >= needed(group) else f"{has} of {needed(group)}"

    def accepted(self, entry: Entry) -> None:
        """A Binding of ours is stored: G3. Who has bound the others has heard of it; others may not have yet."""
        world, judge = self._world, self._judge
        pod = world.server.stored("pods", f"{entry.namespace}/{entry.name}")
        key = None if pod is None else gang_of(pod)
        if key is None or not self._gangs.topology(key):
            return
        for uid in sorted(self._bound.get(key, set()) - {entry.uid}):
            bound_at, by, node = judge.binding_of(uid)
            heard = by == entry.user or world.now - bound_at > judge.news()
            if heard and self._zones[node] != self._zones[entry.node]:
                judge.say("G3", f"{entry.user} bound {entry.uid} of {key} to {entry.node}, and {uid} is on {node}")

    def come_between(self) -> None:
        """A node has changed."""
        self.between = self._world.now

    def look(self) -> None:
        """Now and then: G1 and G2."""
        world = self._world
        for key, begun in list(self._begun.items()):
            lacks = self._lacks(key)
            if not lacks:
                del self._begun[key]
                continue
            begun.excused |= max(self.between, world.trouble_ends) > begun.at - EARLIER_SECONDS
            if world.now - begun.at > BEGUN_SECONDS and not begun.excused:
                begun.excused = True  # it is said once
                self._judge.say("G1", f"{key}: {lacks} bound since {begun.at:.1f}, and nothing came between")
        self._look_at_what_is_held()

    def holding(self, user: str) -> int:
        """How many pods of this process hold a place now, and wait for the others of their gang."""
        self._look_at_what_is_held()
        return sum(who == user for who, _ in self._held)

    def _look_at_what_is_held(self) -> None:
        world, held = self._world, self._held
        self._held = {}
        waiting = [pod for pod in world.server.objects("pods") if not node_of(pod) and gang_of(pod) is not None]
        for berth in world.berths:
            if not berth.alive or berth.loop.still or berth.scheduler is None:
                continue
            for pod in waiting:
                uid = pod["metadata"]["uid"]
                if berth.scheduler.engine.binding.state(uid) not in _HOLDS:
                    continue
                since = self._held[berth.user, uid] = held.get((berth.user, uid), world.now)
                key = gang_of(pod)
                assert key is not None
                if world.now - max(since, berth.loop.went_on_at) > self._patience(key):
                    self._judge.say("G2", f"{berth.user} holds a place for {pod['metadata']['name']} since {since:.1f}")

    def _patience(self, key: GroupKey) -> float:
        group = self._gangs.group(key)
        said = None if group is None or key.api != COSCHEDULING else group["spec"].get("scheduleTimeoutSeconds")
        return float(said or HELD_SECONDS) + LATE_SECONDS

    def waiting(self, used: dict[str, tuple[int, int]]) -> set[str]:
        """I4: pods that wait, of gangs of which enough fit into what is free. All pods of a gang are alike."""
        found: set[str] = set()
        devices = self._world.devices
        for unit, pods in self.units_that_wait().items():
            tied = devices is not None and any(devices.may_be_bound(pod) for pod in pods)
            if not tied and self.would_fit(unit, pods, used):
                found |= {f"{pod['metadata']['name']} of {unit} ({pod['metadata']['uid']})" for pod in pods}
        return found

    def would_fit(self, unit: GroupKey, pods: list[JsonObject], used: dict[str, tuple[int, int]]) -> bool:
        """Whether enough of its pods have room where so much is used."""
        missing = self._missing(unit, pods)
        return bool(missing) and self._room(unit, pods[0], used) >= missing

    def has_enough(self, unit: GroupKey) -> bool:
        """Whether as many of its pods are bound as it needs."""
        return self._gangs.group(unit) is not None and not self._lacks(unit)

    def units_that_wait(self) -> dict[GroupKey, list[JsonObject]]:
        """Gangs with their pods that wait."""
        found: dict[GroupKey, list[JsonObject]] = {}
        for pod in self._world.server.objects("pods"):
            if (key := gang_of(pod)) is not None and not node_of(pod) and not ended(pod):
                found.setdefault(key, []).append(pod)
        return found

    def _missing(self, unit: GroupKey, pods: list[JsonObject]) -> int:
        """So many of its pods have to fit for some to be bound; 0: it can't begin."""
        group = self._gangs.group(unit)
        if group is None or group["metadata"].get("deletionTimestamp"):
            return 0
        if any(pod["spec"].get("schedulingGates") or pod["metadata"].get("deletionTimestamp") for pod in pods):
            return 0
        claims = {f"{unit.namespace}/{name}" for pod in pods for name in claimed(pod)}
        if any(self._world.server.stored("resourceclaims", claim) is None for claim in claims):
            return 0
        lacks = needed(group) - len(self._bound.get(unit, ()))
        return 0 if len(pods) < lacks else max(lacks, 1)

    def _room(self, unit: GroupKey, pod: JsonObject, used: dict[str, tuple[int, int]]) -> int:
        """How many such pods fit into what is free, where its group has to be."""
        server = self._world.server
        taken: Counter[str] = Counter()
        where = {node_of(one) for one in server.objects("pods") if one["metadata"]["uid"] in self._bound.get(unit, ())}
        together = bool(claimed(pod)) and claimed(pod)[0] != pod["metadata"]["name"]
        if claimed(pod):
            for claim in server.objects("resourceclaims"):
                taken.update(pool for pool, _ in given(claim))
                if together and claim["metadata"]["name"] == claimed(pod)[0]:
                    where |= {pool for pool, _ in given(claim)}
        zoned = bool(self._gangs.topology(unit))

        def domain(node: str) -> str:
            return node if together else self._zones[node] if zoned else ""

        room: Counter[str] = Counter()
        for node in server.objects("nodes"):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
            if node["spec"].get("unschedulable") or node["spec"].get("taints") or self._judge.spoken_for(name, pod):
                continue
            if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
                continue
            (cpu, most), (busy, count) = room_of(node), used.get(name, (0, 0))
            fit = min((cpu - busy) // cpu_of(pod), most - count)
            if claimed(pod) and not together:
                fit = min(fit, OF_A_NODE - taken[name])
            elif together and not where and taken[name] >= OF_A_NODE:
                fit = 0
            room[domain(name)] += max(fit, 0)
        allowed = {domain(node) for node in where}
        if len(allowed) > 1:
            return 0
        found = [most for one, most in room.items() if one in allowed or (most and not allowed)]
        # The first pod takes its own best node, as in kube-scheduler, and all have to follow its claim.
        return (min if together else max)(found, default=0)


class _Pods:
    """Hears of pods."""

    def __init__(self, judge: GangJudge) -> None:
        self._judge = judge

    def offer(self, change: Change) -> None:
        self._judge.changed(change)


class _Nodes:
    """Hears of nodes."""

    def __init__(self, judge: GangJudge) -> None:
        self._judge = judge

    def offer(self, change: Change) -> None:
        self._judge.come_between()
