"""Carries changes out to try them: those of the pod on a copy, those of the cluster for as long as the trial lasts."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.schedule_one import Choice
from podberth.explain.alike import likeness
from podberth.explain.changes import (
    AddNode,
    AwaitPod,
    Change,
    DropRequirement,
    GiveUpNode,
    MovePod,
    OnNode,
    OnPod,
    Tolerate,
    Ungate,
)
from podberth.explain.commands import commands
from podberth.explain.explanation import Remedy
from podberth.explain.objects.resource_claims import without
from podberth.explain.rejections import Asking
from podberth.explain.written import Written
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.devices import NodeAccess, ResourceSlice
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.storage import StorageKind
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.volume_binding.binder import restore
from podberth.plugins.volume_binding.plugin import VolumeBinding

_BEFORE = 30
"""The largest number of pods played that come before the pod in question."""


# --- placing pods -----------------------------------------------------------------------------------------------------


class Placing:
    """Puts pods on nodes, with the devices and volumes that their claims get; `undone` takes all of it back."""

    def __init__(self, framework: Framework, cluster: Cluster, undone: ExitStack, choice: Choice | None) -> None:
        self._framework = framework
        self._cluster = cluster
        self._undone = undone
        self._choice = choice

    def put(self, pod: Pod, within: Bools | None = None) -> str | None:
        """Return the node where a pod goes; None: nowhere. `within`: bool[rows], the only nodes on which it may be.

        Raises PluginError.
        """
        row = best(pod, self._framework, self._cluster, within, self._choice)
        node = None if row is None else self._cluster.nodes.names[row]
        if row is None or node is None:
            return None
        self._give_devices(pod, row)
        self._assume_volumes(pod, row)
        there = replace(pod, node_name=node)
        if pod.scheduling_group is not None:
            # Its group is to know it as a pod that waits, as before.
            there = replace(there, uid=f"{pod.uid}/in-thought", scheduling_group=None)
        self._cluster.put_pod(there)
        self._undone.callback(self._cluster.drop_pod, there.uid)
        return node

    def _assume_volumes(self, pod: Pod, row: int) -> None:
        """Take the volumes for the pod's claims, so that later pods don't get them. Raises PluginError."""
        plugin = self._framework.plugin("VolumeBinding")
        if isinstance(plugin, VolumeBinding):
            taken = self._framework.guard(plugin, plugin.reserve, pod, self._cluster, row)
            if taken is not None:
                self._undone.callback(restore, taken, {}, self._cluster.storage)

    def _give_devices(self, pod: Pod, row: int) -> None:
        """Give the pod's claims their devices, so that later pods don't get them. Raises PluginError."""
        plugin, devices = self._framework.plugin("DynamicResources"), self._cluster.devices
        if not isinstance(plugin, DynamicResources) or not (pod.shape.claims or pod.shape.containers):
            return
        reservation = plugin.reserve(pod, self._cluster, row)
        given = [one for one in reservation.claims if one.allocation is not None] if reservation is not None else []
        for one in given:
            self._undone.callback(devices.restore, one.uid)
            claim = devices.claims.get(one.key)
            if claim is not None and claim.resource_version.isdigit():
                devices.written(one.uid, str(int(claim.resource_version) + 1))  # for pods that share the claim


@contextmanager
def placing(framework: Framework, cluster: Cluster, choice: Choice | None = None) -> Iterator[Placing]:
    """Put pods on nodes within the block, and take them off again at its end. `choice`: as in `best`."""
    with ExitStack() as undone:
        yield Placing(framework, cluster, undone, choice)


def best(
    pod: Pod, framework: Framework, cluster: Cluster, within: Bools | None = None, choice: Choice | None = None
) -> int | None:
    """Return the row where a pod goes; None: nowhere. `choice`: among equals; None: the first. Raises PluginError."""
    decision = framework.decide_quickly(pod, cluster, within=within)
    if not len(decision.feasible):
        return None
    return int(decision.best()[0]) if choice is None else choice.row(decision)


# --- trying changes ---------------------------------------------------------------------------------------------------


class Trial:
    """Asks the whole pipeline what changes would do, and counts how often.

    `notes`: reasons for which some are not offered. `written`: the pod as written. `others`: pods that wait, too.
    """

    def __init__(self, asking: Asking, written: Written | None = None, others: Iterable[Pod] = ()) -> None:
        self.cluster = asking.inquiry.cluster
        self._asking = asking
        self._written = written
        self._others = _rivals(asking.inquiry.pod, others)
        self.count = 0
        self.taken = 0
        """The number of times that others took what the changes make free."""
        self.notes: list[str] = []

    def nodes(self, changes: Sequence[Change]) -> list[str]:
        """Return the nodes that would take the pod after these changes, if each does what it is meant to."""
        self.count += 1
        owner = self._asking.inquiry.pod.owner
        if owner is not None and owner[0] == "DaemonSet" and any(isinstance(each, DropRequirement) for each in changes):
            return []  # its controller requires the node of each pod
        if any(pod.belongs_to_node for change in changes for pod in _leaving(self.cluster, change)):
            return []  # it would come back at once
        return self._nodes(edited(self._asking.inquiry.pod, changes), changes)

    def offer(self, changes: Sequence[Change], nodes: Sequence[str] | None = None) -> Remedy | None:
        """Return the changes as they are told, with the commands for them: if these are carried out, and the pod has a
        node.

        `nodes`: where the pod could go, if that is known.
        """
        pod = self._asking.inquiry.pod
        nodes = self.nodes(changes) if nodes is None else nodes
        found = commands(changes, pod, self._written) if nodes else None
        if found is None:
            return None
        if found.pods:
            self.count += len(found.pods)
            nodes = sorted(set.intersection(*(set(self._nodes(each, changes)) for each in found.pods)))
        if found.full and nodes:
            self.notes.append(
                f"a change of the pod has no commands, as the new one has to be created first: {found.full}"
            )
        nodes = self.left(changes, nodes)
        return Remedy(_text(changes), list(changes), list(nodes), [], found.lines) if nodes else None

    def left(self, changes: Sequence[Change], nodes: Sequence[str]) -> Sequence[str]:
        """Return those of the nodes that the pod can still go to when those have theirs that come first.

        These are pods of a higher priority that leave by the changes and are made again, and pods that wait and are
        tried before it. Of new nodes there may be more than one.
        """
        pod = self._asking.inquiry.pod
        anew = any(isinstance(change, OnPod) and not isinstance(change, Tolerate | Ungate) for change in changes)
        comes = [*self._comes_again(changes, anew)]
        if not all(isinstance(change, OnPod) for change in changes):
            comes += [each for each in self._others if anew or _is_before(each, pod)][:_BEFORE]
        if not nodes or not comes or any(isinstance(change, AddNode) for change in changes):
            return nodes
        leave = [each for change in changes for each in _leaving(self.cluster, change)]
        try:
            with (
                without(leave, self.cluster),
                applied(self.cluster, changes),
                placing(self._asking.framework, self.cluster) as place,
            ):
                rest, takers = self._after(comes, edited(pod, changes), nodes, place)
        except PluginError as error:
            self._asking.failed("not every change could be tried", error)
            return ()
        self.taken += not rest
        if not rest and not self.notes:
            who = takers[0] if len(takers) == 1 else f"{takers[0]} and {len(takers) - 1} more"
            self.notes.append(f"not offered: {_text(changes)}; {who} would come first and take the room")
        return rest

    def _after(
        self, comes: Sequence[Pod], pod: Pod, nodes: Sequence[str], place: Placing
    ) -> tuple[Sequence[str], list[str]]:
        """Return the nodes that are left when others come first, and who takes some; it ends when none is left."""
        rest, takers, unfit = nodes, list[str](), set[object]()
        for each in comes:
            kind = likeness(each, self._asking.framework, self.cluster), each.priority
            node = None if kind in unfit else place.put(replace(each, node_name="", nominated_node_name=""))
            if node is None:
                unfit.add(kind)
            elif node in nodes:
                takers.append(each.key)
            if node is not None:
                there = self._nodes(pod, ())
                rest = [node for node in nodes if node in there]
            if not rest:
                return rest, takers or [each.key]
        return rest, takers

    def _comes_again(self, changes: Sequence[Change], anew: bool) -> Iterator[Pod]:
        """Yield the pods that a controller makes again when they are deleted, and that are tried before the pod then.

        `anew`: the pod itself is made again, too, so that it has not waited for longer than they.
        """
        own = self._asking.inquiry.pod
        for change in changes:
            gone = [*_leaving(self.cluster, change)]
            if isinstance(change, GiveUpNode):
                gone = [pod for pod in self.cluster.nominations.on(change.node) if pod.key == change.pod]
            for pod in gone:
                if pod.owner is not None and (
                    pod.priority > own.priority or (anew and (pod.priority == own.priority or not own.preempts))
                ):
                    yield pod

    def fewest(self, changes: tuple[Change, ...], first: Container[Change]) -> tuple[Change, ...]:
        """Return the changes without those that are needless; all of `first` stay."""
        for change in changes:
            rest = tuple(each for each in changes if each != change)
            if rest and change not in first and self.nodes(rest):
                return self.fewest(rest, first)
        return changes

    def _nodes(self, pod: Pod, changes: Sequence[Change]) -> list[str]:
        framework = self._asking.framework
        with applied(self.cluster, changes):
            try:
                if framework.pre_enqueue(pod, self.cluster) is not None:
                    return []
                feasible = framework.decide(pod, self.cluster).feasible
            except PluginError as error:
                self._asking.failed("not every change could be tried", error)
                return []
            return sorted(self.cluster.nodes.names[row] or "" for row in feasible)


def _text(changes: Sequence[Change]) -> str:
    return " and ".join(map(str, changes))


def _rivals(pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """Return pods that wait and may come before this one, those first that are tried first; others of its owner are
    like it.

    One that a node is kept for has its room already, and those of a group come only together.
    """
    found = [
        each
        for each in others
        if each.priority >= pod.priority
        and each.uid != pod.uid
        and (each.owner is None or each.owner != pod.owner)
        and each.scheduler_name == pod.scheduler_name
        and not (each.gates or each.terminating or each.nominated_node_name or each.scheduling_group)
    ]
    return sorted(found, key=lambda each: (-each.priority, each.created, each.key))


def _is_before(other: Pod, pod: Pod) -> bool:
    """Return whether a pod is tried before this one; of two pods of the same second that is not known."""
    return other.priority > pod.priority or "" < other.created <= pod.created


# --- carrying changes out ---------------------------------------------------------------------------------------------


def edited(pod: Pod, changes: Sequence[Change]) -> Pod:
    """Return a copy of the pod with the changes that concern it."""
    edits = [change for change in changes if isinstance(change, OnPod)]
    if not edits:
        return pod
    pod = copy(pod)
    pod.shape = copy(pod.shape)
    for change in edits:
        change.edit(pod, pod.shape)
    return pod


@contextmanager
def applied(cluster: Cluster, changes: Sequence[Change]) -> Iterator[None]:
    """Apply the changes of the cluster while the block runs."""
    with ExitStack() as undone:
        for change in changes:
            undo = _apply(cluster, change)
            if undo is not None:
                undone.callback(undo)
        yield


def _apply(cluster: Cluster, change: Change) -> Callable[[], object] | None:
    """Make one change of the cluster; return what takes it back. None where there is nothing to change."""
    if isinstance(change, OnNode):
        node = live_node(cluster, change.node)
        if node is not None:
            cluster.put_node(change.changed(node))
            return partial(cluster.put_node, node)
    elif isinstance(change, MovePod | AwaitPod) and (pod := pod_on(cluster, change.node, change.pod)) is not None:
        gone = ExitStack()
        gone.enter_context(without([pod], cluster))
        return gone.close
    elif isinstance(change, AwaitPod | GiveUpNode):
        pod = next((pod for pod in cluster.nominations.on(change.node) if pod.key == change.pod), None)
        if pod is not None:
            cluster.nominations.drop(pod.uid)
            return partial(cluster.nominations.put, pod, change.node)
    elif isinstance(change, AddNode):
        like = live_node(cluster, change.like)
        clone = None if like is None else change.clone(like)
        if clone is not None and cluster.nodes.row_of(clone.name) is None:
            return add_node(cluster, change.like, clone)
    return None


def _leaving(cluster: Cluster, change: Change) -> Iterator[Pod]:
    """Yield the placed pods that a change makes leave."""
    if isinstance(change, MovePod):
        pod = pod_on(cluster, change.node, change.pod)
        yield from () if pod is None else (pod,)


def add_node(cluster: Cluster, like: str, clone: Node) -> Callable[[], object]:
    """Add a node, with what every node like this one has: CSI drivers, devices, static pods and those of DaemonSets.

    Returns what takes it back.
    """
    drivers = cluster.storage.csi_nodes.get(like)
    own = [replace(pod, uid=f"{clone.name}/{pod.uid}", node_name=clone.name) for pod in _of_every_node(cluster, like)]
    cluster.put_node(clone)
    for pod in own:
        cluster.put_pod(pod)
    leave = None if drivers is None else _put(cluster, replace(drivers, name=clone.name, uid=""))
    published = _published_for(clone, like, cluster)
    for one in published:
        cluster.put_device(one)

    def undo() -> None:
        for one in published:
            cluster.drop_device("ResourceSlice", "", one.name)
        if leave is not None:
            leave()
        for pod in own:
            cluster.drop_pod(pod.uid)
        cluster.drop_node(clone.name)

    return undo


def _of_every_node(cluster: Cluster, like: str) -> Iterator[Pod]:
    """Yield the pods of a node that another one like it gets, too.

    One that is being deleted counts if it is to come back: if its DaemonSet has others that stay.
    """
    row = cluster.nodes.row_of(like)
    pods = [pod for pod in (() if row is None else cluster.pods_on(row)) if pod.belongs_to_node]
    here = {pod.owner for pod in pods if not pod.terminating}
    leaving = {pod.owner: pod for pod in pods if pod.terminating and pod.owner is not None and pod.owner not in here}
    lasting = {p.pod.owner for p in cluster.placements() if not p.pod.terminating} if leaving else set()
    yield from (pod for pod in pods if not pod.terminating)
    yield from (replace(pod, terminating=False) for owner, pod in leaving.items() if owner in lasting)


def _published_for(clone: Node, like: str, cluster: Cluster) -> list[ResourceSlice]:
    """Return what a driver would publish for a node like one that is there: the same devices, in their own pool."""
    slices, suffix = list(cluster.devices.slices_on(like)), clone.name.removeprefix(like)
    generations = {
        pool: max(one.generation for one in slices if one.pool_id == pool) for pool in (one.pool_id for one in slices)
    }
    newest = [one for one in slices if one.generation == generations[one.pool_id]]
    counts = Counter(one.pool_id for one in newest)
    return [
        replace(
            one,
            name=f"{one.name}{suffix}",
            uid="",
            pool=f"{one.pool}{suffix}",
            count=counts[one.pool_id],
            access=NodeAccess(clone.name),
        )
        for one in newest
    ]


def _put(cluster: Cluster, thing: StorageKind) -> Callable[[], object]:
    """Add or change an object of storage; return what takes it back."""
    old = cluster.storage.put(thing)
    if old is not None:
        return partial(cluster.storage.put, old)
    return partial(cluster.storage.drop, type(thing).__name__, thing.namespace, thing.name)


def pod_on(cluster: Cluster, node: str, key: str) -> Pod | None:
    """Return the pod of this namespace/name on a node; None: it is not there."""
    row = cluster.nodes.row_of(node)
    return next((pod for pod in (() if row is None else cluster.pods_on(row)) if pod.key == key), None)


def live_node(cluster: Cluster, name: str) -> Node | None:
    """Return the node of a name; None: there is none."""
    row = cluster.nodes.live_row(name)
    return None if row is None else cluster.nodes.objects[row]
