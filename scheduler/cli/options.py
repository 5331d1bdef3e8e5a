"""Options that several commands have. They mean the same everywhere."""

from typing import Annotated

import typer

from scheduler.cli.output import PageOutput

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
