"""Finds owners that lose the pods they make, because a policy writes a label that their selector reads. Pure.

A ReplicaSet whose pods get another label than it selects by makes pods without end. The policies write all the same, as
their author says (decision 32); an owner that suffers is found here, from its selector and its template, and told of by
the operator's status and by `berth policy impact`.
"""

from collections.abc import Iterator
from typing import Any, TypedDict

import msgspec
from msgspec import Struct, field, structs

from podberth.model.selectors import LabelSelector
from podberth.policy.evaluate import evaluate
from podberth.policy.objects import JsonObject, group_and_kind
from podberth.policy.options import Options, OptionsError, selector
from podberth.policy.spec import Policies, Write

KINDS = frozenset(
    {
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    }
)
"""The kinds that make new objects in a loop when a label changes, as far as is known."""


class _Meta(Struct):
    name: str = ""
    namespace: str = ""


class _Made(TypedDict, total=False):
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Container(TypedDict, total=False):
    resources: Any
    restartPolicy: Any


class _PodSpec(TypedDict, total=False):
    """The fields from which the QoS class of a pod follows."""

    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: Any


class _Template(Struct):
    metadata: _Made | None = None
    spec: _PodSpec | None = None


class _Spec(Struct):
    selector: dict[str, Any] | None = None
    template: _Template | None = None


class _Read(Struct):
    metadata: _Meta
    spec: _Spec | None = None


class Owner(Struct, frozen=True):
    """An object that makes others and finds them by labels."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector
    template: _Template = field(default_factory=_Template)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def makes(self) -> Iterator[JsonObject]:
        """Yield what it makes: a pod of its template, and for a Deployment the ReplicaSet that will make it."""
        meta = {**(self.template.metadata or {}), "namespace": self.namespace}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.template.spec}
        if self.kind == "Deployment":
            yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta}


def read(obj: JsonObject) -> Owner | None:
    """Return an object as an owner; None: it is of another kind, or not valid in the API."""
    group, kind = group_and_kind(obj)
    if (group, kind) not in KINDS:
        return None
    try:
        found = msgspec.convert(obj, _Read)
        if found.spec is None or found.spec.selector is None or found.spec.template is None:
            return None
        finds = selector(found.spec.selector, "spec.selector")
    except (msgspec.ValidationError, OptionsError):
        return None
    return Owner(kind, found.metadata.namespace, found.metadata.name, finds, found.spec.template)


def lost_by(owner: Owner, policies: Policies, options: Options) -> list[Write]:
    """Return the labels that policies would write on what this owner makes, and by which it would not find it."""
    options = structs.replace(options, owner_selectors=(owner.selector,))
    found: dict[str, Write] = {}
    for made in owner.makes():
        found |= {write.key: write for write in evaluate(policies, "CREATE", made, None, options).lost}
    return list(found.values())
