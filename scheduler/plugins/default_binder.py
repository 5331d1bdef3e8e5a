"""Upstream: plugins/defaultbinder."""

from scheduler.framework.plugin import NoArgs


class DefaultBinder:
    """Bind through the API's binding subresource; the controller carries the Bind instruction out."""

    name = "DefaultBinder"
    Args = NoArgs
    bind = "binding"

    def __init__(self, args: NoArgs) -> None:
        pass
