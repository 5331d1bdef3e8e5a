"""What must hold of evictions, judged from the server's log and store.

I6: no eviction goes beyond a PodDisruptionBudget, and nobody is deleted in another way. V1: an eviction names the pod's
UID. V2: its promise was broken for the grace before it was asked for. V3: a successor is left alone for as long as the
owner's backoff says. V4: in the end no promise stays broken that could be kept, and the evictor has none in its books.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from podberth.apiserver.storage import Change
from podberth.evictor.followed import Stage
from tests.storm.actors import DISK, cpu_of, ended, node_of, promised, room_of
from tests.storm.asked import Asked, Entry
from tests.storm.budgets import covers, healthy
from tests.storm.evictor import CAREFUL

if TYPE_CHECKING:
    from tests.storm.judge import Judge
    from tests.storm.world import World

ROUNDING_SECONDS = 2.0
"""Clocks are a little wrong, and the server's times are whole seconds."""
COUNTED_SECONDS = 5.0
"""The disruption controller may not have counted yet what happened so lately."""
READ_SECONDS = 5.0
"""From the reading of a node to the eviction of its pods; then comes a queue, at the rate of the client."""
NEWS_SECONDS = 100.0
"""The same where requests may take long."""
SAME_SECONDS = 1.0
"""The evictor knows by whole seconds who was created when, and up to one too early when it asked for an eviction."""
KEPT_SECONDS = 150.0
"""A promise that could be kept is not broken for so long, when nothing else is wrong."""
_PATH = re.compile(rb"POST /api/v1/namespaces/([^/ ]+)/pods/([^/ ]+)/eviction[? ]")


class EvictionJudge:
    """Watches the evictors."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge
        self._disk: dict[str, str] = {}
        """Node → its label."""
        self._changes: dict[str, list[float]] = {}
        """Node → when its label changed."""
        self._asked_at: dict[str, float] = {}
        """UID → when somebody last sent the eviction of this pod."""
        self._evicted: dict[str, tuple[float, int]] = {}
        """Owner → when its first pod of a round was evicted, and which round it is."""
        self._evictions: dict[str, list[tuple[float, float]]] = {}
        """Owner → when the eviction of each of its pods was sent, and when it took place."""
        self._uids: dict[str, float] = {}
        """Pods that were evicted."""
        self._unhealthy: dict[str, float] = {}
        """Budget → when one of its pods was last lost to something else."""
        self._taken: dict[str, list[tuple[float, int, int]]] = {}
        """Node → when pods came and went, and by how much millicores and pods that it has changed then."""
        server = world.server
        for plural, see in (("nodes", self._node), ("pods", self._pod)):
            server.store.collection(server.registry.built_in(plural).collection).listeners[_Hears(see)] = None

    def sent(self, data: bytes) -> None:
        """A process has just sent this."""
        found = asked_for(data)
        if found is not None:
            key, uid = found
            self._asked_at[uid] = self._world.now
            pod = self._world.server.stored("pods", key)
            if pod is not None and pod["metadata"]["uid"] == uid:  # else it is for another of that name: refused
                self._promise(key, pod)

    def entered(self, entry: Entry, asked: Asked | None) -> None:
        """A line of the audit log, of an evictor."""
        say = self._judge.say
        if entry.verb == "delete" and entry.resource == "pods":
            say("I6", f"{entry.user} deletes {entry.namespace}/{entry.name} outright")
        if entry.resource != "pods/eviction" or asked is None:
            return
        options = msgspec.json.decode(asked.body).get("deleteOptions") or {}
        if not (options.get("preconditions") or {}).get("uid"):
            say("V1", f"an eviction of {entry.namespace}/{entry.name} names no UID")
        if entry.code == 201:
            self._happened(entry)

    def _happened(self, entry: Entry) -> None:
        """A pod was evicted, and is on its way out."""
        server = self._world.server
        pod = server.stored("pods", f"{entry.namespace}/{entry.name}")
        if pod is None:
            return
        self._world.survived["evicted"] += 1
        uid, now = pod["metadata"]["uid"], entry.at
        again = uid in self._uids
        self._uids.setdefault(uid, now)
        if again:
            return  # it leaves already: asking again changes nothing
        for budget in server.objects("poddisruptionbudgets"):
            if not covers(budget, pod) or pod["status"]["phase"] != "Running":
                continue  # the Eviction API asks no budget about a pod that has not started, or has ended
            left = sum(healthy(one) for one in server.objects("pods") if covers(budget, one) and node_of(one))
            key = f"{entry.namespace}/{budget['metadata']['name']}"
            if left < budget["spec"]["minAvailable"] and now - self._unhealthy.get(key, -1e9) > COUNTED_SECONDS:
                self._judge.say("I6", f"{entry.user} evicts {entry.name}: {left} of {key} are left")
        self._round(entry, pod["metadata"], now)

    def _promise(self, key: str, pod: dict[str, Any]) -> None:
        """V2, at the moment when the request leaves."""
        world = self._world
        if self._judge.unsure():
            return
        node = node_of(pod)
        changes = [at for at in self._changes.get(node, ()) if world.now - at < self._judge.news() + CAREFUL.grace]
        since = self._changes.get(node, [0.0])[-1]
        if self._disk.get(node, "ssd") == "ssd":
            # It asks the server before it evicts, so what a watch has lost excuses nothing.
            old = READ_SECONDS if world.now - world.delay_ends > NEWS_SECONDS else NEWS_SECONDS
            if world.now - since > old:
                self._judge.say("V2", f"{key} is evicted from {node}, which is as it asks since {since:.1f}")
        elif len(changes) < 2 and world.now - since < CAREFUL.grace - ROUNDING_SECONDS:
            # A label that flaps is another matter: not all of that may be known.
            self._judge.say("V2", f"{key} is evicted {world.now - since:.1f} s after the label of {node} changed")

    def _round(self, entry: Entry, meta: dict[str, Any], now: float) -> None:
        """V3."""
        world = self._world
        owner = meta["ownerReferences"][0]["uid"]
        created = world.seconds(str(meta["creationTimestamp"]))
        sent = self._asked_at.get(meta["uid"], now)
        first, number = self._evicted.get(owner, (now, 1))
        past = self._evictions.setdefault(owner, [])
        last = latest_before(sent, past)
        past.append((sent, now))
        wait = min(CAREFUL.owner_backoff * 2.0 ** (number - 1), CAREFUL.owner_backoff_most)
        soon = sent - last < wait - ROUNDING_SECONDS - 0.01 * wait
        if created <= math.floor(first):
            # Who was created in about the second of the first eviction may be a successor, with which a round begins.
            begins = created >= math.floor(first) - SAME_SECONDS and not soon
            self._evicted[owner] = sent if begins else min(first, sent), number
            return
        if soon and not self._judge.unsure():
            self._judge.say(
                "V3",
                f"{entry.user} evicts {entry.name} of {owner} {sent - last:.1f} s after the last one, want {wait:g}",
            )
        self._evicted[owner] = sent, number + 1

    def finish(self) -> None:
        """V4."""
        world = self._world
        leaders = [one for one in world.evictors if one.alive and one.elector is not None and one.elector.leading]
        if len(leaders) != 1:
            self._judge.say("L2", f"{len(leaders)} evictors lead: {[one.user for one in leaders]}")
        for pod in self._broken():
            self._judge.say("V4", f"{pod} stays where its promise is broken")
        for leader in leaders:
            assert leader.post is not None
            watcher = leader.post.watcher
            if watcher is None:
                self._judge.say("V4", f"{leader.user} leads, and follows nothing")
                continue
            broken = {uid for uid, one in watcher.engine.broken.items() if one.stage is not Stage.LEAVING}
            truly = {pod["metadata"]["uid"] for pod in world.server.objects("pods") if self._is_broken(pod)}
            if broken != truly:
                self._judge.say("V4", f"{leader.user} knows {sorted(broken)} as broken, and {sorted(truly)} are")

    def _is_broken(self, pod: dict[str, Any]) -> bool:
        meta = pod["metadata"]
        node = self._world.server.stored("nodes", node_of(pod))
        return (
            promised(pod)
            and node is not None
            and not ended(pod)
            and not meta.get("deletionTimestamp")
            and node["metadata"]["labels"].get(DISK) != "ssd"
        )

    def _broken(self) -> list[str]:
        """Pods of owners of which no pod was ever evicted, without a budget, that another node has had room for."""
        server, now = self._world.server, self._world.now
        found = []
        for pod in server.objects("pods"):
            meta = pod["metadata"]
            since = self._changes.get(node_of(pod), [0.0])[-1]
            if not self._is_broken(pod) or now - since < KEPT_SECONDS:
                continue
            if meta["ownerReferences"][0]["uid"] in self._evictions:
                continue
            if any(covers(budget, pod) for budget in server.objects("poddisruptionbudgets")):
                continue
            for node in server.objects("nodes"):
                name = node["metadata"]["name"]
                there = [one for one in server.objects("pods") if node_of(one) == name and not ended(one)]
                used, count = self._most_lately(name, sum(map(cpu_of, there)), len(there))
                cpu, most = room_of(node)
                selected = pod["spec"].get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
                open_ = node["metadata"]["labels"].get(DISK) == "ssd" and not node["spec"].get("unschedulable")
                open_ = open_ and not self._judge.spoken_for(name, pod)
                alone = not pod["spec"].get("affinity") and pod["spec"]["schedulerName"] == "berth"
                if open_ and selected and alone and used + cpu_of(pod) <= cpu and count < most:
                    found.append(f"{meta['namespace']}/{meta['name']}")
                    break
        return found

    def _most_lately(self, node: str, used: int, count: int) -> tuple[int, int]:
        """The most millicores and pods that a node had lately. What becomes free is soon taken by pods that wait."""
        most = used, count
        for at, cpu, pods in reversed(self._taken.get(node, ())):
            if self._world.now - at > KEPT_SECONDS:
                break
            used, count = used - cpu, count - pods
            most = max(most[0], used), max(most[1], count)
        return most

    def restored(self) -> None:
        """The server came back from a backup: labels are what they were then, and nobody is told.

        What was evicted since then was not, and no Event tells the next leader of it.
        """
        for owner, past in self._evictions.items():
            kept = [one for one in past if not self._world.server.lost_since(one[1])]
            if len(kept) < len(past):
                self._evictions[owner] = kept
                del self._evicted[owner]
                if kept:
                    self._evicted[owner] = min(kept)[0], 1  # it may have been of a later round
        there = {node["metadata"]["name"]: node for node in self._world.server.objects("nodes")}
        for name in (*there, *self._disk):
            self._label(name, there[name]["metadata"]["labels"].get(DISK, "") if name in there else "")

    def _node(self, change: Change) -> None:
        name = change.new.obj["metadata"]["name"]
        self._label(name, "" if change.type == "DELETED" else change.new.obj["metadata"]["labels"].get(DISK, ""))

    def _label(self, name: str, disk: str) -> None:
        if self._disk.get(name) != disk:
            self._disk[name] = disk
            self._changes.setdefault(name, []).append(self._world.now)

    def _pod(self, change: Change) -> None:
        old, new = change.old, change.new.obj
        before = "" if old is None or ended(old.obj) else node_of(old.obj)
        after = "" if change.type == "DELETED" or ended(new) else node_of(new)
        if before != after:
            cpu = cpu_of(new)
            self._taken.setdefault(before or after, []).append(
                (self._world.now, cpu if after else -cpu, 1 if after else -1)
            )
        was = old is not None and healthy(old.obj)
        gone = change.type == "DELETED" or not healthy(new)
        target = any(one.get("reason") == "EvictionByEvictionAPI" for one in new["status"].get("conditions", ()))
        if was and gone and not target:
            for budget in self._world.server.objects("poddisruptionbudgets"):
                if covers(budget, new):
                    key = f"{budget['metadata']['namespace']}/{budget['metadata']['name']}"
                    self._unhealthy[key] = self._world.now


def asked_for(data: bytes) -> tuple[str, str] | None:
    """Namespace and name, and UID, of the pod whose eviction a request asks for; None if it asks for none."""
    found = _PATH.match(data)
    if found is None:
        return None
    options = msgspec.json.decode(data.partition(b"\r\n\r\n")[2]).get("deleteOptions") or {}
    uid = (options.get("preconditions") or {}).get("uid", "")
    return f"{found[1].decode()}/{found[2].decode()}", uid


def latest_before(sent: float, past: list[tuple[float, float]]) -> float:
    """When the latest eviction took place of those that were sent before this one, or with it; -inf: none was.

    What is sent later may overtake it, and it can't keep away from that. `past`: sent, took place.
    """
    return max((at for asked, at in past if asked <= sent), default=-math.inf)


class _Hears:
    """A listener of a collection."""

    def __init__(self, offer: Callable[[Change], None]) -> None:
        self.offer = offer
