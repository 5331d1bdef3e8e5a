"""How many pods of a tree of groups could be bound, or are: enough, once enough groups have enough of theirs."""

from scheduler.model.pod_group import COMPOSITE, GroupKey
from scheduler.state.group_trees import LEVELS
from scheduler.state.pod_groups import PodGroups


class TreeCount:
    """Counts the pods of one tree. All are looked at only when one of them has got enough pods, or may have."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self.pods: dict[str, GroupKey] = {}
        """UIDs of pods that could be bound and have no node in the API, and their groups."""
        self.enough = False
        """Whether there were enough when it was looked at last."""
        self.in_doubt = False
        """There may be fewer by now, or more may be asked for: it has to be looked at again."""
        self._of: dict[GroupKey, int] = {}

    def add(self, uid: str) -> bool:
        """A pod could be bound; whether its group has just enough of them now."""
        group = self._groups.group_of(uid)
        if group is None or uid in self.pods:
            return False
        self.pods[uid] = group
        self._of[group] = self._of.get(group, 0) + 1
        state = self._groups.state(group)
        one = None if state is None else state.object
        return state is not None and one is not None and self._of[group] + len(state.assigned) == one.needed

    def drop(self, uid: str) -> None:
        """A pod is bound, or gives back what it holds."""
        group = self.pods.pop(uid, None)
        if group is None:
            return
        self._of[group] -= 1
        state = self._groups.state(group)
        if state is None or uid not in state.assigned:
            self.in_doubt = True

    def look(self, root: GroupKey) -> None:
        """See whether there are enough."""
        self.enough, self.in_doubt = self.ready(root), False

    def ready(self, key: GroupKey, levels: int = LEVELS) -> bool:
        """Whether enough pods of a group, or enough groups of it, could be bound or are."""
        state = self._groups.state(key)
        if state is None or state.object is None:
            return False
        if key.api != COMPOSITE:
            return self._of.get(key, 0) + len(state.assigned) >= state.object.needed
        children = self._groups.trees.children(key) if levels > 1 else ()
        return sum(self.ready(child.key, levels - 1) for child in children) >= state.object.needed
