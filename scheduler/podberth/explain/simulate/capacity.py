"""Counts how many more pods like one fit, where, what keeps the next one out, and what one more node would add.

They are placed one after the other by an engine, until one fits nowhere. Nobody is preempted for them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import field
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.explain.changes import AddNode
from podberth.explain.explanation import Answer, Limit, Shown, limits
from podberth.explain.rejections import against, kept_rows, put_there
from podberth.explain.remedies import templates_of
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.simulation import Simulation, UndecidedError
from podberth.explain.trial import applied
from podberth.framework.decision import fit_error
from podberth.framework.runtime import Framework
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.quantity import show

_KINDS = 12
_ONE_EACH = "a DaemonSet has one pod on each node"


class NodeRoom(Shown, frozen=True):
    """The number of pods that fit on a node, and the reasons for which the next one does not."""

    node: str
    pods: int
    limits: list[str]


class Stranded(Shown, frozen=True):
    """The amount of a resource that is free and of no use for such pods once no more fit; `most`: on one node,
    `node`."""

    resource: str
    free: str
    share: float
    most: str
    node: str


class OneMore(Shown, frozen=True):
    """The number of pods that one more node of a make adds; `nodes`: how many of the make there are."""

    like: str
    nodes: int
    adds: int


class Capacity(Answer, kw_only=True, frozen=True):
    """The answer. `exhausted`: false when the search ended at a bound, so that more may fit.

    `claims`: what each pod claims from ResourceClaimTemplates, in words.
    """

    kind: str = "Capacity"
    profile: str
    pod: str
    requests: dict[str, str]
    fits: int
    exhausted: bool
    nodes: list[NodeRoom]
    limits: list[Limit]
    message: str | None
    stranded: list[Stranded]
    one_more: list[OneMore]
    notes: list[str]
    claims: dict[str, str] = field(default_factory=dict)


def capacity(cluster: Cluster, framework: Framework, batch: Batch) -> Capacity:
    """Return how many more pods of a batch fit. The cluster may keep those that were placed.

    Raises PluginError, UndecidedError.
    """
    if batch.workload.daemon:
        return _of_daemon(cluster, framework, batch)
    pod = replace(batch.pod(0), preempts=False)
    names = cluster.nodes.names
    kept = _keep_nodes(pod, cluster)
    before = _free(cluster, pod)
    filling = Filling(cluster, framework, batch)
    counts, exhausted = filling.counts(), filling.exhausted
    following = filling.next()
    gate, decision = framework.pre_enqueue(following, cluster), framework.find(following, cluster)
    message = None if not exhausted else gate[1].text if gate else fit_error(decision)
    reasons = against(decision)
    if gate is not None:  # it waits although nodes would take it
        reasons |= {row: [gate[1].text] for row in decision.feasible.tolist()}
    for row, whom in _kept_out(kept, following, framework, cluster):
        reasons[row] = [*reasons.get(row, []), f"it is kept for {whom}"]
    one_more = list(filling.one_more()) if exhausted else []
    rows = [row for row, _ in cluster.nodes.live()]
    nodes = [NodeRoom(names[row] or "", int(counts[row]), reasons.get(row, [])) for row in rows]
    nodes.sort(key=lambda each: (-each.pods, each.node))
    return Capacity(
        profile=framework.profile.name,
        pod=batch.owner.partition(" ")[2],
        requests=_requests(pod),
        claims=batch.claims,
        fits=int(counts.sum()),
        exhausted=exhausted,
        nodes=nodes,
        limits=limits(reason for each in nodes for reason in each.limits),
        message=message,
        stranded=list(_stranded(cluster, pod, before, counts)),
        one_more=one_more,
        notes=list(batch.notes),
    )


def _of_daemon(cluster: Cluster, framework: Framework, batch: Batch) -> Capacity:
    """Return on which nodes a pod of a DaemonSet fits that has to run there and does not yet.

    Raises PluginError, UndecidedError.
    """
    batch.find_nodes()
    _keep_nodes(batch.first, cluster)
    simulation = Simulation({framework.profile.name: framework}, cluster)
    nodes = []
    for number, node in enumerate(batch.nodes):
        simulation.put_all(batch.objects(number))
        pod = replace(batch.pod(number), preempts=False)
        row = cluster.nodes.live_row(node)
        assert row is not None
        gate, decision = framework.pre_enqueue(pod, cluster), framework.find(pod, cluster)
        simulation.put(pod)
        simulation.work()
        if pod.uid in simulation.undecided:
            raise UndecidedError(simulation.undecided[pod.uid])
        if simulation.where(pod.uid) is not None:
            nodes.append(NodeRoom(node, 1, [_ONE_EACH]))
            continue
        simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
        nodes.append(NodeRoom(node, 0, [gate[1].text] if gate else against(decision).get(row, [])))
    nodes.sort(key=lambda each: (-each.pods, each.node))
    return Capacity(
        profile=framework.profile.name,
        pod=batch.owner.partition(" ")[2],
        requests=_requests(batch.first),
        claims=batch.claims,
        fits=sum(each.pods for each in nodes),
        exhausted=True,
        nodes=nodes,
        limits=limits(reason for each in nodes for reason in each.limits),
        message=None,
        stranded=[],
        one_more=[],
        notes=[*batch.notes, "only nodes on which the DaemonSet has to run and has no pod yet are counted"],
    )


def _requests(pod: Pod) -> dict[str, str]:
    return {name: show(name, amount) for name, amount in pod.shape.requests.items() if amount}


def _keep_nodes(pod: Pod, cluster: Cluster) -> dict[int, list[Pod]]:
    """Place the pods that nodes are kept for before this one where they are nominated; return them by row."""
    kept = kept_rows(pod, cluster)
    for pods in kept.values():
        for each in pods:
            cluster.nominations.drop(each.uid)
    return {row: put_there(pods, row, cluster) for row, pods in kept.items()}


def _kept_out(
    kept: Mapping[int, list[Pod]], pod: Pod, framework: Framework, cluster: Cluster
) -> Iterator[tuple[int, str]]:
    """Yield (row, names) of nodes that take one more pod but for those nominated there. Raises PluginError."""
    if not kept:
        return
    full = set(kept) - set(framework.find(pod, cluster).feasible.tolist())
    for row in full:
        for each in kept[row]:
            cluster.drop_pod(each.uid)
    taken = framework.find(pod, cluster).feasible.tolist() if full else []
    for row in full:
        for each in kept[row]:
            cluster.put_pod(each)
    yield from ((row, ", ".join(each.key for each in kept[row])) for row in full.intersection(taken))


class Filling:
    """Fills a cluster with pods, one after the other, until one fits nowhere."""

    def __init__(self, cluster: Cluster, framework: Framework, batch: Batch) -> None:
        self._cluster = cluster
        self._framework = framework
        self._batch = batch
        self._simulation = Simulation({framework.profile.name: framework}, cluster)
        self.exhausted = False
        """True if no more fit; false when the search ended at a bound."""
        self._placed = self._place()

    def counts(self) -> Ints:
        """Return int64[rows]: how many went where."""
        counts = np.zeros(self._cluster.nodes.rows, dtype=np.int64)
        for row in self._placed:
            counts[row] += 1
        return counts

    def one_more(self) -> Iterator[OneMore]:
        """Yield what a node more takes of those that fit nowhere; the pods leave again."""
        for node, number in makes(self._cluster):
            with applied(self._cluster, [AddNode(node.name)]):
                known = self._simulation.placed
                adds = len(self._place())
                for uid, (pod, _) in self._simulation.placed.items():
                    if uid not in known:
                        self._simulation.gone("Pod", pod.namespace, pod.name, uid)
                yield OneMore(node.name, number, adds)

    def next(self) -> Pod:
        """Return the first pod that was not created yet; its claims exist."""
        for thing in self._batch.objects(self._batch.made):
            self._simulation.put(thing)
        return replace(self._batch.pod(self._batch.made), preempts=False)

    def _place(self) -> list[int]:
        simulation, batch = self._simulation, self._batch
        rows: list[int] = []
        while len(rows) < batch.most:
            pod = self.next()
            batch.made += 1
            simulation.put(pod)
            simulation.work()
            where = simulation.where(pod.uid)
            if where is None:
                if pod.uid in simulation.undecided:
                    raise UndecidedError(simulation.undecided[pod.uid])
                simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
                self.exhausted = True
                return rows
            rows.append(self._row(where[1]))
            if batch.equal and pod.uid in simulation.bound:
                first = batch.made
                batch.made += simulation.repeat(pod, batch.equals(first + batch.most - len(rows)))
                rows += [
                    self._row(simulation.bound[f"new/{batch.key(number)}"][1]) for number in range(first, batch.made)
                ]
        self.exhausted = False
        return rows

    def _row(self, node: str) -> int:
        row = self._cluster.nodes.live_row(node)
        assert row is not None
        return row


def makes(cluster: Cluster) -> list[tuple[Node, int]]:
    """Return a node of each make, and how many there are of it, the most frequent first."""
    found = templates_of(node for _, node in cluster.nodes.live())
    return sorted(found, key=lambda each: (-each[1], each[0].name))[:_KINDS]


def _free(cluster: Cluster, pod: Pod) -> Mapping[str, Ints]:
    """Return int64[rows] by resource that the pod asks for: what is left."""
    nodes = cluster.nodes
    found = {}
    for name, amount in pod.shape.requests.items():
        index = nodes.resources.get(name)
        if amount > 0 and index is not None:
            left = nodes.allocatable[index, : nodes.rows] - nodes.requested[index, : nodes.rows]
            found[name] = np.where(nodes.alive[: nodes.rows], np.maximum(left, 0), 0)
    return found


def _stranded(cluster: Cluster, pod: Pod, free: Mapping[str, Ints], counts: Ints) -> Iterator[Stranded]:
    nodes = cluster.nodes
    for name, left in free.items():
        rest = left - counts[: len(left)] * pod.shape.requests[name]
        if not len(rest) or rest.max() <= 0:
            continue
        total = int(nodes.allocatable[nodes.resources[name], : nodes.rows][nodes.alive[: nodes.rows]].sum())
        row = int(rest.argmax())
        yield Stranded(
            name,
            show(name, int(rest.sum())),
            round(float(rest.sum()) / max(total, 1), 4),
            show(name, int(rest[row])),
            nodes.names[row] or "",
        )
