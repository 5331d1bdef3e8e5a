"""Options of services: how they are declared and read, those that several share, and the log level and address.

typer, and pydantic, which it needs to read an int, cost a start 0.12 s of CPU, and 10 MB for as long as the service
runs. `Option` says what typer's would; `typed` gives typer a function whose options are declared so. `read` reads what
is simple, `--name value` with a text or a whole number. When an option is not simple, and for help, typer reads all of
them, so all error messages are typer's. The five options of serving have kube-scheduler's names.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from podberth.cli.errors import misused
from podberth.service import log

if TYPE_CHECKING:
    from podberth.service.serving import Address

Command = TypeVar("Command", bound=Callable[..., Any])
_TEXT = (str, str | None)


class Option:
    """An option of a command, in an `Annotated`: its names (none: that of the parameter) and what typer says of it."""

    def __init__(self, *names: str, help: str, metavar: str | None = None) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar


def typed(command: Command) -> Command:
    """Return the command with typer's options in place of ours."""
    import typer

    def replaced(parameter: inspect.Parameter) -> inspect.Parameter:
        if get_origin(parameter.annotation) is not Annotated:
            return parameter
        kind, *said = get_args(parameter.annotation)
        options = [
            typer.Option(*each.names, help=each.help, metavar=each.metavar) if isinstance(each, Option) else each
            for each in said
        ]
        return parameter.replace(annotation=Annotated[(kind, *options)])

    @wraps(command)
    def called(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, **options)

    signature = inspect.signature(command)
    called.__signature__ = signature.replace(parameters=[*map(replaced, signature.parameters.values())])  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def read(arguments: Iterable[str], command: Callable[..., Any]) -> dict[str, str | int] | None:
    """Return keyword arguments of plain words and whole numbers, `--name value` or `--name=value`; else None."""
    kinds = get_type_hints(command)
    kinds.pop("return", None)
    found: dict[str, str | int] = {}
    words = iter(arguments)
    for word in words:
        option, assigned, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if option != f"--{name.replace('_', '-')}" or name not in kinds:
            return None
        if not assigned:
            value = next(words, "--")
            if value.startswith("--"):
                return None
        if kinds[name] in _TEXT:
            found[name] = value
        elif kinds[name] is int and value.isascii() and value.isdecimal():
            found[name] = int(value)
        else:
            return None
    return found


Exempt = Annotated[
    list[str] | None,
    Option(
        "--exempt-namespace",
        help="A namespace where no policy applies, besides kube-system and Berth's own; may be repeated.",
    ),
]
Allowed = Annotated[
    list[str] | None,
    Option("--allow-prefix", help="A reserved key prefix that policies may write all the same; may be repeated."),
]
ReservedToo = Annotated[
    list[str] | None,
    Option(
        "--reserve-prefix",
        help="A key prefix that policies may not write, besides those always reserved; may be repeated.",
    ),
]
ReserveKnown = Annotated[
    bool,
    Option(
        "--reserve-known/--no-reserve-known",
        help="Forbid policies to write labels and annotations that give an object rights, sidecars or exceptions "
        "(docs/policy.md lists them).",
    ),
]
Stamp = Annotated[
    bool,
    Option(
        "--stamp/--no-stamp",
        help="Write every pod's QoS class into the annotation scheduler.alpha.kubernetes.io/qos. Rules know the class "
        "in any case, and the API server has it in status.qosClass.",
    ),
]
SchedulerLease = Annotated[str, Option("--scheduler-lease", help="The scheduler's Lease, in --namespace.")]
Profiles = Annotated[
    list[str] | None,
    Option(
        "--profile",
        help="A schedulerName that the scheduler serves, used when its Lease does not list them; may be repeated.",
    ),
]
Host = Annotated[str, Option("--host", help="The address to listen on; empty: every address.")]
Kubeconfig = Annotated[str | None, Option("--kubeconfig", help="The kubeconfig file.")]
Context = Annotated[str | None, Option("--context", help="The context of the kubeconfig.")]
LogLevel = Annotated[str, Option("--log-level", help="debug, info, warning or error.")]
SecurePort = Annotated[
    int, Option("--secure-port", help="The HTTPS port of health, metrics and configz; 0: do not serve them.")
]
BindAddress = Annotated[str, Option("--bind-address", help="The address of --secure-port; empty: every address.")]
CertFile = Annotated[
    str | None,
    Option(
        "--tls-cert-file",
        help="The certificate of --secure-port (PEM), read again when it changes. Default: a self-signed one.",
    ),
]
KeyFile = Annotated[str | None, Option("--tls-private-key-file", help="The private key of that certificate (PEM).")]
ClientCAFile = Annotated[
    str | None,
    Option(
        "--client-ca-file",
        help="The CAs (PEM) whose client certificates --secure-port accepts, read again when the file changes. "
        "Default: those of the API server.",
    ),
]


def log_at(level: str, *, quiet: bool = False) -> None:
    """Set the log level. `quiet`: log warnings only, because the command prints something else.

    Raises BadParameter.
    """
    if level not in log.LEVELS:
        raise misused("--log-level", f"{json.dumps(level)}: want one of {', '.join(log.LEVELS)}")
    log.configure("warning" if quiet else level)


def address(component: str, options: Mapping[str, Any]) -> Address | None:
    """Return where a component with these options is to serve, None for nowhere.

    Raises BadParameter.
    """
    port: int = options["secure_port"]
    cert_file, key_file = options["tls_cert_file"], options["tls_private_key_file"]
    if not 0 <= port < 65536:
        raise misused("--secure-port", f"{port}: want 0 to 65535")
    if (cert_file is None) != (key_file is None):
        missing = "--tls-private-key-file" if key_file is None else "--tls-cert-file"
        raise misused(missing, "want a certificate and its key, or neither")
    if port == 0:
        return None
    from podberth.service.certificate import Certificate, CertificateError
    from podberth.service.pages import About
    from podberth.service.serving import Address

    option = "--tls-cert-file"
    try:
        certificate = Certificate(cert_file, key_file)
        if options["client_ca_file"] is not None:
            option = "--client-ca-file"
            certificate.follow_authorities(options["client_ca_file"])
    except CertificateError as error:
        raise misused(option, str(error)) from None
    flags = {name.replace("_", "-"): _shown(value) for name, value in options.items()}
    return Address(options["bind_address"], port, certificate, About(component, flags))


def _shown(value: object) -> str:
    """Return an option's value as Kubernetes' components show theirs."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return f"[{','.join(value)}]"
    return str(value)
