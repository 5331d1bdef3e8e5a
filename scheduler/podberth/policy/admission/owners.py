"""By which labels an object's owner finds it: one GET of the owner when it matters, remembered for a while.

It matters only when a policy writes a label of an object that has a controller, which few reviews do, so following
all ReplicaSets, Jobs, … of a cluster would cost far more memory than these requests cost time (once per owner, not
once per pod). `podberth.policy.guard` says which kinds matter, and that an object has one controller at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from podberth.kube.answers import read_answer
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import OWNERS
from podberth.model.selectors import LabelSelector
from podberth.policy.admission.lanes import Lanes, OverloadedError
from podberth.policy.guard import Owner, OwnerReference, OwnerUnknownError
from podberth.policy.options import OptionsError

GOOD_FOR = 300.0
"""Seconds; the selectors of these kinds never change, but for a ReplicationController's."""
MOST, MOST_BYTES = 4096, 1 << 20
"""Selectors that are remembered, and their bytes in all; the one that was not asked for the longest goes first."""
PATIENCE = 1.0
"""Seconds for a review's look-up, waiting included: the API server waits three for the whole review."""
LOOKUPS, LOOKUPS_EACH, LOOKUPS_WAITING = 16, 2, 64
"""GETs at once in all and for one namespace, and how many of one namespace may wait."""
SELECTOR_BYTES = 16 << 10
"""Larger selectors are not read: parsing one costs milliseconds, and nobody finds objects by hundreds of labels."""
FAILURES = (ApiError, Unreachable, TimeoutError, OverloadedError, OptionsError, msgspec.MsgspecError)


class _Key(NamedTuple):
    """Which owner is meant. The uid alone is what the object's author claims: it may be another namespace's."""

    namespace: str
    group: str
    kind: str
    name: str
    uid: str


class _Known(NamedTuple):
    """A selector, since when it is known, and its bytes."""

    since: float
    selector: LabelSelector
    size: int


class _Asking(msgspec.Struct, eq=False):
    """A GET under way, and how many reviews wait for it."""

    task: asyncio.Task[LabelSelector | None]
    waiting: int = 0


class _Spec(msgspec.Struct):
    selector: msgspec.Raw = msgspec.Raw(b"null")


class _Owner(msgspec.Struct):
    metadata: Owner.Meta
    spec: _Spec | None = None


_decode = msgspec.json.Decoder(_Owner).decode
_selector: Callable[[msgspec.Raw], dict[str, Any] | None] = msgspec.json.Decoder(dict[str, Any] | None).decode


class Owners:
    """Selectors of controllers. `lookups` counts GETs."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lookups = 0
        self._client = client
        self._clock = clock
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._bytes = 0
        self._asking: dict[_Key, _Asking] = {}
        self._lanes = Lanes(LOOKUPS, LOOKUPS_EACH, LOOKUPS_WAITING)

    async def selector(self, namespace: str, reference: OwnerReference) -> LabelSelector | None:
        """Return what this controller selects by; None for one that is gone, and for one that selects nothing.

        Raises OwnerUnknownError.
        """
        key = _Key(namespace, *reference.group_and_kind, reference.name, reference.uid)
        known = self._known.get(key)
        if known is not None and self._clock() - known.since < GOOD_FOR:
            return known.selector
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = _Asking(asyncio.create_task(self._ask(key)))
        asking.waiting += 1
        try:
            return await asyncio.shield(asking.task)
        except FAILURES as error:
            said = "too many look-ups of this namespace" if isinstance(error, OverloadedError) else str(error)
            raise OwnerUnknownError(f"{key.kind} {key.name[:80]}: {said[:200] or type(error).__name__}") from error
        finally:
            asking.waiting -= 1
            if not asking.waiting:  # the answer is there, or everybody who wanted it has gone away
                asking.task.cancel()
                if self._asking.get(key) is asking:
                    del self._asking[key]

    async def _ask(self, key: _Key) -> LabelSelector | None:
        until = asyncio.get_running_loop().time() + PATIENCE
        path = OWNERS[key.group, key.kind].path(key.namespace, key.name)
        try:
            async with self._lanes.slot(key.namespace, cost=1.0, until=until), asyncio.timeout_at(until):
                self.lookups += 1
                owner = read_answer(await self._client.get(path, tries=1), _decode)
        except ApiError as error:
            if error.status != 404:
                raise
            return None  # asked again next time: it may be about to be created
        if owner.metadata.uid != key.uid or owner.spec is None:
            return None
        size = len(memoryview(owner.spec.selector))
        if size > SELECTOR_BYTES:
            raise OptionsError(f"its selector has more than {SELECTOR_BYTES} bytes")
        found = Owner(owner.metadata, Owner.Spec(_selector(owner.spec.selector))).selects(key.kind)
        if found is None:
            return None
        self._remember(key, _Known(self._clock(), found, size))
        return found

    def _remember(self, key: _Key, known: _Known) -> None:
        before = self._known.pop(key, None)
        self._known[key] = known
        self._bytes += known.size - (0 if before is None else before.size)
        while len(self._known) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= self._known.popitem(last=False)[1].size
