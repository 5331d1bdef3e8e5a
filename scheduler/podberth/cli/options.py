"""Options that several commands have. They mean the same everywhere."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podberth.cli import completion
from podberth.cli.errors import InputError
from podberth.cli.output import PageOutput

if TYPE_CHECKING:
    from podberth.apiserver.rules.selectors import Matches

NO_LIMIT = 86_400.0
_SHOWN, _LONGEST_NAMESPACE = 80, 63
_UNITS = {"s": 1, "m": 60, "h": 3600}

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
    typer.Option(help="The profile to use, by its schedulerName.", autocompletion=completion.profiles),
]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig.", autocompletion=completion.contexts)]
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
    return typer.Option("-n", "--namespace", help=help, callback=namespace, autocompletion=completion.namespaces)


def of_labels(help: str) -> Any:
    """Return `-l`, with what it chooses."""
    return typer.Option("-l", "--selector", help=help, callback=selector)


def seconds(text: str) -> float:
    """`--request-timeout` as kubectl takes it: 5, 5s, 2m, 1h; 0 is no limit. Raises InputError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not number.isdecimal():
        raise InputError(f"--request-timeout: {json.dumps(text)}: expected seconds, or a time such as 30s or 2m")
    return int(number) * _UNITS[unit] or NO_LIMIT


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
