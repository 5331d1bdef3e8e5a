"""All or none: the pods of a convoy are bound once each of them has a node."""

from msgspec import Struct

from podberth.kit import AssumedPod, Cluster, ClusterEvent, Hold, Plugin, Pod, Reject, Unresolvable


class ConvoyArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Which label names a pod's convoy, which one says how many pods it has, and how long the first waits."""

    label: str = "convoy"
    size_label: str = "convoy-size"
    patience_seconds: float = 60.0


class Convoy(Plugin):
    """Holds each pod of a convoy, on the node it was decided for, until the last one has a node too."""

    name = "Convoy"
    Args = ConvoyArgs
    events = ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE

    def __init__(self, args: ConvoyArgs) -> None:
        self._args = args

    @staticmethod
    def check(args: ConvoyArgs, path: str) -> list[str]:
        """What is wrong with the arguments, in the API's own words; asked once, when the configuration is read."""
        if args.patience_seconds > 0:
            return []
        return [f"{path}.patienceSeconds: Invalid value: {args.patience_seconds}: must be greater than zero"]

    def permit(self, assumed: AssumedPod, cluster: Cluster) -> Hold | Reject | None:
        """Wait for the others; the last one gives the word for all."""
        convoy = self._convoy(assumed.pod)
        if convoy is None:
            return None
        size = assumed.pod.labels.get(self._args.size_label, "")
        if not size.isdecimal():
            return Reject(Unresolvable(f"convoy without a number in the label {self._args.size_label}"))
        waiting = [other for other in assumed.waiting_pods if self._convoy(other.pod) == convoy]
        sailing = sum(self._convoy(placed.pod) == convoy for placed in cluster.placements())
        # The pod itself is among those that have a node, and so are those that wait.
        if sailing < int(size):
            return Hold(self._args.patience_seconds)
        for other in waiting:
            other.allow(self.name)
        return None

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> None:
        """One that does not make it takes the others along: their room is of use to somebody else."""
        convoy = self._convoy(assumed.pod)
        for other in assumed.waiting_pods:
            if convoy is not None and self._convoy(other.pod) == convoy:
                other.reject(self.name, f"convoy {assumed.pod.labels[self._args.label]} lost {assumed.pod.name}")

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> None:
        """Nothing to hold; but only who reserves is asked to unreserve."""

    def _convoy(self, pod: Pod) -> tuple[str, str] | None:
        name = pod.labels.get(self._args.label)
        return (pod.namespace, name) if name else None
