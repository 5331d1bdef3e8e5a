"""`berth admission`: the webhook server that enforces MetadataPolicies."""

from pathlib import Path
from typing import Annotated

from podberth.cli import services
from podberth.cli.services import Option


def admission(
    port: Annotated[int, Option(help="The port of the webhook; 0 lets the system choose one.")] = 8443,
    host: services.Host = "",
    namespace: Annotated[
        str,
        Option(
            "--namespace",
            "-n",
            help="The namespace of the server's Secret, Lease and Service. Default: the pod's own, or the context's.",
        ),
    ] = "",
    service: Annotated[
        str, Option(help="The Service by which the API server reaches the webhook.")
    ] = "berth-admission",
    service_port: Annotated[int, Option(help="The port of that Service.")] = 443,
    url: Annotated[str, Option(help="Register this address (https://host[:port]) instead of the Service.")] = "",
    failure_policy: Annotated[
        str,
        Option(
            help="failurePolicy of the validating webhook: Ignore or Fail. That of the mutating one is always Ignore."
        ),
    ] = "Ignore",
    exempt_namespace: services.Exempt = None,
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    stamp: services.Stamp = True,
    scheduler_lease: services.SchedulerLease = "berth",
    profile: services.Profiles = None,
    configuration: Annotated[str, Option(help="The name of both webhook configurations.")] = "zz-berth-admission",
    owner: Annotated[
        str,
        Option(
            help="A ClusterRole that owns the webhook configurations: they are deleted with it. Default: no owner, you "
            "delete them yourself."
        ),
    ] = "",
    register: Annotated[
        bool, Option(help="Create the webhook configurations and repair them when they are changed.")
    ] = True,
    enforcement: Annotated[
        str,
        Option(
            help="Who enforces policies, as the operator is told: auto, native or webhook. Unless it is webhook, the "
            "webhook configurations are kept only until the API server is seen to enforce them itself."
        ),
    ] = "webhook",
    release: Annotated[
        str, Option(help="How the names of the admission policies begin, as the operator is told.")
    ] = "berth",
    secret: Annotated[
        str, Option(help="The Secret of the webhook's certificates; created if there is none.")
    ] = "berth-admission-tls",
    lease: Annotated[
        str, Option(help="The Lease whose holder writes webhook configurations and certificates.")
    ] = "berth-admission",
    cert_file: Annotated[
        Path | None,
        Option(help="A certificate for the webhook (PEM) instead of that in --secret; read again when it changes."),
    ] = None,
    key_file: Annotated[Path | None, Option(help="The private key of --cert-file (PEM).")] = None,
    ca_file: Annotated[
        Path | None,
        Option(help="The CA of --cert-file, to register as caBundle. Without it, something else must set caBundle."),
    ] = None,
    overlap: Annotated[
        float,
        Option(
            help="When the certificate is replaced: seconds to trust both before the new one is served, and afterwards."
        ),
    ] = 300.0,
    drain: Annotated[float, Option(help="Seconds to go on answering after SIGTERM, while readiness fails.")] = 10.0,
    secure_port: services.SecurePort = 0,
    bind_address: services.BindAddress = "",
    tls_cert_file: services.CertFile = None,
    tls_private_key_file: services.KeyFile = None,
    client_ca_file: services.ClientCAFile = None,
    kubeconfig: services.Kubeconfig = None,
    context: services.Context = None,
    log_level: services.LogLevel = "info",
) -> int:
    """Run the webhook server that enforces MetadataPolicies: it answers the API server's admission reviews."""
    options = dict(locals())
    # Heavy imports wait until the command is known, so that the others start at once.
    from podberth.kube.kubeconfig import connect
    from podberth.policy.admission.replica import admit
    from podberth.policy.admission.settings import Settings
    from podberth.service.run import run_service

    services.log_at(log_level)
    listen = services.address("berth-admission", options)
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
        stamp=stamp,
        scheduler_lease=scheduler_lease,
        profiles=tuple(profile or ()),
        configuration=configuration,
        owner=owner,
        register=register,
        enforcement=enforcement,
        release=release,
        secret=secret,
        lease=lease,
        cert_file=cert_file,
        key_file=key_file,
        ca_file=ca_file,
        overlap_seconds=overlap,
        drain_seconds=drain,
    )
    return run_service(admit(connection, settings, listen))
