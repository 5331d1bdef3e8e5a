"""Explains a pod group: the largest part that fits, what stops the rest, each domain's shortfall, and what would help.

No I/O, as in `podberth.explain.explain`: from a gang, a framework and a cluster to a `GroupExplanation`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.pod_groups.attempt import GROUP_UNSCHEDULABLE, unsatisfied
from podberth.engine.pod_groups.validation import disagreement
from podberth.explain.doubts import misspelt
from podberth.explain.explanation import limits
from podberth.explain.gangs import answer as shown
from podberth.explain.gangs.answer import GroupExplanation
from podberth.explain.gangs.fitting import Fitting, Part
from podberth.explain.gangs.gang import Domain, Gang, by_label, domains, heeds_topology, kept_from, said_of, unheeded
from podberth.explain.gangs.remedies import Remedies
from podberth.explain.rejections import Asking, cause, stuck_at
from podberth.explain.remedies import Plan, plans_for
from podberth.explain.simulate.simulation import Simulation
from podberth.explain.written import Written
from podberth.framework.explaining import Inquiry
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.model.pod_group import INITIALLY_SCHEDULED

WORK = 40_000
"""The number of pods that are placed in a dry run for one answer."""
WrittenOf = Callable[[Pod], Written | None]
_PLACED = 200
_DOMAINS = 1_000
_REASONS = 4
_CLOSEST = 8
_PLANS = 60


def explain_group(
    gang: Gang,
    framework: Framework,
    cluster: Cluster,
    *,
    notes: Sequence[str] = (),
    instead: Sequence[str] = (),
    written: WrittenOf = lambda pod: None,
    work: int = WORK,
) -> GroupExplanation:
    """Try a group in a dry run, and say why it starts or not.

    `notes`: what to say besides; `instead`: if nobody runs the scheduler that its pods name, those that they could
    name; `written`: a pod as it was written, for commands. The cluster is changed while changes are tried, and changed
    back.
    """
    kept = [(pod, node) for pod in gang.waiting if (node := cluster.nominations.drop(pod.uid)) is not None]
    try:
        return _Answer(gang, framework, cluster, [*notes], work).made(instead=instead, written=written)
    finally:
        for pod, node in kept:
            cluster.nominations.put(pod, node)


class _Answer:
    """The answer about one group while it is made."""

    def __init__(self, gang: Gang, framework: Framework, cluster: Cluster, notes: list[str], work: int) -> None:
        self._gang = gang
        self._framework = framework
        self._cluster = cluster
        self._notes = notes
        self._fitting = Fitting(framework, cluster, work)
        self._key = gang.group.topology_key
        self._heeds = heeds_topology(framework)
        self._where: list[Domain] = []

    def made(self, *, instead: Sequence[str], written: WrittenOf) -> GroupExplanation:
        """Return the answer."""
        gang, framework, cluster = self._gang, self._framework, self._cluster
        if not gang.waiting:
            return self._without_waiting()
        profiles = {gang.waiting[0].scheduler_name: framework}
        wrong = disagreement(gang.group, gang.waiting, gang.running, profiles)
        if wrong:
            return self._answer(shown.FAILED, cause=wrong, message=wrong)
        self._notes += unheeded([gang.group], framework)
        if any(pod.shape is not gang.waiting[0].shape for pod in gang.waiting):
            self._notes.append(
                "its pods differ: the first of equally good nodes is taken here, and by berth run any of them, so "
                "an attempt may come out otherwise"
            )
        self._notes += filter(None, [said_of(gang.group)])
        self._notes += kept_from(gang.waiting[0].priority, gang.group.key, cluster)
        held = list(self._held())
        try:
            return self._tried(held, instead=instead, written=written)
        except PluginError as error:
            return self._answer(shown.FAILED, cause=str(error), message=str(error))

    def in_short(self) -> str:
        """Return how many of the pods that wait fit, of those that are needed."""
        gang = self._gang
        said = list(self._held())
        try:
            self._where = domains(gang, self._framework, self._cluster)
            most = [self._fitting.count(gang.waiting, one) or 0 for one in self._where]
        except PluginError as error:
            return str(error)
        fits = max(most, default=0)
        where = f" in one {self._key}" if len(self._where) > 1 else ""
        if fits < gang.lacking:
            said.append(f"{fits:,} of the {gang.lacking:,} that it lacks fit{where}")
        return "; ".join(said)

    def _tried(self, held: Sequence[str], *, instead: Sequence[str], written: WrittenOf) -> GroupExplanation:
        gang = self._gang
        self._where = domains(gang, self._framework, self._cluster)
        if not self._where:
            why = "no feasible placements found"
            return self._answer(shown.UNSCHEDULABLE, cause=f"no node has the label {self._key}", message=why)
        counted = [self._fitting.limits(gang.waiting, one) for one in self._where]
        best = max(range(len(counted)), key=lambda i: (-1 if (fit := counted[i][0]) is None else fit, -i))
        rooms = self._rooms(counted)
        with self._fitting.placed(gang.waiting, self._where[best], gang.lacking) as part:
            stop, why, plans = self._stop(part, self._where[best])
        fits = len(part.nodes)
        lacks = gang.gap(self._cluster)
        enough = fits >= gang.lacking and not gang.missing and not lacks
        message = "" if enough else self._message(part if not best else None)
        if lacks:
            message = f"{GROUP_UNSCHEDULABLE}, {lacks}"
            why = f"its minResources are not free: {lacks}"
        if held:
            outcome, why = shown.HELD, "; ".join(held)
        elif enough:
            outcome, why = shown.UNCLAIMED if instead else shown.STARTS, ""
        else:
            outcome = shown.UNSCHEDULABLE
        offered = Remedies(gang, self._fitting, part, plans, written, instead)
        remedies = [] if outcome in shown.GOOD else offered.found()
        self._notes += offered.notes
        if self._fitting.spent:
            self._notes.append("not every change was tried, and not every domain: that would have taken too long")
        return self._answer(
            outcome,
            fits=fits,
            domain=self._where[best].name,
            placed=dict(list(part.nodes.items())[:_PLACED]),
            cause=why,
            message=message,
            stopped=stop if outcome == shown.UNSCHEDULABLE else None,
            domains=rooms,
            remedies=remedies,
        )

    def _message(self, part: Part | None) -> str:
        """Return kube-scheduler's message for the group. `part`: what fits in the first domain, if it was placed."""
        if part is None:
            with self._fitting.placed(self._gang.waiting, self._where[0], self._gang.lacking) as first:
                part = first
        status = self._status(part)
        if not self._heeds:
            return status
        where = f"0/{len(self._where)} placements are available"
        return f"{GROUP_UNSCHEDULABLE}, {where}, first placement status: {status}"

    def _status(self, part: Part) -> str:
        """Return kube-scheduler's message for one placement: how many of the pods it could place there."""
        gang = self._gang
        stopped = part.stopped
        if stopped is None:
            return unsatisfied(gang.group, len(gang.running), len(gang.waiting))
        tried = [pod.key for pod in gang.waiting].index(stopped.pod.key) + 1
        before = sum(pod.key in part.nodes for pod in gang.waiting[:tried])
        return unsatisfied(gang.group, len(gang.running) + before, len(gang.waiting) - tried)

    def _stop(self, part: Part, domain: Domain) -> tuple[shown.Stop | None, str, list[Plan]]:
        """Return the first pod that finds no node once the others have theirs, why, and the plugins' fixes."""
        stopped = part.stopped
        if stopped is None:
            return None, "", []
        said, closest, plans = stopped.message, list[dict[str, Any]](), list[Plan]()
        if stopped.decision is not None:
            asking = Asking(Inquiry(stopped.pod, self._cluster), self._framework)
            stuck = stuck_at(asking, stopped.decision)
            if not domain.whole:
                there = set(domain.rows.tolist())
                stuck = [each for each in stuck if each.row in there]
            said = cause(asking, stopped.decision, stuck, list(misspelt(stopped.pod, self._cluster))) or said
            closest = [{"node": each.node, "why": [one.detail for one in each.obstacles]} for each in stuck[:_CLOSEST]]
            plans = list(islice(plans_for(asking, stuck), _PLANS))
            self._notes += asking.notes.values()
        return shown.Stop(stopped.pod.key, stopped.message, said, stopped.kind.pods, closest), said, plans

    def _held(self) -> Iterator[str]:
        """Yield why the group is not tried yet."""
        gang = self._gang
        if gang.missing:
            there = len(gang.waiting) + len(gang.running)
            yield f"{gang.missing:,} of {gang.group.needed:,} pods are still missing: {there:,} are there"
        gated = [pod for pod in gang.waiting if pod.gates]
        if gated:
            gates = sorted({gate for pod in gated for gate in pod.gates})
            which = f"{len(gated):,} pods have" if len(gated) > 1 else f"pod {gated[0].name} has"
            yield f"{which} scheduling gates ({', '.join(gates)}), and the others wait for that"

    def _rooms(self, counted: Sequence[tuple[int | None, dict[int, list[str]]]]) -> list[shown.DomainRoom]:
        """Return the pods that each domain takes, most first; also of a topology that the profile ignores."""
        gang, where = self._gang, self._where
        if self._key is not None and not self._heeds:
            where = list(by_label(self._key, self._cluster))[:_DOMAINS]
            counted = [self._fitting.limits(gang.waiting, one) for one in where]
        made = []
        for one, (fits, against) in zip(where, counted, strict=True):
            told = limits((reason for row in one.rows.tolist() for reason in against.get(row, ())), _REASONS)
            short = None if fits is None else max(gang.lacking - fits, 0)
            made.append(shown.DomainRoom(one.name, len(one.rows), fits, short, told))
        made.sort(key=lambda each: (-1 if each.fits is None else -each.fits, each.domain))
        return made[:_DOMAINS]

    def _without_waiting(self) -> GroupExplanation:
        gang = self._gang
        if len(gang.running) >= gang.group.needed:
            return self._answer(shown.RUNS)
        why = "; ".join(self._held()) or "it has no pods"
        return self._answer(shown.HELD, cause=why)

    def _answer(self, outcome: str, **parts: Any) -> GroupExplanation:
        """Return the answer. `parts`: those of its fields that are not the same whatever comes of the dry run."""
        gang = self._gang
        condition = gang.group.condition(INITIALLY_SCHEDULED)
        pods: Sequence[Pod] = gang.waiting or gang.running
        return GroupExplanation(
            outcome=outcome,
            group=shown.GroupFacts(
                api=gang.group.key.api,
                namespace=gang.group.namespace,
                name=gang.group.name,
                min_count=gang.group.min_count,
                needed=gang.group.needed,
                waiting=len(gang.waiting),
                running=len(gang.running),
                priority=pods[0].priority if pods else gang.group.priority or 0,
                topology_key=self._key,
                condition="" if condition is None else f"{condition.reason}: {condition.message}".rstrip(": "),
            ),
            profile=self._framework.profile.name,
            nodes=self._cluster.nodes.count,
            notes=list(dict.fromkeys(self._notes)),
            **parts,
        )


def in_short(gang: Gang, framework: Framework, cluster: Cluster) -> str:
    """Return what a group lacks, in a line, for those who ask about one of its pods."""
    answer = _Answer(gang, framework, cluster, [], WORK)
    return answer.in_short()


MOST = 2_000
"""The largest number of pods of a group that is tried."""
_SHOWN = 8


def attempted(gang: Gang, framework: Framework, cluster: Cluster, *, fits: int = 0) -> str:
    """Return a note on what preemption would do for a group; empty: it would not help.

    `fits`: how many pods of a group that starts find a node without it; 0: it does not start.
    """
    waiting = gang.waiting
    preempts = waiting[0].preempts if gang.group.preempts is None else gang.group.preempts
    if len(waiting) > MOST:
        aim = "place the rest" if fits else "start it"
        return f"whether preemption would {aim} was not tried: so many pods are not tried (at most {MOST:,})"
    lower = preempts and any(placement.pod.priority < waiting[0].priority for placement in cluster.placements())
    if fits and not lower:
        return ""
    name = framework.profile.name
    simulation = Simulation({name: framework}, cluster)
    pods = [replace(pod, scheduler_name=name) for pod in waiting]
    simulation.put_all(pods)
    simulation.settle()
    placed = sum(simulation.where(pod.uid) is not None for pod in pods)
    victims = preempted(simulation)
    if fits:
        more = placed > fits and bool(victims)
        return f"berth run would place {placed:,} of {len(pods):,} pods (tried): it preempts {victims}" if more else ""
    if placed < gang.lacking:
        return "berth run would not start it by preempting pods of lower priority, either (tried)" if lower else ""
    if victims:
        return f"berth run would start it (tried): it preempts {victims}"
    return "berth run would start it (tried): it takes other ones of equally good nodes than were taken here"


def preempted(simulation: Simulation) -> str:
    """Return the pods that were preempted, in a line; empty: none were."""
    victims = sorted(victim.key for victim, _, _ in simulation.preempted.values())
    more = f" and {len(victims) - _SHOWN:,} more" if len(victims) > _SHOWN else ""
    return f"{', '.join(victims[:_SHOWN])}{more}"
