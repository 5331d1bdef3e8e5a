"""Keeps what the watch has shown: the cluster's columns, pods whose promise is followed, and what changed."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
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

NODE_CHANGED, POD_CHANGED, FOUND = "NodeChanged", "PodChanged", "Found"
"""Why a promise is broken: the node's labels changed, the pod asks for something else, or it was so from the start."""
CONFLICT = "PlacementConflict"
"""Another scheduler placed a pod about the same time, and broke what this one requires of pods on other nodes."""
QUESTIONS = 20_000
"""The largest number of questions that one look puts to nodes; a pod asks as many as its requirement has."""


def size(wanted: NodeRequirement) -> int:
    """Return the number of questions that a requirement comes to."""
    terms = wanted.selector.terms if wanted.selector is not None else ()
    return 1 + len(wanted.labels) + sum(1 + len(term.labels) + len(term.fields) for term in terms)


@dataclass(slots=True)
class Seen:
    """The result of one look. `broken`: UID → reason; `lost`: UIDs that are no longer followed.

    `mended`: UIDs of pods whose node was looked at and meets what they ask for.
    """

    broken: dict[str, str] = field(default_factory=dict)
    by_node: set[str] = field(default_factory=set)
    """Pods whose node changed in a label that they read, or was gone meanwhile."""
    conflicts: set[str] = field(default_factory=set)
    """Pods in conflict with another scheduler's, whatever `broken` says of them. Each is seen to be so once."""
    mended: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unreadable: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods with an annotation that can't be read, and what is wrong with it; each is reported once."""
    before: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Name of a node → its labels before they changed."""


class Observed:
    """Applies changes of the watched objects; `look` returns what they change about promises."""

    def __init__(self, frameworks: Mapping[str, Framework], *, bare_pods: bool) -> None:
        self.cluster = Cluster()
        self.claims = Claims(self.cluster)
        self.followed: dict[str, Followed] = {}
        self._due: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """UID of a pod to be looked at → the reason, and whether its node changed; who waits longest comes first."""
        self._by_profile = {name: framework.profile.required_during_execution for name, framework in frameworks.items()}
        self.conflicts = PlacementConflicts(self.cluster, frameworks, all_others=True)
        self._bare_pods = bare_pods
        self._before: dict[str, Mapping[str, str]] = {}
        """The labels of nodes before they changed, as in Seen, for looks that are not finished."""
        self._unreadable: dict[str, str] = {}
        self._seen = Seen()
        self.undone = False
        """True if a placed pod was shown without a node since this was last set to False."""

    @property
    def has_news(self) -> bool:
        """Return whether a look would find anything changed."""
        seen = self._seen
        return bool(self._due or seen.lost or seen.unreadable)

    def next_conflict(self) -> float | None:
        """Return the engine time at which pods that may be in conflict with another scheduler's are to be looked at."""
        return self.conflicts.next_look()

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

    def _keeps_own(self, pod: Pod) -> bool:
        """Return whether a followed pod's owner allows that it goes for what its own spec requires."""
        return keeps_own(pod.shape, by_profile=self._by_profile[pod.scheduler_name])

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
        """Return the promises that changed since the last look, of as many pods as one may ask about; the others follow
        in the next.
        """
        seen, self._seen = self._seen, Seen()
        seen.before = {**self._before, **seen.before}
        left = QUESTIONS
        while self._due and left > 0:
            uid, (reason, by_node) = self._due.popitem(last=False)
            followed = self.followed[uid]
            left -= size(followed.wanted)
            node = self.cluster.nodes.objects[followed.row]
            if node is None or followed.wanted.holds(node.name, node.labels):
                seen.mended.append(uid)
                continue
            seen.broken[uid] = reason
            if by_node:
                seen.by_node.add(uid)
        for pod, conflict in self.conflicts.look(now):
            known = self.followed.get(pod.uid)
            if conflict is not None and known is not None and self._keeps_own(known.pod):
                seen.broken.setdefault(pod.uid, CONFLICT)
                seen.conflicts.add(pod.uid)
        self._before = seen.before if self._due else {}
        return seen

    def _put_node(self, node: Node) -> None:
        old = self.cluster.put_node(node)
        row = self.cluster.nodes.ensure_row(node.name)
        if old is None or old.uid != node.uid:
            self._touch(row, None)
        elif old.labels is not node.labels and old.labels != node.labels:
            if node.name not in self._before:
                self._seen.before.setdefault(node.name, old.labels)
            self._touch(row, {key for key, _ in old.labels.items() ^ node.labels.items()})

    def _touch(self, row: int, keys: set[str] | None) -> None:
        """Have the pods of a node looked at whose requirements read one of these labels; None: all of them."""
        for pod in self.cluster.pods_on(row):
            followed = self.followed.get(pod.uid)
            if followed is not None and (keys is None or not keys.isdisjoint(followed.wanted.reads())):
                self._mark(pod.uid, FOUND if keys is None else NODE_CHANGED, by_node=True)

    def _mark(self, uid: str, reason: str, *, by_node: bool = False) -> None:
        """Have a pod looked at; one that is to be looked at already keeps its reason."""
        first, node_changed = self._due.get(uid, (reason, False))
        self._due[uid] = first, node_changed or by_node

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
        if old is not None and (old.row, old.wanted) == (placement.row, wanted):
            old.pod = own
            return
        if old is not None:
            self._unfollow(own.uid)
        self.followed[own.uid] = Followed(own, wanted, placement.row, now if old is None else old.placed_at)
        self._mark(own.uid, FOUND if old is None else POD_CHANGED)
        if self._keeps_own(own):
            self.conflicts.placed(own, now)

    def _unfollow(self, uid: str) -> None:
        """Stop following a pod that is gone, leaving, or asks for something else."""
        if self.followed.pop(uid, None) is not None:
            self._due.pop(uid, None)
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
