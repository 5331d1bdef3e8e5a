"""Services by namespace, and which of them select a pod, without a look at each of them."""

from collections.abc import Hashable, Iterator, Mapping
from operator import attrgetter

from scheduler.model.namespaced import SelectingObject
from scheduler.model.selectors import LabelSelector
from scheduler.state.per_node import Bounded
from scheduler.state.selector_index import SelectorIndex

_DEAD = 64
_MERGED = 32
_LARGE = 64
"""Selectors of more labels, or that nobody has read, are not indexed: one look says most often no."""


class Merged:
    """Selectors that were merged for some maps of labels lately."""

    def __init__(self) -> None:
        self._kept: Bounded[int, tuple[Mapping[str, str], Hashable, LabelSelector | None, Iterator[int]]] = Bounded(
            _MERGED
        )
        """The identity of a map of labels → (labels, version, selector, what is left to be worked out of it)."""

    def get(self, labels: Mapping[str, str], version: Hashable) -> tuple[LabelSelector | None, Iterator[int]] | None:
        """What was merged for these labels, if this is the version that it was merged for.

        The second value works out the selector; it yields the steps of each part that is left.
        """
        kept = self._kept.recall(id(labels))
        return kept[2:] if kept is not None and kept[0] is labels and kept[1] == version else None

    def put(self, labels: Mapping[str, str], version: Hashable, selector: LabelSelector | None) -> None:
        """Remember a selector."""
        rest = iter(()) if selector is None or selector.worked_out else selector.working_out()
        self._kept.keep(id(labels), (labels, version, selector, rest))


class Services:
    """All Services of a cluster."""

    def __init__(self) -> None:
        self.merged = Merged()
        self._by_namespace: dict[str, _OfNamespace] = {}

    def put(self, service: SelectingObject) -> None:
        """Add or update a Service."""
        of = self._by_namespace.setdefault(service.namespace, _OfNamespace())
        of.drop(service.name)
        of.put(service)

    def drop(self, namespace: str, name: str) -> None:
        """Remove a Service."""
        of = self._by_namespace.get(namespace)
        if of is not None:
            of.drop(name)
            if not of.numbers and not of.large:
                del self._by_namespace[namespace]

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[SelectingObject]:
        """The Services of a namespace that select pods with these labels, by name."""
        of = self._by_namespace.get(namespace)
        if of is None:
            return []
        found = [of.services[number] for number in of.index.select(labels).nonzero()[0].tolist()]
        found += [service for service in of.large.values() if service.selector.matches(labels)]
        return sorted(found, key=attrgetter("name"))


class _OfNamespace:
    __slots__ = ("index", "large", "numbers", "services")

    def __init__(self) -> None:
        self.index = SelectorIndex()
        self.numbers: dict[str, int] = {}
        self.services: dict[int, SelectingObject] = {}
        self.large: dict[str, SelectingObject] = {}

    def put(self, service: SelectingObject) -> None:
        if not service.complete or len(service.selector.requirements) > _LARGE:
            self.large[service.name] = service
            return
        number = self.numbers[service.name] = self.index.add(service.selector)
        self.services[number] = service

    def drop(self, name: str) -> None:
        self.large.pop(name, None)
        number = self.numbers.pop(name, None)
        if number is not None:
            self.index.remove(number, self.services.pop(number).selector)
            if len(self.index.dead) > _DEAD:
                self.index.reuse()
