"""What of devices the requests of a pod can tell apart, so that devices which differ in nothing else are one kind."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from podberth.model.devices import DeviceTraits
from podberth.plugins.dynamic_resources.requested import RequestedClaim

_MOST = 1 << 12
"""How many devices, and lists of names, are known. With one more, all are forgotten."""
_JUDGED = ("", "version")
"""Kinds of values of which some break every expression, whatever it reads."""


class Reading:
    """The names of the attributes that are read; None: any may be."""

    def __init__(self, names: frozenset[str] | None) -> None:
        self.names = names
        self._read: dict[tuple[str, ...], list[bool]] = {}
        """A driver and the names of attributes → which of them are read."""
        self._seen: dict[DeviceTraits, Hashable] = {}

    def seen(self, traits: DeviceTraits) -> Hashable:
        """Return what requests can see of a device: capacities, the attributes they read, and the
        names of all others.
        """
        if self.names is None:
            return traits
        found = self._seen.get(traits)
        if found is None:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            found = self._seen[traits] = self._seen_of(traits)
        return found

    def _seen_of(self, traits: DeviceTraits) -> Hashable:
        key = (traits.driver, *traits.attributes)
        read = self._read.get(key)
        if read is None:
            if len(self._read) >= _MOST:
                self._read.clear()
            read = self._read[key] = [self._reads(traits.driver, name) for name in traits.attributes]
        values = [
            one if is_read or one[0] in _JUDGED else one[0]
            for is_read, one in zip(read, traits.attributes.values(), strict=True)
        ]
        return key, traits.shared, tuple(traits.capacity.items()), tuple(values)

    def _reads(self, driver: str, name: str) -> bool:
        assert self.names is not None
        return name in self.names or f"{driver}/{name}" in self.names


def expressions(wanted: Sequence[RequestedClaim]) -> Iterator[str]:
    """The expressions by which the claims select devices."""
    for claim in wanted:
        for alternatives in claim.requests:
            for one in alternatives:
                for expression, _ in one.selectors:
                    yield expression


def reading_of(wanted: Sequence[RequestedClaim], reads: Mapping[str, frozenset[str] | None]) -> Reading:
    """Return what claims read. `reads`: of each expression, the attributes that it reads; None: any."""
    constraints = (one for claim in wanted for one in claim.spec.constraints)
    names = {name for one in constraints for name in (one.match, one.distinct) if name is not None}
    for expression in expressions(wanted):
        read = reads[expression]
        if read is None:
            return Reading(None)
        names |= read
    return Reading(frozenset(names))
