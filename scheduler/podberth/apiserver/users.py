"""Says who asks, and what that user may: users behind bearer tokens, and reviews, which are answered and not stored.

The audit log is in memory; tests read their invariants from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from podberth.apiserver.rules.status import JsonObject


@dataclass(frozen=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""

    @property
    def is_master(self) -> bool:
        """Members of system:masters may do anything."""
        return "system:masters" in self.groups


MASTER = User("system:admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class AuditEntry(NamedTuple):
    """One finished request; a watch is entered when it ends."""

    verb: str
    path: str
    user: str
    code: int
    time: float
    annotations: dict[str, str]


@dataclass
class Trail:
    """The things that a request leaves behind besides its answer: warnings for the client, annotations for the audit
    log."""

    user: User
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


# Decides whether a user may do a verb on (group, resource, namespace, name); resource may be `pods/binding`.
Authorizer = Callable[[User, str, str, str, str, str], bool]


def _user_info(user: User) -> JsonObject:
    info: JsonObject = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info


def token_review(review: JsonObject, tokens: Mapping[str, User]) -> JsonObject:
    """Say whose token it is."""
    user = tokens.get((review.get("spec") or {}).get("token", ""))
    status: JsonObject = {"authenticated": True, "user": {}}
    if user is None:
        status = {"user": {}, "error": "invalid bearer token"}
    else:
        status["user"] = _user_info(user)
    return _answered(review, "authentication.k8s.io/v1", "TokenReview", status)


def _answered(review: JsonObject, api_version: str, kind: str, status: JsonObject) -> JsonObject:
    return {
        "kind": kind,
        "apiVersion": api_version,
        **review,
        "metadata": review.get("metadata") or {},
        "status": status,
    }


def access_review(review: JsonObject, authorizer: Authorizer | None, asking: User | None = None) -> JsonObject:
    """Say whether a user may do something; a SelfSubjectAccessReview asks for the caller itself."""
    spec = review.get("spec") or {}
    user = asking or User(spec.get("user", ""), tuple(spec.get("groups") or ()))
    if attributes := spec.get("resourceAttributes"):
        resource = attributes.get("resource", "")
        if attributes.get("subresource"):
            resource = f"{resource}/{attributes['subresource']}"
        question = (
            attributes.get("verb", ""),
            attributes.get("group", ""),
            resource,
            attributes.get("namespace", ""),
            attributes.get("name", ""),
        )
    else:
        attributes = spec.get("nonResourceAttributes") or {}
        question = (attributes.get("verb", ""), "", attributes.get("path", ""), "", "")
    allowed = authorizer is None or user.is_master or authorizer(user, *question)
    kind = "SubjectAccessReview" if asking is None else "SelfSubjectAccessReview"
    return _answered(review, "authorization.k8s.io/v1", kind, {"allowed": allowed})
