"""The claims that a pod's ResourceClaimTemplates stand for, as kube-controller-manager's claim controller makes them.

Upstream: `pkg/controller/resourceclaim/controller.go` (handleClaim). Where it lets the API server end a name in five
random letters, names end here with the name that the pod calls the claim by.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Object = Mapping[str, Any]
KIND = "ResourceClaimTemplate"
_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_LONGEST = 63


class Templated(NamedTuple):
    """One of a pod's `resourceClaims` that a claim is to be made for: what the pod calls it, and its template."""

    name: str
    template: str


def templated(spec: Object) -> Iterator[Templated]:
    """The claims that a pod's spec has from templates. What is no list of mappings is passed over: others judge it."""
    claims = spec.get("resourceClaims")
    for each in claims if isinstance(claims, list) else ():
        template = each.get("resourceClaimTemplateName") if isinstance(each, dict) else None
        if isinstance(template, str) and template:
            yield Templated(str(each.get("name", "")), template)


def claim_name(pod: str, name: str) -> str:
    """Return what the claim of a pod is called. Long names are cut, each by its share, as the controller cuts them."""
    whole = f"{pod}-{name}"
    if len(whole) <= _LONGEST:
        return whole
    return f"{pod[: len(pod) * (_LONGEST - 1) // len(whole)]}-{name[: len(name) * (_LONGEST - 1) // len(whole)]}"


def claim(
    template: Object, asked: Templated, *, owner: str, namespace: str, uid: str, of_group: bool = False
) -> dict[str, Any]:
    """The ResourceClaim for a pod or a pod group of this name and UID. `template`: the whole ResourceClaimTemplate."""
    spec = template.get("spec") or {}
    given = spec.get("metadata") or {}
    api_version, kind = ("scheduling.k8s.io/v1beta1", "PodGroup") if of_group else ("v1", "Pod")
    metadata: dict[str, Any] = {
        "name": claim_name(owner, asked.name),
        "namespace": namespace,
        "annotations": {**(given.get("annotations") or {}), _POD_CLAIM_NAME: asked.name},
        "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": True}],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def status(pod: str, spec: Object) -> list[dict[str, str]]:
    """`status.resourceClaimStatuses` of the pod once all its claims are made."""
    return [named(pod, each) for each in templated(spec)]


def named(owner: str, asked: Templated) -> dict[str, str]:
    """The entry of `status.resourceClaimStatuses` for a claim that was made for this pod or pod group."""
    return {"name": asked.name, "resourceClaimName": claim_name(owner, asked.name)}


def described(template: Object) -> str:
    """Return what a template claims, in a few words: `2 of class gpu`."""
    spec = (template.get("spec") or {}).get("spec") or {}
    requests = (spec.get("devices") or {}).get("requests") or ()
    return " and ".join(_described(each) for each in requests) or "nothing"


def _described(request: Object) -> str:
    if request.get("firstAvailable"):
        return " or ".join(_devices(each) for each in request["firstAvailable"])
    return _devices(request.get("exactly") or {})


def _devices(asked: Object) -> str:
    number = "all" if asked.get("allocationMode") == "All" else asked.get("count") or 1
    return f"{number} of class {asked.get('deviceClassName', '?')}"
