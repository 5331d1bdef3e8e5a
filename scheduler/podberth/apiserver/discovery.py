"""Discovery: the documents from which clients learn what is served.

Upstream: k8s.io/apiserver pkg/endpoints/discovery.
"""

from __future__ import annotations

from podberth.apiserver.resources import ALL_VERBS, Registry, Resource
from podberth.apiserver.status import JsonObject

VERSION = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "gitVersion": "v1.37.0+berth",
    "gitCommit": "embedded",
    "gitTreeState": "clean",
    "goVersion": "none",
    "compiler": "python",
    "platform": "any",
}
_SUBRESOURCES: dict[str, list[tuple[str, str, str, tuple[str, ...]]]] = {
    "pods": [("binding", "", "Binding", ("create",)), ("eviction", "policy/v1", "Eviction", ("create",))],
    "namespaces": [("finalize", "", "Namespace", ("update",))],
}
# Created, answered and not stored: (group, plural, kind).
REVIEWS = (
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
)


def _entry(resource: Resource) -> JsonObject:
    entry: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(ALL_VERBS),
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresource(resource: Resource, name: str, group_version: str, kind: str, verbs: tuple[str, ...]) -> JsonObject:
    entry: JsonObject = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
    if group_version:
        entry["group"], _, entry["version"] = group_version.partition("/")
    return entry


def resource_list(registry: Registry, group: str, version: str) -> JsonObject | None:
    """The resources of one group and version, or None when there are none."""
    entries = []
    for resource in registry.in_group(group, version):
        entries.append(_entry(resource))
        if resource.status:
            entries.append(_subresource(resource, "status", "", resource.kind, ("get", "patch", "update")))
        if not resource.custom:
            for name, group_version, kind, verbs in _SUBRESOURCES.get(resource.plural, []):
                entries.append(_subresource(resource, name, group_version, kind, verbs))
    for review_group, plural, kind in REVIEWS:
        if (review_group, "v1") == (group, version):
            entries.append(
                {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}
            )
    if group == "" and version == "v1":
        entries.append(
            {"name": "bindings", "singularName": "binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]}
        )
    if not entries:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _group(name: str, versions: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def document(registry: Registry, path: str, address: str) -> JsonObject | None:
    """The discovery document at a path, or None."""
    parts = [part for part in path.split("/") if part]
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }
    groups = {**registry.group_versions(), **{group: ["v1"] for group, _, _ in REVIEWS}}
    if parts == ["apis"]:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, versions) for name, versions in groups.items()],
        }
    if parts[:1] == ["apis"] and len(parts) == 2 and parts[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    if parts[:1] == ["apis"] and len(parts) == 3:
        return resource_list(registry, parts[1], parts[2])
    if parts == ["api", "v1"]:
        return resource_list(registry, "", "v1")
    return None
