"""Groups of groups (CompositePodGroup): which groups are below which, and whether enough of them have their pods.

A group names its parent, and either may come first. The root of a tree is the group that names none; it stands for the
whole tree in the queue. Mirrors kube-scheduler `backend/cache/podgroupstate.go` and `backend/queue/workload_forest.go`.
Whether enough pods are there is kept for each group and brought up to date on the way to the root, since it is asked
for each pod that comes.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from scheduler.model.pod_group import COMPOSITE, NATIVE, GroupKey, PodGroup

if TYPE_CHECKING:
    from scheduler.state.pod_groups import GroupState

LEVELS = 4
"""A tree has no more levels, that of the pod groups included (WorkloadMaxTreeDepth)."""
MOST_GROUPS = 1_000
"""A tree with more groups is not scheduled: all of them are looked at in one go."""


class GroupTrees:
    """The trees of all groups, whether or not they count."""

    def __init__(self, groups: "Mapping[GroupKey, GroupState]") -> None:
        self.wanted = False
        """Whether trees count (the gate CompositePodGroup). Without it, a group is scheduled whatever its parent."""
        self.version = 0
        """Another one after each change of any tree."""
        self._groups = groups
        self._children: dict[GroupKey, dict[GroupKey, None]] = {}
        """Of groups, whether or not they have an object, in the order they came."""
        self._ready: set[GroupKey] = set()
        """Groups with a parent, and groups of groups: those with enough pods, or enough such groups."""
        self._ready_below: dict[GroupKey, int] = {}
        """How many of its groups have enough."""

    # -- what is asked -----------------------------------------------------------------------------------------------

    def root_of(self, key: GroupKey) -> GroupKey | None:
        """The group that stands for a group in the queue; None: one on the way there is missing, or it is too far."""
        if not self.wanted:
            return key
        for _ in range(LEVELS):
            one = self._object(key)
            if one is None:
                return None
            if one.parent is None:
                return key
            key = GroupKey(key.namespace, one.parent, COMPOSITE)
        return None

    def entry_of(self, key: GroupKey) -> GroupKey:
        """Under which key the pods of a group wait: of the root, or of the group itself as long as that is unknown."""
        return key if not self.wanted or key.api != NATIVE else self.root_of(key) or key

    def missing(self, key: GroupKey) -> str:
        """Why a group has no root; empty: it has one."""
        if not self.wanted:
            return ""
        for _ in range(LEVELS):
            one = self._object(key)
            if one is None:
                return f'waiting for composite pod group "{key.name}" to appear'
            if one.parent is None:
                return ""
            key = GroupKey(key.namespace, one.parent, COMPOSITE)
        return f"its tree of composite pod groups has more than {LEVELS} levels"

    def parent_of(self, key: GroupKey) -> GroupKey | None:
        """The group that a group is a part of, if trees count."""
        one = self._object(key) if self.wanted else None
        return None if one is None or one.parent is None else GroupKey(key.namespace, one.parent, COMPOSITE)

    def ready(self, root: GroupKey) -> bool:
        """Whether enough pods of the tree are known."""
        return root in self._ready

    def children(self, key: GroupKey) -> list[PodGroup]:
        """The groups of a group, in the order in which they are tried: by age, then by name."""
        objects = [state.object for one in self._children.get(key, ()) if (state := self._groups.get(one)) is not None]
        found = [one for one in objects if one is not None]
        return sorted(found, key=lambda one: (one.created, one.name))

    def below(self, key: GroupKey, levels: int = LEVELS) -> Iterator[GroupKey]:
        """The pod groups of a tree; of a pod group, itself."""
        if key.api != COMPOSITE:
            yield key
        elif levels > 1:
            for child in self._children.get(key, ()):
                yield from self.below(child, levels - 1)

    def too_large(self, root: GroupKey) -> bool:
        """Whether a tree has more groups than may be."""
        return self._more(root, MOST_GROUPS, LEVELS) < 0

    def _more(self, key: GroupKey, left: int, levels: int) -> int:
        """How many more groups there may be beside those of a tree."""
        left -= 1
        if levels > 1:
            for child in self._children.get(key, ()):
                if left < 0:
                    break
                left = self._more(child, left, levels - 1)
        return left

    def _object(self, key: GroupKey) -> PodGroup | None:
        """The group itself, as the API server has it; None: only pods that name it have come."""
        state = self._groups.get(key)
        return None if state is None else state.object

    # -- what changes ------------------------------------------------------------------------------------------------

    def put(self, before: PodGroup | None, group: PodGroup) -> None:
        """An object with a parent, or a group of groups, was added or updated."""
        self.version += 1
        if before is not None and before.parent != group.parent:
            self._unlink(before)
        if group.parent is not None:
            parent = GroupKey(group.namespace, group.parent, COMPOSITE)
            there = self._children.setdefault(parent, {})
            if group.key not in there:
                there[group.key] = None
                self._ready_below[parent] = self._ready_below.get(parent, 0) + (group.key in self._ready)
                self.changed(parent)
        if group.parent is not None or group.key.api == COMPOSITE:
            self.changed(group.key)
        else:
            self._ready.discard(group.key)  # it is in no tree any more, and nobody counts its pods here

    def drop(self, group: PodGroup) -> None:
        """Such an object was deleted."""
        self.version += 1
        self._unlink(group)
        self._ready.discard(group.key)

    def _unlink(self, group: PodGroup) -> None:
        if group.parent is None:
            return
        parent = GroupKey(group.namespace, group.parent, COMPOSITE)
        there = self._children.get(parent, {})
        if group.key in there:
            del there[group.key]
            self._ready_below[parent] -= group.key in self._ready
            if not there:
                del self._children[parent], self._ready_below[parent]
            self.changed(parent)

    def changed(self, key: GroupKey) -> None:
        """The object or the pods of a group have changed: have it, and those above it, counted."""
        for _ in range(MOST_GROUPS):
            ready = self._is_ready(key)
            if ready == (key in self._ready):
                return
            (self._ready.add if ready else self._ready.discard)(key)
            one = self._object(key)
            parent = None if one is None or one.parent is None else GroupKey(key.namespace, one.parent, COMPOSITE)
            if parent is None or key not in self._children.get(parent, ()):
                return
            self._ready_below[parent] += 1 if ready else -1
            key = parent

    def _is_ready(self, key: GroupKey) -> bool:
        state = self._groups.get(key)
        if state is None or state.object is None:
            return False
        has = self._ready_below.get(key, 0) if key.api == COMPOSITE else len(state.pods)
        return has >= state.object.needed
