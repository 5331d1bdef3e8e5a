"""What must hold of room that is kept for gangs.

R1: it is kept no longer than the profile says, and its namespace has none again for as long. R2: no pod is bound into
it that would still be there when the gang is to start, and leave it too little. R3: while nothing else happens, no
gang waits for ever behind pods that end.

What is kept is known to the leader alone, so it is asked; whether others keep out of it is judged from the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from podberth.cache.reservations import ReservedRoom
from podberth.model.pod_group import GroupKey
from tests.storm.actors import cpu_of, ended, node_of, room_of
from tests.storm.berth import Berth
from tests.storm.casting_groups import AFTER_SECONDS, FOR_SECONDS
from tests.storm.deadlines import end_of
from tests.storm.gangs import gang_of
from tests.storm.judge_gangs import LATE_SECONDS, LOOK_SECONDS, GangJudge
from tests.storm.process import EPOCH

if TYPE_CHECKING:
    from tests.storm.judge import Judge
    from tests.storm.world import World

JsonObject = dict[str, Any]
WAIT_SECONDS = AFTER_SECONDS + 2 * FOR_SECONDS + 60.0
"""A gang may have to let a pause pass that follows on room that it had in vain; then those end that it waits for."""
RIGHT_SECONDS = 5.0
"""Clocks that are wrong by more say nothing about when pods end."""


class RoomJudge:
    """Watches what is kept."""

    def __init__(self, world: World, judge: Judge, gangs: GangJudge) -> None:
        self._world = world
        self._judge = judge
        self._gangs = gangs
        self._kept: dict[tuple[str, GroupKey], tuple[float, float]] = {}
        """Life and gang → since when it has room, and when that was last seen."""
        self._sent: dict[tuple[str, str, str], float] = {}
        """Life, UID and node → when this Binding was sent first."""
        self._waits: dict[GroupKey, float] = {}
        """Gang → since when it waits behind pods that end, and nothing else has happened."""

    def _rooms(self) -> Iterator[tuple[Berth, ReservedRoom]]:
        """What the leader keeps."""
        for berth in self._world.berths:
            if berth.alive and not berth.loop.still and berth.scheduler is not None and berth.scheduler.leading:
                for room in berth.scheduler.engine.cluster.reservations.by_profile.values():
                    yield berth, room

    def kept_from(self, node: str, pod: JsonObject) -> bool:
        """Whether somebody may keep a pod from a node for the sake of a gang."""
        return any(
            node in room.names and gang_of(pod) != room.group and pod["spec"].get("priority", 0) <= room.priority
            for _, room in self._rooms()
        )

    def look(self) -> None:
        """Now and then: R1 and R3."""
        now = self._world.now
        self._forget_ended()
        for berth, room in self._rooms():
            key = berth.user, room.group
            since, seen = self._kept.get(key, (now, now))
            if now - seen > 2 * LOOK_SECONDS:
                if now - seen < seen - since - 3 * LOOK_SECONDS and seen > berth.loop.went_on_at:
                    self._judge.say("R1", f"{room.group} had room from {since:.0f} to {seen:.0f}, and has it again")
                since = now
            self._kept[key] = since, now
            if now - max(since, berth.loop.went_on_at) > FOR_SECONDS + LATE_SECONDS:
                self._judge.say("R1", f"{berth.user} keeps room for {room.group} since {since:.1f}")
        self._look_who_waits()

    def _forget_ended(self) -> None:
        """Who is tried anew is decided anew, also for the same node."""
        by_user = {berth.user: berth for berth in self._world.berths if berth.alive and berth.scheduler is not None}
        for user, uid, node in list(self._sent):
            scheduler = by_user[user].scheduler if user in by_user else None
            if scheduler is None or scheduler.engine.binding.queued(uid) is None:
                del self._sent[user, uid, node]

    def _look_who_waits(self) -> None:
        world, gangs = self._world, self._gangs
        waiting = gangs.units_that_wait()
        quiet_since = max(world.trouble_ends, gangs.between, world.server.restored_at)
        wrong = any(abs(berth.wall_error) > RIGHT_SECONDS for berth in world.berths)
        if quiet_since >= world.now or wrong or len(waiting) != 1:
            self._waits.clear()
            return
        used: dict[str, tuple[int, int]] = {}
        for pod in world.server.objects("pods"):
            if (on := node_of(pod)) and not ended(pod) and "activeDeadlineSeconds" not in pod["spec"]:
                cpu, count = used.get(on, (0, 0))
                used[on] = cpu + cpu_of(pod), count + 1
        [(key, pods)] = waiting.items()
        if gangs.has_enough(key) or not gangs.would_fit(key, pods, used):
            self._waits.clear()  # no room is kept for pods beyond those that a gang needs
            return
        since = max(self._waits.get(key, world.now), quiet_since)
        self._waits = {key: since}
        if world.now - since > WAIT_SECONDS:
            self._waits = {key: world.now}  # it is said once
            self._judge.say("R3", f"{key} waits behind pods that end since {since:.0f}")

    def sent(self, who: Berth, uid: str, node: str) -> None:
        """A Binding is on its way: R2. One that is sent again was decided when it was sent first."""
        world, judge = self._world, self._judge
        if self._sent.setdefault((who.user, uid, node), world.now) < world.now:
            return
        found = world.server.stored("nodes", node)
        if found is None or abs(who.wall_error) > RIGHT_SECONDS or judge.disturbed(node):
            return
        pods = [pod for pod in world.server.objects("pods") if not ended(pod)]
        new = next((pod for pod in pods if pod["metadata"]["uid"] == uid and not node_of(pod)), None)
        if new is None:
            return
        for berth, room in self._rooms():
            if berth is not who or node not in room.names or not self.kept_from(node, new):
                continue
            if self._ends(new, room):
                continue
            there = [pod for pod in pods if node_of(pod) == node and not self._ends(pod, room)]
            there = [pod for pod in there if not judge.unheard(pod)]
            gang = [pod for pod in pods if room.planned.get(pod["metadata"]["uid"]) == node and not node_of(pod)]
            cpu, most = room_of(found)
            left = cpu - sum(map(cpu_of, [*there, *gang])), most - len(there) - len(gang)
            if 0 <= left[0] < cpu_of(new) or 0 <= left[1] < 1:
                judge.say("R2", f"{who.user} bound {uid} to {node}, where room is kept for {room.group}")

    def _ends(self, pod: JsonObject, room: ReservedRoom) -> bool:
        """Whether a pod is gone when the gang is to start.

        One that has not started counts from its decision: how long the API server holds a Binding up nobody knows then.
        """
        world, uid = self._world, pod["metadata"]["uid"]
        if uid in room.draining:
            return True
        seconds = pod["spec"].get("activeDeadlineSeconds")
        if room.until is None or seconds is None:
            return False
        decided = max((berth.decided[uid] for berth in world.berths if uid in berth.decided), default=world.now)
        end = end_of(world, pod) or decided + float(seconds)
        return end <= room.until - EPOCH + RIGHT_SECONDS
