"""CEL selectors of requests and classes: compiled once, evaluated once for devices with equal traits."""

from contextlib import suppress

from scheduler.model.devices import DeviceID, DeviceTraits
from scheduler.plugins.dynamic_resources.requested import UnfinishedError
from scheduler.state.effort import Effort

EVALUATING = "scheduler.plugins.dynamic_resources.evaluating"
"""The module that knows CEL. CEL is a tenth of what a scheduler imports, and most clusters have no devices. So it is
imported for the first expression, or before by a shell that sees devices come."""


class Programs:
    """Asks expressions, and counts the steps that compiling and evaluating them takes."""

    def __init__(self) -> None:
        self.effort = Effort()
        """Whose steps these are."""
        self.owner = ""
        """The namespace that asks."""

    def selects(self, expression: str, whose: str, traits: DeviceTraits, device: DeviceID) -> bool:
        """Whether the expression selects a device. `whose`: of what it is a selector, for messages.

        Raises AllocationError, and UnfinishedError.
        """
        from scheduler.plugins.dynamic_resources.evaluating import selects

        return selects(expression, whose, traits, device, self.owner, self.effort)

    def selects_at_once(self, expression: str, whose: str, traits: DeviceTraits, device: DeviceID) -> bool:
        """As `selects`, where nobody else waits for a turn.

        Raises AllocationError.
        """
        while True:
            with suppress(UnfinishedError):
                return self.selects(expression, whose, traits, device)
