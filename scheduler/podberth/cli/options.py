"""Options that several commands have, which mean the same everywhere, and what may come next on a command line.

Besides what typer knows, names of the kubeconfig and of the cluster complete a word.
"""

import asyncio
import io
import json
import math
import os
import shlex
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podberth.cli.errors import InputError
from podberth.cli.output import PageOutput

if TYPE_CHECKING:
    from podberth.apiserver.rules.selectors import Matches
    from podberth.kube.resources import Resource

# --- what may come next -----------------------------------------------------------------------------------------------

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


# --- options ----------------------------------------------------------------------------------------------------------

NO_LIMIT = 86_400.0
_SHOWN, _LONGEST_NAMESPACE = 80, 63

ClusterFiles = Annotated[
    list[str] | None,
    typer.Option(
        help="Read a file instead of a live cluster: what berth dump writes, or `kubectl get nodes,pods,ns -A -o json` "
        "prints. YAML is read too, ten times as slowly. May be repeated."
    ),
]
ConfigFile = Annotated[str | None, typer.Option(help="The KubeSchedulerConfiguration file.")]
SchedulerName = Annotated[
    str | None,
    typer.Option(help="The profile to use, by its schedulerName.", autocompletion=profiles),
]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig.", autocompletion=contexts)]
Kubeconfig = Annotated[str | None, typer.Option(help="The kubeconfig file.")]
RequestTimeout = Annotated[
    str, typer.Option("--request-timeout", help="How long to wait for an answer of the API server: 5s, 2m.")
]
Validate = Annotated[
    bool, typer.Option("--validate/--no-validate", help="Refuse in -f what the API server would refuse.")
]
PageForm = Annotated[PageOutput, typer.Option("-o", "--output", help="The form of the answer.")]


def of_namespace(help: str) -> Any:
    """Return `-n`, with what it is of."""
    return typer.Option("-n", "--namespace", help=help, callback=namespace, autocompletion=namespaces)


def of_labels(help: str) -> Any:
    """Return `-l`, with what it chooses."""
    return typer.Option("-l", "--selector", help=help, callback=selector)


def seconds(text: str) -> float:
    """`--request-timeout` as kubectl takes it: 5, 5s, 2m, 1h; 0 is no limit. Raises InputError."""
    found = time_of(text)
    if found is None:
        raise InputError(f"--request-timeout: {json.dumps(text)}: expected seconds, or a time such as 30s or 2m")
    return found or NO_LIMIT


def time_of(text: str) -> float | None:
    """Return the seconds of a time such as 90, 90s, 15m or 1h30m; None if the text is no time."""
    from podberth.framework.config import parse_duration

    found = float(text) if text.isascii() and text.isdecimal() else parse_duration(text)
    return found if found is not None and 0 <= found < math.inf else None


def namespace(text: str | None) -> str | None:
    """`-n`, as it was given. Raises InputError for what can't be a namespace: an empty variable of a shell, say."""
    from podberth.policy.keys import is_subdomain

    if text is not None and (not is_subdomain(text) or "." in text or len(text) > _LONGEST_NAMESPACE):
        raise InputError(f"-n: {json.dumps(text[:_SHOWN], ensure_ascii=False)}: expected the name of a namespace")
    return text


def selector(text: str | None) -> str | None:
    """`-l`, as it was given. Raises InputError for what selects nothing in particular, or is no selector."""
    if text is not None:
        labels(text)
    return text


def labels(text: str) -> "Matches":
    """Return what a selector says of labels. Raises InputError."""
    from podberth.apiserver.rules.selectors import parse_labels
    from podberth.apiserver.rules.status import StatusError

    try:
        matches = parse_labels(text)
    except (ValueError, StatusError) as error:
        raise InputError(f"--selector: {json.dumps(text[:_SHOWN], ensure_ascii=False)}: {error}") from None
    if matches is None:
        raise InputError(f"--selector: {json.dumps(text[:_SHOWN])}: expected labels, such as app=web")
    return matches
