"""Services by namespace, and which of them select a pod, without a look at each of them."""

from collections.abc import Mapping
from operator import attrgetter

from podberth.cache.selector_index import SelectorIndex
from podberth.model.namespaced import SelectingObject

_DEAD = 64


class Services:
    """All Services of a cluster."""

    def __init__(self) -> None:
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
            if not of.numbers:
                del self._by_namespace[namespace]

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[SelectingObject]:
        """The Services of a namespace that select pods with these labels, by name."""
        of = self._by_namespace.get(namespace)
        if of is None:
            return []
        found = [of.services[number] for number in of.index.select(labels).nonzero()[0].tolist()]
        return sorted(found, key=attrgetter("name"))


class _OfNamespace:
    __slots__ = ("index", "numbers", "services")

    def __init__(self) -> None:
        self.index = SelectorIndex()
        self.numbers: dict[str, int] = {}
        self.services: dict[int, SelectingObject] = {}

    def put(self, service: SelectingObject) -> None:
        number = self.numbers[service.name] = self.index.add(service.selector)
        self.services[number] = service

    def drop(self, name: str) -> None:
        number = self.numbers.pop(name, None)
        if number is not None:
            self.index.remove(number, self.services.pop(number).selector)
            if len(self.index.dead) > _DEAD:
                self.index.reuse()
