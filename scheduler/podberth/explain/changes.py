"""Small changes of a pod, or of the cluster, after which the pod may fit: an `Explainer` offers them."""

from collections.abc import Sequence

from msgspec import field
from msgspec.structs import replace

from podberth.explain.of_controllers import BY_HAND, mark_of_gate, mark_of_taint
from podberth.framework.explaining import SmallChange
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.quantity import exact
from podberth.model.selectors import FieldRequirement, NodeSelector, NodeSelectorTerm, Requirement
from podberth.model.shape import PodShape, fewer
from podberth.model.taints import UNSCHEDULABLE, Toleration, taint_text, tolerations_of
from podberth.model.terms import Terms

HOSTNAME = "kubernetes.io/hostname"


def last_word(key: str) -> str:
    """Return a label's key without its prefix, as texts name it: `zone`."""
    return key.rpartition("/")[2]


class Request(SmallChange, frozen=True):
    """Ask for less; amounts of the whole pod, in the scheduler's units."""

    cost = 1.0
    requests: dict[str, int]
    instead_of: dict[str, int]

    def __post_init__(self) -> None:
        if not self.requests or any(self.instead_of.get(name, 0) <= 0 for name in self.requests):
            raise ValueError("a Request needs amounts, and for each the larger one that it stands for in instead_of")

    def __str__(self) -> str:
        parts = [
            f"{exact(name, amount)} {name} instead of {exact(name, self.instead_of[name])}"
            for name, amount in self.requests.items()
        ]
        return f"ask for {' and '.join(parts)}"

    @property
    def effort(self) -> float:
        return self.cost + max(1 - amount / self.instead_of[name] for name, amount in self.requests.items())

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Lower the requests; of resources that devices may serve, also where containers ask for them."""
        shape.requests = shape.requests | self.requests
        shape.containers = fewer(shape.containers, self.requests)


class Tolerate(SmallChange, frozen=True):
    """Tolerate one taint."""

    cost = 1.0
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"tolerate {taint_text(self.key, self.value, self.effect)}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        added = Toleration(self.key, "Equal", self.value, self.effect)
        shape.tolerations = tolerations_of((*shape.tolerations, added))


class DropNodeSelector(SmallChange, frozen=True):
    """Take one label out of spec.nodeSelector."""

    cost = 1.5
    key: str
    value: str

    def __str__(self) -> str:
        return f"drop nodeSelector {self.key}={self.value}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        shape.node_selector = tuple(r for r in shape.node_selector if r.key != self.key)


class RespellNodeSelector(SmallChange, frozen=True):
    """Ask in spec.nodeSelector for a label that nodes have, not for one that none has and that is spelt nearly so."""

    cost = 0.5
    key: str
    value: str
    meant_key: str
    meant_value: str

    def __str__(self) -> str:
        return f"write {self.meant_key}={self.meant_value} in nodeSelector, not {self.key}={self.value}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        meant = Requirement(self.meant_key, "In", frozenset((self.meant_value,)))
        others = [r for r in shape.node_selector if r.key not in (self.key, self.meant_key)]
        shape.node_selector = (*others, meant)


class DropRequirement(SmallChange, frozen=True, tag="dropNodeAffinity"):
    """Take one requirement out of a term of the required node affinity; the term's last one takes all of it along."""

    cost = 1.5
    term: int
    requirement: str

    def __str__(self) -> str:
        return f"drop the required node affinity {self.requirement}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        old = _term(shape, self.term)
        if old is None:
            return
        labels = tuple(r for r in old.labels if str(r) != self.requirement)
        fields = tuple(f for f in old.fields if str(f) != self.requirement)
        if labels or fields:
            _replace_term(shape, self.term, labels, fields)
        else:
            shape.required_node_affinity = None


def _term(shape: PodShape, number: int) -> NodeSelectorTerm | None:
    """Return a term of the required node affinity; None: there is none of this number."""
    required = shape.required_node_affinity
    return None if required is None or number >= len(required.terms) else required.terms[number]


def _replace_term(
    shape: PodShape, number: int, labels: tuple[Requirement, ...], fields: tuple[FieldRequirement, ...]
) -> None:
    """Replace a term of the required node affinity by one with these labels and fields only."""
    assert shape.required_node_affinity is not None
    terms = list(shape.required_node_affinity.terms)
    only = [frozenset((f.name,)) for f in fields if f.operator == "In" and f.names_node]
    terms[number] = NodeSelectorTerm(labels, fields, None, frozenset.intersection(*only) if only else None)
    named = [term.names for term in terms if term.names is not None]
    names = frozenset().union(*named) if len(named) == len(terms) else None
    shape.required_node_affinity = NodeSelector(tuple(terms), names)


class DropPodTerm(SmallChange, frozen=True):
    """Make one required pod affinity (or anti-affinity) term preferred."""

    cost = 2.0
    anti: bool
    term: str
    pods: str
    topology_key: str

    def __str__(self) -> str:
        where = "apart from" if self.anti else "near"
        return f"prefer, not require, to be {where} {self.pods} per {last_word(self.topology_key)}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Drop it: as a preference it does not decide whether the pod fits."""
        if self.anti:
            shape.anti_affinity_terms = Terms(t for t in shape.anti_affinity_terms if str(t) != self.term)
        else:
            shape.affinity_terms = Terms(t for t in shape.affinity_terms if str(t) != self.term)


class SoftenSpread(SmallChange, frozen=True):
    """Turn a topology spread constraint from DoNotSchedule to ScheduleAnyway."""

    cost = 2.0
    topology_key: str

    def __str__(self) -> str:
        return f"let the spread over {last_word(self.topology_key)} be ScheduleAnyway"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        shape.spread = tuple(replace(c, hard=False) if c.topology_key == self.topology_key else c for c in shape.spread)


class RaiseMaxSkew(SmallChange, frozen=True):
    """Let a topology spread constraint be less even."""

    cost = 1.5
    topology_key: str
    max_skew: int

    def __str__(self) -> str:
        return f"let the spread over {last_word(self.topology_key)} have maxSkew {self.max_skew}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        shape.spread = tuple(
            replace(c, max_skew=max(c.max_skew, self.max_skew)) if c.hard and c.topology_key == self.topology_key else c
            for c in shape.spread
        )


class HonorPolicy(SmallChange, frozen=True):
    """Let a spread constraint count no domains where the pod can't go: one of its policies is to be `Honor`."""

    cost = 0.9
    topology_key: str
    policy: str

    def __str__(self) -> str:
        why = "its taints" if self.policy == "nodeTaintsPolicy" else "its node affinity"
        return (
            f"let the spread over {last_word(self.topology_key)} have {self.policy} Honor, so that nodes count only "
            f"where the pod may go by {why}"
        )

    def edit(self, pod: Pod, shape: PodShape) -> None:
        of_taints = self.policy == "nodeTaintsPolicy"
        shape.spread = tuple(
            replace(c, honor_taints=of_taints or c.honor_taints, honor_affinity=c.honor_affinity or not of_taints)
            if c.hard and c.topology_key == self.topology_key
            else c
            for c in shape.spread
        )


class AllowPreemption(SmallChange, frozen=True):
    """Let the pod preempt others."""

    cost = 2.0
    victims: int

    def __str__(self) -> str:
        what = "one pod" if self.victims == 1 else f"{self.victims} pods"
        return f"drop preemptionPolicy Never: it would preempt {what} of lower priority"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        pod.preempts = True


class DropHostPort(SmallChange, frozen=True):
    """Remove a host port."""

    cost = 2.0
    ip: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"do without host port {self.protocol} {self.port}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        shape.host_ports = tuple(p for p in shape.host_ports if p != (self.ip, self.protocol, self.port))


class Ungate(SmallChange, frozen=True):
    """Remove the scheduling gates."""

    cost = 0.0
    gates: list[str]

    def __str__(self) -> str:
        return f"remove the scheduling gate{'s' if len(self.gates) > 1 else ''} {', '.join(self.gates)}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        pod.gates = tuple(gate for gate in pod.gates if gate not in self.gates)


class AwaitUngate(Ungate, frozen=True):
    """Leave scheduling gates to the controller that takes them away."""

    def __str__(self) -> str:
        mark = mark_of_gate(self.gates[0])
        cure = "wait" if mark is None else mark.cure
        return f"{cure}, and takes the scheduling gate{'s' if len(self.gates) > 1 else ''} {', '.join(self.gates)} away"


def ungated(gates: Sequence[str]) -> tuple[Ungate, ...]:
    """Return the changes that remove these gates: those of one controller are left to it."""
    by_whom: dict[str, list[str]] = {}
    for gate in gates:
        mark = mark_of_gate(gate)
        by_whom.setdefault("" if mark is None else mark.by, []).append(gate)
    return tuple(AwaitUngate(theirs) if by else Ungate(theirs) for by, theirs in by_whom.items())


class Uncordon(SmallChange, frozen=True):
    """Let a cordoned node take pods again."""

    cost = 1.0
    node: str

    def __str__(self) -> str:
        return f"uncordon {self.node}"

    def changed(self, node: Node) -> Node:
        """Return the node without the mark of `kubectl cordon`, and without the taint that stands for it."""
        return replace(node, unschedulable=False, taints=tuple(t for t in node.taints if t.key != UNSCHEDULABLE.key))


class RemoveTaint(SmallChange, frozen=True):
    """Take a taint off a node that people have set for as long as it does not run (`out-of-service`)."""

    cost = 2.0
    node: str
    taint: str

    def __str__(self) -> str:
        return f"once it is sure that {self.node} runs, take the taint {self.taint} off it"

    def changed(self, node: Node) -> Node:
        return replace(node, taints=tuple(t for t in node.taints if str(t) != self.taint))


class AwaitUntaint(SmallChange, frozen=True):
    """Wait for a controller to take its taint off a node, whatever the effects."""

    cost = 2.0
    node: str
    key: str

    def __str__(self) -> str:
        mark = mark_of_taint(self.key)
        cure = mark.cure if mark is not None and mark.cure else "wait until the taint is off {node}"
        return cure.format(node=self.node)

    def changed(self, node: Node) -> Node:
        return replace(node, taints=tuple(t for t in node.taints if t.key != self.key))


class Label(SmallChange, frozen=True):
    """Label a node."""

    cost = 2.0
    node: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"label {self.node} {self.key}={self.value}"

    def changed(self, node: Node) -> Node:
        return replace(node, labels={**node.labels, self.key: self.value})


class MovePod(SmallChange, frozen=True):
    """Move a placed pod off its node. The devices of its claims are free then."""

    cost = 2.0
    pod: str
    node: str

    def __str__(self) -> str:
        return f"move {self.pod} off {self.node}"


class FreeClaim(MovePod, frozen=True):
    """Delete the pod that holds a claim which only one pod may use."""

    claim: str

    def __str__(self) -> str:
        return f"delete {self.pod}, which holds the claim {self.claim}"


class AwaitPod(SmallChange, frozen=True):
    """Wait for a pod that is being deleted: what it takes is free once it is gone."""

    cost = 0.0
    pod: str
    node: str

    def __str__(self) -> str:
        return f"wait until {self.pod}, which is terminating, is gone from {self.node}"


class GiveUpNode(SmallChange, frozen=True):
    """Delete a waiting pod that is nominated for the node."""

    cost = 3.0
    pod: str
    node: str

    def __str__(self) -> str:
        return f"delete {self.pod}, which {self.node} is kept for"


class AddNode(SmallChange, frozen=True):
    """One more node like one that is there: same labels, taints and size, and well. `but`: other labels.

    It has the pods that such a node gets, static ones and those of DaemonSets, and the taints that each has at first:
    who does not take them off the others would leave them on this one, too.
    """

    cost = 3.0
    like: str
    but: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        labels = " and ".join(f"{last_word(key)}={value}" for key, value in self.but.items())
        return f"add a node like {self.like}{f', but with {labels}' if labels else ''}"

    def clone(self, node: Node) -> Node:
        name = f"{node.name}-more"
        own = {HOSTNAME: name} if HOSTNAME in node.labels else {}
        labels = {**node.labels, **own, **self.but}
        marks = ((t, mark_of_taint(t.key)) for t in node.taints if t.key not in BY_HAND)
        taints = tuple(t for t, mark in marks if mark is None or mark.at_start)
        return replace(node, name=name, uid="", labels=labels, taints=taints, unschedulable=False, images={})


class NameScheduler(SmallChange, frozen=True):
    """Name a scheduler that somebody runs."""

    cost = 1.0
    scheduler: str

    def __str__(self) -> str:
        return f"name the scheduler {self.scheduler}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        pod.scheduler_name = self.scheduler


Relaxed = DropNodeSelector | DropRequirement | DropPodTerm | HonorPolicy | RaiseMaxSkew | SoftenSpread | DropHostPort
OnPod = Request | Tolerate | RespellNodeSelector | Relaxed | AllowPreemption | NameScheduler | Ungate | AwaitUngate
OnNode = Uncordon | RemoveTaint | AwaitUntaint | Label
Change = OnPod | OnNode | MovePod | FreeClaim | AwaitPod | GiveUpNode | AddNode
Fix = tuple[Change, ...]
"""Changes that help together."""
