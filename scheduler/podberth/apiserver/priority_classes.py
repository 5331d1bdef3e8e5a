"""Which PriorityClass counts, for pods and for pod groups."""

from __future__ import annotations

from collections.abc import Mapping

from podberth.apiserver.status import JsonObject

PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
"""The classes that a real server has from the start: name → value, description."""


def priority_class(spec: JsonObject, classes: Mapping[str, JsonObject]) -> JsonObject | None:
    """The class that a spec names, or else the lowest default one, which it names from now on.

    An empty object where there is neither; None when there is no class of that name.
    """
    name = spec.get("priorityClassName", "")
    if not name:
        defaults = (item for item in classes.values() if item.get("globalDefault"))
        default = min(defaults, key=lambda item: item.get("value", 0), default=None)
        if default is None:
            return {}
        name = spec["priorityClassName"] = default["metadata"]["name"]
    return classes.get(name)
