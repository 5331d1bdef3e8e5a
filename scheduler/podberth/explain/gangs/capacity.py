"""Counts how many more gangs fit: as many pods together as the group asks for, each time.

They are placed one after the other by an engine, until one does not start. Nobody is preempted for them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.explain.changes import AddNode
from podberth.explain.explanation import Answer, Limit, Shown, limits
from podberth.explain.gangs.gang import Gang, domains, unheeded
from podberth.explain.rejections import against
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.capacity import OneMore, makes
from podberth.explain.simulate.simulation import Simulation, UndecidedError
from podberth.explain.trial import applied
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.quantity import show

MOST = 20_000
"""Pods that are placed one after the other at most."""
_LIMITS = 20


class DomainGangs(Shown, frozen=True):
    """The number of gangs that fit on the nodes of a domain, and of their pods. `domain` is empty for all nodes."""

    domain: str
    gangs: int
    pods: int


class GangCapacity(Answer, kw_only=True, frozen=True):
    """The answer. `pods`: of one gang; `needed`: how many of them start together.

    `exhausted`: false when the search ended at a bound, so that more may fit. `requests`, `claims`: what each pod asks
    for; if not all are `equal`, what all pods of a gang ask for together.
    """

    kind: str = "GangCapacity"
    profile: str
    group: str
    pods: int
    needed: int
    equal: bool
    requests: dict[str, str]
    claims: dict[str, str]
    gangs: int
    exhausted: bool
    domains: list[DomainGangs]
    limits: list[Limit]
    message: str
    one_more: list[OneMore]
    notes: list[str]


def gang_capacity(
    cluster: Cluster, framework: Framework, group: PodGroup, batches: Sequence[Batch], *, most: int = MOST
) -> GangCapacity:
    """Return how many more gangs with the pods of these workloads fit. The cluster may keep those that were placed.

    Raises PluginError, UndecidedError.
    """
    filling = _Filling(cluster, framework, group, batches)
    placed = filling.place(most)
    where = domains(Gang(group, (), ()), framework, cluster)
    domain_of = {row: one.name for one in where for row in one.rows.tolist()}
    gangs_in, pods_in = Counter[str](), Counter[str]()
    for nodes in placed:
        row = cluster.nodes.live_row(nodes[0])
        name = domain_of.get(-1 if row is None else row, "")
        gangs_in[name] += 1
        pods_in[name] += len(nodes)
    fit = [DomainGangs(one.name, gangs_in[one.name], pods_in[one.name]) for one in where]
    reasons = against(framework.find(filling.next(), cluster))
    message, exhausted = filling.message, filling.exhausted
    one_more = list(filling.one_more(most)) if exhausted else []
    size = sum(batch.count for batch in batches)
    notes = [*unheeded([group], framework), *(note for batch in batches for note in batch.notes)]
    if size < group.needed:
        notes.append(f"the group asks for {group.needed:,} pods, and there are {size:,}")
    return GangCapacity(
        profile=framework.profile.name,
        group=str(group.key),
        pods=size,
        needed=group.needed,
        equal=len(batches) == 1,
        requests={name: show(name, amount) for name, amount in _asked(batches).items() if amount},
        claims={name: said for batch in batches for name, said in batch.claims.items()},
        gangs=len(placed),
        exhausted=exhausted,
        domains=sorted(fit, key=lambda each: (-each.gangs, each.domain)),
        limits=limits(chain.from_iterable(reasons.values()), _LIMITS),
        message=message,
        one_more=one_more,
        notes=notes,
    )


class _Filling:
    """Places one gang after the other, until one does not start."""

    def __init__(self, cluster: Cluster, framework: Framework, group: PodGroup, batches: Sequence[Batch]) -> None:
        self._cluster = cluster
        self._group = group
        self._batches = batches
        self._simulation = Simulation({framework.profile.name: framework}, cluster)
        self._made = 0
        self.message = ""
        """What was said of the gang that does not start."""
        self.exhausted = False

    def place(self, most: int) -> list[list[str]]:
        """Return the nodes of the pods of each gang that starts. `most`: pods. Raises UndecidedError."""
        simulation, size = self._simulation, sum(batch.count for batch in self._batches)
        placed: list[list[str]] = []
        while (len(placed) + 1) * size <= most or not placed:
            made = list(_put(simulation, self._group, self._batches, self._made))
            self._made += 1
            simulation.work()
            for pod in made:
                if pod.uid in simulation.undecided:
                    raise UndecidedError(simulation.undecided[pod.uid])
            nodes = [where[1] for pod in made if (where := simulation.where(pod.uid)) is not None]
            if len(nodes) < max(self._group.needed, 1):
                said = (simulation.failed[pod.uid][1] for pod in reversed(made) if pod.uid in simulation.failed)
                self.message, self.exhausted = next(said, ""), True
                self._take_back(made)
                return placed
            placed.append(nodes)
        self.exhausted = False
        return placed

    def next(self) -> Pod:
        """Return the first pod of the next gang, by itself; its claims exist."""
        batch = self._batches[0]
        number = self._made * batch.count
        self._simulation.put_all(batch.objects(number))
        return replace(batch.pod(number), preempts=False)

    def one_more(self, most: int) -> Iterator[OneMore]:
        """Yield how many of the gangs that do not start would with a node more of a make; their pods leave again."""
        for node, number in makes(self._cluster):
            with applied(self._cluster, [AddNode(node.name)]):
                known = self._simulation.placed
                adds = len(self.place(most))
                self._take_back(pod for uid, (pod, _) in self._simulation.placed.items() if uid not in known)
            yield OneMore(node.name, number, adds)

    def _take_back(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid)


def _put(simulation: Simulation, group: PodGroup, batches: Sequence[Batch], number: int) -> Iterator[Pod]:
    """Add the pods of one more gang as waiting, and yield them."""
    key = group.key._replace(name=f"{group.name}-{number}")
    simulation.put(replace(group, key=key, uid=f"new/{key}", preempts=False, conditions=()))
    for batch in batches:
        for i in range(number * batch.count, (number + 1) * batch.count):
            simulation.put_all(batch.objects(i))
            pod = replace(batch.pod(i), preempts=False, scheduling_group=key)
            simulation.put(pod)
            yield pod


def _asked(batches: Sequence[Batch]) -> Counter[str]:
    """Return the requests of each pod; where workloads differ, those of all pods of a gang together."""
    asked: Counter[str] = Counter()
    for batch in batches:
        for name, amount in batch.pod(0).shape.requests.items():
            asked[name] += amount * (1 if len(batches) == 1 else batch.count)
    return asked
