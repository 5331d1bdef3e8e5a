"""Counts the pods of a gang that find a node: by sums where they are equal, else by placing one after the other in a
dry run.

Placing follows the order in which the scheduler tries them, each with those before it on their nodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from podberth.cache.cluster import Cluster
from podberth.explain.gangs.gang import Domain
from podberth.explain.simulate.room import Room, room
from podberth.explain.trial import placing
from podberth.framework.decision import Decision, fit_error
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod


class Fitting:
    """Counts how many pods fit, and what that costs.

    `work`: the number of pods that may be placed in a dry run. After that `spent` is true, and only sums are used.
    """

    def __init__(self, framework: Framework, cluster: Cluster, work: int) -> None:
        self.framework = framework
        self.cluster = cluster
        self.left = work
        self.notes: dict[str, None] = {}
        """The notes for the answer, each line once."""

    @property
    def spent(self) -> bool:
        """Return whether no more pods may be placed in a dry run."""
        return self.left <= 0

    def room(self, members: Sequence[Pod]) -> Room | None:
        """Return the number of pods like these that each node takes; None where sums do not say, as the pods differ or
        more decides.

        If a plugin fails only here, where it counts, the pods are placed one by one, and a note says so.
        """
        if not alike(members, self.cluster):
            return None
        try:
            return room(members[0], self.framework, self.cluster)
        except PluginError as error:
            self.notes[f"the pods could not be counted by sums, and are placed one by one: {error}"] = None
            return None

    def starts(self, members: Sequence[Pod], where: Sequence[Domain], needed: int) -> bool:
        """Return whether the needed number of pods find a node in one of the domains. Raises PluginError."""
        found = self.room(members)
        if found is not None:
            return any(in_domain(found, one) >= needed for one in where) and len(members) >= needed
        return any(self._enough(members, one, needed) for one in where)

    def most(self, members: Sequence[Pod], where: Sequence[Domain]) -> list[int | None]:
        """Return the number of pods that find a node in each domain; None: finding out would cost too much.

        Raises PluginError.
        """
        found = self.room(members)
        if found is not None:
            return [min(in_domain(found, one), len(members)) for one in where]
        return [self._count(members, one) for one in where]

    def _count(self, members: Sequence[Pod], domain: Domain) -> int | None:
        if self.spent:
            return None
        with self.placed(members, domain) as part:
            return len(part.nodes)

    def _enough(self, members: Sequence[Pod], domain: Domain, needed: int) -> bool:
        with self.placed(members, domain, needed, explained=False) as part:
            return len(part.nodes) >= needed

    @contextmanager
    def placed(
        self, members: Sequence[Pod], domain: Domain, needed: int = 0, *, explained: bool = True
    ) -> "Iterator[Part]":
        """Place as many of the pods as fit while the block runs.

        At the pod where it is clear that fewer than `needed` fit, the reason is found; if it is not to be `explained`,
        placing ends as soon as it is clear whether as many fit. Raises PluginError.
        """
        part, spare = Part(), len(members) - needed
        refused: dict[object, Refused] = {}
        mask = domain.mask(self.cluster)
        with placing(self.framework, self.cluster) as thought:
            for pod in members:
                if not explained and (spare < 0 or len(part.nodes) >= needed or self.spent):
                    break
                kind, node = _kind(pod, self.cluster), None
                if kind not in refused:
                    self.left -= 1
                    node = thought.put(pod, mask)
                if node is not None:
                    part.nodes[pod.key] = node
                    continue
                known = refused.get(kind)
                if known is None:
                    refused[kind] = known = Refused(pod)
                    part.refused.append(known)
                known.pods += 1
                spare -= 1
                if explained and spare < 0 and part.stopped is None:
                    part.stopped = Stopped(pod, known, *self._why(pod, domain))
            yield part

    def _why(self, pod: Pod, domain: Domain) -> tuple[str, Decision | None]:
        """Return kube-scheduler's message for a pod that fits nowhere, and the decision behind it."""
        try:
            decision = self.framework.decide(pod, self.cluster, within=domain.mask(self.cluster))
        except PluginError as error:
            return str(error), None
        return fit_error(decision), decision


@dataclass(slots=True)
class Refused:
    """Equal pods that find no node. `pod`: the first of them."""

    pod: Pod
    pods: int = 0


@dataclass(slots=True)
class Stopped:
    """The pod at which it was clear that too few fit, and the reason why it fits nowhere."""

    pod: Pod
    kind: Refused
    message: str
    decision: Decision | None


@dataclass(slots=True)
class Part:
    """The part of a gang that fits. `nodes`: namespace/name of a pod → its node."""

    nodes: dict[str, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    stopped: Stopped | None = None


def in_domain(found: Room, domain: Domain) -> int:
    """Return the number of pods that all nodes of a domain take."""
    return int(found.counts[domain.rows].sum())


def alike(members: Sequence[Pod], cluster: Cluster) -> bool:
    """Return whether all pods have one shape, and equal claims of their own, so that they find the same."""
    if not members:
        return False
    first = members[0]
    if any(pod.shape is not first.shape or pod.priority != first.priority for pod in members):
        return False
    by_labels = {_by_labels(pod, cluster) for pod in members}
    if any(by_labels) and any(pod.labels != first.labels for pod in members):
        return False
    if not first.shape.claims:
        return True
    asked = [_asked(pod, cluster) for pod in members]
    return asked[0] is not None and all(one == asked[0] for one in asked)


def _asked(pod: Pod, cluster: Cluster) -> list[object] | None:
    """Return the devices that the claims of a pod ask for; None: some are shared, missing, or allocated already."""
    made, found = dict(pod.made_claims), list[object]()
    for one in pod.shape.claims:
        name = None if one.template is None else made.get(one.name)
        claim = None if name is None else cluster.devices.claims.get((pod.namespace, name))
        if claim is None or claim.allocation is not None:
            return None
        found.append(claim.spec)
    return found


def _kind(pod: Pod, cluster: Cluster) -> object:
    """Return a key of pods that are refused together: where one fits nowhere, the next one does not either."""
    labels = tuple(sorted(pod.labels.items())) if _by_labels(pod, cluster) else ()
    return id(pod.shape), pod.priority, pod.made_claims if pod.shape.claims else (), labels


def _by_labels(pod: Pod, cluster: Cluster) -> bool:
    """Return whether the pod's labels may decide where it fits."""
    shape = pod.shape
    own = shape.affinity_terms or shape.anti_affinity_terms or shape.spread
    return bool(own) or bool(cluster.affinity.repelling(pod))
