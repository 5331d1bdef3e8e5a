"""Promises as they stand: of one pod for `berth explain`, of a whole cluster as a plan of evictions. No writes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import inf

from podberth.cache.cluster import Cluster
from podberth.engine.placement_conflicts import Conflict, PlacementConflicts, has_requirements
from podberth.evictor.conflicted import rank, related
from podberth.evictor.followed import breach, left_alone, source
from podberth.evictor.gates import Breaker, Owners, Settings
from podberth.evictor.messages import Restored
from podberth.evictor.target import Claims, find_target
from podberth.explain.explanation import Answer, PromiseState, Shown
from podberth.explain.objects.disruptions import Disruptions
from podberth.framework.decision import Decision
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION, NOTHING_OF_NODES, NodeRequirement
from podberth.model.shape import keeps_own, required


class Races:
    """Finds conflicts of placed pods with other schedulers' pods, which are gathered when first needed."""

    def __init__(self, cluster: Cluster, frameworks: Mapping[str, Framework]) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self._conflicts: PlacementConflicts | None = None

    def of(self, pod: Pod) -> Conflict | None:
        """Return the conflict of this placed pod with another scheduler's pods; None: none, or it costs too much to
        tell.

        The pod has to be on its node.
        """
        if pod.scheduler_name not in self._frameworks or not has_requirements(pod):
            return None
        if self._conflicts is None:
            self._conflicts = PlacementConflicts(self._cluster, self._frameworks, all_others=True)
            for placement in self._cluster.placements():
                self._conflicts.other_placed(placement.pod)
        return self._conflicts.of(pod.uid)

    def mended(self, pod: Pod) -> bool:
        """Return whether the evictor may move a pod for its conflict: its owner, or its profile, asks for it."""
        profile = self._frameworks[pod.scheduler_name].profile
        return keeps_own(pod.shape, by_profile=profile.required_during_execution)

    def note(self, pod: Pod) -> str:
        """Return the note on a pod's conflict; empty: none."""
        conflict = self.of(pod)
        if conflict is None:
            return ""
        if self.mended(pod):
            return f"{conflict.text}; the evictor moves one of them"
        return f'{conflict.text}; nobody mends that: the evictor does for pods with the annotation {ANNOTATION}: "true"'


def in_turn(conflicts: Sequence[Conflict]) -> list[tuple[Conflict, Conflict | None]]:
    """Return each conflict with the one that goes before it: of those that are the same, one is evicted at a time."""
    found: list[tuple[Conflict, Conflict | None]] = []
    for conflict in conflicts:
        first = conflict
        for other in conflicts:
            if related(conflict, other) and rank(other.pod, first.pod) < rank(first.pod, other.pod):
                first = other
        found.append((conflict, None if first is conflict else first))
    return found


KEPT, BROKEN, WAITING, UNREADABLE = "kept", "broken", "waiting", "unreadable"
EVICT, WAITS, BUDGET, STAYS, LEFT_ALONE = "evict", "waits", "budget", "stays", "leftAlone"


class PlannedEviction(Shown, frozen=True):
    """One broken promise. `action`: evict, waits (it succeeds a pod that was evicted lately, and is not evicted before
    `not_before`; or another pod of the same conflict goes first), budget (a PodDisruptionBudget forbids it now), stays
    (no other node can take the pod), leftAlone.
    `target`: the node that can take it; `text`: why it is not evicted at once.
    """

    namespace: str
    name: str
    node: str
    breach: str
    action: str
    target: str | None
    text: str
    not_before: str | None


class Past:
    """Knows from Events which pods were evicted lately: their successors are left alone for a while.

    `now` is the moment that the `ago` of each of them goes back from. Where the Events do not say for how long, the
    settings do. `there`: UIDs of the pods that are on a node, and not on their way out.
    """

    def __init__(
        self, evictions: Iterable[Restored], now: datetime, settings: Settings, there: Callable[[str], bool]
    ) -> None:
        self._now = now
        self._owners = Owners(settings.owner_backoff, settings.owner_backoff_most)
        for one in evictions:
            self._owners.restore(one, 0.0, there=there(one.pod.uid))

    def spares(self, pod: Pod) -> tuple[str, str] | None:
        """Return until when a pod is left alone (RFC 3339), and why; None: it is not."""
        spared = self._owners.spared(pod, 0.0)
        if spared is None:
            return None
        until = (self._now + timedelta(seconds=spared.seconds + 0.999)).astimezone(UTC)
        return until.strftime("%Y-%m-%dT%H:%M:%SZ"), spared.why


class Plan(Answer, kw_only=True, frozen=True):
    """The evictions that an evictor would do, were all grace times over and all tokens there.

    `breaker_open`: more nodes break promises than may at once, so nothing would be evicted until they are put right.
    """

    kind: str = "EvictionPlan"
    nodes: int
    pods: int
    broken_nodes: int
    limit: int
    breaker_open: bool
    evictions: list[PlannedEviction]
    unreadable: list[str]


def plan(cluster: Cluster, frameworks: Mapping[str, Framework], settings: Settings, past: Past | None = None) -> Plan:
    """Look at every placed pod of our profiles; those to be evicted first, in the order of their names.

    Room that one of them would get is taken for the next, as the evictor counts it.
    """
    pods, unreadable = 0, []
    broken: list[tuple[Pod, NodeRequirement, str]] = []
    races, conflicts = Races(cluster, frameworks), list[Conflict]()
    for placement in sorted(cluster.placements(), key=lambda placement: placement.pod.key):
        pod, node = placement.pod, cluster.nodes.objects[placement.row]
        framework = frameworks.get(pod.scheduler_name)
        if framework is None or node is None or pod.terminating:
            continue
        if pod.shape.promise is not None and pod.shape.promise.problem is not None:
            unreadable.append(f"{pod.key}: {pod.shape.promise.problem}")
        wanted = wanted_by(pod, framework)
        if wanted is None and not (races.mended(pod) and has_requirements(pod)):
            continue
        pods += 1
        if wanted is not None and not wanted.holds(node.name, node.labels):
            broken.append((pod, wanted, breach(wanted, node.name, node.labels)))
        elif (conflict := races.of(pod) if races.mended(pod) else None) is not None:
            conflicts.append(conflict)
    broken += [(one.pod, NOTHING_OF_NODES, one.text) for one in conflicts]
    before = {one.pod.uid: first for one, first in in_turn(conflicts) if first is not None}
    disruptions = Disruptions(cluster)
    evictions = []
    claims = Claims(cluster)
    try:
        for pod, wanted, said in broken:
            framework, first = frameworks[pod.scheduler_name], before.get(pod.uid)
            one = _planned(pod, wanted, said, framework, cluster, settings, disruptions, past, first)
            evictions.append(one)
            row = cluster.nodes.live_row(one.target) if one.action == EVICT and one.target is not None else None
            if row is not None:
                claims.add(pod, row, 0.0)
    finally:
        claims.expire(inf)
    evictions.sort(key=lambda one: (one.action != EVICT, one.namespace, one.name))
    limit = Breaker(settings.changed_share, settings.changed_window).limit(cluster.nodes.count)
    nodes = {one.node for one in evictions if one.action != LEFT_ALONE}
    return Plan(
        nodes=cluster.nodes.count,
        pods=pods,
        broken_nodes=len(nodes),
        limit=limit,
        breaker_open=len(nodes) > limit,
        evictions=evictions,
        unreadable=unreadable,
    )


def state_of(
    pod: Pod,
    node: str | None,
    framework: Framework,
    cluster: Cluster,
    decision: Decision,
    past: Past | None = None,
) -> PromiseState | None:
    """Return the state of one pod's promise. `node`: its node before it was taken off for the `decision`."""
    promise = pod.shape.promise
    if promise is not None and promise.problem is not None:
        text = promise.problem
        return PromiseState(
            state=UNREADABLE, requirement="", source=source(pod), node=node, breach="", text=text, not_before=None
        )
    wanted = wanted_by(pod, framework)
    if wanted is None:
        return None
    row = cluster.nodes.live_row(node) if node is not None else None
    there = cluster.nodes.objects[row] if row is not None else None
    said = "" if there is None else breach(wanted, there.name, there.labels)
    until = None
    if there is None:
        state, text = WAITING, f"a node has to stay {wanted} while the pod runs"
    elif not said:
        state, text = KEPT, f"node {node} is {wanted}, as it has to be while the pod runs"
    else:
        others = sum(1 for found in decision.feasible.tolist() if found != row)
        spared, waits = left_alone(pod, bare_pods=False), None if past is None else past.spares(pod)
        until = waits[0] if waits is not None and others and not spared else None
        then = f"an evictor leaves it alone: {spared}" if spared else _then(others, waits)
        state, text = BROKEN, f"node {node} is no longer what the pod asks for ({said}); {then}"
    return PromiseState(
        state=state,
        requirement=str(wanted),
        source=source(pod),
        node=node,
        breach=said,
        text=text,
        not_before=until,
    )


def wanted_by(pod: Pod, framework: Framework) -> NodeRequirement | None:
    """Return the requirement of a pod on its node while it runs, by its annotation or its profile."""
    return required(pod.shape, by_profile=framework.profile.required_during_execution)


def _then(others: int, waits: tuple[str, str] | None) -> str:
    if not others:
        return "it stays, for no other node can take it now"
    can = f"{others} other node{'s' if others > 1 else ''} can take it"
    if waits is None:
        return f"an evictor moves it, {can}"
    until, why = waits
    return f"an evictor moves it, not before {until}, because {why}; {can}"


def _planned(
    pod: Pod,
    wanted: NodeRequirement,
    said: str,
    framework: Framework,
    cluster: Cluster,
    settings: Settings,
    disruptions: Disruptions,
    past: Past | None,
    first: Conflict | None,
) -> PlannedEviction:
    def planned(action: str, target: str | None, text: str, until: str | None = None) -> PlannedEviction:
        return PlannedEviction(pod.namespace, pod.name, pod.node_name, said, action, target, text, until)

    spared = left_alone(pod, bare_pods=settings.bare_pods)
    if spared:
        return planned(LEFT_ALONE, None, spared)
    target = find_target(pod, wanted, framework, cluster)
    if target.row is None:
        return planned(STAYS, None, target.text)
    if past is not None and (waits := past.spares(pod)) is not None:
        until, why = waits
        return planned(WAITS, target.text, f"not before {until}, because {why}", until)
    if first is not None:
        return planned(WAITS, target.text, f"pod {first.pod.key} of the same conflict goes first, which may be enough")
    forbidden = _forbidden(pod, disruptions)
    return planned(BUDGET if forbidden else EVICT, target.text, forbidden)


def _forbidden(pod: Pod, disruptions: Disruptions) -> str:
    """Return the reason for which budgets forbid the eviction; empty: they allow it, and it counts as a disruption."""
    refusal = disruptions.refused(pod)
    if refusal is None:
        disruptions.leaves(pod)
    return "" if refusal is None else refusal.text
