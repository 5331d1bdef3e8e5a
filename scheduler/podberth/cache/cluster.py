"""The cache: nodes, placed pods and namespaces, with assume, confirm and forget.

Mirrors kube-scheduler `backend/cache/cache.go`. One difference in kind: there is no copy for a
cycle, since one thread both applies events and decides, the columns themselves are the snapshot.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from podberth.cache.affinity_counts import AffinityCounts
from podberth.cache.column import Ints
from podberth.cache.devices import Change, Devices
from podberth.cache.groups import PodGroups
from podberth.cache.kept_results import ChangeLog
from podberth.cache.label_index import Services
from podberth.cache.nodes import Nodes
from podberth.cache.nominations import Nominations
from podberth.cache.reservations import Reservations
from podberth.cache.search_steps import SearchSteps
from podberth.cache.volumes import Storage
from podberth.model.devices import DeviceKind
from podberth.model.namespaced import Namespace, SelectingObject
from podberth.model.node import Node
from podberth.model.pod import NO_LABELS, Pod
from podberth.model.selectors import LabelSelector, Requirement
from podberth.model.volumes import NO_VOLUMES


class Placement(Struct):
    """A pod on a row. `assumed`: we chose the node and the API has not confirmed it yet."""

    pod: Pod
    row: int
    assumed: bool


class Cluster:
    """The cluster state that decisions read: nodes, placed pods, namespaces, and the other objects."""

    def __init__(self) -> None:
        self.search_steps = SearchSteps()
        self.nodes = Nodes()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.affinity = AffinityCounts(self.nodes, self.namespaces)
        self.nominations = Nominations()
        self.storage = Storage(self.nodes)
        self.devices = Devices()
        self.pod_groups = PodGroups()
        self.reservations = Reservations()
        self.nodes.served = self.devices.served
        self._devices_seen = 0
        self._changes = 0
        """Counts changes that have no version of their own: of namespaces, and of placed pods that count as before."""
        self.selecting: dict[str, dict[str, dict[str, SelectingObject]]] = {}
        """Kind → namespace → name → the object."""
        self.services = Services()
        self.supposed: dict[str, tuple[Pod, int, int]] = {}
        """UID → (pod, row, 1 for a pod that a dry run added, -1 for one that it removed)."""
        self.supposed_leaving: dict[str, tuple[Pod, int, int]] = {}
        """The supposed pods that are on their way out."""
        self._supposed_on: dict[int, list[Pod]] = {}
        """Row → the pods that `supposing` counts there, for `pods_on`."""
        self.unnamed_on: Mapping[int, list[Pod]] = {}
        """Row → the pods that a copy of a cluster counts there and does not know by name (`apart`), for `pods_on`."""
        self._left_out: set[str] = set()
        """UIDs of the pods that `leave_out` left out."""
        self.selecting_changes: dict[str, int] = {}
        """Namespace → a number that differs after each change of `selecting` there; missing where there are no such
        objects.
        """
        self._selecting_number = 0
        self.budget_log: ChangeLog[tuple[str, str]] = ChangeLog()
        """(namespace, name) of PodDisruptionBudgets that were added, changed or deleted."""
        self._placed: dict[str, Placement] = {}
        self.priorities: Counter[int] = Counter()
        """Priority → placed pods. One that no pod has any more stays: PriorityClasses are few."""
        self.moved: tuple[tuple[int, Sequence[Pod]], ...] = ()
        """(-1, pods that are gone) and (1, pods that came) of a view of one row (`view.row_with`)."""
        self.on_row: dict[int, dict[str, Placement]] = {}
        """Row → UID → placement of each pod there; rows without any are not in it. To be read only."""

    def __len__(self) -> int:
        return len(self._placed)

    def placement(self, uid: str) -> Placement | None:
        """Return the placement of a pod, None when it is not placed."""
        return self._placed.get(uid)

    def placements(self) -> Iterator[Placement]:
        """Return every placed pod with its placement."""
        return iter(self._placed.values())

    def pods_on(self, row: int) -> list[Pod]:
        """Return the pods on a node: in a dry run without those that it left out, and with those that it supposes."""
        left_out = self._left_out
        pods = [placement.pod for uid, placement in self.on_row.get(row, {}).items() if uid not in left_out]
        pods += self.unnamed_on.get(row, ())
        return pods + self._supposed_on.get(row, []) if self._supposed_on else pods

    def count_pods(self, namespace: str | None = None, labels: Mapping[str, str] = NO_LABELS) -> Ints:
        """Return int64[rows]: the number of placed pods with these labels, of one namespace or (None) of all, without
        terminating ones.

        The counts are kept, so asking again costs only what has changed. Do not change them.
        """
        selector = LabelSelector(tuple([Requirement(key, "In", frozenset((labels[key],))) for key in sorted(labels)]))
        found = self.nodes.of_these(self.affinity.on_rows(namespace, selector).by_row)
        for sign, pods in self.moved:
            more = sum(
                not pod.terminating and namespace in (None, pod.namespace) and selector.matches(pod.labels)
                for pod in pods
            )
            found = found + sign * more
        return found

    def has_below(self, priority: int) -> bool:
        """Return whether a placed pod has a lower priority, or a group has one, which counts for its pods."""
        placed = any(number and of < priority for of, number in self.priorities.items())
        return placed or self.pod_groups.below(priority)

    def is_confirmed(self, uid: str) -> bool:
        """Return whether the API has shown this pod on a node."""
        placement = self._placed.get(uid)
        return placement is not None and not placement.assumed

    def assumed(self) -> int:
        """Return the number of placements that the API has not confirmed."""
        return sum(placement.assumed for placement in self._placed.values())

    def put_node(self, node: Node) -> Node | None:
        """Add or update a node; returns what was there before."""
        nodes = self.nodes
        row = nodes.ensure_row(node.name)
        old = nodes.objects[row]
        if old is None or (old.labels is not node.labels and old.labels != node.labels):
            changed = nodes.topology_changes(row, node.labels)
            nodes.put_labels(row, node.labels)
            self.affinity.relabel(row, changed, inhabited=row in self.on_row)
        nodes.put(row, node)
        if old is None:
            self.storage.node_came(node.name, row)
        return old

    def drop_node(self, name: str) -> Node | None:
        """Remove a node. Pods still on it stay counted on a row that is no longer alive."""
        nodes = self.nodes
        row = nodes.row_of(name)
        if row is None or nodes.objects[row] is None:
            return None
        old = nodes.objects[row]
        self.storage.node_goes(name, row)
        changed = nodes.topology_changes(row, {})
        nodes.put_labels(row, None)
        self.affinity.relabel(row, changed, inhabited=row in self.on_row)
        nodes.put(row, None)
        nodes.release_row(row)
        return old

    def put_pod(self, pod: Pod) -> Placement | None:
        """Add or update a pod that the API says is on `pod.node_name`; confirms an assumption.

        Returns the placement before, None when there was none.
        """
        if pod.scheduling_group is not None or pod.uid in self.pod_groups.members:
            self.pod_groups.assign(pod)
        old = self._placed.get(pod.uid)
        if old is not None and self.nodes.names[old.row] == pod.node_name:
            before = Placement(old.pod, old.row, old.assumed)
            if old.pod.started != pod.started:
                self.nodes.log.touch(old.row)  # preemption reads when a pod started
            if old.pod.shape is pod.shape and old.pod.labels is pod.labels and old.pod.terminating == pod.terminating:
                self._exchange(old, pod)
            elif old.pod.labels == pod.labels and old.pod.shape.requests == pod.shape.requests and _same(old.pod, pod):
                # Equal in everything that is counted: keep the shape with which it was counted.
                pod.shape = old.pod.shape
                pod.labels = old.pod.labels
                self._exchange(old, pod)
            else:
                self._take(old)
                self._place(pod, self.nodes.ensure_row(pod.node_name), assumed=False)
                return before
            old.assumed = False
            return before
        if old is not None:
            self._take(old)
        self._place(pod, self.nodes.ensure_row(pod.node_name), assumed=False)
        return old

    def drop_pod(self, uid: str) -> Placement | None:
        """Remove a placed pod."""
        if uid in self.pod_groups.members:
            self.pod_groups.gone(uid)
        placement = self._placed.get(uid)
        if placement is not None:
            self._take(placement)
        return placement

    def assume(self, pod: Pod, row: int) -> None:
        """Count a pod on its chosen node before the API server has bound it, until it is confirmed or forgotten."""
        if pod.uid in self._placed or self.nodes.names[row] is None:
            raise ValueError(f"pod {pod.key} can't be assumed on row {row}: placed already, or no such node")
        self._place(pod, row, assumed=True)
        if pod.scheduling_group is not None:
            self.pod_groups.assume(pod)

    def replace(self, pod: Pod) -> Pod | None:
        """Exchange a placed pod for a changed copy of itself, where it is; returns what it was."""
        placement = self._placed.get(pod.uid)
        if placement is None:
            return None
        was, node = placement.pod, self.nodes.names[placement.row] or ""
        self._take(placement)
        self._place(pod, self.nodes.ensure_row(node), assumed=placement.assumed)
        if pod.scheduling_group is not None:
            self.pod_groups.renew(pod)
        return was

    def forget(self, uid: str) -> Placement | None:
        """Take an assumption back; a placement that the API confirmed stays."""
        placement = self._placed.get(uid)
        if placement is None or not placement.assumed:
            return None
        self._take(placement)
        if placement.pod.scheduling_group is not None:
            self.pod_groups.forget(uid)
        return placement

    def versions(self) -> tuple[object, ...]:
        """Return a tuple that differs after any change on which the outcome of an attempt may depend.

        Dry runs do not change it, and nor do waiting pods without a nomination.
        """
        return (
            self.nodes,
            self.nodes.log.version,
            self.nominations.log.version,
            self.reservations.version,
            self.storage.version,
            self.devices.log.version,
            self.pod_groups.log.version,
            self._selecting_number,
            self._changes,
        )

    @property
    def background(self) -> tuple[object, ...]:
        """Return a tuple that differs after any change of the terms of placed pods, namespaces, the objects that select
        pods (Services, controllers), or the images of nodes.

        It changes seldom: not when pods come that are like others.
        """
        nodes, affinity = self.nodes, self.affinity
        terms = affinity.terms.sets
        return (
            nodes,
            nodes.images.version,
            terms.numbering,
            terms.born,
            affinity.pods.namespace_changes,
            self._selecting_number,
        )

    @contextmanager
    def supposing(self, pods: Iterable[tuple[Pod, int]], *, usage_only: bool = False) -> Iterator[None]:
        """Count (pod, row) pairs as placed while the block runs, and restore everything afterwards.

        A pod that is placed counts already, but not who stands in for it. `usage_only`: count them in `nodes`, and
        nowhere else.
        """
        placed = self._placed
        there = [(pod, row) for pod, row in pods if pod.uid not in placed or placed[pod.uid].pod.shape is not pod.shape]

        def count(sign: int) -> None:
            if usage_only:
                self.nodes.suppose_all([(row, pod.shape) for pod, row in there], sign)
                return
            for pod, row in there:
                self._suppose(pod, row, sign)

        on: dict[int, list[Pod]] = {}
        for pod, row in () if usage_only else there:
            on.setdefault(row, []).append(pod)
        count(1)
        self._supposed_on = on
        try:
            yield
        finally:
            self._supposed_on = {}
            count(-1)

    @contextmanager
    def without(self, placement: Placement) -> Iterator[None]:
        """Take a placed pod off its node while the block runs.

        Unlike in a dry run, results that are kept follow, and it counts nowhere as one that a dry run removed.
        """
        pod, node, assumed = placement.pod, self.nodes.names[placement.row] or "", placement.assumed
        self._take(placement)
        try:
            yield
        finally:
            self._place(pod, self.nodes.ensure_row(node), assumed=assumed)

    def leave_out(self, placement: Placement) -> None:
        """Leave a placed pod out of all counts until `put_back`; for dry runs only."""
        self._suppose(placement.pod, placement.row, -1)
        self._left_out.add(placement.pod.uid)

    def put_back(self, placement: Placement) -> None:
        """Count a pod again that was left out."""
        self._suppose(placement.pod, placement.row, 1)
        self._left_out.discard(placement.pod.uid)

    def put_namespace(self, namespace: Namespace) -> Mapping[str, str] | None:
        """Add or update a namespace; returns the labels before."""
        old = self.namespaces.get(namespace.name)
        if old is None or old != namespace.labels:
            self.namespaces[namespace.name] = namespace.labels
            self._changes += 1
            self.affinity.namespace_changed(namespace.name)
        return old

    def drop_namespace(self, name: str) -> Mapping[str, str] | None:
        """Remove a namespace."""
        old = self.namespaces.pop(name, None)
        if old is not None:
            self._changes += 1
            self.affinity.namespace_changed(name)
        return old

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace, empty when it is not known."""
        return self.namespaces.get(name, NO_LABELS)

    def put_selecting(self, selecting: SelectingObject) -> None:
        """Add or update a Service, ReplicaSet, StatefulSet, ReplicationController or PodDisruptionBudget."""
        self._selecting_changed(selecting.namespace)
        if selecting.kind == "PodDisruptionBudget":
            self.budget_log.touch((selecting.namespace, selecting.name))
        by_namespace = self.selecting.setdefault(selecting.kind, {})
        by_namespace.setdefault(selecting.namespace, {})[selecting.name] = selecting
        if selecting.kind == "Service":
            self.services.put(selecting)

    def drop_selecting(self, kind: str, namespace: str, name: str) -> None:
        """Remove a Service, ReplicaSet, StatefulSet, ReplicationController or PodDisruptionBudget."""
        self._selecting_changed(namespace)
        if kind == "PodDisruptionBudget":
            self.budget_log.touch((namespace, name))
        by_namespace = self.selecting.get(kind, {})
        there = by_namespace.get(namespace, {})
        there.pop(name, None)
        if not there:
            by_namespace.pop(namespace, None)
            if not any(namespace in of_kind for of_kind in self.selecting.values()):
                del self.selecting_changes[namespace]  # namespaces come and go without end
        if kind == "Service":
            self.services.drop(namespace, name)

    def put_device(self, thing: DeviceKind) -> DeviceKind | None:
        """Add or update a resource claim, slice, device class or taint rule; returns what was there before."""
        changes = self.devices.resource_changes
        before = self.devices.put(thing)
        self._resources_changed(changes)
        return before

    def drop_device(self, kind: str, namespace: str, name: str) -> DeviceKind | None:
        """Remove a resource claim, slice, device class or taint rule; returns what was there."""
        changes = self.devices.resource_changes
        before = self.devices.drop(kind, namespace, name)
        self._resources_changed(changes)
        return before

    def settle_devices(self) -> None:
        """Make kept scores look again at nodes where devices were given or taken back, if scores count devices."""
        log, seen = self.devices.log, self._devices_seen
        if seen == log.version:
            return
        self._devices_seen = log.version
        if not self.devices.scored:
            return
        nodes, changes = self.nodes, log.since(seen)
        names = None if changes is None else self._nodes_of(changes)
        rows: Iterable[int] = range(nodes.rows)
        if names is not None:
            rows = [row for name in names if (row := nodes.row_of(name)) is not None]
        for row in rows:
            nodes.log.touch(row)

    def _nodes_of(self, changes: Iterable[Change]) -> set[str] | None:
        """Return the nodes whose devices changed; None: any may be, as a pool is gone, or not of single nodes."""
        names = {change.left for change in changes}
        for pool in {change.pool for change in changes}:
            places = [] if pool is None else [one.access.node_name for one in self.devices.slices_of(pool).values()]
            if not places or not all(places):
                return None
            names.update(places)
        return names

    def _resources_changed(self, changes: int) -> None:
        """Make nodes be looked at again if device classes serve other extended resources than before."""
        if self.devices.resource_changes != changes:
            for row in range(self.nodes.rows):
                self.nodes.log.touch(row)

    def _selecting_changed(self, namespace: str) -> None:
        self._selecting_number += 1
        self.selecting_changes[namespace] = self._selecting_number

    def apart(self, storage: Storage, pods: Mapping[int, list[Pod]]) -> None:
        """Turn this copy of a cluster into one for a dry run: it knows no pod by name, and its changes show nowhere
        else.

        Objects other than nodes and pods stay shared. `storage`: the storage objects, with the volumes that the pods
        of the copy use. `pods`: row → these pods.
        """
        self.unnamed_on = pods
        self.nominations = self.nominations.copied()
        self.storage = storage
        groups, self.pod_groups = self.pod_groups, PodGroups()
        self.pod_groups.followed = groups.followed
        self.priorities = Counter()
        self._placed, self.on_row, self.supposed, self.supposed_leaving, self._left_out = {}, {}, {}, {}, set()

    def adopt(self, made: "Cluster") -> None:
        """Use the columns and counts of a cluster that was rebuilt from this one."""
        self.nodes, self.affinity = made.nodes, made.affinity
        self.storage.follow(made.nodes)

    def _place(self, pod: Pod, row: int, *, assumed: bool) -> None:
        placement = Placement(pod, row, assumed)
        self._placed[pod.uid] = placement
        self.on_row.setdefault(row, {})[pod.uid] = placement
        self.priorities[pod.priority] += 1
        self.nodes.charge(row, pod.shape, 1)
        self.affinity.add(pod, row)
        if pod.shape.volumes is not NO_VOLUMES:
            self.storage.place(pod, row, 1)

    def _exchange(self, placement: Placement, pod: Pod) -> None:
        """Exchange a placed pod for another one that counts the same in all columns."""
        self._changes += 1
        self.priorities[placement.pod.priority] -= 1
        self.priorities[pod.priority] += 1
        placement.pod = pod

    def _take(self, placement: Placement) -> None:
        pod, row = placement.pod, placement.row
        del self._placed[pod.uid]
        self.priorities[pod.priority] -= 1
        on_row = self.on_row[row]
        del on_row[pod.uid]
        if not on_row:
            del self.on_row[row]
        self.nodes.charge(row, pod.shape, -1)
        self.affinity.remove(pod, row)
        if pod.shape.volumes is not NO_VOLUMES:
            self.storage.place(pod, row, -1)
        self.nodes.release_row(row)

    def _suppose(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod (sign 1) or take it back (-1) for a dry run only."""
        for supposed in (self.supposed, self.supposed_leaving) if pod.terminating else (self.supposed,):
            net = sign
            if pod.uid in supposed:
                net += supposed.pop(pod.uid)[2]
            if net:
                supposed[pod.uid] = (pod, row, net)
        self.nodes.suppose(row, pod.shape, sign)
        if sign > 0:
            self.affinity.add(pod, row)
        else:
            self.affinity.remove(pod, row)
        if pod.shape.volumes is not NO_VOLUMES:
            self.storage.suppose(pod, row, sign)


def _same(one: Pod, other: Pod) -> bool:
    """Return whether two pods of different shape objects count the same."""
    a, b = one.shape, other.shape
    return (
        a.namespace == b.namespace
        and one.terminating == other.terminating
        and a.nonzero == b.nonzero
        and a.host_ports == b.host_ports
        and a.affinity_terms == b.affinity_terms
        and a.anti_affinity_terms == b.anti_affinity_terms
        and a.preferred_pod_terms == b.preferred_pod_terms
        and a.volumes == b.volumes
        and a.annotations == b.annotations
    )
