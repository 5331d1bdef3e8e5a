"""Keeps what the watch has shown: the cluster's columns, pods whose promise is followed, and what changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.view import some_rows
from podberth.engine.placement_conflicts import PlacementConflicts, has_requirements
from podberth.engine.stimuli import Gone
from podberth.evictor.followed import Followed, left_alone
from podberth.evictor.gates import owner_key
from podberth.evictor.target import Claims
from podberth.framework.runtime import Framework
from podberth.model.devices import DEVICE_KINDS, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from podberth.model.kinds import Modelled
from podberth.model.namespaced import Namespace, SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.promise import NOTHING_OF_NODES, NodeRequirement
from podberth.model.shape import keeps_own, required
from podberth.model.storage import STORAGE_KINDS
from podberth.plugins.required_during_execution import meeting

# --- what followed pods ask, as columns -------------------------------------------------------------------------------

Slots = NDArray[np.intp]
_FIRST = 256
_NOBODY = -1
LOOK = 20_000
"""The cost that one look may have, a pod counting 1 and a criterion of a distinct requirement `_CRITERION`: some 20
ms."""
_CRITERION = 10
_NOT_DUE = -1


class Due(NamedTuple):
    """A pod whose promise is broken: the reason of the look at it, and whether its node changed."""

    uid: str
    why: int
    by_node: bool


class Promises:
    """Slots of pods: their row, the number of their requirement, and whether it is known to be broken.

    Pods that have to be looked at are marked; each look takes as many as it may, by requirement: the one that waits
    longest, and then the cheapest, so that a tenant whose requirements are large or many waits for itself.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slot: dict[str, int] = {}
        self._uids: list[str] = []
        self._free: list[int] = []
        self._row = np.full(_FIRST, _NOBODY, dtype=np.int64)
        self._kind = np.zeros(_FIRST, dtype=np.int64)
        self._broken = np.zeros(_FIRST, dtype=np.bool_)
        self._why = np.full(_FIRST, _NOT_DUE, dtype=np.int64)
        self._by_node = np.zeros(_FIRST, dtype=np.bool_)
        self._waiting: dict[int, None] = {}
        """Numbers of requirements that are due, the one that waits longest first; some may not be due any more."""
        self._number: dict[NodeRequirement, int] = {}
        self._requirements: list[NodeRequirement] = []
        self._weight: list[int] = []
        self._users: list[int] = []
        self._spare: list[int] = []
        self._readers: dict[str, set[int]] = {}

    def put(self, uid: str, row: int, wanted: NodeRequirement) -> bool:
        """Add or update a pod; return whether it has to be looked at."""
        slot = self._slot.get(uid)
        if slot is not None:
            if self._row[slot] == row and self._requirements[self._kind[slot]] == wanted:
                return False
            self._leave(int(self._kind[slot]))
        else:
            slot = self._take_slot(uid)
        self._row[slot] = row
        self._kind[slot] = self._join(wanted)
        return True

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone, or asks for nothing any more."""
        slot = self._slot.pop(uid, None)
        if slot is None:
            return
        self._leave(int(self._kind[slot]))
        self._row[slot] = _NOBODY
        self._broken[slot] = False
        self._why[slot] = _NOT_DUE
        self._by_node[slot] = False
        self._free.append(slot)

    def mark(self, uid: str, *, broken: bool) -> None:
        """Remember that a pod's promise is known to be broken, or is not."""
        slot = self._slot.get(uid)
        if slot is not None:
            self._broken[slot] = broken

    def on(self, rows: Iterable[int], key: str | None = None) -> Slots:
        """Return the slots of the pods on these rows whose requirement reads a label key; None: of all pods there."""
        here = np.zeros(self._cluster.nodes.rows + 1, dtype=np.bool_)
        here[list(rows)] = True
        here[_NOBODY] = False
        slots = np.flatnonzero(here[self._row[: len(self._uids)]])
        if key is None:
            return slots
        reads = np.zeros(len(self._requirements), dtype=np.bool_)
        reads[list(self._readers.get(key, ()))] = True
        read: Slots = slots[reads[self._kind[slots]]]
        return read

    def slots(self, uids: Iterable[str]) -> Slots:
        """Return the slots of those of these pods (UIDs) that are followed."""
        return np.array([self._slot[uid] for uid in uids if uid in self._slot], dtype=np.intp)

    @property
    def due(self) -> bool:
        """Return whether any pod has to be looked at."""
        return bool(self._waiting)

    def mark_due(self, slots: Slots, why: int, *, by_node: bool = False) -> None:
        """Mark pods to be looked at, with the reason; a pod that is marked already keeps its reason."""
        if not len(slots):
            return
        self._why[slots] = np.where(self._why[slots] == _NOT_DUE, why, self._why[slots])
        self._by_node[slots] |= by_node
        self._waiting |= dict.fromkeys(
            kind for kind in np.unique(self._kind[slots]).tolist() if kind not in self._waiting
        )

    def look(self, most: int = LOOK) -> tuple[list[Due], list[str]]:
        """Return (broken promises, UIDs whose promise was known to be broken and holds again) of as many as one look
        may.
        """
        if not self._waiting:
            return [], []  # as most looks: asking of no pod costs NumPy as much as asking of some
        slots = self._some_due(most)
        holds = self._holding(slots)
        broken = [Due(self._uids[slot], int(self._why[slot]), bool(self._by_node[slot])) for slot in slots[~holds]]
        mended = [self._uids[slot] for slot in slots[holds & self._broken[slots]]]
        self._why[slots] = _NOT_DUE
        self._by_node[slots] = False
        return broken, mended

    def _some_due(self, most: int) -> Slots:
        slots = np.flatnonzero(self._why[: len(self._uids)] != _NOT_DUE)
        numbers, counts = np.unique(self._kind[slots], return_counts=True)
        cost = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._waiting = {kind: None for kind in self._waiting if kind in cost}
        chosen: set[int] = set()
        left = most
        oldest = next(iter(self._waiting), None)
        cheapest = sorted(cost, key=lambda kind: _CRITERION * self._weight[kind] + cost[kind])
        for kind in cheapest if oldest is None else (oldest, *cheapest):
            if kind in chosen:
                continue
            left -= _CRITERION * self._weight[kind] + cost[kind]
            if left < 0 and chosen:
                break
            chosen.add(kind)
            self._waiting.pop(kind, None)
        return slots[np.isin(self._kind[slots], list(chosen))]

    def _holding(self, slots: Slots) -> Bools:
        """Return bool[len(slots)]: one vectorised question for each distinct requirement, over the rows in question
        only.

        A pod whose node does not exist asks nothing of it.
        """
        holds = np.ones(len(slots), dtype=np.bool_)
        rows, where = np.unique(self._row[slots], return_inverse=True)
        some = some_rows(self._cluster, rows)
        kinds = self._kind[slots]
        order = np.argsort(kinds, kind="stable")
        starts = np.flatnonzero(np.diff(kinds[order], prepend=_NOBODY))
        for group in np.split(order, starts[1:]) if len(order) else ():
            meets = meeting(self._requirements[kinds[group[0]]], some.nodes) | ~some.nodes.alive
            holds[group] = meets[where[group]]
        return holds

    def _take_slot(self, uid: str) -> int:
        if self._free:
            slot = self._free.pop()
            self._uids[slot] = uid
        else:
            slot = len(self._uids)
            self._uids.append(uid)
            if slot == len(self._row):
                self._row = np.concatenate((self._row, np.full(slot, _NOBODY, dtype=np.int64)))
                self._kind = np.concatenate((self._kind, np.zeros(slot, dtype=np.int64)))
                self._broken = np.concatenate((self._broken, np.zeros(slot, dtype=np.bool_)))
                self._why = np.concatenate((self._why, np.full(slot, _NOT_DUE, dtype=np.int64)))
                self._by_node = np.concatenate((self._by_node, np.zeros(slot, dtype=np.bool_)))
        self._slot[uid] = slot
        return slot

    def _join(self, wanted: NodeRequirement) -> int:
        number = self._number.get(wanted)
        if number is None:
            if self._spare:
                number = self._spare.pop()
                self._requirements[number] = wanted
                self._weight[number] = size(wanted)
            else:
                number = len(self._requirements)
                self._requirements.append(wanted)
                self._weight.append(size(wanted))
                self._users.append(0)
            self._number[wanted] = number
            for key in wanted.reads():
                self._readers.setdefault(key, set()).add(number)
        self._users[number] += 1
        return number

    def _leave(self, number: int) -> None:
        self._users[number] -= 1
        if self._users[number]:
            return
        wanted = self._requirements[number]
        del self._number[wanted]
        for key in wanted.reads():
            readers = self._readers[key]
            readers.discard(number)
            if not readers:
                del self._readers[key]
        self._spare.append(number)


def size(wanted: NodeRequirement) -> int:
    """Return the number of questions that a requirement comes to."""
    terms = wanted.selector.terms if wanted.selector is not None else ()
    return 1 + len(wanted.labels) + sum(1 + len(term.labels) + len(term.fields) for term in terms)


# --- what the watch has shown -----------------------------------------------------------------------------------------

NODE_CHANGED, POD_CHANGED, FOUND = "NodeChanged", "PodChanged", "Found"
"""Why a promise is broken: the node's labels changed, the pod asks for something else, or it was so from the start."""
CONFLICT = "PlacementConflict"
"""Another scheduler placed a pod about the same time, and broke what this one requires of pods on other nodes."""
_REASONS = (NODE_CHANGED, POD_CHANGED, FOUND)


@dataclass(slots=True)
class Seen:
    """The result of one look. `broken`: UID → reason; `lost`: UIDs that are no longer followed."""

    broken: dict[str, str] = field(default_factory=dict)
    by_node: set[str] = field(default_factory=set)
    """Pods whose node changed in a label that they read, or was gone meanwhile."""
    mended: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unreadable: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods with an annotation that can't be read, and what is wrong with it; each is reported once."""
    before: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """Row → the node's labels before they changed."""


class Observed:
    """Applies changes of the watched objects; `look` returns what they change about promises."""

    def __init__(self, frameworks: Mapping[str, Framework], *, bare_pods: bool) -> None:
        self.cluster = Cluster()
        self.claims = Claims(self.cluster)
        self.followed: dict[str, Followed] = {}
        self.promises = Promises(self.cluster)
        """The requirements of the followed pods."""
        self._by_profile = {name: framework.profile.required_during_execution for name, framework in frameworks.items()}
        self.conflicts = PlacementConflicts(self.cluster, frameworks, all_others=True)
        self._bare_pods = bare_pods
        self._changed: dict[str | None, set[int]] = {}
        """Label key (None: all of them) → rows where it changed since the last look."""
        self._pods: dict[str, str] = {}
        self._before: dict[int, Mapping[str, str]] = {}
        """The labels of nodes before they changed, as in Seen, for looks that are not finished."""
        self._unreadable: dict[str, str] = {}
        self._seen = Seen()
        self.undone = False
        """True if a placed pod was shown without a node since this was last set to False."""

    @property
    def has_news(self) -> bool:
        """Return whether a look would find anything changed."""
        seen = self._seen
        return bool(self._changed or self._pods or self.promises.due or seen.lost or seen.unreadable)

    def next_conflict(self) -> float | None:
        """Return the engine time at which pods that may be in conflict with another scheduler's are to be looked at."""
        return self.conflicts.next_look()

    def node(self, row: int) -> str:
        """Return the name of a row's node."""
        return self.cluster.nodes.names[row] or ""

    def stays(self, uid: str) -> bool:
        """Return whether a pod is on a node, and not on its way out."""
        placement = self.cluster.placement(uid)
        return placement is not None and not placement.pod.terminating

    def wanted(self, pod: Pod) -> NodeRequirement | None:
        """Return the requirement of a pod of ours on its node while it runs; None: it has none, or one that is too
        large.
        """
        by_profile = self._by_profile.get(pod.scheduler_name)
        if by_profile is None:
            return None
        wanted = required(pod.shape, by_profile=by_profile)
        if wanted is None and keeps_own(pod.shape, by_profile=by_profile) and has_requirements(pod):
            return NOTHING_OF_NODES
        # Of a pod beyond the limits not all is read that it requires.
        return None if pod.too_large is not None else wanted

    def mark(self, uid: str, *, broken: bool) -> None:
        """Note whether a promise counts as broken: only those that do are reported as mended."""
        self.promises.mark(uid, broken=broken)

    def put(self, thing: Modelled, now: float) -> None:
        """Add or update an object."""
        match thing:
            case Pod():
                self._put_pod(thing, now)
            case Node():
                self._put_node(thing)
            case Namespace():
                self.cluster.put_namespace(thing)
            case SelectingObject():
                self.cluster.put_selecting(thing)
            case ResourceClaim() | ResourceSlice() | DeviceClass() | DeviceTaintRule():
                self.cluster.put_device(thing)
            case PodGroup():
                self.cluster.pod_groups.put(thing)
            case _:
                self.cluster.storage.put(thing)

    def gone(self, gone: Gone) -> None:
        """Remove an object."""
        match gone.kind:
            case "Pod":
                self._unfollow(gone.uid)
                self._unreadable.pop(gone.uid, None)
                self.cluster.nominations.drop(gone.uid)
                self.cluster.drop_pod(gone.uid)
            case "Node":
                row = self.cluster.nodes.row_of(gone.name)
                if row is not None and self.cluster.drop_node(gone.name) is not None:
                    self._touch(row, None)
            case "Namespace":
                self.cluster.drop_namespace(gone.name)
            case kind if kind in DEVICE_KINDS:
                self.cluster.drop_device(kind, gone.namespace, gone.name)
            case kind if kind in STORAGE_KINDS:
                self.cluster.storage.drop(kind, gone.namespace, gone.name)
            case kind:
                self.cluster.drop_selecting(kind, gone.namespace, gone.name)

    def look(self, now: float) -> Seen:
        """Return the promises that changed since the last look, as many as one look may cost; the others follow in the
        next.
        """
        seen, self._seen = self._seen, Seen()
        changed, self._changed = self._changed, {}
        pods, self._pods = self._pods, {}
        for reason in (FOUND, POD_CHANGED):
            uids = [uid for uid, why in pods.items() if why == reason]
            self.promises.mark_due(self.promises.slots(uids), _REASONS.index(reason))
        for key, rows in changed.items():
            why = _REASONS.index(NODE_CHANGED if key is not None else FOUND)
            self.promises.mark_due(self.promises.on(rows, key), why, by_node=True)
        broken, mended = self.promises.look()
        seen.mended += mended
        seen.before = {**self._before, **seen.before}
        for due in broken:
            seen.broken[due.uid] = _REASONS[due.why]
            if due.by_node:
                seen.by_node.add(due.uid)
        for pod, conflict in self.conflicts.look(now):
            if conflict is not None and pod.uid in self.followed:
                seen.broken.setdefault(pod.uid, CONFLICT)
        self._before = seen.before if self.promises.due else {}
        return seen

    def _put_node(self, node: Node) -> None:
        old = self.cluster.put_node(node)
        row = self.cluster.nodes.ensure_row(node.name)
        if old is None or old.uid != node.uid:
            self._touch(row, None)
        elif old.labels is not node.labels and old.labels != node.labels:
            if row not in self._before:
                self._seen.before.setdefault(row, old.labels)
            for key in {key for key, _ in old.labels.items() ^ node.labels.items()}:
                self._touch(row, key)

    def _touch(self, row: int, key: str | None) -> None:
        self._changed.setdefault(key, set()).add(row)

    def _put_pod(self, pod: Pod, now: float) -> None:
        if not pod.node_name and self.cluster.is_confirmed(pod.uid):
            # As in the scheduler (`PodChanges.put`): what is shown is of a backup.
            self.undone = True
            self.gone(Gone("Pod", pod.namespace, pod.name, pod.uid))
        if pod.finished:
            self.gone(Gone("Pod", pod.namespace, pod.name, pod.uid))
        elif pod.node_name:
            self._put_placed(pod, now)
        elif pod.nominated_node_name and not pod.terminating:
            self.cluster.nominations.put(pod, pod.nominated_node_name)
        else:
            self.cluster.nominations.drop(pod.uid)

    def _put_placed(self, pod: Pod, now: float) -> None:
        # The cluster may give the pod the shape that it knew before, so what it asks of nodes is kept apart first.
        own = replace(pod)
        self.cluster.nominations.drop(pod.uid)
        if self.cluster.put_pod(pod) is None:
            self.claims.settle(owner_key(pod))
            self.conflicts.other_placed(pod)
        wanted = self.wanted(own)
        if wanted is None or own.terminating or left_alone(own, bare_pods=self._bare_pods):
            self._unfollow(own.uid)
            self._note_unreadable(own)
            return
        placement = self.cluster.placement(own.uid)
        assert placement is not None
        old = self.followed.get(own.uid)
        if not self.promises.put(own.uid, placement.row, wanted):
            assert old is not None
            old.pod = own
            return
        if old is not None:
            self._unfollow(own.uid)
            self.promises.put(own.uid, placement.row, wanted)
        self.followed[own.uid] = Followed(own, wanted, placement.row, now if old is None else old.placed_at)
        self._pods[own.uid] = FOUND if old is None else POD_CHANGED
        if old is None and keeps_own(own.shape, by_profile=self._by_profile[own.scheduler_name]):
            self.conflicts.placed(own, now)

    def _unfollow(self, uid: str) -> None:
        """Stop following a pod that is gone, leaving, or asks for something else."""
        if self.followed.pop(uid, None) is not None:
            self.promises.drop(uid)
            self._pods.pop(uid, None)
            self._seen.lost.append(uid)

    def _note_unreadable(self, pod: Pod) -> None:
        """Report an annotation that can't be read, once: only its author can correct it."""
        problem = self._problem(pod)
        if problem is None or pod.terminating:
            self._unreadable.pop(pod.uid, None)
        elif self._unreadable.get(pod.uid) != problem:
            self._unreadable[pod.uid] = problem
            self._seen.unreadable.append((pod, problem))

    def _problem(self, pod: Pod) -> str | None:
        """Return the reason for which a pod's requirement can't be kept; empty: there is none."""
        by_profile = self._by_profile.get(pod.scheduler_name)
        if by_profile is None:
            return None
        if pod.shape.promise is not None and pod.shape.promise.problem is not None:
            return pod.shape.promise.problem
        if pod.too_large is None or required(pod.shape, by_profile=by_profile) is None:
            return None
        return f"{pod.too_large}: the evictor does not follow it"
