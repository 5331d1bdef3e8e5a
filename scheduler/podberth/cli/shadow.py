"""`berth shadow`: how Berth would have decided what another scheduler decides."""

import asyncio
import re
import sys
import time
from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.given import unfetched
from podberth.cli.inputs import profiles
from podberth.cli.options import ConfigFile, Context, Kubeconfig, RequestTimeout, SchedulerName, seconds
from podberth.cli.output import Output, as_json, replaceable, yaml_of
from podberth.explain.judging.schema import shown
from podberth.explain.shadow.answer import Compared, Summary
from podberth.explain.shadow.record import Change
from podberth.explain.shadow.shadow import Shadow
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder

app = typer.Typer(add_completion=False)
DEFAULT = "default-scheduler"
_DURATION = re.compile(r"(?=\d)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


@app.command()
def shadow(
    of: Annotated[
        str | None,
        typer.Option("--of", help="The scheduler to compare with, by its schedulerName; default-scheduler without it."),
    ] = None,
    pods: Annotated[int | None, typer.Option(help="End after so many pods were compared.")] = None,
    duration: Annotated[str | None, typer.Option("--for", help="End after this time: 90s, 15m, 1h30m.")] = None,
    record: Annotated[
        str | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Write what is seen of the cluster to this file, packed if its name ends in .gz. An older one is "
            "replaced at the end.",
        ),
    ] = None,
    mask: Annotated[
        bool,
        typer.Option("--mask", help="With --record: replace names, values of labels and images, as berth dump does."),
    ] = False,
    recorded: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Decide what was recorded instead of following a cluster; - is standard input.",
        ),
    ] = None,
    config: ConfigFile = None,
    scheduler: SchedulerName = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    timeout: RequestTimeout = "30s",
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")] = Output.TABLE,
) -> int:
    """Follow a cluster, and say of each pod that another scheduler binds how Berth would have decided.

    Nothing is written to the cluster: it is listed and watched. Each pod is decided in the state in which it was
    pending, with the profile of --config that --scheduler names, or that is called as the other scheduler, or that is
    the first. It goes on until --pods, --for or Ctrl-C ends it. The exit code is 0 when each pod that was compared is
    on a node that is best for Berth too, 1 when some are not, 2 when the input is wrong.
    """
    if pods is not None and pods < 1:
        raise InputError(f"--pods: {pods}: expected 1 or more")
    limit = None if duration is None else _seconds(duration)
    if recorded is not None and (record is not None or duration is not None or kubeconfig or context):
        raise InputError("--from reads a recording: --record, --for, --kubeconfig and --context don't go with it")
    if mask and record is None:
        raise InputError("--mask: expected only together with --record")
    if record is not None:
        replaceable(record)
    if recorded is not None:
        from podberth.cli.recording import recording

        first, changes = recording(recorded)
        of = of or first.of or DEFAULT
        framework, decoder, _ = _profile(config, scheduler, of)
        return _play(Shadow(framework, of, decoder=decoder, began=first.began), changes, pods, output)
    of = of or DEFAULT
    framework, decoder, usual = _profile(config, scheduler, of)
    began = time.time()
    return _follow(
        Shadow(framework, of, decoder=decoder, began=began),
        pods,
        limit,
        record=record,
        mask=mask,
        began=began,
        of=of,
        where=(kubeconfig or usual, context, seconds(timeout)),
        output=output,
    )


def _profile(config: str | None, scheduler: str | None, of: str) -> tuple[Framework, Decoder, str | None]:
    """The profile to try, what reads pods for it, and the kubeconfig of its configuration. Raises InputError."""
    settings, frameworks = profiles(config, scheduler)
    framework = frameworks.get(scheduler or of) or next(iter(frameworks.values()))
    if settings.extenders:
        addresses = ", ".join(extender.url_prefix for extender in settings.extenders)
        complain([f"HTTP extenders are not asked here, and may reject nodes or change scores: {addresses}"])
    complain(unfetched(frameworks))
    # Pods name the other scheduler, and are to be read as this profile reads its own.
    read = annotated(frameworks)
    modes, name = read.affinity, framework.profile.name
    return (
        framework,
        Decoder(replace(read, affinity={**modes, of: modes[name]}) if name in modes else read, limits=settings.limits),
        (settings.client_connection.kubeconfig or None),
    )


def _play(shadow: Shadow, changes: Iterable[Change], pods: int | None, output: Output) -> int:
    for change in changes:
        _print(shadow.see(change), output)
        if pods is not None and shadow.compared >= pods:
            break
    return _end(shadow, output)


def _follow(
    shadow: Shadow,
    pods: int | None,
    limit: float | None,
    *,
    record: str | None,
    mask: bool,
    began: float,
    of: str,
    where: tuple[str | None, str | None, float],
    output: Output,
) -> int:
    from podberth.cli.following import Following
    from podberth.cli.recording import Recorder
    from podberth.kube.kubeconfig import connect

    kubeconfig, context, timeout = where
    connection = connect(kubeconfig, context)
    recorder = None if record is None else Recorder(record, of, began, mask=mask)

    def receive(change: Change) -> None:
        if recorder is not None:
            recorder.write(change)
        _print(shadow.see(change), output)
        if change.synced:
            cluster = shadow.world.cluster
            complain(
                [
                    f"follows {connection.host}: {cluster.nodes.count:,} nodes, {len(cluster):,} placed pods, "
                    f"{len(shadow.world.waiting):,} waiting; compares {of} with profile {shadow.profile}"
                ]
            )
        if pods is not None and shadow.compared >= pods:
            following.stop()

    def tick(at: float) -> None:
        _print(shadow.tick(at), output)

    following = Following(connection, receive, tick, timeout=timeout)
    try:
        asyncio.run(following.run(limit))
    finally:
        if recorder is not None:
            recorder.close()
    return _end(shadow, output)


def _end(shadow: Shadow, output: Output) -> int:
    _print(shadow.finish(), output)
    found = shadow.summary()
    _print([found], output)
    return FOUND if found.differ else 0


def _print(answers: Iterable[Compared | Summary], output: Output) -> None:
    """Print answers as they come: a line each for people, and as JSON."""
    for each in answers:
        match output:
            case Output.JSON:
                as_json(msgspec.json.encode(each))
            case Output.YAML:
                sys.stdout.write(f"---\n{yaml_of(msgspec.to_builtins(each))}")
            case Output.TABLE:
                from podberth.explain.report.shadow_text import line, summary
                from podberth.explain.report.wording import visible

                told = [line(each)] if isinstance(each, Compared) else summary(each)
                sys.stdout.writelines(f"{visible(text)}\n" for text in told)
        sys.stdout.flush()


def _seconds(text: str) -> float:
    """`--for`: 90s, 15m, 1h30m. Raises InputError."""
    found = _DURATION.fullmatch(text)
    hours, minutes, rest = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    if not hours * 3600 + minutes * 60 + rest:
        raise InputError(f"--for: {shown(text)}: expected a time such as 90s, 15m or 1h30m")
    return float(hours * 3600 + minutes * 60 + rest)
