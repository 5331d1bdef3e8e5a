"""By which labels the owners in a namespace find their objects: each kind is listed when it is first asked for.

An audit looks at all objects of a namespace, so a list is fewer requests than a GET for each owner, which is what
`admission.owners` does for one object at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import OWNERS
from podberth.model.selectors import LabelSelector
from podberth.policy.guard import Owner, OwnerReference, OwnerUnknownError
from podberth.policy.operator.pages import pages
from podberth.policy.options import OptionsError

MOST_CRITERIA = 100_000
"""Criteria and values of all owners of a kind in a namespace; with more, none is known."""


class ListedOwners:
    """The owners of one namespace, as they were when first asked for."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._known: dict[tuple[str, str], dict[str, LabelSelector | None] | OwnerUnknownError] = {}

    async def selectors(self, references: Iterable[OwnerReference]) -> tuple[LabelSelector, ...]:
        """Return what these controllers select by; one that is gone selects nothing.

        Raises OwnerUnknownError.
        """
        found = []
        for reference in references:
            listed = self._known.get(reference.group_and_kind)
            if listed is None:
                listed = self._known[reference.group_and_kind] = await self._list(*reference.group_and_kind)
            if isinstance(listed, OwnerUnknownError):
                raise listed
            selected = listed.get(reference.uid)
            if selected is not None:
                found.append(selected)
        return tuple(found)

    async def _list(self, group: str, kind: str) -> dict[str, LabelSelector | None] | OwnerUnknownError:
        resource = OWNERS[group, kind]
        found: dict[str, LabelSelector | None] = {}
        size = 0
        try:
            async for page in pages(self._client, resource, self._namespace):
                for item in page.items or ():
                    owner = msgspec.convert(item, Owner)
                    selector = found[owner.metadata.uid] = owner.selects(kind)
                    size += 1 + sum(1 + len(one.values) for one in selector.requirements) if selector else 1
                if size > MOST_CRITERIA:
                    return OwnerUnknownError(f"owners of kind {kind} are not known: their selectors are too large")
        except (ApiError, Unreachable, OptionsError, msgspec.MsgspecError) as error:
            return OwnerUnknownError(f"owners of kind {kind} are not known: {str(error)[:200]}")
        return found
