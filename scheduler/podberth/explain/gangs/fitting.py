"""Counts the pods of a gang that find a node, by placing one after the other in a dry run.

They are placed in the order in which the scheduler tries them, each with those before it on their nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from podberth.cache.cluster import Cluster
from podberth.explain.alike import likeness
from podberth.explain.gangs.gang import Domain
from podberth.explain.rejections import against
from podberth.explain.trial import placing
from podberth.framework.decision import Decision, fit_error
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod


class Fitting:
    """Counts how many pods fit, and what that costs.

    `work`: the number of pods that may be placed. After that `spent` is true, and nothing more is tried.
    """

    def __init__(self, framework: Framework, cluster: Cluster, work: int) -> None:
        self.framework = framework
        self.cluster = cluster
        self.left = work

    @property
    def spent(self) -> bool:
        """Return whether no more pods may be placed."""
        return self.left <= 0

    def enough(self, members: Sequence[Pod], where: Iterable[Domain], needed: int) -> int | None:
        """Return how many of the pods find a node in the first domain that takes as many as needed; None: none does.

        Raises PluginError.
        """
        found = (self.count(members, one) for one in where)
        return next((number for number in found if number is not None and number >= needed), None)

    def count(self, members: Sequence[Pod], domain: Domain) -> int | None:
        """Return the number of pods that find a node in a domain; None: finding out would cost too much.

        Raises PluginError.
        """
        if self.spent:
            return None
        with self.placed(members, domain) as part:
            return len(part.nodes)

    def limits(self, members: Sequence[Pod], domain: Domain) -> tuple[int | None, dict[int, list[str]]]:
        """Return `count`, and the reasons that keep the next pod out of each row. Raises PluginError."""
        if self.spent:
            return None, {}
        with self.placed(members, domain) as part:
            following = part.refused[0].pod if part.refused else members[0]
            decision = self.framework.find(following, self.cluster, nominated=False)
            return len(part.nodes), against(decision)

    @contextmanager
    def placed(self, members: Sequence[Pod], domain: Domain, needed: int = 0) -> "Iterator[Part]":
        """Place as many of the pods as fit while the block runs.

        At the pod where it is clear that fewer than `needed` fit, the reason is found. Raises PluginError.
        """
        part, spare = Part(), len(members) - needed
        refused: dict[object, Refused] = {}
        mask = domain.mask(self.cluster)
        with placing(self.framework, self.cluster) as thought:
            for pod in members:
                kind, node = (likeness(pod, self.framework, self.cluster), pod.priority), None
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
                if needed and spare < 0 and part.stopped is None:
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
