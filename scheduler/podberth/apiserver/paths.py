"""URLs of the API, taken apart: which resource, which object, which verb.

Upstream: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class RequestInfo:
    """What a request is about; `plural` is empty for paths that are no resource's."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource as RBAC spells it: `pods` or `pods/binding`."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def read(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Take a request's path apart."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(verb=method.lower(), path=path)
    watching = rest[0] == "watch"
    if watching:
        rest = rest[1:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    plural, name, *below = [*rest, "", "", ""][:4]
    verb = _verb(method, bool(name), watching or _asks_for_watch(query))
    return RequestInfo(verb, path, group, version, plural, namespace, name, below[0])


def _asks_for_watch(query: Mapping[str, str]) -> bool:
    return query.get("watch", "false").lower() not in {"false", "0"}


def _verb(method: str, named: bool, watching: bool) -> str:
    if method in {"GET", "HEAD"}:
        if watching:
            return "watch"
        return "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())
