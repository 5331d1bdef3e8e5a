"""Finds what would start a gang: small changes of pods, group and cluster, or running pods that would have to end.

Each change is tried by placing the whole gang in a dry run before it is offered. The pods that would have to end are a
small set, found by a bounded search, and then tried.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice

import numpy as np
from msgspec.structs import replace

from podberth.cache.column import Ints
from podberth.cache.nodes import HOSTNAME
from podberth.explain.changes import (
    AddNode,
    Change,
    Label,
    MovePod,
    NameScheduler,
    OnNode,
    OnPod,
    Request,
    Ungate,
    ungated,
)
from podberth.explain.commands import Commands, commands
from podberth.explain.gangs import answer as shown
from podberth.explain.gangs.answer import AddNodes, GroupChange, LeaveDomain, LowerMinCount
from podberth.explain.gangs.fitting import Fitting, Part
from podberth.explain.gangs.gang import Domain, Gang, domains, heeds_topology
from podberth.explain.objects.resource_claims import without
from podberth.explain.remedies import Plan, templates_of
from podberth.explain.trial import add_node, applied, edited, live_node
from podberth.explain.written import Written
from podberth.framework.status import PluginError
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

_NODES = 2_000
"""The largest number of nodes on which pods are taken away in a dry run."""
_TAKEN = 10_000
"""The largest number of pods that are taken away to count the effect."""
_A_NODE = 8
"""The largest number of pods of one node that are taken away."""
_DOMAINS = 4
_SPARED = 64
"""The number of pods for which a dry run finds out whether they may stay."""
_ENDINGS = 2


# --- pods that would have to end --------------------------------------------------------------------------------------


def endings(gang: Gang, fitting: Fitting, where: Sequence[Domain]) -> tuple[list[shown.Ending], str]:
    """Return sets of pods whose end starts the gang, the smallest first, and a note. Raises PluginError."""
    search = _Search(gang, fitting)
    found: list[shown.Ending] = []
    fits = fitting.most(gang.waiting, where)
    ordered = sorted(
        (one for one, number in zip(where, fits, strict=True) if number is not None),
        key=lambda one: -(fits[where.index(one)] or 0),
    )
    for domain in ordered[:_DOMAINS]:
        pods = search.in_domain(domain)
        if pods:
            nodes = list(dict.fromkeys(pod.node_name for pod in pods))
            found.append(shown.Ending([pod.key for pod in pods], nodes, domain.name))
    found.sort(key=lambda each: len(each.pods))
    note = ""
    if not found:
        note = "no set of running pods was found whose end would start it; not every set was tried"
    return found[:_ENDINGS], note


class _Search:
    def __init__(self, gang: Gang, fitting: Fitting) -> None:
        self._gang = gang
        self._fitting = fitting
        self._cluster = fitting.cluster
        self._own = {pod.uid for pod in gang.running}

    def in_domain(self, domain: Domain) -> list[Pod]:
        """Return pods of one domain whose end is enough; empty: none were found."""
        candidates = self._candidates(domain)
        missing = self._gang.lacking - self._fits(domain)
        chosen = self._choose(candidates, missing) if missing > 0 else []
        if not chosen or not self._starts(chosen, domain):
            return []
        return self._spare(chosen, domain)

    def _fits(self, domain: Domain) -> int:
        return self._fitting.most(self._gang.waiting, [domain])[0] or 0

    def _candidates(self, domain: Domain) -> dict[int, list[Pod]]:
        """Return the pods of each row that may be taken away, in this order; the nodes with the fewest pods first."""
        nodes = self._cluster.nodes
        asked = self._gang.waiting[0].shape.requests
        whole = {name: int(nodes.allocatable[nodes.resources[name]].max()) for name in asked if name in nodes.resources}

        def share(pod: Pod) -> float:
            found = [pod.shape.requests.get(name, 0) / most for name, most in whole.items() if most and asked[name]]
            return max(found, default=0.0)

        found: dict[int, list[Pod]] = {}
        for row in domain.rows.tolist():
            pods = [pod for pod in self._cluster.pods_on(row) if not pod.belongs_to_node and pod.uid not in self._own]
            if pods:
                found[row] = sorted(pods, key=lambda pod: (-share(pod), pod.priority, pod.key))[:_A_NODE]
        ordered = sorted(found, key=lambda row: (len(found[row]), nodes.names[row] or ""))[:_NODES]
        return {row: found[row] for row in ordered}

    def _choose(self, candidates: dict[int, list[Pod]], missing: int) -> list[Pod]:
        """Return the fewest pods that make room for that many more, if each node is decided by itself."""
        rows, before = list(candidates), self._counts()
        gains = np.zeros((_A_NODE + 1, len(rows)), dtype=np.int64)
        left = _TAKEN
        for number in range(1, _A_NODE + 1):
            if all(len(candidates[row]) < number for row in rows) or left <= 0:
                break
            some = [pod for row in rows for pod in candidates[row][:number]]
            left -= len(some)
            with without(some, self._cluster):
                after = self._counts()
            gains[number] = [int(after[row] - before[row]) if len(candidates[row]) >= number else 0 for row in rows]
        levels = cheapest(gains, missing)
        return [pod for row, number in zip(rows, levels, strict=True) for pod in candidates[row][:number]]

    def _counts(self) -> Ints:
        """Return int64[rows]: the pods of the gang that each node takes; without sums, 1 if it takes any."""
        found = self._fitting.room(self._gang.waiting)
        if found is not None:
            return found.counts
        counts = np.zeros(self._cluster.nodes.rows, dtype=np.int64)
        for pod in {id(pod.shape): pod for pod in self._gang.waiting}.values():
            counts[self._fitting.framework.find(pod, self._cluster).feasible] += 1
        return counts

    def _starts(self, pods: Sequence[Pod], domain: Domain) -> bool:
        with without(pods, self._cluster):
            return not self._gang.gap(self._cluster) and self._fitting.starts(
                self._gang.waiting, [domain], self._gang.lacking
            )

    def _spare(self, chosen: Sequence[Pod], domain: Domain) -> list[Pod]:
        """Return the pods that have to end: those that may stay are taken out, the ones of highest priority first."""
        kept = list(chosen)
        for pod in sorted(chosen, key=lambda pod: (-pod.priority, pod.key))[:_SPARED]:
            rest = [one for one in kept if one is not pod]
            if rest and not self._fitting.spent and self._starts(rest, domain):
                kept = rest
        return sorted(kept, key=lambda pod: (pod.node_name, pod.key))


def cheapest(gains: Ints, missing: int) -> list[int]:
    """Return the number of pods to take from each node, so that the gains add up to what is missing and the pods are
    fewest.

    `gains`: int64[number, node], what taking so many pods from a node brings. All zeros: nothing is enough. What goes
    beyond what is missing counts as just that.
    """
    numbers, nodes = gains.shape
    too_many = np.iinfo(np.int64).max // 2
    costs = np.full(missing + 1, too_many, dtype=np.int64)
    costs[0] = 0
    taken = np.zeros((nodes, missing + 1), dtype=np.int8)
    # [node, gained]: what was gained by the nodes before this one.
    before = np.tile(np.arange(missing + 1, dtype=np.int32), (nodes, 1))
    for node in range(nodes):
        after = costs.copy()
        for number in range(1, numbers):
            gain = min(int(gains[number, node]), missing)
            if gain <= min(int(gains[number - 1, node]), missing):
                continue
            source = np.arange(missing + 1, dtype=np.int32) - gain
            last = missing - gain + int(costs[missing - gain :].argmin())
            source[missing] = last
            reached = np.where(source >= 0, costs[np.maximum(source, 0)] + number, too_many)
            better = reached < after
            after[better], taken[node, better], before[node, better] = reached[better], number, source[better]
        costs = after
    found = [0] * nodes
    gained = missing if costs[missing] < too_many else 0
    for node in reversed(range(nodes)):
        found[node] = int(taken[node, gained])
        gained = int(before[node, gained])
    return found


# --- changes ----------------------------------------------------------------------------------------------------------

_SHOWN = 6
_MORE_NODES = 64
_KINDS_OF_NODES = 2
_TOGETHER = 8
"""The largest number of nodes that are changed in the same way at once."""
_RESOURCES = 6
_ROUGH = 6
"""Steps of a binary search for an amount, each of which places a gang."""
_EACH = 16
"""The number of pods for each of which a command is shown."""
_MI = 1 << 20

Whole = tuple[Change | GroupChange, ...]


class Remedies:
    """Searches the changes that would start one gang. `notes` collects remarks on them."""

    def __init__(
        self,
        gang: Gang,
        fitting: Fitting,
        part: Part,
        plans: Sequence[Plan],
        written: Callable[[Pod], Written | None],
        schedulers: Sequence[str] = (),
    ) -> None:
        """`part`: what of it fits as things are; `plans`: what plugins offer for the pod that stops it; `schedulers`:
        those that its pods could name, if nobody runs their own.
        """
        self.notes: list[str] = []
        self._gang = gang
        self._fitting = fitting
        self._cluster = fitting.cluster
        self._part = part
        self._plans = plans
        self._written = written
        self._schedulers = schedulers
        self._shapes: dict[object, PodShape] = {}

    def found(self) -> list[shown.GroupRemedy]:
        """Return the changes, those that ask least of people first."""
        first = self._needed_first()
        if first and (fits := self._fits(first)) is not None:
            return list(self._told(first, fits))
        plans = [(*first, *plan) for plan in self._candidates(first)]
        plans.sort(key=_cost)
        told = (each for plan in plans if (fits := self._fits(plan)) is not None for each in self._told(plan, fits))
        return list(islice(told, _SHOWN))

    def _candidates(self, first: Whole) -> Iterator[Whole]:
        """Yield changes that were found to be enough, together with those without which nothing helps (`first`)."""
        group, fits = self._gang.group, len(self._part.nodes)
        together = fits + len(self._gang.running)
        if group.gang and 0 < together < group.needed:
            yield (LowerMinCount(together, group.needed),)
        if self._gang.missing:
            return
        yield from self._of_plugins(first)
        yield from self._smaller(first)
        yield from self._more_nodes(first)
        if group.topology_key is not None and heeds_topology(self._fitting.framework):
            yield from self._labels(first, group.topology_key)
            leave: Whole = (LeaveDomain(group.topology_key),)
            if self._fits((*first, *leave)) is not None:
                yield leave

    # -- what is tried -----------------------------------------------------------------------------------------------

    def _of_plugins(self, first: Whole) -> Iterator[Whole]:
        """Yield what plugins offer for the pod that stops the gang: made for all pods like it, or for several nodes."""
        kinds: set[str] = set()
        nodes: dict[str, list[OnNode]] = {}
        own = {pod.key for pod in self._gang.waiting}
        for plan in self._plans:
            # Pods of the gang are on nodes in a dry run only: each would change with the one that stops it.
            plan = tuple(change for change in plan if not (isinstance(change, MovePod) and change.pod in own))
            if not plan or any(isinstance(change, MovePod | AddNode | Request) for change in plan):
                continue
            kind = " ".join(type(change).__name__ if isinstance(change, OnNode) else str(change) for change in plan)
            if kind in kinds:
                continue
            if self._fits((*first, *plan)) is not None:
                kinds.add(kind)
                yield plan
            elif len(plan) == 1 and isinstance(plan[0], OnNode):
                nodes.setdefault(kind, []).append(plan[0])
        for kind, changes in nodes.items():
            if kind not in kinds:
                yield from self._several(first, changes)

    def _several(self, first: Whole, changes: Sequence[OnNode]) -> Iterator[Whole]:
        """Yield one kind of change on as few nodes as are enough."""
        for number in range(2, min(len(changes), _TOGETHER) + 1):
            if self._fits((*first, *changes[:number])) is not None:
                kept = list(changes[:number])
                for one in changes[:number]:
                    rest = [each for each in kept if each != one]
                    if self._fits((*first, *rest)) is not None:
                        kept = rest
                yield tuple(kept)
                return

    def _labels(self, first: Whole, key: str) -> Iterator[Whole]:
        """Yield labels that put as few nodes as are enough into a domain; domains with most room come first."""
        where, nodes = self._where(()), self._cluster.nodes
        found = self._fitting.room(self._gang.waiting)
        free = [(row, node) for row, node in nodes.live() if key not in node.labels]
        if found is not None:
            counts = found.counts
            free = sorted((each for each in free if counts[each[0]]), key=lambda each: -int(counts[each[0]]))
        most = self._fitting.most(self._gang.waiting, where)
        order = sorted(range(len(where)), key=lambda i: -(most[i] or 0))
        for i in order[:_KINDS_OF_NODES]:
            changes = [Label(node.name, key, where[i].name) for _, node in free[:_TOGETHER]]
            if changes and self._fits((*first, changes[0])) is not None:
                yield (changes[0],)
            else:
                yield from self._several(first, changes)

    def _smaller(self, first: Whole) -> Iterator[Whole]:
        """Yield smaller requests, of one resource each, for all pods like the one that stops the gang."""
        stopped = self._part.stopped
        if stopped is None:
            return
        asked = {name: amount for name, amount in stopped.pod.shape.requests.items() if amount > 1}
        for name in list(asked)[:_RESOURCES]:

            def less(amount: int, name: str = name) -> Whole:
                return (*first, Request({name: amount}, {name: asked[name]}))

            if self._fits(less(1)) is None:
                continue
            low, high, steps = 1, asked[name], 0
            while high - low > 1 and (self._by_sums or steps < _ROUGH):
                middle, steps = (low + high) // 2, steps + 1
                if self._fits(less(middle)) is not None:
                    low = middle
                else:
                    high = middle
            amount = low // _MI * _MI if low >= _MI else low
            yield (Request({name: amount}, {name: asked[name]}),)

    def _more_nodes(self, first: Whole) -> Iterator[Whole]:
        """Yield as few new nodes as are enough, of two sizes; of each, the make of which fewest are needed."""
        found: dict[object, AddNodes] = {}
        in_domains, most = len(self._where(())) > 1, _MORE_NODES
        for node, _ in templates_of(node for _, node in self._cluster.nodes.live()):
            size = tuple(sorted(node.allocatable.items()))
            if (size in found and not in_domains) or self._fits((*first, AddNodes(node.name, most))) is None:
                continue
            low, high = 0, most
            while high - low > 1:
                middle = (low + high) // 2
                if self._fits((*first, AddNodes(node.name, middle))) is not None:
                    high = middle
                else:
                    low = middle
            most = high
            if size not in found or high < found[size].count:
                found[size] = AddNodes(node.name, high)
        for each in sorted(found.values(), key=lambda one: one.count)[:_KINDS_OF_NODES]:
            yield (each,)

    # -- trying ------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_sums(self) -> bool:
        """Return whether a try costs little, as sums count the pods of the gang."""
        return self._fitting.room(self._gang.waiting) is not None

    def _fits(self, plan: Whole) -> int | None:
        """Return the number of waiting pods that find a node after a plan; None: too few for the gang to start."""
        by_part = len(plan) == 1 and isinstance(plan[0], LowerMinCount) and not self._gang.gap(self._cluster)
        if by_part and not any(pod.gates for pod in self._gang.waiting):
            return len(self._part.nodes)  # it was placed already
        members = self._edited(plan)
        if self._fitting.spent or any(pod.gates for pod in members):
            return None
        needed = self._needed(plan)
        if needed > len(members):
            return None
        return self._fit(members, plan, needed)

    def _fit(self, members: Sequence[Pod], plan: Whole, needed: int) -> int | None:
        try:
            with self._applied(plan):
                where = self._where(plan)
                if self._gang.gap(self._cluster) or not self._fitting.starts(members, where, needed):
                    return None
                if not self._by_sums and any(not isinstance(change, LowerMinCount) for change in plan):
                    return needed  # at least
                return max((each for each in self._fitting.most(members, where) if each is not None), default=needed)
        except PluginError as error:
            self.notes.append(f"not every change could be tried: {error}")
            return None

    def _needed(self, plan: Whole) -> int:
        count = next((change.count for change in plan if isinstance(change, LowerMinCount)), self._gang.group.needed)
        return max(count - len(self._gang.running), 1)

    def _where(self, plan: Whole) -> list[Domain]:
        gang = self._gang
        if any(isinstance(change, LeaveDomain) for change in plan):
            gang = Gang(replace(gang.group, topology_key=None), gang.waiting, gang.running)
        return domains(gang, self._fitting.framework, self._cluster)

    def _edited(self, plan: Whole) -> list[Pod]:
        """Return the waiting pods after changes of pods, which apply to those like the one that stops the gang."""
        edits = [change for change in plan if isinstance(change, OnPod)]
        if not edits:
            return list(self._gang.waiting)
        gates = [change for change in edits if isinstance(change, Ungate)]
        others = [change for change in edits if not isinstance(change, Ungate)]
        stopped = self._part.stopped
        shape = None if stopped is None else stopped.pod.shape
        made = list[Pod]()
        edited_shape = None if stopped is None or not others else edited(stopped.pod, others).shape
        for change in others if edited_shape is not None else ():
            if isinstance(change, Request) and edited_shape is not None:
                less = {name: change.instead_of[name] - amount for name, amount in change.requests.items()}
                scored = edited_shape.scoring
                edited_shape.scoring = {name: amount - less.get(name, 0) for name, amount in scored.items()}
                cpu, memory = edited_shape.nonzero  # what it adds to its node for the scores of the next pods
                edited_shape.nonzero = cpu - less.get("cpu", 0), memory - less.get("memory", 0)
        for pod in self._gang.waiting:
            if edited_shape is not None and pod.shape is shape:
                pod = replace(pod, shape=edited_shape)
            made.append(replace(pod, gates=()) if gates else pod)
        return made

    @contextmanager
    def _applied(self, plan: Whole) -> Iterator[None]:
        """Apply a plan to the cluster while the block runs."""
        of_cluster = [change for change in plan if not isinstance(change, GroupChange)]
        with applied(self._cluster, of_cluster), ExitStack() as undone:
            for change in plan:
                if isinstance(change, AddNodes):
                    for clone in self._clones(change):
                        undone.callback(add_node(self._cluster, change.like, clone))
            yield

    def _clones(self, change: AddNodes) -> Iterator[Node]:
        node = live_node(self._cluster, change.like)
        assert node is not None
        clone = AddNode(change.like).clone(node)
        for number in range(change.count):
            name = f"{clone.name}-{number}"
            own = {HOSTNAME: name} if HOSTNAME in clone.labels else {}
            yield replace(clone, name=name, labels={**clone.labels, **own})

    # -- what is told ------------------------------------------------------------------------------------------------

    def _needed_first(self) -> Whole:
        """Return the changes without which nothing else helps."""
        gates = sorted({gate for pod in self._gang.waiting for gate in pod.gates})
        named = (NameScheduler(name) for name in self._schedulers[:1])
        return (*named, *ungated(gates))

    def _told(self, plan: Whole, fits: int) -> Iterator[shown.GroupRemedy]:
        """Yield the plan as a remedy, unless the gang does not start once its commands are carried out."""
        lines = self._commands(plan)
        if lines is not None:
            yield shown.GroupRemedy(" and ".join(map(str, plan)), list(plan), fits, lines)

    def _commands(self, plan: Whole) -> list[str] | None:
        """Return the kubectl commands; empty: a part of the plan has none. None: they do not do what the plan says."""
        if any(isinstance(change, AddNodes | LeaveDomain) for change in plan):
            return []
        group = self._gang.group
        lines = [change.command(group) for change in plan if isinstance(change, LowerMinCount)]
        others = [change for change in plan if not isinstance(change, GroupChange)]
        if not others:
            return lines
        of_pods = any(isinstance(change, OnPod) for change in others)
        concerned = self._concerned(others) if of_pods else list(self._gang.waiting)[:1]
        made = dict[str, None]()
        for pod in concerned[: _EACH + 1]:
            found = commands(others, pod, self._written(pod))
            if found is None or not self._does_the_same(found, pod, plan):
                return None
            if not found.lines:
                return []
            made |= dict.fromkeys(found.lines)
        if len(made) > _EACH:
            self.notes.append(f"{len(concerned):,} pods would have to be changed one by one: no commands are shown")
            return []
        return [*lines, *made]

    def _concerned(self, changes: Sequence[Change]) -> list[Pod]:
        stopped = self._part.stopped
        waiting = self._gang.waiting
        if any(isinstance(change, NameScheduler) for change in changes):
            return list(waiting)
        if any(isinstance(change, Ungate) for change in changes):
            return [pod for pod in waiting if pod.gates]
        return [pod for pod in waiting if stopped is not None and pod.shape is stopped.pod.shape]

    def _does_the_same(self, found: Commands, pod: Pod, plan: Whole) -> bool:
        """Return whether the gang starts with pods as the command makes them."""
        if not found.pods:
            return True
        made = found.pods[0]
        # One shape for all pods that a command changes alike.
        shape = self._shapes.setdefault((id(pod.shape), str(plan)), made.shape)
        members = [
            replace(one, shape=shape, gates=made.gates) if one.shape is pod.shape else one
            for one in self._edited(tuple(change for change in plan if isinstance(change, Ungate)))
        ]
        return self._fit(members, plan, self._needed(plan)) is not None


def _cost(plan: Whole) -> float:
    """Return a rank of plans by how much they ask of people."""
    return sum(change.effort for change in plan)
