"""The kinds that an audit or an impact preview counts, and the paths of their lists.

They are called as for kubectl: `pods`, `deployments.apps`, `widgets.v1.example.com`.
"""

from __future__ import annotations

from podberth.kube.resources import Resource

DEFAULT_KINDS = (
    "pods",
    "configmaps",
    "services",
    "persistentvolumeclaims",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
)
"""No Secrets, on purpose: counting them needs the right to read them all."""

_VERSIONS = {"": "v1", "apps": "v1", "batch": "v1", "networking.k8s.io": "v1", "policy": "v1", "autoscaling": "v2"}


class KindError(ValueError):
    """A kind that can't be found from its name."""


def resource(name: str) -> Resource:
    """The resource that a name stands for. Its `kind` is left open: lists say it.

    Raises KindError.
    """
    plural, _, group = name.partition(".")
    first, _, rest = group.partition(".")
    if _is_version(first) and rest:
        return Resource(rest, first, plural, True, "")
    if not plural or group not in _VERSIONS:
        raise KindError(f"{name}: want PLURAL, PLURAL.GROUP of a well-known group, or PLURAL.VERSION.GROUP")
    return Resource(group, _VERSIONS[group], plural, True, "")


def _is_version(text: str) -> bool:
    return text[:1] == "v" and text[1:2].isdigit()
