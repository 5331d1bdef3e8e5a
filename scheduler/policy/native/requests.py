"""Which requests policies never apply to, in CEL: match conditions of webhooks and of admission policies.

`scheduler.policy.exempt` says the same of one request at hand. Namespaces are left to the selectors of whoever uses
these; subresources are left out by rules that name none.
"""

from typing import Any

from scheduler.policy import keys
from scheduler.policy.exempt import REVIEWS
from scheduler.policy.native.expressions import held, text
from scheduler.policy.spec import GROUP

POD = 'request.kind.group == "" && request.kind.kind == "Pod"'
_EXEMPT = (
    ("metadatapolicies", (GROUP,)),
    ("events", ("", "events.k8s.io")),
    ("bindings", ("",)),
    ("leases", ("coordination.k8s.io",)),
    ("endpointslices", ("discovery.k8s.io",)),
)
"""Resources that policies never apply to."""


def of_resources() -> list[dict[str, str]]:
    """Conditions on the resource alone, as a webhook has them."""
    found = [
        (f"not-{plural}", f"!(request.resource.resource == '{plural}' && request.resource.group in {_list(groups)})")
        for plural, groups in _EXEMPT
    ]
    found.append(("not-reviews", f"!(request.resource.group in {_list(REVIEWS)})"))
    return [{"name": name, "expression": expression} for name, expression in found]


def excluded() -> list[dict[str, Any]]:
    """The same as rules: the API server compares these without CEL, which is faster."""
    named = [([plural], groups) for plural, groups in _EXEMPT]
    return [
        {**rules()[0], "apiGroups": list(groups), "resources": resources}
        for resources, groups in [*named, (["*"], REVIEWS)]
    ]


def of_requests() -> list[dict[str, str]]:
    """Conditions on whole requests, for who has no other chance to let an object pass."""
    mirror = text(keys.MIRROR)
    node = (
        'request.userInfo.username.startsWith("system:node:") || "system:nodes" in request.userInfo.?groups.orValue([])'
    )
    same = " && ".join(f"{held('object', field)} == {held('oldObject', field)}" for field in ("labels", "annotations"))
    mirrored = f'request.operation == "UPDATE" ? {mirror} in {held("oldObject", "annotations")} : ({node})'
    return [
        {"name": "not-unchanged", "expression": f'!(request.operation == "UPDATE" && {same})'},
        {
            "name": "not-mirror-pods",
            "expression": f"!({POD} && {mirror} in {held('object', 'annotations')} && ({mirrored}))",
        },
    ]


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
