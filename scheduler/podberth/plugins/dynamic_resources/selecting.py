"""CEL selectors of requests and classes: compiled once, evaluated once for devices with equal traits."""

from podberth.cache.search_steps import CappedSearch
from podberth.model.devices import DeviceID, DeviceTraits

EVALUATING = "podberth.plugins.dynamic_resources.evaluating"
"""The module that knows CEL. CEL is a tenth of what a scheduler imports, and most clusters have no devices. So it is
imported for the first expression, or before by a shell that sees devices come."""


class Programs:
    """Asks expressions, and counts the steps that compiling and evaluating them takes."""

    def __init__(self) -> None:
        self.owner = ""
        """The namespace that asks."""
        self.search: CappedSearch | None = None
        """The search that asks; None: the steps are nobody's, as an explanation asks."""

    def selects(self, expression: str, whose: str, traits: DeviceTraits, device: DeviceID) -> bool:
        """Return whether the expression selects the device. `whose`: of what it is a selector, for messages.

        Raises AllocationError, and SearchCapError.
        """
        from podberth.plugins.dynamic_resources.evaluating import selects

        return selects(expression, whose, traits, device, self.owner, self.search)
