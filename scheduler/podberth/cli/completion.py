"""What may come next on a command line, besides what typer knows: names of the kubeconfig and of the cluster."""

import asyncio
import io
import os
import shlex
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from podberth.kube.resources import Resource

_SECONDS = 2.0
"""How long the API server may take: somebody waits with a finger on a key."""
_MOST = 500
FILES, VALUES = ":0", ":4"


def offer() -> int:
    """Print what may come next, as the shell has asked in $_BERTH_COMPLETE, by typer's protocol."""
    from podberth.cli.commands import app

    os.environ["COLUMNS"] = "10000"  # typer folds a description to the terminal's width, and each line is a value
    try:
        app(prog_name="berth")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def for_kubectl(words: list[str]) -> str:
    """Return what kubectl wants to read, in cobra's protocol: a line for each value, and what else may come."""
    os.environ |= {
        "_BERTH_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["berth", *words]),
    }
    said = io.StringIO()
    with redirect_stdout(said):
        offer()
    found = [line for line in said.getvalue().split("\n") if line]
    return "\n".join([*found, VALUES if found else FILES])


def contexts(ctx: typer.Context) -> list[str]:
    """Return the contexts of the kubeconfig."""
    from podberth.kube.errors import ConfigError
    from podberth.kube.kubeconfig import context_names

    try:
        return context_names(ctx.params.get("kubeconfig"))
    except ConfigError:
        return []


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the namespaces of the cluster."""
    from podberth.kube.resources import NAMESPACES

    return _names(ctx, NAMESPACES, incomplete)


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the nodes of the cluster."""
    from podberth.kube.resources import NODES

    return _names(ctx, NODES, incomplete)


def pods(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the pods of the namespace that is named, or that the context names."""
    from podberth.kube.resources import PODS

    return _names(ctx, PODS, incomplete)


def profiles(ctx: typer.Context) -> list[str]:
    """Return the profiles of the configuration that is named."""
    from podberth.cli.errors import InputError
    from podberth.cli.inputs import configuration

    try:
        return [one.scheduler_name or "" for one in configuration(ctx.params.get("config")).profiles]
    except InputError:
        return []


def _names(ctx: typer.Context, kind: "Resource", incomplete: str) -> list[str]:
    """Return some names that begin so; none where files take the cluster's place, or it can't be asked."""
    from podberth.kube.errors import ApiError, ConfigError, Unreachable

    if ctx.params.get("cluster"):
        return []
    try:
        return asyncio.run(_asked(ctx.params, kind, incomplete))
    except (ApiError, ConfigError, Unreachable):
        return []


async def _asked(given: dict[str, Any], kind: "Resource", incomplete: str) -> list[str]:
    import msgspec

    from podberth.kube.client import Client, list_items
    from podberth.kube.kubeconfig import connect
    from podberth.kube.objects import Partial

    connection = connect(given.get("kubeconfig"), given.get("context"))
    inside = given.get("namespace") or connection.namespace or "default"
    found: list[str] = []
    async with Client(connection, timeout=_SECONDS) as client:
        async for item in list_items(client, kind.path(inside if kind.namespaced else None), tries=1):
            name = msgspec.json.decode(item, type=Partial).name
            if name.startswith(incomplete):
                found.append(name)
            if len(found) == _MOST:
                break
    return found
