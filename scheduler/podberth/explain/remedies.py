"""Finds what would free a pending pod: small changes, each tried with the whole pipeline before it is offered.

For every rejected node the plugins' fixes (`Explainer.fixes`) are put together to plans that would open it;
the cheapest plans are tried first. A plan that the pipeline does not confirm is not shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.nodes import HOSTNAME
from podberth.explain import explanation as shown
from podberth.explain.alike import claims_made
from podberth.explain.changes import (
    AddNode,
    AwaitPod,
    Change,
    Fix,
    GiveUpNode,
    Label,
    MovePod,
    NameScheduler,
    OnPod,
    RaiseMaxSkew,
    Request,
    ungated,
)
from podberth.explain.objects.disruptions import Disruptions
from podberth.explain.plugins.volumes import where_volumes_are
from podberth.explain.rejections import Asking, Stuck
from podberth.explain.trial import Trial, applied, best, edited, live_node, placing, pod_on
from podberth.framework.explaining import Inquiry
from podberth.framework.status import PluginError, Reason
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.plugins.node_affinity import pod_matches

_KINDS = 20
"""The number of kinds of equal pods that are looked at, the most frequent ones."""
_OF_A_KIND = 50
_NAMED = 4


class SideEffects:
    """Simulates several changes for the same pod, to see their effects on others. `others`: pods that wait."""

    def __init__(self, asking: Asking, others: Iterable[Pod]) -> None:
        self._asking = asking
        self._pod = asking.inquiry.pod
        self._cluster = asking.inquiry.cluster
        self._framework = asking.framework
        groups: dict[object, list[Pod]] = {}
        for pod in others:
            if pod.uid != self._pod.uid and not pod.gates and not pod.terminating:
                kind = id(pod.shape), id(pod.labels), pod.priority, tuple(claims_made(pod, self._cluster))
                groups.setdefault(kind, []).append(pod)
        ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0].key))[:_KINDS]
        self._groups = sorted(ordered, key=lambda group: (-group[0].priority, group[0].created, group[0].key))
        self._fit: list[bool] | None = None
        """True for each group that fits without changes; None: not computed yet."""

    def of(self, changes: Sequence[Change]) -> shown.SideEffects | None:
        """Return the effects of these changes on the cluster as it is; None: a plugin failed, and a note says so."""
        try:
            return self._simulated(changes)
        except PluginError as error:
            self._asking.failed("what the changes would do to other pods is not known", error)
            return None

    def _simulated(self, changes: Sequence[Change]) -> shown.SideEffects:
        """Return the effects of the changes. Raises PluginError."""
        if self._fit is None:
            self._fit = [best(group[0], self._framework, self._cluster) is not None for group in self._groups]
        moving = (pod_on(self._cluster, each.node, each.pod) for each in changes if isinstance(each, MovePod))
        leaving = [*filter(None, moving)]
        disruptions, refused = Disruptions(self._cluster), dict[str, str]()
        for pod in leaving:
            if (refusal := disruptions.refused(pod)) is not None:
                refused[pod.key] = refusal.text
            disruptions.leaves(pod)
        lands: list[str] = []
        loses: list[str] = []
        moved: dict[str, str | None] = {}
        with (
            applied(self._cluster, changes),
            placing(self._framework, self._cluster) as place,
        ):
            place.put(edited(self._pod, changes))
            for pod in leaving:
                moved[pod.key] = place.put(replace(pod, node_name="", nominated_node_name=""))
            only_the_pod = all(isinstance(change, OnPod) for change in changes)
            for group, fits in zip(self._groups, self._fit, strict=True):
                if fits:
                    if best(group[0], self._framework, self._cluster) is None:
                        loses.append(group[0].key)
                elif not only_the_pod:
                    for pod in group[:_OF_A_KIND]:
                        if place.put(pod) is None:
                            break
                        lands.append(pod.key)
        return shown.SideEffects(
            lands=lands[:_NAMED],
            landed=len(lands),
            moved=moved,
            loses=loses[:_NAMED],
            refused=refused,
            unmade=[pod.key for pod in leaving if pod.owner is None],
            relies=[pod.key for change in changes if isinstance(change, Label) for pod in self._relying(change)],
        )

    def _relying(self, change: Label) -> Iterator[Pod]:
        """Yield the pods of a node that ask for a label as it is now."""
        row, node = self._cluster.nodes.live_row(change.node), live_node(self._cluster, change.node)
        if row is not None and node is not None:
            labelled = change.changed(node)
            for pod in self._cluster.pods_on(row):
                if pod_matches(pod, node) and not pod_matches(pod, labelled):
                    yield pod


def awaited(trial: Trial, first: tuple[Change, ...]) -> tuple[AwaitPod, ...]:
    """Return as few pods as needed, all of them being deleted, that leave room for the pod once they are gone.

    `first`: what is changed besides. Empty: there are none, or they do not make enough room.
    """
    kept = tuple(_terminating(trial.cluster))
    nodes = trial.nodes((*first, *kept)) if kept else []
    if not nodes:
        return ()
    on_one = tuple(each for each in kept if each.node == nodes[0])
    if on_one and trial.nodes((*first, *on_one)):
        kept = on_one
    size = len(kept)
    while size:
        for start in range(len(kept) - size, -1, -size):
            rest = (*kept[:start], *kept[start + size :])
            if rest and trial.nodes((*first, *rest)):
                kept = rest
        size //= 2
    return kept


def instead_of_moves(changes: Sequence[Change], cluster: Cluster) -> tuple[Change, ...]:
    """Return the changes; a pod to move that is being deleted is waited for, one that is only nominated is deleted."""
    return tuple(_instead(change, cluster) if isinstance(change, MovePod) else change for change in changes)


def _instead(move: MovePod, cluster: Cluster) -> Change:
    there = pod_on(cluster, move.node, move.pod)
    kept = next((pod for pod in cluster.nominations.on(move.node) if pod.key == move.pod), None)
    pod = there or kept
    if pod is not None and pod.terminating:
        return AwaitPod(move.pod, move.node)
    return GiveUpNode(move.pod, move.node) if there is None and kept is not None else move


def _terminating(cluster: Cluster) -> Iterator[AwaitPod]:
    for placement in cluster.placements():
        if placement.pod.terminating:
            yield AwaitPod(placement.pod.key, cluster.nodes.names[placement.row] or "")
    for node in cluster.nominations.nodes():
        yield from (AwaitPod(pod.key, node) for pod in cluster.nominations.on(node) if pod.terminating)


_SHOWN = 6
_TRIED = 80
_NODES_A_KIND = 40
"""Rejected nodes looked at for each combination of reasons: the closest ones."""
_MOST_CHANGES = 3
_INSTEAD = 4
_TAKEN = 3
"""The largest number of plans of a kind that are tried while other pods take what they free."""
_TEMPLATES = 40
_SCHEDULERS = 2
"""The number of schedulers that are offered to a pod that none schedules."""


Plan = tuple[Change, ...]


def remedies(
    asking: Asking,
    trial: Trial,
    stuck: Sequence[Stuck],
    schedulers: Sequence[str] = (),
) -> list[shown.Remedy]:
    """Return the changes that would free the pod, the smallest first. The cluster is as before afterwards.

    Each is carried out before it is offered, as its commands say (`Trial.offer`).

    `schedulers`: those that the pod could name, if nobody runs its own.
    """
    gates: Plan = ungated(asking.inquiry.pod.gates)
    needed: list[Plan] = [(NameScheduler(name), *gates) for name in schedulers[:_SCHEDULERS]] or [gates]
    first = needed[0]
    if first and (nodes := trial.nodes(first)):
        return [offer for plan in needed if (offer := trial.offer(plan, nodes)) is not None]
    if (wait := awaited(trial, first)) and (offered := list(_offers(trial, [(*first, *wait)]))):
        return offered
    if not stuck:
        return []
    found: list[shown.Remedy] = []
    kept: dict[tuple[str, ...], int] = {}
    covered: list[Plan] = []
    taken: Counter[tuple[str, ...]] = Counter()

    def known(plan: Plan) -> bool:
        """Return whether the plan, a smaller one, or enough of its kind were offered already."""
        at = kept.get(_kind(plan))
        alike = [each for each in covered if _kind(each) == _kind(plan)]
        return (
            taken[_kind(plan)] >= _TAKEN
            or any(plan == smaller or _includes(plan, smaller) for smaller in covered)
            or (at is not None and (all(isinstance(change, OnPod) for change in plan) or _full(found[at])))
            or (bool(_left(plan)) and _left(plan) in map(_left, alike))
        )

    for plan in plans_for(asking, stuck):
        plan = (*first, *plan)
        if len(found) >= _SHOWN or trial.count >= _TRIED:
            break
        if found and len(plan) > len(found[0].changes) + 1:
            continue
        if known(plan) or not (nodes := trial.nodes(plan)):
            continue
        if any(isinstance(change, MovePod) for change in plan) and (fewer := trial.fewest(plan, first)) != plan:
            if known(fewer):
                continue
            plan, nodes = fewer, trial.nodes(fewer)
        at, before = kept.get(_kind(plan)), trial.taken
        if at is None:
            offer = trial.offer(plan, nodes)
            if offer is None:
                taken[_kind(plan)] += trial.taken - before
                continue
            kept[_kind(plan)] = len(found)
            found.append(offer)
        elif not trial.left(plan, nodes):
            taken[_kind(plan)] += 1
            continue
        else:
            found[at].instead.append(_subject(plan))
        covered.append(plan)
    more = _one_more_node(trial, first) or _one_more_node(trial, first, where_volumes_are(asking.inquiry))
    return found + ([more] if more is not None else [])


def _offers(trial: Trial, plans: Iterable[Plan]) -> Iterator[shown.Remedy]:
    return (offer for plan in plans if (offer := trial.offer(plan)) is not None)


def plans_for(asking: Asking, stuck: Sequence[Stuck]) -> Iterator[Plan]:
    """Yield distinct plans, the cheapest first; among equals those that many nodes ask for."""
    priced: dict[Plan, float] = {}
    votes: dict[Plan, int] = {}
    for each in _closest_of_each_kind(stuck):
        for plan, cost in _plans_at(asking, each):
            if plan not in priced or cost < priced[plan]:
                priced[plan] = cost
            votes[plan] = votes.get(plan, 0) + 1
    return iter(sorted(priced, key=lambda plan: (priced[plan], -votes[plan], str(plan))))


def _closest_of_each_kind(stuck: Iterable[Stuck]) -> Iterator[Stuck]:
    seen: dict[tuple[str, ...], int] = {}
    for each in stuck:
        kind = tuple(sorted({f"{o.plugin} {o.reason.text}" for o in each.obstacles}))
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= _NODES_A_KIND:
            yield each


def _plans_at(asking: Asking, stuck: Stuck) -> Iterator[tuple[Plan, float]]:
    """Yield every combination of one fix for each plugin that rejects the node."""
    choices: list[Sequence[Fix]] = []
    reasons: dict[str, list[Reason]] = {}
    for obstacle in stuck.obstacles:
        reasons.setdefault(obstacle.plugin, []).append(obstacle.reason)
    for plugin, texts in reasons.items():
        found = asking.fixes(stuck.row, plugin, texts)
        if not found:
            return
        choices.append(found)
    for combination in product(*choices):
        merged = dict.fromkeys(change for changes in combination for change in changes)
        plan = instead_of_moves(list(merged), asking.inquiry.cluster)
        if 0 < len(plan) <= _MOST_CHANGES:
            yield tuple(sorted(plan, key=str)), sum(_cost(asking.inquiry, change) for change in plan)


def _cost(inquiry: Inquiry, change: Change) -> float:
    """Return a rank of changes by how much they ask of people: more if a pod gives up more, or matters more."""
    moved = pod_on(inquiry.cluster, change.node, change.pod) if isinstance(change, MovePod) else None
    return change.effort + (moved is not None and moved.priority > inquiry.pod.priority)


def _includes(plan: Plan, smaller: Plan) -> bool:
    """Return whether a plan contains all changes of a smaller one, which is enough, and others."""
    return len(smaller) < len(plan) and all(any(_as_much(mine, other) for mine in plan) for other in smaller)


def _as_much(mine: Change, other: Change) -> bool:
    if isinstance(mine, Request) and isinstance(other, Request):
        return mine.requests.keys() >= other.requests.keys() and all(
            mine.requests[name] <= amount for name, amount in other.requests.items()
        )
    if isinstance(mine, RaiseMaxSkew) and isinstance(other, RaiseMaxSkew):
        return mine.topology_key == other.topology_key and mine.max_skew >= other.max_skew
    return mine == other


def _kind(plan: Plan) -> tuple[str, ...]:
    """Return the kind of a plan. Only one plan of a kind is shown: others change another amount, node or pod."""
    return tuple(
        str(change)
        if isinstance(change, OnPod) and not isinstance(change, Request | RaiseMaxSkew)
        else f"{type(change).__name__} {','.join(getattr(change, 'requests', ()))}"
        for change in plan
    )


def _left(plan: Plan) -> list[str]:
    """Return the nodes that pods leave by a plan."""
    return [change.node for change in plan if isinstance(change, MovePod)]


def _subject(plan: Plan) -> str:
    """Return the objects that a plan changes."""
    moved = [f"{change.pod} off {change.node}" for change in plan if isinstance(change, MovePod)]
    if len(moved) > 1:
        return " and ".join(moved)
    change = next(change for change in plan if not isinstance(change, OnPod))
    return f"{change.pod} off {change.node}" if isinstance(change, MovePod) else str(getattr(change, "node", ""))


def _full(remedy: shown.Remedy) -> bool:
    return len(remedy.instead) >= _INSTEAD


def _one_more_node(trial: Trial, first: Plan, but: dict[str, str] | None = None) -> shown.Remedy | None:
    """Return a remedy that adds the smallest node like an existing one on which the pod would fit.

    `but`: labels that it has instead; an empty dict: there is nothing to try.
    """
    if but is not None and not but:
        return None
    nodes = templates_of(node for _, node in trial.cluster.nodes.live())
    return next(_offers(trial, ((*first, AddNode(node.name, but or {})) for node, _ in nodes)), None)


def templates_of(nodes: Iterable[Node]) -> list[tuple[Node, int]]:
    """Return one node of each make (labels but its name, taints, size), the smallest first, and how many there are."""
    makes: dict[Any, list[Node]] = {}
    for node in nodes:
        labels = frozenset((key, value) for key, value in node.labels.items() if key != HOSTNAME)
        make = (labels, node.taints, node.unschedulable, tuple(sorted(node.allocatable.items())), node.allowed_pods)
        makes.setdefault(make, []).append(node)
    small = sorted(
        ((found[0], len(found)) for found in makes.values()),
        key=lambda each: (each[0].allocatable.get("cpu", 0), each[0].allocatable.get("memory", 0), each[0].name),
    )
    return small[:_TEMPLATES]
