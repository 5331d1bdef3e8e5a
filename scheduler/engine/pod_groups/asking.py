"""The waiting pods of each group, and what PreEnqueue plugins say: while one pod is held, its whole group waits.

Next stage: `scheduler.engine.pod_groups.moving` has a group where it belongs. Mirrors kube-scheduler
`backend/queue/scheduling_queue.go` (runPreEnqueuePlugins), for pod groups.
"""

from collections import deque
from typing import Any, NamedTuple

from scheduler.engine import story_entries
from scheduler.engine.instructions import SCHEDULER_ERROR
from scheduler.engine.places import Cause, Places
from scheduler.engine.pod_groups.entry import Entry
from scheduler.engine.queued import Place, QueuedPod
from scheduler.framework.status import PluginError
from scheduler.model.pod_group import GroupKey

AT_ONCE = 256
"""About so many pods of a group the plugins are asked in one turn when the group is woken."""
GANG_SCHEDULING = "GangScheduling"
"""The plugin whose Permit, in kube-scheduler, has pods wait for their group: one that waited for too long names it."""


class _Woken(NamedTuple):
    """A large group that is being woken."""

    entry: Entry
    cause: Cause
    left: deque[str]
    """UIDs of the pods about which the plugins are still to be asked."""


class GroupsAsked(Places):
    """Asks PreEnqueue plugins about pods of groups: about each when it comes or changes."""

    def __init__(self, *args: Any) -> None:
        """The arguments are those of `Places`."""
        super().__init__(*args)
        self._entries: dict[GroupKey, Entry] = {}
        self._being_woken: dict[GroupKey, _Woken] = {}
        self._arrivals = 0
        self.group_under_way = False
        """Whether a group is being tried: no other one is begun."""
        self._put_off_groups: list[Entry] = []
        """Groups that came up while another one was being tried."""

    def entries(self) -> int:
        """How much is kept here: what `Places.entries` counts, and what is kept of groups."""
        kept = sum(1 + len(entry.pods) + len(entry.held) for entry in self._entries.values())
        return super().entries() + kept + sum(1 + len(woken.left) for woken in self._being_woken.values())

    def group_entry(self, key: GroupKey) -> Entry | None:
        """The entry of a group of which pods wait, or are being tried."""
        return self._entries.get(key)

    def _ask_about(self, entry: Entry, queued: QueuedPod, now: float) -> None:
        """Ask the PreEnqueue plugins about one pod; they are asked again when an event may change their answer."""
        uid = queued.pod.uid
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
            del self._pods[uid]
            self._leave(queued)
            queued.story.end(story_entries.Left(now, "its profile is not configured any more"))
            return
        self._release(entry, uid)
        entry.failing.discard(uid)
        try:
            held = framework.pre_enqueue(queued.pod, self.cluster)
        except PluginError as error:
            entry.failing.add(uid)
            entry.held[uid] = (error.plugin, str(error))
            queued.plugins = frozenset((error.plugin,))
            self._outbox.failed(queued, SCHEDULER_ERROR, str(error), queued.plugins)
            return
        if held is None:
            return
        entry.held[uid] = (held[0], held[1].text)
        queued.plugins = frozenset((held[0],))
        self.tell_limit(queued)
        plugin = framework.profile.by_name.get(held[0])
        if plugin is not None and plugin.for_groups:
            entry.held_by_group[uid] = None
        else:
            self.unschedulable.put(queued)

    def _ask_all(self, entry: Entry, now: float) -> None:
        for queued in list(entry.pods.values()):
            self._ask_about(entry, queued, now)
        self.fair_share.charge(entry.key.namespace, len(entry.pods), now)

    def _being_asked(self, entry: Entry) -> bool:
        """Whether plugins are still to be asked about pods of the group. After that, it goes where it belongs."""
        woken = self._being_woken.get(entry.key)
        return woken is not None and woken.entry is entry

    def wake_some(self, now: float) -> None:
        """Ask the plugins about more pods of a group that is being woken.

        After the last one, the group goes where it belongs.
        """
        key, woken = next(iter(self._being_woken.items()))
        entry, asked = woken.entry, min(AT_ONCE, len(woken.left))
        if self._entries.get(key) is not entry or entry.trying or entry.place is Place.ACTIVE:
            del self._being_woken[key]
            return
        for _ in range(asked):
            queued = entry.pods.get(woken.left.popleft())
            if queued is not None:
                self._ask_about(entry, queued, now)
        self.fair_share.charge(key.namespace, asked, now)
        if not woken.left:
            del self._being_woken[key]
            self._asked(entry, now, woken.cause)

    def _ask_all_and_wake(self, entry: Entry, now: float, cause: Cause) -> None:
        """Ask about all pods of a group, if there are many not now but in the next turns; then wake it."""
        if len(entry.pods) > AT_ONCE:
            self._being_woken[entry.key] = _Woken(entry, cause, deque(entry.pods))
        else:
            self._ask_all(entry, now)
            self._asked(entry, now, cause)

    def _asked(self, entry: Entry, now: float, cause: Cause) -> None:
        """The plugins were asked about all pods: the group goes where it belongs."""
        raise NotImplementedError

    def _release(self, entry: Entry, uid: str) -> None:
        """A pod is not held any more."""
        entry.held_by_group.pop(uid, None)
        if entry.held.pop(uid, None) is not None:
            self._do_not_ask_about(entry.pods[uid])

    def _release_from(self, plugin: str, entry: Entry) -> None:
        """A plugin that goes by the group does not hold it any more, so none of its pods. It is asked after others."""
        for uid in [uid for uid in entry.held_by_group if entry.held[uid][0] == plugin]:
            self._release(entry, uid)

    def _do_not_ask_about(self, queued: QueuedPod) -> None:
        """When something happens, nobody asks about this pod any more."""
        if queued.equals is not None:
            self.unschedulable.take(queued)
