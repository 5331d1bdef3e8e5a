"""A live cluster as a `World`: one paged list of each kind that a decision reads, and no watch."""

import asyncio
from collections.abc import Sequence

import msgspec

from podberth.app.evictor.evictions import PastEviction, read_past_evictions
from podberth.cli.errors import InputError, complain
from podberth.cli.options import NO_LIMIT, seconds
from podberth.cli.output import progress
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.world import World
from podberth.kube.client import Client, list_items
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.kubeconfig import connect
from podberth.kube.resources import DEVICES, GROUPS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, WATCHED, Resource
from podberth.model.kinds import KINDS, Decoder

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass")
LIMIT_RANGES = Resource("", "v1", "limitranges", True, "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", True, "ResourceQuota")
_NEEDED = (NODES, PODS)
_FOR_NEW_PODS = (PRIORITY_CLASSES, RUNTIME_CLASSES, LIMIT_RANGES, RESOURCE_QUOTAS, RESOURCE_CLAIM_TEMPLATES)
"""Kinds that only pods from a file need: of others the API server knows the priority, and their claims are made."""
_WANTED = (*(each for each in WATCHED if each.called in KINDS and each not in _NEEDED), *_FOR_NEW_PODS)
_OFTEN_ABSENT = (*DEVICES, RESOURCE_CLAIM_TEMPLATES, *GROUPS)
_NO_SUCH_KIND = 404
SILENCE = 3.0
"""Seconds after which it is said that the server does not answer."""


def listed(
    kubeconfig: str | None,
    context: str | None,
    decoder: Decoder,
    *,
    classes: bool = True,
    groups: bool = True,
    timeout: str = "30s",
) -> tuple[World, str, str]:
    """Return what the API server has, how to call it in messages, and the namespace that the context names.

    `classes`: list what pods are made with too, which only a pod from a file needs. `groups`: list PodGroups too, which
    only waiting pods need. `timeout`: of each request.

    Raises kube.ConfigError for unusable settings, InputError when nodes and pods can't be listed.
    """
    limit, kinds = seconds(timeout), _kinds(classes=classes, groups=groups)
    connection = connect(kubeconfig, context)
    with progress(f"Listing nodes and pods of {connection.host}"):
        world = asyncio.run(_world(connection, decoder, kinds, limit))
    return world, connection.host, connection.namespace or "default"


def listed_evictions(kubeconfig: str | None, context: str | None, timeout: str) -> tuple[list[PastEviction], list[str]]:
    """Return what evictors did lately, as far as the API server still has their Events; and what kept us from reading
    them.

    Raises kube.ConfigError for unusable settings.
    """

    async def read() -> list[PastEviction]:
        async with Client(connect(kubeconfig, context), timeout=seconds(timeout)) as client:
            return await read_past_evictions(client)

    try:
        return asyncio.run(read()), []
    except (ApiError, Unreachable) as error:
        return [], [f"can't list events: {error}; which pods an evictor leaves alone for a while is not known"]


def fetched(kubeconfig: str | None, context: str | None, timeout: str) -> list[tuple[Resource, list[msgspec.Raw]]]:
    """Return what the API server has of each kind that a decision reads, as it came.

    Raises kube.ConfigError for unusable settings, InputError when nodes and pods can't be listed.
    """
    limit = seconds(timeout)
    problems: list[str] = []
    found = asyncio.run(_lists(connect(kubeconfig, context), problems, limit, _kinds(classes=True, groups=True)))
    complain(problems)
    return found


def _kinds(*, classes: bool, groups: bool) -> list[Resource]:
    left_out = (*(() if classes else _FOR_NEW_PODS), *(() if groups else GROUPS))
    return [kind for kind in (*_NEEDED, *_WANTED) if kind not in left_out]


async def _world(connection: Connection, decoder: Decoder, kinds: Sequence[Resource], limit: float) -> World:
    world = World(decoder)
    for kind, items in await _lists(connection, world.problems, limit, kinds):
        for item in items:
            _add(world, kind, item)
    return world


def not_answered(host: str, limit: float) -> str:
    """Return what is said of a server after `SILENCE`. `limit`: seconds."""
    until = "" if limit == NO_LIMIT else f"; --request-timeout ends it after {limit:g} s"
    return f"{host} has not answered yet{until}"


def until_answered(host: str, limit: float) -> asyncio.TimerHandle:
    """Have it said if there is no answer after `SILENCE`: who gets one cancels it. `limit`: seconds."""
    return asyncio.get_running_loop().call_later(SILENCE, complain, [not_answered(host, limit)])


async def _lists(
    connection: Connection, problems: list[str], limit: float, kinds: Sequence[Resource]
) -> list[tuple[Resource, list[msgspec.Raw]]]:
    async with Client(connection, timeout=limit) as client:
        needed = [asyncio.ensure_future(_all(client, kind)) for kind in kinds if kind in _NEEDED]
        answered, _ = await asyncio.wait(needed, timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
        if not answered:
            complain([not_answered(connection.host, limit)])
        answers = await asyncio.gather(*needed, return_exceptions=True)
        if not any(isinstance(each, BaseException) for each in answers):
            # Others are not asked for before: they would be waited for, one after the other, if nobody answers.
            rest = [_all(client, kind) for kind in kinds[len(needed) :]]
            answers += await asyncio.gather(*rest, return_exceptions=True)
    found: list[tuple[Resource, list[msgspec.Raw]]] = []
    for kind, items in zip(kinds, answers, strict=False):
        if isinstance(items, ApiError | Unreachable):
            if kind in _NEEDED:
                raise InputError(f"{connection.source}: can't list {kind.plural} of {connection.host}: {items}")
            if kind in _OFTEN_ABSENT and isinstance(items, ApiError) and items.status == _NO_SUCH_KIND:
                continue  # the cluster has no devices to claim, or no pod groups
            problems.append(f"can't list {kind.plural}: {items}; left out")
        elif isinstance(items, BaseException):
            raise items
        else:
            found.append((kind, items))
    return found


def _add(world: World, kind: Resource, item: msgspec.Raw) -> None:
    """Add one object; one that can't be read is named and left out, and the rest count."""
    try:
        world.add_document(Document(kind.called, item, ""))
    except ObjectError as error:
        world.problems += [f"{line}; left out" for line in str(error).splitlines()]


async def _all(client: Client, kind: Resource) -> list[msgspec.Raw]:
    return [item async for item in list_items(client, kind.path())]
