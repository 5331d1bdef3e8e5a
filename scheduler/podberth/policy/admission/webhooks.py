"""The two webhook configurations as they should be, and whether one found is like that. No network: `registration`.

Every field is spelled out, also where it is the default, so that what the API server gives back compares equal.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from podberth.kube.resources import Resource
from podberth.policy.admission.settings import Settings
from podberth.policy.native import requests
from podberth.policy.spec import GROUP

MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", False, "MutatingWebhookConfiguration"
)
VALIDATING = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", False, "ValidatingWebhookConfiguration"
)
OWNERS = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
PATHS = {MUTATING.plural: "/mutate", VALIDATING.plural: "/validate"}
TIMEOUT_SECONDS = 3
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "admission"}

Object = dict[str, Any]


class _OwnerReference(msgspec.Struct):
    kind: str
    name: str
    uid: str


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    owner_references: list[_OwnerReference] | None = None


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str | None = None


class _Hook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _ClientConfig | None = None


class _Configuration(msgspec.Struct):
    """The fields of an existing configuration that `repaired` reads."""

    metadata: _Meta
    webhooks: list[_Hook] | None = None


configuration = msgspec.json.Decoder(_Configuration).decode


def desired(
    settings: Settings,
    resource: Resource,
    bundle: bytes | None,
    owner_uid: str | None = None,
    left: Sequence[str] = (),
) -> Object:
    """Return one of the two configurations; without a bundle the caBundle is left to whoever injects it.

    `left`: namespaces that it is not asked about, besides the exempt ones. Of these, the validating one is asked about
    pods that have an annotation which can't be read in CEL.
    `owner_uid`: of the ClusterRole `settings.owner`, with which the garbage collector removes them.
    """
    path = PATHS[resource.plural]
    client: Object
    if settings.url:
        client = {"url": settings.url.rstrip("/") + path}
    else:
        place = {"namespace": settings.namespace, "name": settings.service, "port": settings.service_port}
        client = {"service": {**place, "path": path}}
    if bundle is not None:
        client["caBundle"] = base64.b64encode(bundle).decode()
    hook: Object = {
        "name": f"{path[1:]}.metadatapolicy.{GROUP}",
        "clientConfig": client,
        "rules": requests.rules(),
        "failurePolicy": settings.failure_policy if resource is VALIDATING else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespaces("NotIn", *settings.exempt, *left),
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "matchConditions": requests.of_resources(),
    }
    if resource is MUTATING:
        hook["reinvocationPolicy"] = "IfNeeded"
    hooks = [hook]
    if resource is VALIDATING and left:
        hooks.append(
            {
                **hook,
                "name": f"promises.{GROUP}",
                "rules": [{**requests.rules()[0], "apiGroups": [""], "resources": ["pods"]}],
                "namespaceSelector": _namespaces("In", *left),
                "matchConditions": requests.of_promises(),
            }
        )
    meta: Object = {"name": settings.configuration, "labels": LABELS}
    if owner_uid is not None:
        owner = {"apiVersion": OWNERS.api_version, "kind": OWNERS.kind, "name": settings.owner, "uid": owner_uid}
        meta["ownerReferences"] = [owner]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "webhooks": hooks}


def _namespaces(operator: str, *names: str) -> Object:
    """Return a selector by the namespace's name label, which only the API server writes."""
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": [*names]}]}


def repaired(found: Object, wanted: Object) -> Object | None:
    """Return the object to write over an existing configuration; None when it is as wanted.

    Labels, annotations and owners that others gave it stay; so does an injected caBundle where we have none.
    """
    if "caBundle" not in wanted["webhooks"][0]["clientConfig"]:
        wanted = {**wanted, "webhooks": [_with_injected(found, hook) for hook in wanted["webhooks"]]}
    meta = found["metadata"]
    labels = (meta.get("labels") or {}) | wanted["metadata"]["labels"]
    owners = _owners(meta.get("ownerReferences") or [], wanted["metadata"].get("ownerReferences", []))
    same = labels == meta.get("labels") and owners == (meta.get("ownerReferences") or [])
    if same and _like(found.get("webhooks"), wanted["webhooks"]):
        return None
    kept = {**meta, "labels": labels} | ({"ownerReferences": owners} if owners else {})
    return {**wanted, "metadata": kept}


def _owners(found: list[Object], ours: list[Object]) -> list[Object]:
    """Keep others' owners; replace our own, since an owner that was created again has another uid."""
    if not ours or any(one["uid"] == ours[0]["uid"] for one in found):
        return found
    names = {(one["kind"], one["name"]) for one in ours}
    return [one for one in found if (one["kind"], one["name"]) not in names] + ours


def _with_injected(found: Object, hook: Object) -> Object:
    for old in found.get("webhooks") or []:
        injected = (old.get("clientConfig") or {}).get("caBundle")
        if old.get("name") == hook["name"] and injected:
            return {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": injected}}
    return hook


def _like(found: Any, wanted: Any) -> bool:
    """Equal, but for fields that we never name: a newer API server may default some that we do not know."""
    if isinstance(wanted, dict) and wanted:
        return isinstance(found, dict) and all(_like(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_like, found, wanted))
    return bool(found == wanted)
