"""`berth operator`: keeps the status of MetadataPolicies, and counts whom they would hit."""

import json
from typing import Annotated

from podberth.cli import services
from podberth.cli.errors import misused
from podberth.cli.services import Option


def operator(
    namespace: Annotated[
        str,
        Option(
            "--namespace",
            "-n",
            help="The namespace of the Leases, the operator's and the schedulers'. Default: the pod's own, or the "
            "context's.",
        ),
    ] = "",
    watch_namespace: Annotated[
        list[str] | None,
        Option(help="Look at the policies of this namespace only; may be repeated. Default: all namespaces."),
    ] = None,
    profile: services.Profiles = None,
    scheduler_lease: services.SchedulerLease = "berth",
    lease: Annotated[str, Option(help="The Lease whose holder writes statuses.")] = "berth-operator",
    exempt_namespace: services.Exempt = None,
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    stamp: services.Stamp = True,
    enforcement: Annotated[
        str,
        Option(
            help="Who enforces policies: auto (the API server itself where it can, else the webhook), native (the API "
            "server only; what it can't is not enforced) or webhook."
        ),
    ] = "webhook",
    release: Annotated[
        str, Option(help="How the names of our admission policies begin; no other operator may have the same.")
    ] = "berth",
    webhook: Annotated[
        str,
        Option(
            "--webhook",
            help="The name of the admission server's webhook configurations; empty: there is no admission server.",
        ),
    ] = "zz-berth-admission",
    owner: Annotated[
        str, Option(help="A ClusterRole that owns our admission policies: they are deleted with it.")
    ] = "",
    audit_kind: Annotated[
        list[str] | None,
        Option(help="A kind of object to audit, as PLURAL, PLURAL.GROUP or PLURAL.VERSION.GROUP; may be repeated."),
    ] = None,
    audit_interval: Annotated[float, Option(help="Seconds between two audits of all objects; 0: no audit.")] = 900.0,
    host: services.Host = "",
    port: Annotated[int, Option(help="The port of the probes; 0 lets the system choose one.")] = 8081,
    secure_port: services.SecurePort = 0,
    bind_address: services.BindAddress = "",
    tls_cert_file: services.CertFile = None,
    tls_private_key_file: services.KeyFile = None,
    client_ca_file: services.ClientCAFile = None,
    kubeconfig: services.Kubeconfig = None,
    context: services.Context = None,
    log_level: services.LogLevel = "info",
) -> int:
    """Run the operator: it writes into the status of MetadataPolicies what they do and what is wrong with them."""
    options = dict(locals())
    # Heavy imports wait until the command is known, so that the others start at once.
    from podberth.kube.kubeconfig import connect
    from podberth.policy.operator.listing import DEFAULT_KINDS
    from podberth.policy.operator.replica import operate
    from podberth.policy.operator.settings import Settings
    from podberth.policy.settings import ENFORCEMENTS
    from podberth.service.run import run_service

    services.log_at(log_level)
    if enforcement not in ENFORCEMENTS:
        raise misused("--enforcement", f"{json.dumps(enforcement)}: want one of {', '.join(ENFORCEMENTS)}")
    listen = services.address("berth-operator", options)
    connection = connect(kubeconfig, context)
    settings = Settings(
        namespace=namespace or connection.namespace,
        watched=tuple(watch_namespace or ()),
        lease=lease,
        scheduler_lease=scheduler_lease,
        profiles=tuple(profile or ()),
        exempt_namespaces=tuple(exempt_namespace or ()),
        allowed_prefixes=tuple(allow_prefix or ()),
        reserved_prefixes=tuple(prefix.lower() for prefix in reserve_prefix or ()),
        reserve_known=reserve_known,
        stamp=stamp,
        enforcement=enforcement,
        release=release,
        webhook=webhook,
        owner=owner,
        audit_kinds=tuple(audit_kind or DEFAULT_KINDS),
        audit_seconds=audit_interval,
        host=host,
        port=port,
    )
    return run_service(operate(connection, settings, listen))
