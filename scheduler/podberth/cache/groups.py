"""The state of pod groups: their objects, and which of their pods wait, are assumed, or are assigned.

Mirrors kube-scheduler `backend/cache/podgroupstate.go`. A group is known from its object or from its pods, whichever
come first: a pod may name a group that does not exist yet.
"""

from collections import Counter
from collections.abc import Container, Iterator

from podberth.cache.kept_results import ChangeLog
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, GroupKey, PodGroup

Pods = dict[str, Pod]
"""UID → pod."""


class GroupState:
    """One group and its pods. Each pod is in one of `unscheduled`, `assumed` and `assigned`, in order of arrival."""

    __slots__ = ("_size", "assigned", "assumed", "key", "object", "pods", "unscheduled", "version")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.object: PodGroup | None = None
        """The object of the group; None: there is none (yet)."""
        self.pods: Pods = {}
        self.unscheduled: Pods = {}
        """Our pods that wait. Those of other schedulers are not known before they have a node."""
        self.assumed: Pods = {}
        """Pods whose nodes we chose and the API has not confirmed yet."""
        self.assigned: Pods = {}
        """Pods that have a node in the API, whoever chose it."""
        self.version = 0
        """A number that differs after each change of this group."""
        self._size = (-1, 0, "")
        """The last answer of `size`, after the version for which it was given."""

    @property
    def scheduled(self) -> int:
        """Return how many pods have a node, by the API's word or ours."""
        return len(self.assumed) + len(self.assigned)

    @property
    def with_node(self) -> Iterator[Pod]:
        """The pods that have a node, by the API's word or ours."""
        yield from self.assigned.values()
        yield from self.assumed.values()

    @property
    def size(self) -> tuple[int, str]:
        """The number of pods that have a node, and when the first of them started; empty: none has."""
        if self._size[0] != self.version:
            starts = [pod.started for pod in self.with_node]
            self._size = self.version, len(starts), min((started for started in starts if started), default="")
        return self._size[1:]

    @property
    def goes_as_a_whole(self) -> bool:
        """Return whether all its pods are preempted together, or none of them (disruptionMode)."""
        return self.object is not None and self.object.disruption_mode == "all"

    @property
    def empty(self) -> bool:
        """Return whether the group has neither an object nor pods."""
        return self.object is None and not self.pods

    def move(self, pod: Pod, there: Pods) -> None:
        """Put a pod, as it is now, into one of the three."""
        uid = pod.uid
        self.pods[uid] = pod
        for some in (self.unscheduled, self.assumed, self.assigned):
            if some is not there:
                some.pop(uid, None)
        there[uid] = pod

    def remove(self, uid: str) -> None:
        """Remove a pod that is no member any more."""
        for some in (self.pods, self.unscheduled, self.assumed, self.assigned):
            some.pop(uid, None)


class PodGroups:
    """The pod groups by key. Callers pass only pods that name a group, so that pods without one cost nothing here."""

    def __init__(self) -> None:
        self.followed: set[str] = set()
        """API groups whose PodGroups are watched. A pod may name a group of an API that is not served."""
        self._groups: dict[GroupKey, GroupState] = {}
        self.members: dict[str, GroupKey] = {}
        """UID of a pod → its group."""
        self._version = 0
        self._priorities: Counter[int] = Counter()
        """Priority → objects of Kubernetes' own API: a tenant may make thousands, too many to look through."""
        self.log: ChangeLog[GroupKey] = ChangeLog()
        """Groups whose priority or disruption mode changed."""
        self.members_log: ChangeLog[GroupKey] = ChangeLog()
        """Groups that are preempted as a whole and of which a pod changed."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupState]:
        return iter(self._groups.values())

    def of(self, pod: Pod) -> GroupKey | None:
        """Return the group that counts for a pod; None: it names none, or one of an API group that is not followed."""
        key = pod.scheduling_group
        return key if key is None or key.api in self.followed else None

    def get(self, key: GroupKey) -> PodGroup | None:
        """Return the object of a group; None: there is none (yet)."""
        state = self._groups.get(key)
        return None if state is None else state.object

    def priority_of(self, pod: Pod) -> int:
        """Return the priority of a pod for preemption: its group's, if that is known (GetPodPriority)."""
        key = pod.scheduling_group
        group = self.get(key) if key is not None and key.api == NATIVE else None
        return pod.priority if group is None else group.priority or 0

    def whole(self, pod: Pod) -> GroupState | None:
        """Return the group of a pod that is preempted as a whole; None: the pod is preempted alone."""
        key = pod.scheduling_group
        state = self._groups.get(key) if key is not None and key.api == NATIVE else None
        return state if state is not None and state.goes_as_a_whole else None

    def with_node_in(self, key: GroupKey) -> Iterator[Pod]:
        """Yield the pods of a group that have a node."""
        state = self._groups.get(key)
        if state is not None:
            yield from state.with_node

    def below(self, priority: int) -> bool:
        """Return whether any group has a lower priority: its pods may have a higher one in their specs."""
        return min(self._priorities, default=priority) < priority

    def state(self, key: GroupKey) -> GroupState | None:
        """Return the state of a group; None: neither its object nor a pod is known."""
        return self._groups.get(key)

    def scheduled(self, key: GroupKey) -> int:
        """Return how many pods of a group have a node, by the API's word or ours."""
        state = self._groups.get(key)
        return 0 if state is None else state.scheduled

    def follow(self, api: str, followed: bool) -> list[Pod]:
        """Follow the PodGroups of an API group, or no longer; return the waiting pods whose group changes by that."""
        if (api in self.followed) == followed:
            return []
        if followed:
            self.followed.add(api)
        else:
            self.followed.remove(api)
        return [pod for state in self._groups.values() if state.key.api == api for pod in state.unscheduled.values()]

    # -- objects -----------------------------------------------------------------------------------------------------

    def put(self, group: PodGroup) -> PodGroup | None:
        """Add or update an object; returns what was there before."""
        state = self._ensure(group.key)
        before, state.object = state.object, group
        self._count_priority(before, -1)
        self._count_priority(group, 1)
        if before is None or _as_victim(before) != _as_victim(group):
            self.log.touch(group.key)
            self._count(state)
        return before

    def drop(self, key: GroupKey) -> PodGroup | None:
        """Remove an object; returns what was there."""
        state = self._groups.get(key)
        if state is None:
            return None
        self._count(state)  # as long as it is known whether the group goes as a whole
        before, state.object = state.object, None
        self._count_priority(before, -1)
        self.log.touch(key)
        self._changed(state)
        return before

    def _count_priority(self, group: PodGroup | None, amount: int) -> None:
        if group is not None and group.key.api == NATIVE:
            priority = group.priority or 0
            self._priorities[priority] += amount
            if not self._priorities[priority]:
                del self._priorities[priority]

    # -- pods --------------------------------------------------------------------------------------------------------

    def waits(self, pod: Pod) -> None:
        """Note that a pod of ours waits for a node, as far as the API says; it may be assumed all the same."""
        state = self._joined(pod)
        if state is not None:
            uid = pod.uid
            state.move(pod, state.assumed if uid in state.assumed else state.unscheduled)

    def assume(self, pod: Pod) -> None:
        """Note that we chose a node for a pod."""
        state = self._joined(pod)
        if state is not None:
            state.move(pod, state.assumed)

    def assign(self, pod: Pod) -> None:
        """Note that a pod has a node in the API."""
        state = self._joined(pod)
        if state is not None:
            state.move(pod, state.assigned)

    def forget(self, uid: str) -> None:
        """Note that the node which we chose for a pod is not its node."""
        state = self._groups.get(self.members[uid]) if uid in self.members else None
        if state is not None and uid in state.assumed:
            state.move(state.pods[uid], state.unscheduled)
            self._changed(state)

    def renew(self, pod: Pod) -> None:
        """Replace a placed pod by a newer copy of it."""
        state = self._groups.get(self.members[pod.uid]) if pod.uid in self.members else None
        if state is not None:
            state.move(pod, state.assumed if pod.uid in state.assumed else state.assigned)
            self._changed(state)

    def gone(self, uid: str) -> None:
        """Remove a pod that is gone, or finished."""
        key = self.members.pop(uid, None)
        if key is not None:
            state = self._groups[key]
            state.remove(uid)
            self._changed(state)

    def keep(self, schedulers: Container[str]) -> None:
        """Keep only waiting pods of these profiles as members."""
        waiting = [pod for state in self._groups.values() for pod in state.unscheduled.values()]
        for pod in waiting:
            if pod.scheduler_name not in schedulers:
                self.gone(pod.uid)

    def _joined(self, pod: Pod) -> GroupState | None:
        """Return the group of a pod, which joins it if need be; None: it names none (any more)."""
        uid, key = pod.uid, pod.scheduling_group
        if uid in self.members and self.members[uid] != key:
            self.gone(uid)  # its label has changed
        if key is None:
            return None
        self.members[uid] = key
        return self._ensure(key)

    def _ensure(self, key: GroupKey) -> GroupState:
        state = self._groups.get(key)
        if state is None:
            state = self._groups[key] = GroupState(key)
        self._count(state)
        return state

    def _count(self, state: GroupState) -> None:
        self._version += 1
        state.version = self._version
        if state.goes_as_a_whole:
            self.members_log.touch(state.key)

    def _changed(self, state: GroupState) -> None:
        self._count(state)
        if state.empty:
            del self._groups[state.key]


def _as_victim(group: PodGroup) -> tuple[int | None, str]:
    """Return the fields of a group that matter where its pods are victims."""
    return group.priority, group.disruption_mode
