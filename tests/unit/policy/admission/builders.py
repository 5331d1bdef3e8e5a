"""Plain dicts for the admission server's tests: reviews, policies, pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from podberth.policy.admission.group import KnownPolicies
from podberth.policy.bounds import price
from podberth.policy.parse import parse
from podberth.policy.spec import Policies

Object = dict[str, Any]
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def rule(
    when: Object | None = None,
    *,
    annotated: Object | None = None,
    reject: bool = False,
    message: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """One rule; `when` and `annotated` are selectors."""
    predicate = {"labelSelector": when, "annotationSelector": annotated}
    action: Object = {"reject": reject, "message": message}
    action |= {"updatedLabels": dict(labels or {}), "updatedAnnotations": dict(annotations or {})}
    return {"policyPredicate": {k: v for k, v in predicate.items() if v is not None}, "policyAction": action}


def policy(name: str, *rules: Object, namespace: str = "team", mode: str = "enforce") -> Object:
    """A MetadataPolicy."""
    return {
        "apiVersion": "podberth.dev/v1alpha1",
        "kind": "MetadataPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"mode": mode, "rules": list(rules)},
    }


def without(key: str) -> Object:
    """The selector of what lacks a label."""
    return {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}


class Fixed:
    """A policy cache that never changes."""

    def __init__(self, *policies: Object, refused: tuple[str, ...] = ()) -> None:
        parsed = Policies(map(parse, policies))
        self._held = {
            name: KnownPolicies(here.policies, refused, units=sum(price(one).units for one in here.policies))
            for name, here in ((one.namespace, parsed.of(one.namespace)) for one in parsed.policies)
        }
        self._none = KnownPolicies((), refused)

    def of(self, namespace: str) -> KnownPolicies:
        """What applies there."""
        return self._held.get(namespace, self._none)


def pod(name: str = "web", **metadata: Any) -> Object:
    """A pod without requests, as the API server shows it to a webhook."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "spec": {"containers": [{"name": "main", "image": "i"}], "schedulerName": "default-scheduler"},
        "status": {},
    }


def config_map(name: str = "settings", **metadata: Any) -> Object:
    """An object that is no pod."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "data": {"a": "b"},
    }


def review(obj: Object | None, operation: str = "CREATE", *, old: Object | None = None, **more: Any) -> Object:
    """An AdmissionReview as the API server makes it; `more` replaces fields of the request."""
    of = obj or old or pod()
    group, _, version = of["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": of["kind"]}
    resource = {"group": group, "version": version, "resource": of["kind"].lower() + "s"}
    request = {
        "uid": UID,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": of["metadata"].get("name", ""),
        "namespace": of["metadata"].get("namespace", "team"),
        "operation": operation,
        "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def encoded(document: Any) -> bytes:
    """JSON."""
    return json.dumps(document).encode()


def applied(obj: Object, patch: Sequence[Object]) -> Object:
    """RFC 6902 for the operations that we use, strictly: a test's own reading of the standard."""
    found: Object = json.loads(json.dumps(obj))
    for operation in patch:
        *above, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        holder = found
        for part in above:
            holder = holder[part]
        assert isinstance(holder, dict)
        assert operation["op"] in ("add", "replace")
        assert operation["op"] == "add" or last in holder
        holder[last] = operation["value"]
    return found
