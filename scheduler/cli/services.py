"""Options that several services share, and how a service sets its log level and its address.

The five options of serving have kube-scheduler's names.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.telemetry import log

if TYPE_CHECKING:
    from scheduler.telemetry.serving import Address

Exempt = Annotated[
    list[str] | None,
    typer.Option(
        "--exempt-namespace",
        help="A namespace where no policy applies, besides kube-system and Berth's own; may be repeated.",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option("--allow-prefix", help="A reserved key prefix that policies may write all the same; may be repeated."),
]
ReservedToo = Annotated[
    list[str] | None,
    typer.Option(
        "--reserve-prefix",
        help="A key prefix that policies may not write, besides those always reserved; may be repeated.",
    ),
]
ReserveKnown = Annotated[
    bool,
    typer.Option(
        "--reserve-known/--no-reserve-known",
        help="Forbid policies to write labels and annotations that give an object rights, sidecars or exceptions "
        "(docs/policy.md lists them).",
    ),
]
Stamp = Annotated[
    bool,
    typer.Option(
        "--stamp/--no-stamp",
        help="Write every pod's QoS class into the annotation scheduler.alpha.kubernetes.io/qos. Rules know the class "
        "in any case, and the API server has it in status.qosClass.",
    ),
]
SchedulerLease = Annotated[str, typer.Option("--scheduler-lease", help="The scheduler's Lease, in --namespace.")]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help="A schedulerName that the scheduler serves, used when its Lease does not list them; may be repeated.",
    ),
]
Host = Annotated[str, typer.Option("--host", help="The address to listen on; empty: every address.")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", help="The kubeconfig file.")]
Context = Annotated[str | None, typer.Option("--context", help="The context of the kubeconfig.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
SecurePort = Annotated[
    int, typer.Option("--secure-port", help="The HTTPS port of health, metrics and configz; 0: do not serve them.")
]
BindAddress = Annotated[str, typer.Option("--bind-address", help="The address of --secure-port; empty: every address.")]
CertFile = Annotated[
    str | None,
    typer.Option(
        "--tls-cert-file",
        help="The certificate of --secure-port (PEM), read again when it changes. Default: a self-signed one.",
    ),
]
KeyFile = Annotated[
    str | None, typer.Option("--tls-private-key-file", help="The private key of that certificate (PEM).")
]
ClientCAFile = Annotated[
    str | None,
    typer.Option(
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
        raise typer.BadParameter(f"{level}: want one of {', '.join(log.LEVELS)}", param_hint="--log-level")
    log.configure("warning" if quiet else level)


def address(
    port: int, host: str, cert_file: str | None, key_file: str | None, client_ca_file: str | None
) -> "Address | None":
    """Where to serve, None for nowhere.

    Raises BadParameter.
    """
    if not 0 <= port < 65536:
        raise typer.BadParameter(f"{port}: want 0 to 65535", param_hint="--secure-port")
    if (cert_file is None) != (key_file is None):
        missing = "--tls-private-key-file" if key_file is None else "--tls-cert-file"
        raise typer.BadParameter("want a certificate and its key, or neither", param_hint=missing)
    if port == 0:
        return None
    from scheduler.telemetry.certificate import Certificate, CertificateError
    from scheduler.telemetry.serving import Address

    option = "--tls-cert-file"
    try:
        certificate = Certificate(cert_file, key_file)
        if client_ca_file is not None:
            option = "--client-ca-file"
            certificate.follow_authorities(client_ca_file)
    except CertificateError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    return Address(host, port, certificate)
