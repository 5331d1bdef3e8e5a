"""Pod groups: their objects, and which of their pods wait, are assumed, or are assigned.

Mirrors kube-scheduler `backend/cache/podgroupstate.go`. A group is known from its object or from its pods, whichever
come first: a pod may name a group that does not exist yet.
"""

from collections.abc import Container, Iterable, Iterator
from itertools import islice

from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, NATIVE, GroupKey, PodGroup
from scheduler.state.group_trees import LEVELS, MOST_GROUPS, GroupTrees
from scheduler.state.priorities import Priorities
from scheduler.state.rowlog import ChangeLog

Pods = dict[str, Pod]
"""UID → pod."""


class GroupState:
    """One group. Each of its `pods` is in one of `unscheduled`, `assumed` and `assigned`, in the order they came."""

    __slots__ = ("assigned", "assumed", "key", "object", "pods", "size", "unscheduled", "version")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.object: PodGroup | None = None
        """None: there is none (yet)."""
        self.pods: Pods = {}
        self.unscheduled: Pods = {}
        """Waiting pods of ours. Those of other schedulers are not known before they have a node."""
        self.assumed: Pods = {}
        """We chose their nodes, and the API has not confirmed it yet."""
        self.assigned: Pods = {}
        """Its pods that have a node, whoever chose it."""
        self.version = 0
        """Another one after each change of the group or of one below it, and of no other group."""
        self.size = (-1, 0, "")
        """The last answer of `PodGroups.size_of`, after the version for which it was given."""

    @property
    def scheduled(self) -> int:
        """How many pods have a node, by the API's word or ours."""
        return len(self.assumed) + len(self.assigned)

    @property
    def with_node(self) -> Iterator[Pod]:
        """The pods that have a node, by the API's word or ours."""
        yield from self.assigned.values()
        yield from self.assumed.values()

    @property
    def empty(self) -> bool:
        """Whether nobody speaks of the group any more."""
        return self.object is None and not self.pods

    def move(self, pod: Pod, there: Pods) -> None:
        """Have a pod, as it is now, in one of the three."""
        uid = pod.uid
        self.pods[uid] = pod
        for some in (self.unscheduled, self.assumed, self.assigned):
            if some is not there:
                some.pop(uid, None)
        there[uid] = pod

    def remove(self, uid: str) -> None:
        """A pod is no member any more."""
        for some in (self.pods, self.unscheduled, self.assumed, self.assigned):
            some.pop(uid, None)


class PodGroups:
    """All groups. Whoever calls with a pod has looked that it names a group: pods without one cost nothing here."""

    def __init__(self) -> None:
        self.followed: set[str] = set()
        """API groups whose PodGroups can be read. A pod may name a group of an API that nobody serves."""
        self._groups: dict[GroupKey, GroupState] = {}
        self._of: dict[str, GroupKey] = {}
        """UID of a pod → its group."""
        self._version = 0
        self._priorities = Priorities()
        """Priorities of the objects of Kubernetes' own API: a tenant may make thousands, too many to look through."""
        self.log: ChangeLog[GroupKey] = ChangeLog()
        """Groups that have another priority, disruption mode or parent. What is said of a group of groups goes for all
        groups below it."""
        self.members_log: ChangeLog[GroupKey] = ChangeLog()
        """Groups that go as a whole of which a pod has changed, or of a group below them."""
        self.trees = GroupTrees(self._groups)
        """Groups of groups."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupState]:
        return iter(self._groups.values())

    def __contains__(self, uid: object) -> bool:
        """Whether a pod of this UID is known as a member of any group."""
        return uid in self._of

    def group_of(self, uid: str) -> GroupKey | None:
        """The group that a known pod names."""
        return self._of.get(uid)

    def of(self, pod: Pod) -> GroupKey | None:
        """The group that counts for a pod; None: it names none, or one of an API group that is not followed."""
        key = pod.scheduling_group
        return key if key is None or key.api in self.followed else None

    def waits_with(self, pod: Pod) -> GroupKey | None:
        """The group that stands for a pod in the queue: its own, or the root of its tree; None: it is in none."""
        key = self.of(pod)
        return None if key is None else self.trees.entry_of(key)

    def get(self, key: GroupKey) -> PodGroup | None:
        """The object of a group; None: there is none (yet)."""
        state = self._groups.get(key)
        return None if state is None else state.object

    def _upwards(self, key: GroupKey) -> Iterator[GroupState]:
        """A group and those above it, as far as they have objects (TraverseHierarchyUp)."""
        for _ in range(LEVELS):
            state = self._groups.get(key)
            if state is None or state.object is None:
                return
            yield state
            parent = self.trees.parent_of(key)
            if parent is None:
                return
            key = parent

    def priority_of(self, pod: Pod) -> int:
        """The priority that counts for a pod where preemption is meant: its group's or its root's (GetPodPriority)."""
        key, priority = pod.scheduling_group, pod.priority
        if key is not None and key.api == NATIVE:
            for state in self._upwards(key):
                priority = 0 if state.object is None else state.object.priority or 0
        return priority

    def whole(self, pod: Pod) -> GroupState | None:
        """The broadest group of a pod that is preempted as a whole (getHighestAllAncestor); None: it goes alone."""
        key, broadest = pod.scheduling_group, None
        if key is not None and key.api == NATIVE:
            for state in self._upwards(key):
                if state.object is not None and state.object.disruption_mode == "all":
                    broadest = state
        return broadest

    def size_of(self, whole: GroupState) -> tuple[int, str]:
        """(how many pods of a group that goes as a whole have a node, when the first has started; empty: none has)."""
        if whole.size[0] != whole.version:
            leaves = islice(self.trees.below(whole.key), MOST_GROUPS)
            pods = [pod.started for leaf in leaves if leaf in self._groups for pod in self._groups[leaf].with_node]
            whole.size = whole.version, len(pods), min((started for started in pods if started), default="")
        return whole.size[1:]

    def with_node(self, keys: Iterable[GroupKey]) -> Iterator[str]:
        """The UIDs of the pods of these groups that have a node."""
        for key in keys:
            for pod in self.with_node_in(key):
                yield pod.uid

    def with_node_in(self, key: GroupKey) -> Iterator[Pod]:
        """The pods of a group, or of all groups of its tree, that have a node."""
        for leaf in self.trees.below(key):
            state = self._groups.get(leaf)
            if state is not None:
                yield from state.with_node

    def below(self, priority: int) -> bool:
        """Whether there is a group with a lower priority: its pods may say another one."""
        lowest = self._priorities.lowest
        return lowest is not None and lowest < priority

    def state(self, key: GroupKey) -> GroupState | None:
        """What is known of a group; None: neither object nor pod."""
        return self._groups.get(key)

    def scheduled(self, key: GroupKey) -> int:
        """How many pods of a group have a node, by the API's word or ours."""
        state = self._groups.get(key)
        return 0 if state is None else state.scheduled

    def follow(self, api: str, followed: bool) -> list[Pod]:
        """From now on these groups count, or don't; returns the waiting pods for which that is another answer."""
        if (api in self.followed) == followed:
            return []
        if followed:
            self.followed.add(api)
        else:
            self.followed.remove(api)
        return [pod for state in self._groups.values() if state.key.api == api for pod in state.unscheduled.values()]

    def waiting_in_trees(self) -> list[Pod]:
        """The waiting pods of groups that are parts of others."""
        states = [state for state in self._groups.values() if state.object is not None and state.object.parent]
        return [pod for state in states for pod in state.unscheduled.values()]

    # -- objects -----------------------------------------------------------------------------------------------------

    def put(self, group: PodGroup) -> PodGroup | None:
        """Add or update an object; returns what was there before."""
        state = self._ensure(group.key)
        before, state.object = state.object, group
        if group.parent is not None or group.key.api == COMPOSITE or (before is not None and before.parent is not None):
            self.trees.put(before, group)
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
        self._count(state)  # together with what is above it
        before, state.object = state.object, None
        self._count_priority(before, -1)
        self.log.touch(key)
        if before is not None and (before.parent is not None or key.api == COMPOSITE):
            self.trees.drop(before)
        self._changed(state)
        return before

    def _count_priority(self, group: PodGroup | None, amount: int) -> None:
        if group is not None and group.key.api in (NATIVE, COMPOSITE):
            self._priorities.add(group.priority or 0, amount)

    # -- pods --------------------------------------------------------------------------------------------------------

    def waits(self, pod: Pod) -> None:
        """A pod of ours waits for a node, as far as the API says: it may be assumed all the same."""
        state = self._joined(pod)
        if state is not None:
            uid = pod.uid
            state.move(pod, state.assumed if uid in state.assumed else state.unscheduled)
            self._counted(state)

    def assume(self, pod: Pod) -> None:
        """We chose a node for it."""
        state = self._joined(pod)
        if state is not None:
            state.move(pod, state.assumed)
            self._counted(state)

    def assign(self, pod: Pod) -> None:
        """The API says that it has a node."""
        state = self._joined(pod)
        if state is not None:
            state.move(pod, state.assigned)
            self._counted(state)

    def forget(self, uid: str) -> None:
        """The node that we chose for a pod is not its node."""
        state = self._groups.get(self._of[uid]) if uid in self._of else None
        if state is not None and uid in state.assumed:
            state.move(state.pods[uid], state.unscheduled)
            self._changed(state)

    def renew(self, pod: Pod) -> None:
        """A placed pod is another copy of itself."""
        state = self._groups.get(self._of[pod.uid]) if pod.uid in self._of else None
        if state is not None:
            state.move(pod, state.assumed if pod.uid in state.assumed else state.assigned)
            self._changed(state)

    def gone(self, uid: str) -> None:
        """A pod is gone, or finished."""
        key = self._of.pop(uid, None)
        if key is not None:
            state = self._groups[key]
            state.remove(uid)
            self._counted(state)
            self._changed(state)

    def keep(self, schedulers: Container[str]) -> None:
        """These are our profiles now: waiting pods of others are no members any more."""
        waiting = [pod for state in self._groups.values() for pod in state.unscheduled.values()]
        for pod in waiting:
            if pod.scheduler_name not in schedulers:
                self.gone(pod.uid)

    def _joined(self, pod: Pod) -> GroupState | None:
        """The group of a pod, which it joins if it has not; None: it names none (any more)."""
        uid, key = pod.uid, pod.scheduling_group
        if uid in self._of and self._of[uid] != key:
            self.gone(uid)  # its label has changed
        if key is None:
            return None
        self._of[uid] = key
        return self._ensure(key)

    def _ensure(self, key: GroupKey) -> GroupState:
        state = self._groups.get(key)
        if state is None:
            state = self._groups[key] = GroupState(key)
        self._count(state)
        return state

    def _count(self, state: GroupState) -> None:
        self._version += 1
        state.version, broadest = self._version, None
        for above in self._upwards(state.key):
            above.version = self._version
            if above.object is not None and above.object.disruption_mode == "all":
                broadest = above
        if broadest is not None:
            self.members_log.touch(broadest.key)

    def _counted(self, state: GroupState) -> None:
        """A group may have more pods now, or fewer."""
        if state.object is not None and state.object.parent is not None:
            self.trees.changed(state.key)

    def _changed(self, state: GroupState) -> None:
        self._count(state)
        if state.empty:
            del self._groups[state.key]


def _as_victim(group: PodGroup) -> tuple[int | None, str, str | None]:
    """What counts of a group where its pods are victims."""
    return group.priority, group.disruption_mode, group.parent
