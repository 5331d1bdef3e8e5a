"""By which labels the controllers of an object find it, so that no policy overwrites these. Pure; others read owners.

The admission server asks for one owner at a time (`admission.owners`), an audit lists them (`operator.owners`), and
`impact` takes those that are among the objects it looks at. A ReplicaSet that loses its pods makes new ones without
end, so where an owner can't be known, no label that is there is overwritten.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy.objects import JsonObject, group_and_kind
from podberth.policy.options import OptionsError, selector
from podberth.policy.verdict import Verdict

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
"""Others are not known to make new objects in a loop when a label changes."""


class OwnerUnknownError(Exception):
    """An owner could not be read; the text says which and why."""


class OwnerReference(Struct, rename="camel"):
    """One of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group_and_kind(self) -> tuple[str, str]:
        """API group ("" is core) and kind."""
        group, slash, _ = self.api_version.partition("/")
        return (group if slash else ""), self.kind


class Owner(Struct):
    """The part of an owner that says which one it is, and whom it finds."""

    class Meta(Struct):
        """Its metadata."""

        uid: str = ""

    class Spec(Struct):
        """Its spec."""

        selector: dict[str, Any] | None = None

    metadata: Meta
    spec: Spec | None = None

    def selects(self, kind: str) -> LabelSelector | None:
        """Its selector.

        Raises OptionsError for one that can't be read.
        """
        if self.spec is None or self.spec.selector is None:
            return None
        return selector(self.spec.selector, f"{kind}.spec.selector")


def controllers(references: Iterable[OwnerReference]) -> list[OwnerReference]:
    """The references to controllers of the kinds that matter (`KINDS`)."""
    return [one for one in references if one.controller and one.uid and one.name and one.group_and_kind in KINDS]


def controller(claims: int, owner: OwnerReference | None) -> OwnerReference | None:
    """The one controller that the API allows an object to have, if it is of a kind that matters.

    `claims`: how many owners say that they are, `owner`: the one if there is one. Raises OwnerUnknownError for more
    than one: the API server refuses such an object, but only after webhooks were asked, and nobody pays for looking at
    them all.
    """
    if claims > 1:
        raise OwnerUnknownError(f"the object names {claims} controllers, and may have one")
    return None if owner is None else next(iter(controllers((owner,))), None)


def references_of(obj: JsonObject) -> list[OwnerReference]:
    """The references of a whole object; what can't be read is none."""
    try:
        return msgspec.convert((obj.get("metadata") or {}).get("ownerReferences") or [], list[OwnerReference])
    except msgspec.ValidationError:
        return []


def matters(found: Verdict) -> bool:
    """Return whether owners have to be asked: only when a label is written."""
    return any(operation["path"].startswith("/metadata/labels") for operation in found.patch)


def everything(labels: Mapping[str, str]) -> tuple[LabelSelector, ...]:
    """Return what stands in for an owner that can't be known: it may find the object by any label that is there."""
    return (LabelSelector(tuple(Requirement(key, "Exists") for key in labels)),)


class Known:
    """Selectors of owners that are among the objects at hand, by uid."""

    def __init__(self, found: Iterable[JsonObject] = ()) -> None:
        self._selectors: dict[str, LabelSelector] = {}
        for obj in found:
            self.learn(obj)

    def learn(self, obj: JsonObject) -> None:
        """Remember an object if it is an owner that can be read."""
        if group_and_kind(obj) not in KINDS:
            return
        try:
            owner = msgspec.convert(obj, Owner)
            found = owner.selects(group_and_kind(obj)[1])
        except (msgspec.ValidationError, OptionsError):
            return
        if found is not None and owner.metadata.uid:
            self._selectors[owner.metadata.uid] = found

    def of(self, obj: JsonObject) -> tuple[LabelSelector, ...]:
        """Return what the object's controllers find it by, as far as they are known."""
        asked = (self._selectors.get(one.uid) for one in controllers(references_of(obj)))
        return tuple(found for found in asked if found is not None)
