"""What the devices of a claim have to share, or to differ in (upstream: `constraint.go`, matchAttributeConstraint)."""

from podberth.model.devices import Attribute, Constraint, DeviceTraits


class Tracked:
    """One constraint of a claim, with the values of the devices that were chosen so far."""

    __slots__ = ("_attribute", "_distinct", "_requests", "_values")

    def __init__(self, constraint: Constraint) -> None:
        self._requests = constraint.requests
        self._distinct = constraint.match is None
        self._attribute = constraint.match or constraint.distinct or ""
        self._values: list[Attribute] = []

    def _concerns(self, request: str, alternative: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(alternative) and f"{request}/{alternative}" in self._requests

    def add(self, request: str, alternative: str, traits: DeviceTraits) -> bool:
        """Count a device; False if it can't be chosen beside the others, and then it is not counted."""
        if not self._concerns(request, alternative):
            return True
        value = traits.attribute(self._attribute)
        if value is None:
            return False
        if self._values and not value[0]:
            return False  # of a kind that can't be compared
        if self._values and (value in self._values if self._distinct else value != self._values[0]):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, alternative: str) -> None:
        """No longer count the device that was added last."""
        if self._concerns(request, alternative):
            self._values.pop()
