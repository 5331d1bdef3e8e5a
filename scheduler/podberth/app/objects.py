"""Writes of plugins: each is sent until it is known whether it has happened."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from podberth.app.reporting import UnderWay, about
from podberth.engine.instructions import Carries, PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import (
    PostFilterWriteFailed,
    PreBindWriteFailed,
    PreBindWritten,
    Stimulus,
    TakenOut,
    TakingOut,
)
from podberth.framework.binding import NOW, Create, Delete, ObjectKey, Patch, Write
from podberth.framework.status import shown
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import Machine
from podberth.kube.resources import BY_KIND, Resource
from podberth.kube.writes import (
    create_object,
    delete_object,
    meta_time,
    object_creation,
    object_deletion,
    object_patch,
    patch_object,
    version_of,
)

log = structlog.get_logger("objects")

_ASK_AGAIN = 1.0
"""Seconds between questions about a write whose answer was lost, doubling to `_ASK_AGAIN_MOST`."""
_ASK_AGAIN_MOST = 30.0
_EXPECTED = (ApiError, Unreachable, TypeError)
"""Errors of a write that need no traceback. A plugin may have written what nothing can encode."""


class PluginWrites:
    """Carries out the writes that plugins ask for. What becomes of them goes back as stimuli."""

    def __init__(
        self, client: Client, answer: Callable[[Stimulus], None], under_way: UnderWay, machine: Machine
    ) -> None:
        self._client = client
        self._answer = answer
        self._under_way = under_way
        self._wall = machine.wall
        self._in_turn = InTurn(client, machine.wall)
        self._after_filtering: dict[str, list[tuple[Write, ...]]] = {}
        """UID of a pod → what is being written after its attempts failed."""
        self.carries: Carries = {
            PreBindWrite: self.pre_bind,
            PostFilterWrite: self.post_filter,
            UnreserveWrite: self.unreserve,
        }

    def pre_bind(self, instruction: PreBindWrite) -> None:
        """Write for a PreBind plugin; `answer` gets PreBindWritten or PreBindWriteFailed."""
        about_it = {**about(instruction.pod), "node": instruction.node, "plugin": instruction.plugin}
        log.debug("writing before the binding", **about_it)
        self._under_way.start(self._pre_bind_write(instruction))

    def post_filter(self, instruction: PostFilterWrite) -> None:
        """Write for a PostFilter plugin; `answer` gets PostFilterWriteFailed if that fails.

        What the attempt before wanted as well may still be under way, and be sent again and again: that is enough.
        """
        under_way = self._after_filtering.setdefault(instruction.pod.uid, [])
        if instruction.writes not in under_way:
            under_way.append(instruction.writes)
            self._under_way.start(self._write_after_filtering(instruction))

    def unreserve(self, instruction: UnreserveWrite) -> None:
        """Write for plugins whose reservation has ended."""
        self._answer(TakingOut(instruction.pod.uid))
        self._under_way.start(self._take_out(instruction))

    def overtake(self, writes: Iterable[Write]) -> None:
        """Write these, each for itself: whoever was faster has overtaken what they were to overtake."""
        for write in writes:
            self._under_way.start(self._overtake(write))

    async def _pre_bind_write(self, instruction: PreBindWrite) -> None:
        pod, written = instruction.pod, dict[ObjectKey, str]()
        for write in instruction.writes:
            try:
                written[write.key] = await write_object(self._client, write, self._wall, instruction.since)
            except Exception as error:
                # Whether it happened after all, the watch will tell: the next attempt sees it and goes on from there.
                status, message = (error.status, error.message) if isinstance(error, ApiError) else (0, str(error))
                if isinstance(write, Patch) and write.purpose:
                    message = f"{write.purpose}: {message}"
                kind, _, name = write.key
                told = {**about(pod), "plugin": instruction.plugin, "kind": kind, "object": name}
                log.warning(
                    "not written before the binding",
                    **told,
                    status=status,
                    error=message,
                    exc_info=not isinstance(error, _EXPECTED),
                )
                self._answer(PreBindWriteFailed(pod.uid, status, message, written))
                return
        self._answer(PreBindWritten(pod.uid, written))

    async def _write_after_filtering(self, instruction: PostFilterWrite) -> None:
        uid = instruction.pod.uid
        try:
            left = await self._write_on(instruction, "not written after filtering", {})
        finally:
            self._after_filtering[uid].remove(instruction.writes)
            if not self._after_filtering[uid]:
                del self._after_filtering[uid]
        if left:
            self._answer(PostFilterWriteFailed(uid, left))

    async def _take_out(self, instruction: UnreserveWrite) -> None:
        written: dict[ObjectKey, str] = {}
        try:
            await self._write_on(instruction, "not written after a reservation has ended", written)
        finally:
            self._answer(TakenOut(instruction.pod.uid, written))

    async def _overtake(self, write: Write) -> None:
        try:
            await write_object(self._client, write, self._wall)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status in (404, 409):
                return
            kind, namespace, name = write.key
            log.warning("not overtaken", kind=kind, namespace=namespace, name=name, error=str(error))

    async def _write_on(
        self, instruction: PostFilterWrite | UnreserveWrite, failure: str, written: dict[ObjectKey, str]
    ) -> tuple[Write, ...]:
        """Write one after the other, up to the first that fails; returns those that are left then."""
        for i, write in enumerate(instruction.writes):
            try:
                written[write.key] = await self._in_turn.write(write)
            except Exception as error:
                if isinstance(error, ApiError) and error.status == 404:
                    continue  # gone, and with it what was to be changed
                kind, _, name = write.key
                told = {**about(instruction.pod), "kind": kind, "object": name}
                log.warning(failure, **told, error=str(error), exc_info=not isinstance(error, _EXPECTED))
                return instruction.writes[i:]
        return ()


class _Turn:
    """The writers of one object, who wait for each other."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.writers = 0
        self.version = ""
        """The resourceVersion that the last of them has made."""


class InTurn:
    """Writes one object for one pod after the other, where each says the same over any version.

    At once, all but one of n pods that leave a claim would be refused, and ask, and so again: n² requests.
    """

    def __init__(self, client: Client, wall: Callable[[], float]) -> None:
        self._client = client
        self._wall = wall
        self._turns: dict[ObjectKey, _Turn] = {}

    async def write(self, write: Write) -> str:
        """Write as `write_object`, one write after the other where they would overtake each other."""
        if not (isinstance(write, Patch) and _over_any(write)):
            return await write_object(self._client, write, self._wall)
        turn = self._turns.setdefault(write.key, _Turn())
        turn.writers += 1
        try:
            async with turn.lock:
                over = turn.version or write.resource_version
                turn.version = await write_object(self._client, replace(write, resource_version=over), self._wall)
                return turn.version
        finally:
            turn.writers -= 1
            if not turn.writers:
                del self._turns[write.key]


async def write_object(client: Client, write: Write, wall: Callable[[], float], since: float | None = None) -> str:
    """Write; returns the new resourceVersion, empty for what is deleted.

    `wall`: seconds since the epoch. `since`: as in `Client.request`.

    If the answer is lost, the object is read until it is known whether it was written. One that has changed meanwhile
    is a conflict, by whomever. What says the same over any version is sent again, over the newest one. A patch that
    changes nothing asks whether the object is the one of its UID; another one is a conflict. What is not answered is
    sent again at once, and then less and less often.

    Raises ApiError, Unreachable if nothing was sent, and TypeError for what a plugin can't have written.
    """
    resource = _resource(write)
    pause = 0.0
    while True:
        try:
            return await _send(client, resource, write, wall, since)
        except ApiError as error:
            if isinstance(write, Patch) and not write.change and error.status == 422:
                kind, _, name = write.key  # the API server says that a UID can't be changed
                raise ApiError(409, "Conflict", f"{kind} {name} was made anew") from error
            if error.by_webhook or (error.status < 500 and not (_over_any(write) and error.status == 409)):
                raise
            why, refused = error.message, error
        except Unreachable as error:
            if not error.sent:
                raise
            why, refused = str(error), None
        log.warning("write unanswered, asking for the object", object="/".join(write.key), error=why)
        found = await _version(client, resource, write)
        if isinstance(write, Create) and found is not None:
            return found
        if isinstance(write, Delete) and found is None:
            return ""
        if isinstance(write, Patch) and found is None:
            raise ApiError(404, "NotFound", f"{write.key[0]} {write.key[2]} not found")
        if isinstance(write, Patch) and write.resource_version and found != write.resource_version:
            if _over_any(write):
                assert found is not None
                write = replace(write, resource_version=found)
                continue
            raise ApiError(409, "Conflict", f"{write.key[0]} {write.key[2]} has changed: {why}")
        if refused is not None and refused.status == 409:
            raise refused  # it is another object of that name
        await asyncio.sleep(pause)
        pause = min(max(2 * pause, _ASK_AGAIN), _ASK_AGAIN_MOST)


def _over_any(write: Write) -> bool:
    """Return whether it says the same over any version of the object."""
    return isinstance(write, Patch) and write.strategic and bool(write.resource_version)


def _resource(write: Write) -> Resource:
    kind = write.key[0]
    if kind not in BY_KIND:
        name = type(write).__name__
        raise TypeError(f"want a {name} of one of the kinds {', '.join(sorted(BY_KIND))}, got {shown(kind)}")
    return BY_KIND[kind]


async def _send(
    client: Client, resource: Resource, write: Write, wall: Callable[[], float], since: float | None
) -> str:
    _, namespace, name = write.key
    match write:
        case Create():
            path, body = object_creation(resource, namespace, name, write.document)
            return await create_object(client, path, body, since=since)
        case Delete():
            try:
                await delete_object(client, *object_deletion(resource, namespace, name, write.uid))
            except ApiError as error:
                if error.status != 404:
                    raise
            return ""
    path, body = object_patch(
        resource,
        namespace,
        name,
        uid=write.uid,
        resource_version=write.resource_version,
        change=_dated(write.change, wall),
        subresource=write.subresource,
    )
    return await patch_object(client, path, body, strategic=write.strategic, since=since)


async def _version(client: Client, resource: Resource, write: Write) -> str | None:
    """Return the object's resourceVersion; None: there is none."""
    _, namespace, name = write.key
    pause = _ASK_AGAIN
    while True:
        try:
            return version_of(await client.get(resource.path(namespace or None, name)))
        except ApiError as error:
            if error.status == 404:
                return None
            if error.status < 500:
                raise
        except Unreachable:
            pass  # asked again below: what was assumed holds until the API has spoken
        await asyncio.sleep(pause)
        pause = min(2 * pause, _ASK_AGAIN_MOST)


def _dated(value: Any, wall: Callable[[], float]) -> Any:
    """Return the same with the time of writing where a plugin asks for it."""
    if isinstance(value, Mapping):
        return {key: _dated(one, wall) for key, one in value.items()}
    if value == NOW:
        return meta_time(wall())
    return value
