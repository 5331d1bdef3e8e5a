"""`berth admission`: the webhook server that enforces MetadataPolicies."""

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from scheduler.telemetry import log

app = typer.Typer(add_completion=False)


@app.command()
def admission(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 lets the system choose.")] = 8443,
    host: Annotated[str, typer.Option(help="Address to listen on; empty: every one.")] = "",
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
    exempt_namespace: Annotated[
        list[str] | None, typer.Option(help="A further namespace without policies; may be repeated.")
    ] = None,
    allow_prefix: Annotated[
        list[str] | None, typer.Option(help="A reserved key prefix that policies may write; may be repeated.")
    ] = None,
    configuration: Annotated[str, typer.Option(help="Name of both webhook configurations.")] = "zz-berth-admission",
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
    drain: Annotated[float, typer.Option(help="Seconds to go on serving after SIGTERM, not ready any more.")] = 10.0,
    kubeconfig: Annotated[str | None, typer.Option(help="The cluster to serve.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Answer the API server's admission reviews by the MetadataPolicies of the cluster."""
    # Heavy imports wait until the command is known, so that the others start at once.
    from scheduler.kube.config import connect
    from scheduler.policy.admission.launch import admit
    from scheduler.policy.admission.settings import Settings, SettingsError

    if log_level not in log.LEVELS:
        raise typer.BadParameter(f"{log_level}: want one of {', '.join(log.LEVELS)}", param_hint="--log-level")
    connection = connect(kubeconfig, context)
    try:
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
            configuration=configuration,
            register=register,
            secret=secret,
            lease=lease,
            cert_file=cert_file,
            key_file=key_file,
            ca_file=ca_file,
            overlap_seconds=overlap,
            drain_seconds=drain,
        )
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
    log.configure(log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(admit(connection, settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; `controller.launch` has the same, and would bring the whole engine along."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
