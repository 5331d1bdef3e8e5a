"""Options that services share, and the start of a service: what is said to one of them holds for the others, too.

The five of serving are spelled as kube-scheduler's.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.telemetry import log

if TYPE_CHECKING:
    from scheduler.telemetry.serving import Address

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
SecurePort = Annotated[int, typer.Option("--secure-port", help="HTTPS for health, metrics and configz; 0: none.")]
BindAddress = Annotated[str, typer.Option("--bind-address", help="Where it listens; empty: every address.")]
CertFile = Annotated[
    str | None, typer.Option("--tls-cert-file", help="Certificate (PEM), read anew when it changes; without: our own.")
]
KeyFile = Annotated[str | None, typer.Option("--tls-private-key-file", help="The certificate's key (PEM).")]
ClientCAFile = Annotated[
    str | None,
    typer.Option(
        "--client-ca-file",
        help="CAs (PEM) that sign clients' certificates, read anew when it changes; without: those the cluster names.",
    ),
]


def log_at(level: str, *, quiet: bool = False) -> None:
    """Log from now on at this level; `quiet`: warnings, whatever the level, as something else is printed.

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
