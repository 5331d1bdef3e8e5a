"""Options that several commands have. They mean the same everywhere."""

import json
from typing import Annotated

import typer

from scheduler.cli.errors import InputError
from scheduler.cli.output import PageOutput

NO_LIMIT = 86_400.0
_UNITS = {"s": 1, "m": 60, "h": 3600}

ClusterFiles = Annotated[
    list[str] | None,
    typer.Option(
        help="Read a file instead of a live cluster: what `kubectl get nodes,pods,ns -A -o yaml` prints. "
        "May be repeated."
    ),
]
ConfigFile = Annotated[str | None, typer.Option(help="The KubeSchedulerConfiguration file.")]
SchedulerName = Annotated[str | None, typer.Option(help="The profile to use, by its schedulerName.")]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig.")]
Kubeconfig = Annotated[str | None, typer.Option(help="The kubeconfig file.")]
RequestTimeout = Annotated[
    str, typer.Option("--request-timeout", help="How long to wait for an answer of the API server: 5s, 2m.")
]
Validate = Annotated[
    bool, typer.Option("--validate/--no-validate", help="Refuse in -f what the API server would refuse.")
]
PageForm = Annotated[PageOutput, typer.Option("-o", "--output", help="The form of the answer.")]


def seconds(text: str) -> float:
    """`--request-timeout` as kubectl takes it: 5, 5s, 2m, 1h; 0 is no limit. Raises InputError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not number.isdecimal():
        raise InputError(f"--request-timeout: {json.dumps(text)}: expected seconds, or a time such as 30s or 2m")
    return int(number) * _UNITS[unit] or NO_LIMIT
