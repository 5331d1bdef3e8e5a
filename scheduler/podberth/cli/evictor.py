"""`berth evictor`: evict pods whose node is no longer what they asked for."""

from typing import Annotated

from podberth.cli import services
from podberth.cli.output import Output, as_report
from podberth.cli.services import Option

_OPTIONS = {"changed_share": "max-changed", "changed_window": "window"}
_PROBLEMS = 8


def evictor(
    config: Annotated[
        str | None,
        Option(
            "--config", help="The scheduler's configuration file: another node has to pass the filters of its profiles."
        ),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be evicted now, and write nothing.")] = False,
    observe: Annotated[bool, Option(help="Do all of it but evict: ask the API server for dry runs only.")] = False,
    cluster: Annotated[
        list[str] | None, Option(help="With --dry-run: read a dump instead of a live cluster; may be repeated.")
    ] = None,
    output: Annotated[Output, Option("-o", "--output", help="The form of the plan.")] = Output.TABLE,
    grace: Annotated[
        float, Option(help="Seconds for which a promise has to stay broken before anything is done.")
    ] = 30.0,
    max_changed: Annotated[
        float,
        Option(help="The largest share of the nodes that may break promises at once; with more, nothing is evicted."),
    ] = 0.1,
    window: Annotated[
        float, Option(help="Nodes that changed within so many seconds count as at once; no less than --grace.")
    ] = 300.0,
    node_rate: Annotated[float, Option(help="Evictions a second from one node.")] = 0.2,
    node_burst: Annotated[int, Option(help="Evictions from one node before --node-rate limits them.")] = 5,
    namespace_rate: Annotated[float, Option(help="Evictions a second in one namespace.")] = 0.5,
    namespace_burst: Annotated[
        int, Option(help="Evictions in one namespace before --namespace-rate limits them.")
    ] = 10,
    cluster_rate: Annotated[float, Option(help="Evictions a second in the whole cluster.")] = 2.0,
    cluster_burst: Annotated[
        int, Option(help="Evictions in the whole cluster before --cluster-rate limits them.")
    ] = 20,
    owner_backoff: Annotated[
        float,
        Option(
            help="Seconds for which pods created after an eviction of their owner are left alone; doubles each round."
        ),
    ] = 300.0,
    bare_pods: Annotated[
        bool, Option(help="Evict pods without a controller too, though nobody creates them again.")
    ] = False,
    namespace: Annotated[
        str,
        Option(
            "-n",
            "--namespace",
            help="The namespace of the Lease. Default, as for berth run: in a pod its own, otherwise berth, or the "
            "context's where there is none of that name.",
        ),
    ] = "",
    lease: Annotated[
        str, Option(help="The name of the Lease: of all replicas, the one that holds it evicts.")
    ] = "berth-evictor",
    secure_port: services.SecurePort = 0,
    bind_address: services.BindAddress = "",
    tls_cert_file: services.CertFile = None,
    tls_private_key_file: services.KeyFile = None,
    client_ca_file: services.ClientCAFile = None,
    kubeconfig: services.Kubeconfig = None,
    context: services.Context = None,
    request_timeout: Annotated[
        str | None,
        Option("--request-timeout", help="How long to wait for an answer of the API server: 5s, 2m.", metavar="TIME"),
    ] = None,
    log_level: services.LogLevel = "info",
) -> int:
    """Evict pods whose node is no longer what they asked for, when another node can take them.

    A pod says what it asks of its node while it runs with the annotation podberth.dev/required-during-execution.

    With --dry-run the exit code is 0 when all promises are kept, 1 when some are broken, 2 when the input is wrong.
    """
    options = dict(locals())
    # Heavy imports wait until the command is known, so that the others start at once.
    from podberth.cli.errors import FOUND, InputError, complain
    from podberth.cli.inputs import profiles, unfetched, world
    from podberth.evictor.gates import OWNER_BACKOFF_MOST, Settings
    from podberth.framework.profiles import annotated
    from podberth.kube.kubeconfig import connect
    from podberth.model.kinds import Decoder

    services.log_at(log_level, quiet=dry_run)
    listen = services.address("berth-evictor", options)
    if request_timeout is not None and not dry_run:
        raise InputError("--request-timeout: expected only together with --dry-run")
    if cluster and not dry_run:
        raise InputError("--cluster: a dump can only be looked at, with --dry-run")
    try:
        careful = Settings(
            grace=grace,
            changed_share=max_changed,
            changed_window=max(window, grace),
            node_rate=node_rate,
            node_burst=node_burst,
            namespace_rate=namespace_rate,
            namespace_burst=namespace_burst,
            cluster_rate=cluster_rate,
            cluster_burst=cluster_burst,
            owner_backoff=owner_backoff,
            owner_backoff_most=max(OWNER_BACKOFF_MOST, owner_backoff),
            bare_pods=bare_pods,
            observe=observe,
        )
    except ValueError as error:
        field, _, what = str(error).partition(": ")
        raise InputError(f"--{_OPTIONS.get(field, field.replace('_', '-'))}: {what}") from None
    settings, frameworks = profiles(config)
    complain(unfetched(frameworks))
    path = kubeconfig or settings.client_connection.kubeconfig or None
    if dry_run:
        from podberth.cli.given import past
        from podberth.explain.promises import plan

        decoder = Decoder(annotated(frameworks), limits=settings.limits)
        timeout = request_timeout or "30s"
        if cluster:
            there = world(cluster, decoder)
        else:
            from podberth.cli.live import listed

            there, _, _ = listed(path, context, decoder, classes=False, groups=False, timeout=timeout)
        known, problems = past(there, careful, dump=bool(cluster), kubeconfig=path, context=context, timeout=timeout)
        complain([*there.problems[:_PROBLEMS], *problems])
        made = plan(there.cluster, frameworks, careful, known)
        as_report(made, output)
        return FOUND if made.evictions else 0
    from podberth.app.evictor.launch import keep_promises
    from podberth.service.run import run_service

    connection = connect(path, context)
    kept = keep_promises(
        connection, frameworks, careful, namespace=namespace, lease=lease, listen=listen, limits=settings.limits
    )
    return run_service(kept)
