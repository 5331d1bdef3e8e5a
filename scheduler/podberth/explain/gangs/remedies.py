"""Finds what would start a gang: small changes of pods, group and cluster.

Each change is tried by placing the whole gang in a dry run before it is offered.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from msgspec.structs import replace

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
from podberth.explain.remedies import Plan, templates_of
from podberth.explain.trial import add_node, applied, edited, live_node
from podberth.explain.written import Written
from podberth.framework.status import PluginError
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

_SHOWN = 6
_MORE_NODES = 64
_KINDS_OF_NODES = 2
_DOMAINS = 2
_TOGETHER = 8
"""The largest number of nodes that are changed in the same way at once."""
_RESOURCES = 6
_STEPS = 12
"""Steps of a binary search for an amount, each of which places a gang."""
_EACH = 16
"""The number of pods for each of which a command is shown."""
_MI = 1 << 20

GangPlan = tuple[Change | GroupChange, ...]
"""Changes that start a gang together."""


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
        first = self._prerequisites()
        if first and (fits := self._fits(first)) is not None:
            return list(self._told(first, fits))
        plans = [(*first, *plan) for plan in self._candidates(first)]
        plans.sort(key=_cost)
        told = (each for plan in plans if (fits := self._fits(plan)) is not None for each in self._told(plan, fits))
        return list(islice(told, _SHOWN))

    def _candidates(self, first: GangPlan) -> Iterator[GangPlan]:
        """Yield changes that may be enough, together with those without which nothing helps (`first`).

        `found` tries each.
        """
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
            leave: GangPlan = (LeaveDomain(group.topology_key),)
            if self._fits((*first, *leave)) is not None:
                yield leave

    # -- what is tried -----------------------------------------------------------------------------------------------

    def _of_plugins(self, first: GangPlan) -> Iterator[GangPlan]:
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

    def _several(self, first: GangPlan, changes: Sequence[OnNode]) -> Iterator[GangPlan]:
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

    def _labels(self, first: GangPlan, key: str) -> Iterator[GangPlan]:
        """Yield labels that put as few nodes as are enough into a domain; domains with most room come first."""
        where, nodes = self._where(()), self._cluster.nodes
        feasible = set(self._fitting.framework.find(self._gang.waiting[0], self._cluster).feasible.tolist())
        free = [node for row, node in nodes.live() if key not in node.labels and row in feasible]
        for domain in sorted(where, key=lambda one: -(self._fitting.count(self._gang.waiting, one) or 0))[:_DOMAINS]:
            changes = [Label(node.name, key, domain.name) for node in free[:_TOGETHER]]
            if changes and self._fits((*first, changes[0])) is not None:
                yield (changes[0],)
            else:
                yield from self._several(first, changes)

    def _smaller(self, first: GangPlan) -> Iterator[GangPlan]:
        """Yield smaller requests, of one resource each, for all pods like the one that stops the gang."""
        stopped = self._part.stopped
        if stopped is None:
            return
        asked = {name: amount for name, amount in stopped.pod.shape.requests.items() if amount > 1}
        for name in list(asked)[:_RESOURCES]:

            def less(amount: int, name: str = name) -> GangPlan:
                return (*first, Request({name: amount}, {name: asked[name]}))

            if self._fits(less(1)) is None:
                continue
            low, high, steps = 1, asked[name], 0
            while high - low > 1 and steps < _STEPS:
                middle, steps = (low + high) // 2, steps + 1
                if self._fits(less(middle)) is not None:
                    low = middle
                else:
                    high = middle
            amount = low // _MI * _MI if low >= _MI else low
            yield (Request({name: amount}, {name: asked[name]}),)

    def _more_nodes(self, first: GangPlan) -> Iterator[GangPlan]:
        """Yield as few new nodes as are enough, of up to two sizes; of each, the make of which fewest are needed.

        A larger size is yielded only if it needs no more nodes than the smaller ones.
        """
        found: dict[object, AddNodes] = {}
        in_domains, most = len(self._where(())) > 1, _MORE_NODES
        for node, _ in templates_of(node for _, node in self._cluster.nodes.live()):
            size = tuple(sorted(node.allocatable.items()))
            if (size in found and not in_domains) or self._fits((*first, AddNodes(node.name, most))) is None:
                continue
            fewer = [AddNodes(node.name, number) for number in range(1, most)]
            most = 1 + bisect_left(fewer, True, key=lambda change: self._fits((*first, change)) is not None)
            if size not in found or most < found[size].count:
                found[size] = AddNodes(node.name, most)
        for each in sorted(found.values(), key=lambda one: one.count)[:_KINDS_OF_NODES]:
            yield (each,)

    # -- trying ------------------------------------------------------------------------------------------------------

    def _fits(self, plan: GangPlan) -> int | None:
        """Return the number of waiting pods that find a node after a plan.

        None: too few for the gang to start, or pods have gates still, or no more pods may be placed.
        """
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

    def _fit(self, members: Sequence[Pod], plan: GangPlan, needed: int) -> int | None:
        try:
            with self._applied(plan):
                where = self._where(plan)
                return None if self._gang.gap(self._cluster) else self._fitting.enough(members, where, needed)
        except PluginError as error:
            self.notes.append(f"not every change could be tried: {error}")
            return None

    def _needed(self, plan: GangPlan) -> int:
        count = next((change.count for change in plan if isinstance(change, LowerMinCount)), self._gang.group.needed)
        return max(count - len(self._gang.running), 1)

    def _where(self, plan: GangPlan) -> list[Domain]:
        gang = self._gang
        if any(isinstance(change, LeaveDomain) for change in plan):
            gang = Gang(replace(gang.group, topology_key=None), gang.waiting, gang.running)
        return domains(gang, self._fitting.framework, self._cluster)

    def _edited(self, plan: GangPlan) -> list[Pod]:
        """Return the waiting pods after changes of pods: gates go from all, the rest is done to those like the one
        that stops the gang.
        """
        members, stopped = list(self._gang.waiting), self._part.stopped
        others = [change for change in plan if isinstance(change, OnPod) and not isinstance(change, Ungate)]
        if stopped is not None and others:
            shape = _edited_shape(stopped.pod, others)
            members = [replace(pod, shape=shape) if pod.shape is stopped.pod.shape else pod for pod in members]
        if any(isinstance(change, Ungate) for change in plan):
            members = [replace(pod, gates=()) for pod in members]
        return members

    @contextmanager
    def _applied(self, plan: GangPlan) -> Iterator[None]:
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

    def _prerequisites(self) -> GangPlan:
        """Return the changes without which nothing else helps."""
        gates = sorted({gate for pod in self._gang.waiting for gate in pod.gates})
        named = (NameScheduler(name) for name in self._schedulers[:1])
        return (*named, *ungated(gates))

    def _told(self, plan: GangPlan, fits: int) -> Iterator[shown.GroupRemedy]:
        """Yield the plan as a remedy, unless the gang does not start once its commands are carried out."""
        lines = self._commands(plan)
        if lines is not None:
            yield shown.GroupRemedy(" and ".join(map(str, plan)), list(plan), fits, lines)

    def _commands(self, plan: GangPlan) -> list[str] | None:
        """Return the kubectl commands; empty: a part of the plan has none. None: they do not do what the plan says."""
        if any(isinstance(change, AddNodes | LeaveDomain) for change in plan):
            return []
        group = self._gang.group
        lines = [change.command(group) for change in plan if isinstance(change, LowerMinCount)]
        others = [change for change in plan if not isinstance(change, GroupChange)]
        if not others:
            return lines
        concerned = self._concerned(others)
        made, known = dict[str, None](), set[object]()
        for pod, own in concerned:
            kind = pod.owner, pod.shape, bool(pod.gates)
            if kind in known:
                continue
            found = commands(own, pod, self._written(pod))
            if found is None:
                return None
            repeated = made.keys() >= set(found.lines)
            if (not repeated or len(known) < _EACH) and not self._does_the_same(found, pod, plan):
                return None
            if not found.lines:
                return []
            if repeated:
                known.add(kind)  # they change what has the template, so that the rest of its pods change, too
            made |= dict.fromkeys(found.lines)
            if len(made) > _EACH:
                self.notes.append(f"{len(concerned):,} pods would have to be changed one by one: no commands are shown")
                return []
        return [*lines, *made]

    def _concerned(self, changes: Sequence[Change]) -> list[tuple[Pod, list[Change]]]:
        """Return each waiting pod that is to change, with what concerns it; the first one, if only the cluster is."""
        found = [
            (pod, [change for change in changes if not isinstance(change, OnPod) or self._concerns(change, pod)])
            for pod in self._gang.waiting
        ]
        of_pods = [(pod, own) for pod, own in found if any(isinstance(change, OnPod) for change in own)]
        return of_pods or found[:1]

    def _concerns(self, change: OnPod, pod: Pod) -> bool:
        """Return whether a change is made to a waiting pod: beside gates and names, to those like the one that stops
        the gang.
        """
        if isinstance(change, Ungate):
            return bool(pod.gates)
        stopped = self._part.stopped
        return isinstance(change, NameScheduler) or (stopped is not None and pod.shape is stopped.pod.shape)

    def _does_the_same(self, found: Commands, pod: Pod, plan: GangPlan) -> bool:
        """Return whether the gang starts with pods as the command makes them."""
        if not found.pods:
            return True
        made = found.pods[0]
        # One shape for all pods that a command changes alike.
        shape = self._shapes.setdefault((id(pod.shape), str(plan)), made.shape)
        members = [
            replace(changed, shape=shape, gates=made.gates) if one.shape is pod.shape else changed
            for one, changed in zip(self._gang.waiting, self._edited(plan), strict=True)
        ]
        return self._fit(members, plan, self._needed(plan)) is not None


def _edited_shape(pod: Pod, changes: Sequence[Change]) -> PodShape:
    """Return the shape of a pod after changes of it; what scores go by is less, too, where it asks for less."""
    shape = edited(pod, changes).shape
    for change in changes:
        if isinstance(change, Request):
            less = {name: change.instead_of[name] - amount for name, amount in change.requests.items()}
            shape.scoring = {name: amount - less.get(name, 0) for name, amount in shape.scoring.items()}
            cpu, memory = shape.nonzero  # what it adds to its node for the scores of the next pods
            shape.nonzero = cpu - less.get("cpu", 0), memory - less.get("memory", 0)
    return shape


def _cost(plan: GangPlan) -> float:
    """Return a rank of plans by how much they ask of people."""
    return sum(change.effort for change in plan)
