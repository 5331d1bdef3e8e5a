"""Pods that are ready to be bound wait here until enough pods of their group are; then all of them are bound.

In kube-scheduler, Permit of GangScheduling makes them wait (`framework/plugins/gangscheduling`). Here they wait after
PreBind, since the write of one pod's claim may fail, too.
"""

from itertools import islice

from podberth.cache.groups import PodGroups
from podberth.model.pod_group import GroupKey

USUAL = 300.0
"""Seconds after which all pods of a group give back what they hold, if the others have not come (permitTimeout)."""
SHORTEST, LONGEST = 1.0, 900.0
"""The bounds of what a group of scheduler-plugins may ask for: kube-scheduler lets no Permit plugin wait for longer
(maxTimeout), and pods need a moment to have their claims written.
"""
GANG_SCHEDULING = "GangScheduling"
"""The plugin whose Permit, in kube-scheduler, has pods wait for their group: one that waited for too long names it."""
AT_ONCE = 32
"""The number of released pods that are bound in one go."""


class Gathering:
    """The pods that wait, and those that were let go and have no node in the API yet, by group."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self.came_for: dict[str, GroupKey] = {}
        """UID → the group with which the pod is bound. By now, its labels may name another one."""
        self._waiting: dict[GroupKey, dict[str, None]] = {}
        self._let_go: dict[GroupKey, set[str]] = {}
        self.released: dict[str, None] = {}
        """UIDs of pods that may be bound, and wait for their turn."""

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        kept = sum(map(len, self._waiting.values())) + sum(map(len, self._let_go.values()))
        return kept + len(self.came_for) + len(self.released)

    def seconds(self, key: GroupKey) -> float:
        """Return the seconds for which a pod of this group waits at most."""
        group = self._groups.get(key)
        if group is None or group.timeout is None:
            return USUAL
        return float(min(max(group.timeout, SHORTEST), LONGEST))

    def has_let_go(self, uid: str) -> bool:
        """Return whether a pod was released, but not bound yet."""
        key = self.came_for.get(uid)
        return key is not None and uid in self._let_go.get(key, ())

    def arrives(self, key: GroupKey, uid: str) -> bool:
        """Note a pod that is ready to be bound. Return True if it may be bound at once, else it waits for its group."""
        self.came_for[uid] = key
        if key not in self._waiting and self._enough(key, 1):
            self._let_go.setdefault(key, set()).add(uid)
            return True
        self._waiting.setdefault(key, {})[uid] = None
        self.look(key)
        return False

    def look(self, key: GroupKey) -> None:
        """Release all waiting pods of the group if there are enough by now."""
        waiting = self._waiting.get(key)
        if waiting and self._enough(key, len(waiting)):
            del self._waiting[key]
            self._let_go.setdefault(key, set()).update(waiting)
            self.released.update(waiting)

    def take_released(self, count: int) -> list[str]:
        """Return the first so many pods that may be bound, which wait no longer."""
        first = list(islice(self.released, count))
        for uid in first:
            del self.released[uid]
        return first

    def leaves(self, uid: str) -> None:
        """Remove a pod that is bound, as the API shows, or gives back what it holds, or is gone."""
        key = self.came_for.pop(uid, None)
        if key is None:
            return
        self.released.pop(uid, None)
        waiting, gone = self._waiting.get(key), self._let_go.get(key)
        if waiting is not None:
            waiting.pop(uid, None)
            if not waiting:
                del self._waiting[key]
        if gone is not None:
            gone.discard(uid)
            if not gone:
                del self._let_go[key]

    def waiting(self, key: GroupKey) -> list[str]:
        """Return the UIDs of the pods of a group that wait."""
        return list(self._waiting.get(key, ()))

    def _enough(self, key: GroupKey, more: int) -> bool:
        state = self._groups.state(key)
        if state is None or state.object is None:
            return False  # nobody can say how many are enough: after their time, they give back what they hold
        return more + len(self._let_go.get(key, ())) + len(state.assigned) >= state.object.needed
