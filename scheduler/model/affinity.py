"""Inter-pod affinity terms (kube-scheduler `framework/types.go`, AffinityTerm)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from scheduler.model import wire
from scheduler.model.large_selectors import label_selector_in_parts
from scheduler.model.once import Once, once
from scheduler.model.parts import Parts, some_of, whole
from scheduler.model.selectors import Labels, LabelSelector, parse_label_selector

_MANY = 64
"""Of more terms on a key, the hash is worked out with the rest."""
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
        """Whether the term means a pod with these labels in this namespace."""
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
    """The required terms of a pod, of which there may be thousands."""

    @once
    def by_key(self) -> Mapping[str, Once[AffinityTerm]]:
        """Topology key → its terms."""
        return whole(_by_key(self, Once))

    def working_out(self) -> Parts[None]:
        """Work out what is asked of them later, some terms at a time: there may be 50,000, each by another key."""
        self.__dict__["by_key"] = yield from _by_key(self, Once)
        _ = hash(self)
        yield len(self) // 8


class WeightedTerms(Once[WeightedTerm]):
    """The preferred terms of a pod."""

    @once
    def by_sign(self) -> "tuple[Mapping[str, WeightedTerms], Mapping[str, WeightedTerms]]":
        """Topology key → its terms: of those that attract, and of those that repel."""
        return whole(self._by_sign())

    def working_out(self) -> Parts[None]:
        """Work out what is asked of them later, some terms at a time, as `Terms.working_out` does."""
        self.__dict__["by_sign"] = by_sign = yield from self._by_sign()
        for by_key in by_sign:
            for of_key in by_key.values():
                if len(of_key) > _MANY:
                    _ = hash(of_key.terms), hash(of_key.weights)
                    yield len(of_key) // 4
        _ = hash(self)
        yield len(self) // 4

    def _by_sign(self) -> "Parts[tuple[Mapping[str, WeightedTerms], Mapping[str, WeightedTerms]]]":
        attract, repel = [one for one in self if one.weight > 0], [one for one in self if one.weight < 0]
        return (yield from _by_key(attract, WeightedTerms)), (yield from _by_key(repel, WeightedTerms))

    @once
    def terms(self) -> Once[AffinityTerm]:
        """The terms without their weights."""
        return Once([one.term for one in self])

    @once
    def weights(self) -> Once[int]:
        """The weights of `terms`."""
        return Once([one.weight for one in self])


def _by_key(terms: Sequence[Any], make: Callable[[list[Any]], Grouped]) -> Parts[dict[str, Grouped]]:
    """Topology key → what is made of its terms, in their order."""
    found: dict[str, list[Any]] = {}
    for some in some_of(terms):
        for one in some:
            term = one.term if isinstance(one, WeightedTerm) else one
            found.setdefault(term.topology_key, []).append(one)
        yield len(some)
    made: dict[str, Grouped] = {}
    for keys in some_of(list(found)):
        made |= {key: make(found[key]) for key in keys}
        yield len(keys)
    return made


def parse_affinity_term(term: wire.PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
    """Parse one term of a pod in `namespace`.

    Raises SelectorError naming the field path.
    """
    of_pods = parse_label_selector(term.label_selector, f"{path}.labelSelector")
    return _made(term, namespace, of_pods, parse_label_selector(term.namespace_selector, f"{path}.namespaceSelector"))


def affinity_term_in_parts(term: wire.PodAffinityTerm, namespace: str, path: str) -> Parts[AffinityTerm]:
    """As `parse_affinity_term`, of a large term."""
    of_pods = yield from label_selector_in_parts(term.label_selector, f"{path}.labelSelector")
    of_places = yield from label_selector_in_parts(term.namespace_selector, f"{path}.namespaceSelector")
    return _made(term, namespace, of_pods, of_places)


def _made(
    term: wire.PodAffinityTerm, namespace: str, selector: LabelSelector, namespace_selector: LabelSelector
) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    namespaces = frozenset((namespace,)) if own else frozenset(term.namespaces or ())
    return AffinityTerm(selector, namespaces, namespace_selector, term.topology_key)
