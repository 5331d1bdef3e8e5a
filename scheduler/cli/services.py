"""Options that `berth admission` and `berth operator` share: what is said to one of them holds for the other, too."""

from typing import Annotated

import typer

from scheduler.telemetry import log

Exempt = Annotated[
    list[str] | None,
    typer.Option("--exempt-namespace", help="A further namespace without policies; may be repeated."),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option("--allow-prefix", help="A reserved key prefix that policies may write; may be repeated."),
]
ReservedToo = Annotated[
    list[str] | None,
    typer.Option("--reserve-prefix", help="A further key prefix that policies may not write; may be repeated."),
]
ReserveKnown = Annotated[
    bool,
    typer.Option(
        "--reserve-known/--no-reserve-known",
        help="Keep policies from writing keys that are known to give rights, sidecars or exceptions (docs/policy.md).",
    ),
]
SchedulerLease = Annotated[str, typer.Option("--scheduler-lease", help="The scheduler's Lease in our namespace.")]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help="A schedulerName that this Lease stands for when it does not say itself; may be repeated.",
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; empty: every one.")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", help="The cluster to serve.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def checked_level(text: str) -> str:
    """The log level, if it is one."""
    if text not in log.LEVELS:
        raise typer.BadParameter(f"{text}: want one of {', '.join(log.LEVELS)}", param_hint="--log-level")
    return text
