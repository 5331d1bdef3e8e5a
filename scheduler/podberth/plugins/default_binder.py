"""Upstream: plugins/defaultbinder."""

from podberth.cache.cluster import Cluster
from podberth.framework.binding import AssumedPod, BindResult
from podberth.framework.interface import Plugin


class DefaultBinder(Plugin):
    """Bind through the API's binding subresource; the controller carries the Bind instruction out."""

    name = "DefaultBinder"

    def bind(self, assumed: AssumedPod, cluster: Cluster) -> BindResult:
        """Have the API server bind any pod."""
        return BindResult.POST
