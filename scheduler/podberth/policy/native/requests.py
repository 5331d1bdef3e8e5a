"""Requests that policies never apply to, in CEL: match conditions of webhooks and of admission policies.

`podberth.policy.exempt` says the same of one request at hand. Namespaces are left to the selectors of whoever uses
these; subresources are left out by rules that name none.

What a create costs is mostly paid for requests that no rule concerns, so an admission policy has one match condition
that asks everything at once (`concerned`). Where it does not hold, the API server evaluates nothing else.
"""

from collections.abc import Iterable
from typing import Any

from podberth.policy import keys
from podberth.policy.exempt import REVIEWS, SET
from podberth.policy.native.expressions import held, text, texts
from podberth.policy.qos import CLASSES
from podberth.policy.spec import GROUP

POD = 'request.kind.group == "" && request.kind.kind == "Pod"'
SEEN_NAME = SET
SEEN = (
    "(has(request.dryRun) && request.dryRun && has(request.name) && "
    f'request.name == {text(SEEN_NAME)} && request.resource.resource == "configmaps")'
)
"""Whether the operator asks, by a dry run, which version of the admission policies is in force."""
_EXEMPT = (
    ("metadatapolicies", (GROUP,)),
    ("events", ("", "events.k8s.io")),
    ("bindings", ("",)),
    ("leases", ("coordination.k8s.io",)),
    ("endpointslices", ("discovery.k8s.io",)),
)
"""Resources that policies never apply to."""


def of_resources() -> list[dict[str, str]]:
    """Return conditions on the resource alone, as a webhook has them."""
    found = [
        (f"not-{plural}", f"!(request.resource.resource == '{plural}' && request.resource.group in {_list(groups)})")
        for plural, groups in _EXEMPT
    ]
    found.append(("not-reviews", f"!(request.resource.group in {_list(REVIEWS)})"))
    found.append(("not-policies", f"!(request.resource.resource == 'limitranges' && request.name == '{SET}')"))
    return [{"name": name, "expression": expression} for name, expression in found]


def excluded() -> list[dict[str, Any]]:
    """`of_resources` as rules that leave requests out: the API server compares these without CEL, which is faster."""
    named = [([plural], groups) for plural, groups in _EXEMPT]
    found = [
        {**rules()[0], "apiGroups": list(groups), "resources": resources}
        for resources, groups in [*named, (["*"], REVIEWS)]
    ]
    return [*found, {**rules()[0], "apiGroups": [""], "resources": ["limitranges"], "resourceNames": [SET]}]


def before_storing(conditions: Iterable[str]) -> list[dict[str, str]]:
    """Return the match condition of what changes objects: every pod is concerned, and what meets one of the conditions.

    The API server asks it twice of an object that is changed, so it knows a pod before it has looked at anything else.
    """
    return _concerned(f"({POD}) || {_named(conditions)}")


def of_what_comes(conditions: Iterable[str]) -> list[dict[str, str]]:
    """Return the match condition of what changes objects where pods get no stamp: what meets one of the conditions."""
    return _concerned(f"[{POD}].exists(pod, {_named(conditions)})")


def of_stored(conditions: Iterable[str]) -> list[dict[str, str]]:
    """Return the match condition of what judges objects as they will be stored, with the class that is stored.

    A pod without a class is concerned, so that whoever is asked then works it out.
    """
    unstored = f"(pod && !(qos in {texts(CLASSES)}))"
    named = _named([unstored, *conditions])
    stored = 'pod ? object.?status.?qosClass.orValue("") : ""'
    return _concerned(f"[{POD}].exists(pod, [{stored}].exists(qos, {named}))")


def _named(conditions: Iterable[str]) -> str:
    """Return whether one of the conditions holds, which call labels and annotations by these names: a match condition
    has no variables.
    """
    asked = " || ".join(conditions)
    labels, annotations = held("object", "labels"), held("object", "annotations")
    return f"[{annotations}].exists(annotations, [{labels}].exists(labels, {asked}))"


def _concerned(asked: str) -> list[dict[str, str]]:
    mirror = text(keys.MIRROR)
    node = (
        'request.userInfo.username.startsWith("system:node:") || "system:nodes" in request.userInfo.?groups.orValue([])'
    )
    same = " && ".join(f"{held('object', field)} == {held('oldObject', field)}" for field in ("labels", "annotations"))
    mirrored = f'request.operation == "UPDATE" ? {mirror} in {held("oldObject", "annotations")} : ({node})'
    is_mirror = f"{mirror} in {held('object', 'annotations')} && {POD} && ({mirrored})"
    applies = f'!(request.operation == "UPDATE" && {same}) && !({is_mirror})'
    return [{"name": "concerned", "expression": f"{applies} && ({asked})"}]


def rules() -> list[dict[str, Any]]:
    """Every object of a namespace that is created or updated; no subresource."""
    return [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*"],
            "scope": "Namespaced",
        }
    ]


def _list(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"
