"""When nodes are reserved for a pod group that waits behind smaller pods: what a plugin of a profile may ask for.

The engine finds the nodes and keeps others away from them (`podberth.engine.pod_groups.reservations`).
"""

from msgspec import Struct

_LONGEST = 7 * 24 * 3600


class Reservation(Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """When room is kept for a gang that waits behind smaller pods, how much, and for how long."""

    after_seconds: int = 300
    """So long a gang waits, from its first attempt, before room is kept for it."""
    for_seconds: int = 3600
    """So long room is kept at most."""
    percentage_of_nodes: int = 50
    """Room is kept on no more of all nodes."""
    lowest_priority: int = -(2**31)
    """No room is kept for gangs of lower priority."""
    trust_expected_duration: bool = False
    """Pods may use room that is kept by their own word of how long they run, which nobody enforces."""

    def check(self, path: str) -> list[str]:
        """Error lines."""
        ranges = (
            ("afterSeconds", self.after_seconds, 0, _LONGEST),
            ("forSeconds", self.for_seconds, 1, _LONGEST),
            ("percentageOfNodes", self.percentage_of_nodes, 1, 100),
        )
        return [
            f"{path}.{name}: Invalid value: {value}: must be between {least:,} and {most:,}"
            for name, value, least, most in ranges
            if not least <= value <= most
        ]
