"""Upstream: plugins/defaultbinder."""

from scheduler.framework.plugin import NoArgs
from scheduler.framework.reservation import Binding, Held
from scheduler.state.cluster import Cluster


class DefaultBinder:
    """Bind through the API's binding subresource; the controller carries the Bind instruction out."""

    name = "DefaultBinder"
    Args = NoArgs

    def __init__(self, args: NoArgs) -> None:
        pass

    def bind(self, held: Held, cluster: Cluster) -> Binding:
        """Any pod."""
        return Binding.POST
