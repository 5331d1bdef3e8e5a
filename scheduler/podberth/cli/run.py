"""`berth run`: the scheduler."""

import gc
from typing import TYPE_CHECKING, Annotated

from podberth.cli import services
from podberth.cli.services import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podberth.app.tracing import Tracing
    from podberth.framework.config import SchedulerConfiguration
    from podberth.framework.runtime import Framework
    from podberth.lab.recording.recorder import Recorder


def run(
    config: Annotated[
        str | None,
        Option(
            "--config", help="The KubeSchedulerConfiguration file (YAML). Default: one profile with the name berth."
        ),
    ] = None,
    kubeconfig: Annotated[
        str | None, Option(help="The kubeconfig file; overrides clientConnection.kubeconfig.")
    ] = None,
    context: services.Context = None,
    seed: Annotated[int, Option(help="The number that decides which of several equally good nodes is taken.")] = 0,
    secure_port: services.SecurePort = 10259,
    bind_address: services.BindAddress = "",
    tls_cert_file: services.CertFile = None,
    tls_private_key_file: services.KeyFile = None,
    client_ca_file: services.ClientCAFile = None,
    verify: Annotated[
        int,
        Option(
            metavar="N",
            help="Check every Nth decision: compute it again from the objects, without any kept result. 0: check none.",
        ),
    ] = 0,
    tracing: Annotated[
        bool,
        Option(
            "--tracing",
            help="Send a trace of each attempt by OTLP, where the environment variables OTEL_* say. It needs the "
            "extra podberth[otel].",
        ),
    ] = False,
    record: Annotated[
        str | None,
        Option(
            "--record",
            metavar="DIR",
            help="Record in this directory what is seen of the cluster and decided, for berth replay: no Secrets, "
            "environments or commands. It needs the extra podberth[record].",
        ),
    ] = None,
    record_limit: Annotated[
        str, Option("--record-limit", metavar="SIZE", help="With --record: the most that it may take of the disk.")
    ] = "1Gi",
    record_age: Annotated[
        str, Option("--record-age", metavar="TIME", help="With --record: the time for which it is kept.")
    ] = "168h",
    log_level: services.LogLevel = "info",
) -> int:
    """Run the scheduler: bind pods whose schedulerName is one of its profiles.

    The exit code is 0 after SIGTERM or SIGINT, 1 when the Lease was lost or the process was stuck, 2 when the input is
    wrong or the address is taken.
    """
    options = dict(locals())
    # What is imported stays, and looking through it would free nothing. `collect_briefly` has garbage collected again.
    gc.disable()
    # Heavy imports wait until the command is known, so that the others start at once.
    from podberth.app.reload import ReloadError, Source
    from podberth.app.run import schedule
    from podberth.cli.errors import InputError, misused
    from podberth.cli.inputs import STDIN, configuration, frameworks_of
    from podberth.kube.kubeconfig import connect
    from podberth.service.run import run_service

    if verify < 0:
        raise misused("--verify", f"{verify}: want 0 (none) or more")
    services.log_at(log_level)
    listen = services.address("berth", options)

    def read() -> "SchedulerConfiguration":
        try:
            return configuration(config)
        except InputError as error:
            raise ReloadError(str(error)) from None

    def build(settings: "SchedulerConfiguration") -> dict[str, "Framework"]:
        try:
            return frameworks_of(settings, config)
        except InputError as error:
            raise ReloadError(str(error)) from None

    settings = configuration(config)
    frameworks = frameworks_of(settings, config)
    connection = connect(kubeconfig or settings.client_connection.kubeconfig or None, context)
    traces = tracing_by_environment() if tracing else None
    recorder = None
    if record is not None:
        recorder = recording(record, record_limit, record_age, settings, frameworks, seed=seed, verify=verify)
    gc.freeze()
    source = Source(None if config == STDIN else config, read, build)
    work = schedule(
        connection,
        frameworks,
        settings,
        source,
        seed=seed,
        verify=verify,
        listen=listen,
        tracing=traces,
        follower=recorder,
    )
    try:
        return run_service(work)
    finally:
        if traces is not None:
            traces.close()
        if recorder is not None:
            recorder.close()


def tracing_by_environment() -> "Tracing":
    """Return what traces attempts. Raises InputError if its packages are not installed, and ConfigError."""
    from podberth.cli.errors import InputError

    try:
        from podberth.app.tracing import by_environment
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise InputError("--tracing: expected the extra podberth[otel]: pip install 'podberth[otel]'") from None
    return by_environment()


def recording(
    directory: str,
    limit: str,
    age: str,
    settings: "SchedulerConfiguration",
    frameworks: "Mapping[str, Framework]",
    *,
    seed: int,
    verify: int,
) -> "Recorder":
    """Return what records a scheduler. Raises InputError."""
    from podberth.cli import recordings

    with recordings.told(directory, "--record"):
        from podberth.lab.recording.recorder import Recorder

        limits = recordings.limits(limit, age)
        return Recorder(recordings.to_write(directory), limits, settings, frameworks, seed=seed, verify=verify)
