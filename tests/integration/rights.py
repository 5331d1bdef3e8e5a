"""What an account may do, and the wait until the API server knows it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for


def may(api: Api, verb: str, resource: str, group: str = "", namespace: str = "", name: str = "") -> bool:
    """Whether the user of this client may do that."""
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    attributes = {**asked, "namespace": namespace, "name": name}
    review: Object = api.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}},
    )
    allowed: bool = review["status"]["allowed"]
    return allowed


def wait_granted(cluster: Cluster, token: str, documents: Iterable[Object]) -> None:
    """Return once the account of a token has the rights of these roles.

    The authorizer hears of roles and of their bindings by a watch each, a moment after they were made.
    """
    account = cluster.api_as(token)
    try:
        for document in documents:
            if document is None or document["kind"] not in ("Role", "ClusterRole"):
                continue
            of_objects = [rule for rule in document.get("rules") or [] if rule.get("resources")]
            for rule in of_objects[:1]:  # a role comes as a whole
                wait_for(f"the rights of {document['metadata']['name']}", partial(_has, account, document, rule))
    finally:
        account.close()


def _has(account: Api, role: Object, rule: Object) -> bool:
    """Whether an account may do the first of what a rule names."""
    names = rule.get("resourceNames") or [""]
    namespace = role["metadata"].get("namespace", "")
    return may(account, rule["verbs"][0], rule["resources"][0], rule["apiGroups"][0], namespace, names[0])
