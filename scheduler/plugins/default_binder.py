"""Upstream: plugins/defaultbinder."""

from scheduler.framework.plugin import Plugin
from scheduler.framework.reservation import Binding, Held
from scheduler.state.cluster import Cluster


class DefaultBinder(Plugin):
    """Bind through the API's binding subresource; the controller carries the Bind instruction out."""

    name = "DefaultBinder"

    def bind(self, held: Held, cluster: Cluster) -> Binding:
        """Any pod."""
        return Binding.POST
