"""Counts how many more gangs fit: as many pods together as the group asks for, each time.

Where all pods are equal and what happens on one node changes nothing on another it is a sum for each domain; else gangs
are placed one after the other by an engine, until one does not start. Nobody is preempted for them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.explain.changes import AddNode
from podberth.explain.explanation import Limit
from podberth.explain.gangs.fitting import in_domain
from podberth.explain.gangs.gang import Domain, Gang, domains
from podberth.explain.rejections import against
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.capacity import API_VERSION, OneMore, all_alike, makes
from podberth.explain.simulate.room import Room, room
from podberth.explain.simulate.simulation import Simulation, UndecidedError
from podberth.explain.trial import applied
from podberth.framework.decision import fit_error
from podberth.framework.runtime import Framework
from podberth.model.devices import ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.quantity import show

KIND = "GangCapacity"
MOST = 20_000
"""Pods that are placed one after the other at most."""
_LIMITS = 20


class DomainGangs(Struct, rename="camel", frozen=True):
    """The number of gangs that fit on the nodes of a domain, and of their pods. `domain` is empty for all nodes."""

    domain: str
    gangs: int
    pods: int


class GangCapacity(Struct, rename="camel", kw_only=True, frozen=True):
    """The answer. `pods`: of one gang; `needed`: how many of them start together.

    `exhausted`: false when the search ended at a bound, so that more may fit. `requests`, `claims`: what each pod asks
    for; if not all are `equal`, what all pods of a gang ask for together.
    """

    api_version: str = field(default=API_VERSION)
    kind: str = field(default=KIND)
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
    found = _by_sums(cluster, framework, group, batches)
    if found is None:
        found = one_by_one(cluster, framework, group, batches, most=most)
    return found


def _by_sums(cluster: Cluster, framework: Framework, group: PodGroup, batches: Sequence[Batch]) -> GangCapacity | None:
    """Return the answer where sums over nodes give it; None where pods have to be placed to find out."""
    [batch] = batches if len(batches) == 1 else [None]
    if (
        batch is None
        or group.min_resources is not None
        or not (batch.equal or (batch.differs_by_claims and not batch.volume_claims(0) and batch.alike(0)))
    ):
        return None
    if not batch.equal:
        for claim in batch.objects(0):
            if isinstance(claim, ResourceClaim):
                cluster.devices.put(claim)
    pod = replace(batch.pod(0), preempts=False)

    def count() -> tuple[Room, list[Domain]] | None:
        rooms = room(pod, framework, cluster)
        where = domains(Gang(group, (), ()), framework, cluster)
        return None if rooms is None else (rooms, where)

    now = count()
    if now is None or not all_alike(batch, int(now[0].counts.sum())):
        return None
    size = batch.count
    fit = _in_domains(*now, size, group.needed)
    more = []
    for node, number in makes(cluster):
        with applied(cluster, [AddNode(node.name)]):
            then = count()
            assert then is not None
            after = sum(each.gangs for each in _in_domains(*then, size, group.needed))
        more.append(OneMore(node.name, number, after - sum(each.gangs for each in fit)))
    decision = framework.find(pod, cluster)
    reasons = against(decision) | {row: [reason] for row, reason in now[0].limits.items()}
    message = fit_error(decision) if not len(decision.feasible) else ""
    return _answer(framework, group, batches, fit, reasons, message, more, exhausted=True)


def _in_domains(rooms: Room, where: Sequence[Domain], size: int, needed: int) -> list[DomainGangs]:
    return [DomainGangs(one.name, *_gangs(in_domain(rooms, one), size, needed)) for one in where]


def _gangs(free: int, size: int, needed: int) -> tuple[int, int]:
    """Return (gangs, their pods) for so much room: the last gang may be without some of its pods."""
    whole, rest = divmod(free, max(size, 1))
    if size < needed:
        return 0, 0
    return (whole + 1, free) if rest >= needed else (whole, whole * size)


def one_by_one(
    cluster: Cluster, framework: Framework, group: PodGroup, batches: Sequence[Batch], *, most: int = MOST
) -> GangCapacity:
    """Return the answer by placing one gang after the other, as an engine does. Raises PluginError, UndecidedError."""
    simulation = Simulation({framework.profile.name: framework}, cluster)
    size = sum(batch.count for batch in batches)
    gangs = 0
    domains_of: Counter[str] = Counter()
    pods_of: Counter[str] = Counter()
    message, exhausted = "", False
    where = domains(Gang(group, (), ()), framework, cluster)
    domain_of = {row: one.name for one in where for row in one.rows.tolist()}
    while (gangs + 1) * size <= most or not gangs:
        made = list(_put(simulation, group, batches, gangs))
        simulation.work()
        bound = [simulation.bound[pod.uid] for pod in made if pod.uid in simulation.bound]
        for pod in made:
            if pod.uid in simulation.undecided:
                raise UndecidedError(simulation.undecided[pod.uid])
        if len(bound) < group.needed:
            last = next((simulation.failed[pod.uid] for pod in reversed(made) if pod.uid in simulation.failed), None)
            message, exhausted = "" if last is None else last[1], True
            for pod in made:
                simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
            break
        row = cluster.nodes.live_row(bound[0][1])
        name = domain_of.get(-1 if row is None else row, "")
        gangs += 1
        domains_of[name] += 1
        pods_of[name] += len(bound)
    fit = [DomainGangs(one.name, domains_of[one.name], pods_of[one.name]) for one in where]
    first = replace(batches[0].pod(0), preempts=False)
    reasons = against(framework.find(first, cluster))
    return _answer(framework, group, batches, fit, reasons, message, [], exhausted=exhausted)


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


def _answer(
    framework: Framework,
    group: PodGroup,
    batches: Sequence[Batch],
    fit: Sequence[DomainGangs],
    reasons: dict[int, list[str]],
    message: str,
    more: list[OneMore],
    *,
    exhausted: bool,
) -> GangCapacity:
    equal = len(batches) == 1
    asked: Counter[str] = Counter()
    for batch in batches:
        for name, amount in batch.pod(0).shape.requests.items():
            asked[name] += amount * (1 if equal else batch.count)
    limits = Counter(reason for each in reasons.values() for reason in each)
    ordered = sorted(limits.items(), key=lambda item: (-item[1], item[0]))[:_LIMITS]
    size = sum(batch.count for batch in batches)
    notes = [note for batch in batches for note in batch.notes]
    if size < group.needed:
        notes.append(f"the group asks for {group.needed:,} pods, and there are {size:,}")
    return GangCapacity(
        profile=framework.profile.name,
        group=str(group.key),
        pods=size,
        needed=group.needed,
        equal=equal,
        requests={name: show(name, amount) for name, amount in asked.items() if amount},
        claims={name: said for batch in batches for name, said in batch.claims.items()},
        gangs=sum(each.gangs for each in fit),
        exhausted=exhausted,
        domains=sorted(fit, key=lambda each: (-each.gangs, each.domain)),
        limits=[Limit(reason, number) for reason, number in ordered],
        message=message,
        one_more=more,
        notes=notes,
    )
