"""Terms of inter-pod affinity, and topology spread constraints.

Upstream: `framework/types.go` (AffinityTerm), plugins/podtopologyspread/common.go.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from podberth.model import wire
from podberth.model.once import Once
from podberth.model.selectors import Labels, LabelSelector, Requirement, parse_label_selector

Grouped = TypeVar("Grouped")


class AffinityTerm(Struct, frozen=True, gc=False):
    """Pods meant by a term, and the node label whose values are its domains.

    `namespaces` and `namespace_selector` are a union; both absent in the object stands for the
    namespace of the pod that carries the term, which is resolved into `namespaces` when parsed.
    """

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    topology_key: str
    _hash: int = 0

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        # Terms are keys of the incremental counts, looked up at every decision: hash them once.
        parts = (self.selector, self.namespaces, self.namespace_selector, self.topology_key)
        force_setattr(self, "_hash", hash(parts))

    def selects(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Return whether the term means a pod with these labels in this namespace."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False

    def __str__(self) -> str:
        where = ", ".join(sorted(self.namespaces))
        if not self.namespace_selector.nothing:
            where = f"{where}{' and ' if where else ''}namespaces with {self.namespace_selector}"
        return f"pods with {self.selector} in {where} per {self.topology_key}"


class WeightedTerm(Struct, frozen=True):
    """A preferred term; `weight` is positive for affinity and negative for anti-affinity."""

    term: AffinityTerm
    weight: int


class Terms(Once[AffinityTerm]):
    """The required terms of a pod."""

    @cached_property
    def by_key(self) -> Mapping[str, Once[AffinityTerm]]:
        """Topology key → its terms."""
        return _by_key(self, Once)


class WeightedTerms(Once[WeightedTerm]):
    """The preferred terms of a pod."""

    @cached_property
    def by_sign(self) -> "tuple[Mapping[str, WeightedTerms], Mapping[str, WeightedTerms]]":
        """Topology key → its terms: of those that attract, and of those that repel."""
        attract, repel = [one for one in self if one.weight > 0], [one for one in self if one.weight < 0]
        return _by_key(attract, WeightedTerms), _by_key(repel, WeightedTerms)

    @cached_property
    def terms(self) -> Once[AffinityTerm]:
        """Return the terms without their weights."""
        return Once([one.term for one in self])

    @cached_property
    def weights(self) -> Once[int]:
        """Return the weights of `terms`."""
        return Once([one.weight for one in self])


def _by_key(terms: Sequence[Any], make: Callable[[list[Any]], Grouped]) -> dict[str, Grouped]:
    """Topology key → what is made of its terms, in their order."""
    found: dict[str, list[Any]] = {}
    for one in terms:
        term = one.term if isinstance(one, WeightedTerm) else one
        found.setdefault(term.topology_key, []).append(one)
    return {key: make(some) for key, some in found.items()}


def parse_affinity_term(term: wire.PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
    """Parse one term of a pod in `namespace`.

    Raises SelectorError naming the field path.
    """
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        parse_label_selector(term.label_selector, f"{path}.labelSelector"),
        frozenset((namespace,)) if own else frozenset(term.namespaces or ()),
        parse_label_selector(term.namespace_selector, f"{path}.namespaceSelector"),
        term.topology_key,
    )


class SpreadConstraint(Struct, frozen=True):
    """Allows at most `max_skew` more matching pods in a domain than in the emptiest, by values of `topology_key`."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def selector_for(self, labels: Labels) -> LabelSelector:
        """Return the selector with the pod's own values of `matchLabelKeys` added."""
        extra = [Requirement(key, "In", frozenset((labels[key],))) for key in self.match_label_keys if key in labels]
        if not extra or self.selector.nothing:
            return self.selector
        return LabelSelector((*extra, *self.selector.requirements))

    def counts(self, labels: Labels, other: Labels) -> bool:
        """Return whether a pod with these labels has a pod with the other labels counted."""
        if any(other.get(key) != labels[key] for key in self.match_label_keys if key in labels):
            return False
        return self.selector.matches(other)


def parse_spread_constraint(constraint: wire.TopologySpreadConstraint, path: str) -> SpreadConstraint:
    """Parse one constraint with the API's defaults.

    Raises SelectorError naming the field path.
    """
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        hard=constraint.when_unsatisfiable == "DoNotSchedule",
        selector=parse_label_selector(constraint.label_selector, f"{path}.labelSelector"),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
        match_label_keys=tuple(constraint.match_label_keys or ()),
    )
