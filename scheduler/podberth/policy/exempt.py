"""Objects that no policy applies to, so that policies can't deadlock a cluster.

The webhook configuration leaves most of it out already (namespaceSelector, matchConditions); it is checked again here
because a webhook configuration is edited by people.
"""

from podberth.policy import objects
from podberth.policy.kinds import is_cluster_scoped
from podberth.policy.objects import JsonObject
from podberth.policy.options import Options
from podberth.policy.spec import GROUP, KIND

NAMESPACES = ("kube-system", "kube-node-lease")
KINDS = frozenset(
    {
        (GROUP, KIND),
        ("", "Event"),
        ("", "Binding"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
        ("discovery.k8s.io", "EndpointSlice"),
    }
)
SET = "in-force.podberth.dev"
"""The LimitRange by which the API server enforces the policies of its namespace (`native.policy_set`)."""
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io", "admission.k8s.io", "imagepolicy.k8s.io")


def exemption(operation: str, obj: JsonObject | None, old: JsonObject | None, options: Options) -> str | None:
    """Return the reason for which policies don't apply to this request, or None when they do."""
    if operation not in ("CREATE", "UPDATE"):
        return f"policies never answer for {operation}"
    if options.sub_resource:
        return f"policies do not apply to subresources (here {options.sub_resource})"
    assert obj is not None
    return of_object(obj, options) or _of_mirror(operation, obj, old, options) or _unchanged(operation, obj, old)


def of_object(obj: JsonObject, options: Options) -> str | None:
    """Return the reason for which policies never apply to this object, whoever writes it; None: they may."""
    namespace = options.namespace or objects.namespace(obj)
    if namespace in NAMESPACES or (namespace and namespace == options.own_namespace):
        return f"namespace {namespace} is exempt"
    group, kind = objects.group_and_kind(obj)
    if (group, kind) == ("", "LimitRange") and (obj.get("metadata") or {}).get("name") == SET:
        return "it is the policies of its namespace"
    return of_kind(group, kind)


def of_kind(group: str, kind: str) -> str | None:
    """Return the reason for which policies never apply to any object of this kind; None: they may."""
    if (group, kind) in KINDS or (group in REVIEWS and kind.endswith("Review")):
        return f"kind {kind} is exempt"
    return f"kind {kind} is in no namespace" if is_cluster_scoped(group, kind) else None


def _of_mirror(operation: str, obj: JsonObject, old: JsonObject | None, options: Options) -> str | None:
    """Return the exemption of a mirror pod, which only a kubelet makes. If the user is known, no other one gets it by
    the annotation.
    """
    if not objects.is_pod(obj) or not objects.is_mirror(obj):
        return None
    asks = options.user_info
    if operation == "UPDATE" and old is not None and not objects.is_mirror(old):
        return None
    if operation == "CREATE" and asks is not None and (asks.username or asks.groups) and not asks.is_node:
        return None
    return "mirror pods are exempt"


def _unchanged(operation: str, obj: JsonObject, old: JsonObject | None) -> str | None:
    if operation == "UPDATE" and old is not None and objects.snapshot(obj) == objects.snapshot(old):
        return "labels and annotations did not change"
    return None
