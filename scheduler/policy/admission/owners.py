"""By which labels an object's owner finds it: one GET of the owner when it matters, remembered for a while.

It matters only when a policy writes a label of an object that has a controller, which few reviews do, so following
all ReplicaSets, Jobs, … of a cluster would cost far more memory than these requests cost time (once per owner, not
once per pod). `scheduler.policy.guard` says which kinds matter.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.resources import OWNERS, Resource
from scheduler.model.selectors import LabelSelector
from scheduler.policy.guard import Owner, OwnerReference, OwnerUnknownError, controllers
from scheduler.policy.options import OptionsError

GOOD_FOR = 300.0
"""Seconds; the selectors of these kinds never change, but for a ReplicationController's."""
MOST = 4096
PATIENCE = 1.0
"""Seconds one lookup may take: the API server waits three for the whole review."""


_decode = msgspec.json.Decoder(Owner).decode


class Owners:
    """Selectors of controllers, by their uid. `lookups` counts GETs."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lookups = 0
        self._client = client
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, LabelSelector | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[LabelSelector | None]] = {}

    async def selectors(self, namespace: str, references: list[OwnerReference]) -> tuple[LabelSelector, ...]:
        """What the controllers among these references select by; one that is gone selects nothing.

        Raises OwnerUnknownError.
        """
        found = []
        for reference in controllers(references):
            selected = await self._selector(namespace, OWNERS[reference.group_and_kind], reference)
            if selected is not None:
                found.append(selected)
        return tuple(found)

    async def _selector(self, namespace: str, resource: Resource, reference: OwnerReference) -> LabelSelector | None:
        uid = reference.uid
        known = self._known.get(uid)
        if known is not None and self._clock() - known[0] < GOOD_FOR:
            return known[1]
        asking = self._asking.get(uid)
        if asking is None:
            asking = self._asking[uid] = asyncio.create_task(self._ask(namespace, resource, reference))
            asking.add_done_callback(lambda _: self._asking.pop(uid, None))
        try:
            return await asyncio.shield(asking)
        except (ApiError, Unreachable, TimeoutError, OptionsError, msgspec.MsgspecError) as error:
            said = str(error) or type(error).__name__
            raise OwnerUnknownError(f"{reference.kind} {reference.name[:80]}: {said[:200]}") from error

    async def _ask(self, namespace: str, resource: Resource, reference: OwnerReference) -> LabelSelector | None:
        self.lookups += 1
        path = resource.path(namespace, reference.name)
        try:
            async with asyncio.timeout(PATIENCE):
                owner = _decode(await self._client.get(path, tries=1))
        except ApiError as error:
            if error.status != 404:
                raise
            return None  # asked again next time: it may be about to be created
        found = owner.selects(reference.kind)
        if owner.metadata.uid != reference.uid or found is None:
            return None
        self._known[reference.uid] = (self._clock(), found)
        self._known.move_to_end(reference.uid)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return found
