"""What policies would do to the objects of a live cluster: one paged list of each kind, and nothing written."""

import asyncio
from typing import NamedTuple

from podberth.cli.errors import InputError, complain
from podberth.cli.live import until_answered
from podberth.cli.output import progress
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.kubeconfig import connect
from podberth.kube.resources import METADATA_POLICIES, OWNERS, Resource
from podberth.policy.cases import name_of
from podberth.policy.impact import Impact, impact
from podberth.policy.objects import JsonObject, ShapeError, check
from podberth.policy.operator.kinds import DEFAULT_KINDS, KindError, resource
from podberth.policy.operator.pages import Page, pages
from podberth.policy.options import Options
from podberth.policy.owners import Owner, read
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import KIND, Policies

_READ = ("apiVersion", "kind", "metadata")


class _Listed(NamedTuple):
    """What a cluster has; `problems` are kinds and objects that were left out."""

    objects: list[JsonObject]
    policies: list[JsonObject]
    owners: list[Owner]
    problems: list[str]


def cluster_impact(
    given: Policies | None,
    kubeconfig: str | None,
    context: str | None,
    kinds: list[str],
    namespace: str | None,
    options: Options,
    limit: float = 30.0,
) -> Impact:
    """The impact of policies (None: the cluster's own) on its objects of these kinds (none: those of an audit).

    What is left out is told on stderr. Raises InputError when a kind is unknown, or nothing can be listed, and
    ConfigError for unusable settings.
    """
    try:
        wanted = [resource(kind) for kind in kinds or DEFAULT_KINDS]
    except KindError as error:
        raise InputError(f"--kind {error}") from None
    connection = connect(kubeconfig, context)
    with progress(f"Listing objects of {connection.host}"):
        found = asyncio.run(_listed(connection, wanted, namespace, given is None, limit))
    policies = _accepted(found, options.allowed_prefixes) if given is None else given
    if found.problems:
        complain([f"{problem}; left out" for problem in found.problems])
    return impact(policies, found.objects, options, found.owners)


def _accepted(found: _Listed, allowed_prefixes: tuple[str, ...]) -> Policies:
    accepted = []
    for document in found.policies:
        try:
            accepted.append(parse(document, allowed_prefixes))
        except PolicyError as error:
            found.problems.append(f"{KIND} {name_of(document, '?')}: {error.line}")
    return Policies(accepted)


async def _listed(
    connection: Connection, kinds: list[Resource], namespace: str | None, policies: bool, limit: float
) -> _Listed:
    found = _Listed([], [], [], [])
    async with Client(connection, timeout=limit) as client:
        silence = until_answered(connection.host, limit)
        if policies:
            try:
                async for page in pages(client, METADATA_POLICIES, namespace):
                    silence.cancel()
                    found.policies.extend(page.objects())
            except (ApiError, Unreachable) as error:
                raise InputError(f"{connection.source}: can't list {METADATA_POLICIES.plural}: {error}") from None
        for kind in kinds:
            try:
                async for page in pages(client, kind, namespace):
                    silence.cancel()
                    _take(page, found)
            except Unreachable as error:
                raise InputError(f"{connection.source}: can't list {kind.plural}: {error}") from None
            except ApiError as error:
                silence.cancel()
                found.problems.append(f"can't list {kind.plural}: {error}")
        if len(found.problems) >= len(kinds) and not found.objects:
            raise InputError(f"{connection.source}: {found.problems[0]}")
        named = {(kind.group, kind.plural) for kind in kinds}
        for kind in OWNERS.values():
            if (kind.group, kind.plural) in named:
                continue
            try:
                async for page in pages(client, kind, namespace):
                    found.owners.extend(owner for obj in page.objects() if (owner := read(obj)) is not None)
            except (ApiError, Unreachable) as error:
                found.problems.append(f"can't list {kind.plural}, which may lose what they make: {error}")
    return found


def _take(page: Page, found: _Listed) -> None:
    """Keep of each object what policies read: a cluster's objects are many."""
    for obj in page.objects():
        if (owner := read(obj)) is not None:
            found.owners.append(owner)
        try:
            check(obj)
        except ShapeError as error:
            found.problems.append(f"{obj['kind']} {(obj.get('metadata') or {}).get('name')}: {error}")
            continue
        kept = {field: obj[field] for field in _READ if field in obj}
        if page.kind == "PodList":
            kept |= {field: obj[field] for field in ("spec", "status") if field in obj}
        kept["metadata"] = {key: value for key, value in kept["metadata"].items() if key != "managedFields"}
        found.objects.append(kept)
