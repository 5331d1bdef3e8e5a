"""Options of every command that serves health and metrics over HTTPS, as kube-scheduler spells them."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scheduler.telemetry.serving import Address

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
