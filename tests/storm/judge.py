"""What must hold, judged from the server's own log and store, never from what Berth says of itself.

While the storm lasts: I1 (each pod UID is bound at most once, and each Binding names one), I2 (no node over its room by
our binds), I5 (no write to pods of other schedulers), L1 (nobody binds while another holds the Lease), H1 (no request
is sent again and again), and that a Binding goes to a node that was there and open. Afterwards: I3 (the cache is what
is stored), I4 (no pod that fits waits), and that every counter agrees.

A replica can't know what has not reached it. What happened to a node less than `NEWS_SECONDS` before a Binding excuses
it; what the same process did itself excuses nothing.
"""

from __future__ import annotations

from asyncio import Task
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from podberth.apiserver import protobuf
from podberth.apiserver.storage import Change
from podberth.app.comparer import differences
from podberth.cache.validate import validate
from podberth.kube.flow import Places
from podberth.model.kinds import Decoder
from tests.storm.actors import DISK, RIVAL, cpu_of, ended, node_of, promised, room_of
from tests.storm.asked import OURS, Asked, Entry
from tests.storm.berth import LEASE, Berth
from tests.storm.casting_groups import ROOMS
from tests.storm.gangs import gang_of
from tests.storm.judge_evictions import EvictionJudge
from tests.storm.judge_gangs import GangJudge
from tests.storm.judge_nodes import NodeNews
from tests.storm.judge_repeats import RepeatJudge
from tests.storm.judge_rooms import RoomJudge
from tests.storm.judge_watches import WatchJudge
from tests.storm.process import NAMESPACE

if TYPE_CHECKING:
    from tests.storm.world import World

_VICTIM = "DisruptionTarget"
"""The condition that the victim of a preemption gets."""
PAGE_SECONDS = 15.0
"""A comparison waits for a page for 10 s."""
NEWS_SECONDS = 100.0
"""A silent watch is noticed within 70 s; then it is opened, or listed, again. An absent API server is not counted."""
PROMPT_SECONDS = 5.0
"""When nothing was wrong for `NEWS_SECONDS`, news take no longer."""
ASKED_SECONDS = 70.0
"""Until then it may not have been asked what became of a Binding whose answer was lost."""
BACKOFF_SECONDS = 30.0
"""Who has found the API server away asks again as late as this, or as late as it was away."""
RESTORED_SECONDS = 150.0
"""After a restore the cluster's past is another one; what was known before is wrong for a while."""


class Judge:
    """Watches one run."""

    def __init__(self, world: World) -> None:
        self.violations: list[str] = []
        self._world = world
        self._bound: dict[str, tuple[float, str]] = {}
        """UID → when, and by which life of which replica."""
        self._ours: dict[str, tuple[float, str]] = {}
        """The same, of Bindings by Berth only."""
        self._orphans: set[str] = set()
        """UIDs of pods of which Berth may not have heard that they are bound: they were gone before it could ask."""
        self._sent: dict[str, set[tuple[str, str]]] = {}
        """Life → UID and node of each Binding that it has sent."""
        self._where: dict[str, str] = {}
        """UID → the node that it was bound to."""
        self._bound_by: dict[str, int] = {}
        """Life → Bindings that were accepted."""
        self.changed_at = float("-inf")
        """When a pod was last written."""
        self._repeats = RepeatJudge(self.say)
        self.nodes = NodeNews(world)
        self.watches = WatchJudge(world, self)
        self.evictions = EvictionJudge(world, self) if "evictor" in world.plan.cast else None
        self.gangs = None if world.gangs is None else GangJudge(world, self, world.gangs)
        self.rooms = RoomJudge(world, self, self.gangs) if self.gangs is not None and ROOMS in world.plan.cast else None
        server = world.server
        server.store.collection(server.registry.built_in("pods").collection).listeners[_Pods(self)] = None
        server.on_entry = self.entered

    def news(self) -> float:
        """Seconds that a process may not know of something: many while something is wrong, and for a while after."""
        world = self._world
        if world.now - world.trouble_ends > NEWS_SECONDS:
            return PROMPT_SECONDS
        return served_since(world.now, NEWS_SECONDS, world.absences)

    def unsure(self) -> bool:
        """Whether the cluster's past is another one than was known."""
        return self._world.now - self._world.server.restored_at < RESTORED_SECONDS

    def say(self, invariant: str, what: str) -> None:
        """A violation."""
        if len(self.violations) < 20:
            self.violations.append(f"{invariant}: {self._world.now:.3f} s: {what}")
            self._world.note(f"violated {invariant}: {what}")

    # -- while it storms -----------------------------------------------------------------------------------------

    def entered(self, entry: Entry, asked: Asked | None) -> None:
        """A line of the audit log."""
        self._world.note(str(entry))
        if entry.user.startswith(OURS):
            self._repeats.entered(entry)
        if self.evictions is not None and entry.user.startswith("evictor"):
            self.evictions.entered(entry, asked)
        if not entry.user.startswith("berth"):
            return
        if entry.resource == "pods/binding":
            self._binding(entry, asked)
        elif entry.verb in ("patch", "update", "delete") and entry.resource.startswith("pods") and entry.code < 300:
            self._wrote(entry, asked)

    def _binding(self, entry: Entry, asked: Asked | None) -> None:
        if not msgspec.json.decode(entry.body).get("metadata", {}).get("uid"):
            self.say("I1", f"a Binding of {entry.namespace}/{entry.name} names no UID")
        if entry.code == 201 and entry.uid:
            self._accepted(entry)
            if self._world.gangs is not None:
                self._world.gangs.entered(entry)
            if asked is not None and asked.orphan:
                self._orphans.add(entry.uid)

    def _accepted(self, entry: Entry) -> None:
        world, server = self._world, self._world.server
        now = entry.at
        restored = self.unsure()
        self._bound_by[entry.user] = self._bound_by.get(entry.user, 0) + 1
        before = self._ours.get(entry.uid)
        self._where[entry.uid] = entry.node
        self._bound[entry.uid] = self._ours[entry.uid] = now, entry.user
        if before is not None and not server.lost_since(before[0]):
            self.say("I1", f"{entry.uid} bound again by {entry.user}, first at {before[0]:.3f} by {before[1]}")
        pod = server.stored("pods", f"{entry.namespace}/{entry.name}")
        assert pod is not None
        if pod["spec"].get("schedulerName") != "berth":
            self.say("I5", f"{entry.user} bound a pod of {pod['spec'].get('schedulerName')}")
        if restored:
            return
        node = server.stored("nodes", entry.node)
        if node is None:
            if now - self.nodes.gone.get(entry.node, float("-inf")) > self.news():
                self.say("I2", f"{entry.user} bound {entry.uid} to {entry.node}, which is long gone")
            return
        zone = pod["spec"].get("nodeSelector", {})
        labels = node["metadata"].get("labels", {})
        if any(labels.get(key) != value for key, value in zone.items()):
            self.say("I2", f"{entry.user} bound {entry.uid} to {entry.node}, which it does not select")
        if entry.node in self.nodes.closed and now - self.nodes.closed[entry.node] > self.news():
            self.say(
                "I2", f"{entry.user} bound {entry.uid} to {entry.node}, cordoned at {self.nodes.closed[entry.node]:.1f}"
            )
        self._room(entry, node)
        if self.gangs is not None:
            self.gangs.accepted(entry)
        world.survived["bound"] += 1

    def binding_of(self, uid: str) -> tuple[float, str, str]:
        """When a pod was bound, by which life, and where."""
        pod = next(one for one in self._world.server.objects("pods") if one["metadata"]["uid"] == uid)
        return *self._bound.get(uid, (float("-inf"), "another")), node_of(pod)

    def _room(self, entry: Entry, node: dict[str, Any]) -> None:
        now = entry.at
        if self.disturbed(entry.node):
            return
        pods = self._world.server.objects("pods")
        there = [pod for pod in pods if pod["spec"].get("nodeName") == entry.node and not ended(pod)]
        cpu, most = room_of(node)
        used = sum(map(cpu_of, there))
        if used <= cpu and len(there) <= most:
            return
        for pod in there:
            at, who = self._bound.get(pod["metadata"]["uid"], (float("-inf"), "another"))
            if who != entry.user and now - at <= self.news():
                return  # somebody else's, and new
        what = f"{used}m of {cpu}m, {len(there)} of {most} pods"
        self.say("I2", f"{entry.node} has {what} after {entry.user} bound {entry.namespace}/{entry.name}")

    def _wrote(self, entry: Entry, asked: Asked | None) -> None:
        pod = self._world.server.stored("pods", f"{entry.namespace}/{entry.name}")
        if pod is not None and pod["spec"].get("schedulerName") == RIVAL and entry.verb != "delete":
            victim = any(one.get("type") == _VICTIM for one in pod["status"].get("conditions", ()))
            becomes = asked is not None and _VICTIM.encode() in asked.body  # the request may not have got through
            if not (victim or becomes):
                self.say("I5", f"{entry.user} {entry.verb} {entry.resource} {entry.namespace}/{entry.name}")

    def leading(self, who: Berth, data: bytes) -> None:
        """A replica has just sent a Binding."""
        self.watches.binds(who)
        binding = protobuf.read(data.partition(b"\r\n\r\n")[2])
        uid, node = binding["metadata"].get("uid", ""), binding["target"]["name"]
        self._sent.setdefault(who.user, set()).add((uid, node))
        if self.rooms is not None:
            self.rooms.sent(who, uid, node)
        server = self._world.server
        lease = server.stored("leases", f"{NAMESPACE}/{LEASE}")
        if lease is None or self.unsure():
            return
        holder = lease["spec"].get("holderIdentity", "")
        if self._world.now - self._world.lease_gone_at < RESTORED_SECONDS and holder not in self._world.knew_the_lease:
            return  # it could not know that somebody led
        if holder not in ("", who.user):
            self.say("L1", f"{who.user} sent a Binding while {holder} holds the Lease")

    def disturbed(self, node: str) -> bool:
        """Whether something has happened to a node that not everybody may know yet, or may be known wrongly."""
        return self._world.now - self.nodes.changed.get(node, float("-inf")) <= self.news() or self.unsure()

    def unheard(self, pod: dict[str, Any]) -> bool:
        """Whether another scheduler has bound a pod so lately that not everybody may know it yet."""
        at, who = self._bound.get(pod["metadata"]["uid"], (float("-inf"), ""))
        return who == "another" and self._world.now - at <= self.news()

    def heard(self) -> None:
        """A pod was written."""
        self.changed_at = self._world.now

    def deleted(self, uid: str) -> None:
        """A pod is gone."""
        if uid in self._ours and self._world.now - self._ours[uid][0] < ASKED_SECONDS:
            self._orphans.add(uid)

    def restored(self) -> None:
        """What was bound lately was perhaps never heard of."""
        for uid in self._ours:
            self.deleted(uid)

    def bound(self, pod: dict[str, Any]) -> None:
        """Somebody bound it; ours is noted by the audit log."""
        uid = pod["metadata"]["uid"]
        if uid not in self._bound:
            self._bound[uid] = self._world.now, "another"

    # -- when it is over -----------------------------------------------------------------------------------------

    def waiting(self) -> set[str]:
        """I4: pods of ours that wait, and that a node has room for."""
        server = self._world.server
        used: dict[str, tuple[int, int]] = {}
        apps: dict[str, set[str]] = {}
        pods = server.objects("pods")
        for pod in pods:
            if (on := node_of(pod)) and not ended(pod):
                cpu, count = used.get(on, (0, 0))
                used[on] = cpu + cpu_of(pod), count + 1
                apps.setdefault(on, set()).add(f"{pod['metadata']['namespace']}/{_app(pod)}")
        found = set()
        for pod in pods:
            spec = pod["spec"]
            if node_of(pod) or spec.get("schedulerName") != "berth" or spec.get("schedulingGates"):
                continue
            if pod["metadata"].get("deletionTimestamp") or ended(pod) or gang_of(pod) is not None:
                continue
            for node in server.objects("nodes"):
                name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
                cpu, count = used.get(name, (0, 0))
                if (
                    not node["spec"].get("unschedulable")
                    and not node["spec"].get("taints")
                    and all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())
                    and (not promised(pod) or labels.get(DISK) == "ssd")
                    and cpu + cpu_of(pod) <= room_of(node)[0]
                    and count + 1 <= room_of(node)[1]
                    and f"{pod['metadata']['namespace']}/{_app(pod)}" not in (apps.get(name, ()) if _apart(pod) else ())
                    and not self.spoken_for(name, pod)
                    and (self._world.devices is None or self._world.devices.fits(pod, name))
                ):
                    found.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']} ({pod['metadata']['uid']})")
                    break
        return found if self.gangs is None else found | self.gangs.waiting(used)

    def spoken_for(self, node: str, pod: dict[str, Any]) -> bool:
        """A more important pod is nominated there, or a gang waits for the node: its room is kept for them."""
        if self.rooms is not None and self.rooms.kept_from(node, pod):
            return True
        mine = pod["spec"].get("priority", 0)
        return any(
            other["status"].get("nominatedNodeName") == node and not node_of(other)
            for other in self._world.server.objects("pods")
            if other["spec"].get("priority", 0) >= mine and other["metadata"]["uid"] != pod["metadata"]["uid"]
        )

    def finish(self) -> None:
        """I3, who leads, and the counters."""
        world = self._world
        for what in world.broken():
            self.say("X", what)
        self.watches.finish()
        if self.evictions is not None:
            self.evictions.finish()
        if world.policies is not None:
            world.policies.finish()
        if world.devices is not None:
            world.devices.finish()
        leaders = [
            berth for berth in world.berths if berth.alive and berth.elector is not None and berth.elector.leading
        ]
        if len(leaders) != 1:
            self.say("L2", f"{len(leaders)} replicas lead: {[berth.user for berth in leaders]}")
        for berth in world.berths:
            if not berth.alive or berth.scheduler is None:
                self.say("L2", f"{berth.user} is not there at the end: {berth.ended[-1:]}")
                continue
            for line in self._cache(berth):
                self.say("I3", f"{berth.user}: {line}")
        told, senders = self._told(), self._senders()
        for uid, times in sorted(told.items()):
            if times > max(1, senders[uid]):
                self.say("E1", f"{uid} has {times} Scheduled events")
        for berth in leaders:
            for uid in self._untold(berth, told):
                self.say("E2", f"{berth.user} bound {uid}, and no event says so")
            for line in self._counters(berth):
                self.say("C", f"{berth.user}: {line}")

    def _told(self) -> Counter[str]:
        """How many events say that a pod was bound, by its UID."""
        events = self._world.server.objects("events")
        return Counter(event["involvedObject"].get("uid", "") for event in events if event.get("reason") == "Scheduled")

    def _senders(self) -> Counter[str]:
        """UID → how many lives have sent a Binding to the node that the pod was bound to.

        If a Lease is deleted, another replica leads before the leader knows. Where both send the same Binding, and the
        first has lost the answer, nothing that can be read says whose it was.
        """
        return Counter(uid for sent in self._sent.values() for uid, node in sent if self._where.get(uid) == node)

    def _untold(self, berth: Berth, told: Counter[str]) -> Iterator[str]:
        """Pods that it bound, that are there, and that nobody was told of, although it dropped no event."""
        assert berth.scheduler is not None
        if berth.scheduler.writer.events.dropped or self._world.server.restored_at > 0:
            return
        there = {pod["metadata"]["uid"] for pod in self._world.server.objects("pods")} - self._orphans
        for uid, (_, who) in self._ours.items():
            if who == berth.user and uid in there and not told[uid]:
                yield uid

    def _free_in_the_end(self, places: Places, width: int) -> int:
        """A list may be under way at any time, to compare or to look for a kind that is not there. Let it end."""
        timeline = self._world.timeline
        given_up = timeline.now + PAGE_SECONDS
        while places.free < width and timeline.now < given_up:
            timeline.run(timeline.now + 0.25)
        return places.free

    def _held(self, berth: Berth) -> int:
        """Pods that hold a place for their gang. How long they may is G2's to say."""
        return 0 if self.gangs is None else self.gangs.holding(berth.user)

    def _let_end(self, berth: Berth) -> None:
        """A binding cycle may begin at any time, when a backoff is over."""
        assert berth.scheduler is not None
        timeline, engine = self._world.timeline, berth.scheduler.engine
        given_up = timeline.now + PAGE_SECONDS
        while (engine.in_flight or engine.cluster.assumed() != self._held(berth)) and timeline.now < given_up:
            timeline.run(timeline.now + 0.25)

    def _unended(self, tasks: Collection[Task[None]]) -> int:
        """A write may be under way at any time, as long as pods come and go. How many of these do not end."""
        timeline, begun = self._world.timeline, list(tasks)
        given_up = timeline.now + PAGE_SECONDS
        while not all(task.done() for task in begun) and timeline.now < given_up:
            timeline.run(timeline.now + 0.25)
        return sum(not task.done() for task in begun)

    def _cache(self, berth: Berth) -> Iterator[str]:
        server = self._world.server
        assert berth.scheduler is not None
        engine = berth.scheduler.engine
        decoder = Decoder()
        nodes = [decoder.node(_raw(node, "Node")) for node in server.objects("nodes")]
        pods = [decoder.pod(_raw(pod, "Pod")) for pod in server.objects("pods") if not ended(pod)]
        yield from (line for line in differences(engine, nodes, pods) if line is not None)
        yield from validate(engine.cluster)

    def _counters(self, berth: Berth) -> Iterator[str]:
        scheduler = berth.scheduler
        assert scheduler is not None and berth.client is not None
        engine = scheduler.engine
        self._let_end(berth)
        if engine.in_flight:
            yield f"{engine.in_flight} Bindings in flight for ever"
        held = self._held(berth)
        if (assumed := engine.cluster.assumed()) != held:
            yield f"{assumed - held} pods assumed for ever"
        if unended := self._unended(scheduler.writer._under_way._tasks):
            yield f"{unended} writes that never end"
        for name, lane in berth.client._lanes.items():
            width = lane.lane.width
            if width and (free := self._free_in_the_end(lane.places, width)) != width:
                yield f"lane {name} has {free} of {width} places"
        accepted = self._bound_by.get(berth.user, 0)
        counted, errors = scheduler.writer.bound, scheduler.writer.bindings.failures.total()
        # A Binding of ours without an answer, and the pod on its node: ours, or an earlier leader's. Nobody can know.
        either = sum(
            who != berth.user and (uid, self._where[uid]) in self._sent.get(berth.user, ())
            for uid, (_, who) in self._ours.items()
        )
        if counted > accepted + either or counted + errors < accepted:
            yield f"counts {counted} pods as bound and {errors} refused, the server accepted {accepted}"
        sure = sum(who == berth.user and uid not in self._orphans for uid, (_, who) in self._ours.items())
        if counted < sure:
            yield f"counts {counted} pods as bound, the server accepted {sure} for which it could know"
        pending = sum(
            1
            for pod in self._world.server.objects("pods")
            if not node_of(pod) and pod["spec"].get("schedulerName") == "berth" and not ended(pod)
        )
        if len(engine.queue) + held != pending:
            yield f"{len(engine.queue)} pods in the queue, {held} wait for their gang, {pending} are pending"


class _Pods:
    """Hears of pods that others bind."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def offer(self, change: Change) -> None:
        self._judge.heard()
        old, new = change.old, change.new.obj
        if change.type == "DELETED":
            self._judge.deleted(change.new.uid)
        if change.type == "MODIFIED" and node_of(new) and old is not None and not node_of(old.obj):
            self._judge.bound(new)


def served_since(now: float, seconds: float, absences: list[tuple[float, float]]) -> float:
    """Since when an API server has served for so many seconds: how long ago that was, with its absences between."""
    for begin, end in reversed(absences):
        if end > now - seconds:
            away = max(min(end, now) - begin, 0.0)
            seconds += away + min(away, BACKOFF_SECONDS)
    return seconds


def _app(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get("app", ""))


def _apart(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("affinity", {}).get("podAntiAffinity"))


def _raw(obj: dict[str, Any], kind: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"kind": kind, "apiVersion": "v1", **obj}))
