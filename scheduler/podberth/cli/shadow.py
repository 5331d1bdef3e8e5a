"""`berth shadow`: how Berth would have decided what another scheduler decides."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec import Raw

from podberth.cli import live, recordings
from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.inputs import profiles, unasked, unfetched
from podberth.cli.options import ConfigFile, Context, Kubeconfig, RequestTimeout, SchedulerName, seconds, time_of
from podberth.cli.output import Output, as_json, yaml_of
from podberth.explain.judging.schema import shown
from podberth.explain.shadow.answer import Compared, Summary
from podberth.explain.shadow.shadow import Change, Shadow, decoder_for
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError
from podberth.kube.objects import Change as Changed
from podberth.kube.objects import Deleted, Partial, partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import DEVICES, GROUPS, NODES, PODS, SCHEDULING, Resource
from podberth.model.kinds import Decoder

if TYPE_CHECKING:
    from podberth.lab.recording.recorder import ShadowRecorder

FOLLOWED = (*SCHEDULING, *DEVICES, *GROUPS)
"""The kinds that are listed and watched."""
_NEEDED = (NODES, PODS)
_OFTEN_ABSENT = (*DEVICES, *GROUPS)
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_NO_SUCH_KIND = 404
_TICK_SECONDS = 0.5
DEFAULT = "default-scheduler"


class _Item(Partial):
    """An object's bytes, with what list and watch read of it."""

    raw: Raw = Raw()


def _item(raw: Raw) -> _Item:
    return _Item(partial.decode(raw).metadata, raw)


class Following:
    """Follows a cluster until told to stop. `receive` gets each change, `tick` the time now and then."""

    def __init__(
        self,
        connection: Connection,
        receive: Callable[[Change], None],
        tick: Callable[[float], None],
        *,
        timeout: float,
    ) -> None:
        """`timeout`: seconds until nodes and pods have to be listed."""
        self._connection = connection
        self._receive = receive
        self._tick = tick
        self._timeout = timeout
        self._started = 0.0
        self._stopping = asyncio.Event()
        self._reflectors: list[Reflector[_Item]] = []

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    async def run(self, seconds: float | None) -> None:
        """Follow until stopped, interrupted, or, once everything is listed, for so many seconds.

        Raises InputError if nodes and pods can't be listed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(RuntimeError, ValueError):  # not in the main thread: whoever started it stops it
                loop.add_signal_handler(number, self.stop)
        self._started = time.monotonic()
        async with Client(self._connection) as client:
            self._reflectors = [self._reflector(client, resource) for resource in FOLLOWED]
            try:
                async with asyncio.TaskGroup() as tasks:
                    running = [tasks.create_task(each.run()) for each in self._reflectors]
                    wrong = await self._sync()
                    if wrong is None:
                        await self._go_on(None if seconds is None else time.monotonic() + seconds)
                    for task in running:
                        task.cancel()
            except ExceptionGroup as group:
                # What `receive` raises ends it: the reader of standard output is gone, or the disk is full.
                raise group.exceptions[0] from None
        if wrong is not None:
            raise InputError(wrong)

    def _reflector(self, client: Client, resource: Resource) -> Reflector[_Item]:
        return Reflector(
            client,
            resource,
            _item,
            lambda changes, listed: self._deliver(resource, changes, listed=listed),
            field_selector=_LIVE_PODS if resource is PODS else "",
            on_refused=self._refused,
        )

    def _deliver(self, resource: Resource, changes: list[Changed[_Item]], *, listed: bool) -> None:
        at = time.monotonic() - self._started
        for change in changes:
            if self._stopping.is_set():
                return
            if isinstance(change, Deleted):
                gone = (change.namespace, change.name, change.uid)
                self._receive(Change(at=at, kind=resource.called, gone=gone, listed=listed))
            else:
                self._receive(Change(at=at, kind=resource.called, object=change.object.raw, listed=listed))

    def _refused(self, resource: Resource, error: ApiError | None) -> None:
        absent = error is not None and error.status == _NO_SUCH_KIND and resource in _OFTEN_ABSENT
        if error is not None and resource not in _NEEDED and not absent:
            complain([f"can't follow {resource.plural}: {error}; left out"])

    async def _sync(self) -> str | None:
        """Wait for the first lists; return the message if they do not come."""
        host, until = self._connection.host, time.monotonic() + self._timeout
        silent: float | None = time.monotonic() + live.SILENCE
        while not self._stopping.is_set():
            missing = [each for each in self._reflectors if not each.has_synced]
            refused = next((each for each in missing if each.refused is not None and each.resource in _NEEDED), None)
            if refused is not None:
                return f"can't follow {refused.resource.plural} of {host}: {refused.refused}"
            left = [each for each in missing if each.refused is None]
            if not left:
                self._receive(Change(at=time.monotonic() - self._started, synced=True))
                return None
            if silent is not None and time.monotonic() > silent and len(left) == len(self._reflectors):
                silent = None
                complain([live.not_answered(host, self._timeout)])
            if time.monotonic() > until:
                why = next((str(each.last_error) for each in left if each.last_error is not None), "no answer")
                return f"can't list {left[0].resource.plural} of {host}: {why}"
            await self._nap(0.02)
        return None

    async def _go_on(self, until: float | None) -> None:
        errors = 0
        told = False
        while not self._stopping.is_set():
            left = _TICK_SECONDS if until is None else min(until - time.monotonic(), _TICK_SECONDS)
            if left <= 0:
                return
            await self._nap(left)
            self._tick(time.monotonic() - self._started)
            failing = [each for each in self._reflectors if each.refused is None and each.last_error is not None]
            now = sum(each.counts.errors for each in failing)
            if now > errors and not told:
                told = True
                complain([f"a watch of {self._connection.host} failed, trying again: {failing[0].last_error}"])
            errors = now

    async def _nap(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


app = typer.Typer(add_completion=False)


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
            metavar="DIR",
            help="Record in this directory what is seen of the cluster, for --from and berth replay: no Secrets, "
            "environments or commands. It needs the extra podberth[record].",
        ),
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Decide what was recorded instead of following a cluster, by berth shadow or berth run.",
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
    limit = None if duration is None else time_of(duration)
    if duration is not None and not limit:
        raise InputError(f"--for: {shown(duration)}: expected a time such as 90s, 15m or 1h30m")
    if recorded is not None and (record is not None or duration is not None or kubeconfig or context):
        raise InputError("--from reads a recording: --record, --for, --kubeconfig and --context don't go with it")
    if recorded is not None:
        with recordings.told(recorded, "berth shadow --from"):
            from podberth.lab.recording.reading import part
            from podberth.lab.recording.world import changes

            last = part(recorded)
            of, head = of or last.name, last.head
            framework, decoder, _ = _profile(config, scheduler, of)
            shadowing = Shadow(framework, of, decoder=decoder, began=head.began, exact=not head.of)
            return _play(shadowing, changes(last.events(), head), pods, output)
    if record is not None:
        with recordings.told(record, "--record"):
            recordings.to_write(record)
    of = of or DEFAULT
    framework, decoder, usual = _profile(config, scheduler, of)
    began = time.time()
    return _follow(
        Shadow(framework, of, decoder=decoder, began=began),
        pods,
        limit,
        decoder=decoder,
        record=record,
        began=began,
        of=of,
        where=(kubeconfig or usual, context, seconds(timeout)),
        output=output,
    )


def _profile(config: str | None, scheduler: str | None, of: str) -> tuple[Framework, Decoder, str | None]:
    """Return the profile to try, what reads pods for it, and the kubeconfig of its configuration. Raises InputError."""
    settings, frameworks = profiles(config, scheduler)
    framework = frameworks.get(scheduler or of) or next(iter(frameworks.values()))
    complain([*unasked(settings), *unfetched(frameworks)])
    decoder = decoder_for(framework, frameworks, of, settings.limits)
    return framework, decoder, settings.client_connection.kubeconfig or None


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
    decoder: Decoder,
    record: str | None,
    began: float,
    of: str,
    where: tuple[str | None, str | None, float],
    output: Output,
) -> int:
    from podberth.kube.kubeconfig import connect

    kubeconfig, context, timeout = where
    connection = connect(kubeconfig, context)
    recorder = None if record is None else _recorder(record, of, decoder, began)

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
            complain([f"{record}: {recorder.written:,} changes"])
    return _end(shadow, output)


def _recorder(record: str, of: str, decoder: Decoder, began: float) -> "ShadowRecorder":
    with recordings.told(record, "--record"):
        from podberth.lab.recording.recorder import ShadowRecorder

        return ShadowRecorder(
            recordings.to_write(record),
            of,
            decoder.beside(),
            began,
            ended=lambda why: complain([f"{record}: the recording has ended: {why}"]),
        )


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
