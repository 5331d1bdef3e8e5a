"""`berth admission`: the webhook server that enforces MetadataPolicies."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli import services

app = typer.Typer(add_completion=False)


@app.command()
def admission(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 lets the system choose.")] = 8443,
    host: services.Host = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="Ours: of Secret, Lease and Service. Default: the context's."),
    ] = "",
    service: Annotated[str, typer.Option(help="The Service by which the API server reaches us.")] = "berth-admission",
    service_port: Annotated[int, typer.Option(help="The Service's port.")] = 443,
    url: Annotated[str, typer.Option(help="https://host[:port] to register in place of the Service.")] = "",
    failure_policy: Annotated[
        str, typer.Option(help="Of the validating webhook: Ignore or Fail. The mutating one is always Ignore.")
    ] = "Ignore",
    exempt_namespace: services.Exempt = None,
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    workers: Annotated[
        int, typer.Option(help="Processes for reviews that are large or have costly policies; 0: threads instead.")
    ] = 2,
    scheduler_lease: services.SchedulerLease = "berth",
    profile: services.Profiles = None,
    configuration: Annotated[str, typer.Option(help="Name of both webhook configurations.")] = "zz-berth-admission",
    owner: Annotated[
        str, typer.Option(help="A ClusterRole with which the configurations go. Without: they stay for good.")
    ] = "",
    register: Annotated[bool, typer.Option(help="Keep the webhook configurations.")] = True,
    secret: Annotated[
        str, typer.Option(help="The Secret with our certificates, made if absent.")
    ] = "berth-admission-tls",
    lease: Annotated[str, typer.Option(help="The Lease of the replica that registers.")] = "berth-admission",
    cert_file: Annotated[Path | None, typer.Option(help="Serve this certificate instead (re-read on change).")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="The CA to register with it. Without: left to whoever injects caBundle.")
    ] = None,
    overlap: Annotated[
        float, typer.Option(help="Seconds for which both CAs are trusted before a new one signs, and after.")
    ] = 300.0,
    count_interval: Annotated[
        float, typer.Option(help="Seconds between two writes of a policy's counts to its status; 0: none.")
    ] = 15.0,
    drain: Annotated[float, typer.Option(help="Seconds to go on serving after SIGTERM, not ready any more.")] = 10.0,
    secure_port: services.SecurePort = 0,
    bind_address: services.BindAddress = "",
    tls_cert_file: services.CertFile = None,
    tls_private_key_file: services.KeyFile = None,
    client_ca_file: services.ClientCAFile = None,
    kubeconfig: services.Kubeconfig = None,
    context: services.Context = None,
    log_level: services.LogLevel = "info",
) -> int:
    """Answer the API server's admission reviews by the MetadataPolicies of the cluster."""
    # Heavy imports wait until the command is known, so that the others start at once.
    from scheduler.kube.config import connect
    from scheduler.policy.admission.launch import admit
    from scheduler.policy.admission.settings import Settings
    from scheduler.service.run import run_service

    services.log_at(log_level)
    listen = services.address(secure_port, bind_address, tls_cert_file, tls_private_key_file, client_ca_file)
    connection = connect(kubeconfig, context)
    settings = Settings(
        namespace=namespace or connection.namespace,
        host=host,
        port=port,
        service=service,
        service_port=service_port,
        url=url,
        failure_policy=failure_policy,
        exempt_namespaces=tuple(exempt_namespace or ()),
        allowed_prefixes=tuple(allow_prefix or ()),
        reserved_prefixes=tuple(prefix.lower() for prefix in reserve_prefix or ()),
        reserve_known=reserve_known,
        workers=workers,
        scheduler_lease=scheduler_lease,
        profiles=tuple(profile or ()),
        configuration=configuration,
        owner=owner,
        register=register,
        secret=secret,
        lease=lease,
        cert_file=cert_file,
        key_file=key_file,
        ca_file=ca_file,
        overlap_seconds=overlap,
        count_seconds=count_interval,
        drain_seconds=drain,
    )
    return run_service(admit(connection, settings, listen))
