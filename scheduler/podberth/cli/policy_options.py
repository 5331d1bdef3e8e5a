"""Options that commands about policies share. They mean the same for an object, a cluster, and policies alone."""

from typing import Annotated

import typer

from podberth.cli import options
from podberth.cli.policy_inputs import owner_selector
from podberth.policy.options import Options

Namespace = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        help="Look at this namespace only: what is in it, and what names no namespace in its file.",
        callback=options.namespace,
    ),
]
OwnNamespace = Annotated[
    str, typer.Option("--own-namespace", help="The namespace that Berth runs in; no policy applies there.")
]
Live = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help="A schedulerName that is served; policies that send pods elsewhere are reported. May be repeated.",
    ),
]
Owner = Annotated[
    list[str] | None,
    typer.Option(
        "--owner-selector",
        help='A label selector by which a controller finds its pods: {"matchLabels": …}; may be repeated.',
    ),
]


def chosen(
    namespace: str | None,
    own_namespace: str,
    live: list[str] | None,
    owner: list[str] | None,
    allowed: list[str] | None,
    reserved: list[str] | None,
    reserve_known: bool,
) -> Options:
    """Return what these options come to. Raises InputError."""
    return Options(
        namespace=namespace or "",
        own_namespace=own_namespace,
        allowed_prefixes=tuple(allowed or ()),
        live_schedulers=frozenset(live) if live else None,
        owner_selectors=tuple(owner_selector(text) for text in owner or ()),
        reserved_prefixes=tuple(prefix.lower() for prefix in reserved or ()),
        reserve_known=reserve_known,
    )
