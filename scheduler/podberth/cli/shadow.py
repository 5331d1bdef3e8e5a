"""`berth shadow`: how Berth would have decided what another scheduler decides."""

import asyncio
import gzip
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from itertools import count
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import msgspec
import typer
from msgspec import Raw
from msgspec.structs import replace

from podberth.cli import live
from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.inputs import GZIP, MOST_LINES, STDIN, named, opened, profiles, standard_input, unasked, unfetched
from podberth.cli.options import ConfigFile, Context, Kubeconfig, RequestTimeout, SchedulerName, seconds
from podberth.cli.output import Output, as_json, private, replaceable, yaml_of
from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.dump import Masks
from podberth.explain.shadow.answer import Compared, Summary
from podberth.explain.shadow.record import Change, Recording, first_line, line_of, masked, objects_of, read_first
from podberth.explain.shadow.record import read_line as change_of
from podberth.explain.shadow.shadow import Shadow
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError
from podberth.kube.objects import Change as Changed
from podberth.kube.objects import Deleted, Partial, partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import DEVICES, GROUPS, NODES, PODS, SCHEDULING, Resource
from podberth.model.kinds import Decoder

_LONGEST = 16 << 20
"""Bytes of a line. An object of the API has a tenth of that."""
_NOTHING = "nothing was written: the cluster was not listed"
FOLLOWED = (*SCHEDULING, *DEVICES, *GROUPS)
"""The kinds that are listed and watched."""
_NEEDED = (NODES, PODS)
_OFTEN_ABSENT = (*DEVICES, *GROUPS)
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_NO_SUCH_KIND = 404
_TICK_SECONDS = 0.5
DEFAULT = "default-scheduler"
_DURATION = re.compile(r"(?=\d)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


class Recorder:
    """Writes what is seen, without what no decision reads.

    It goes to a file beside the one that is asked for, and takes its place at the end if the cluster was listed: so an
    older recording is there until there is a newer one. Masks sort as the names do and so are known at the end; then
    all is written a second time. Only their owner may read these files.
    """

    def __init__(self, path: str, of: str, began: float, *, mask: bool) -> None:
        self._path = path
        self._of = of
        self._began = began
        self._mask = mask
        self._packed = path.endswith(".gz")
        self._listed = False
        self.lines = 0
        with _told(path):
            self._target = replaceable(path)
            self._seen = f"{self._target}.{'unmasked' if mask else 'part'}"
            self._file = _opened(self._seen, packed=self._packed)
            self._file.write(first_line(of, began, masked=False) + b"\n")

    def write(self, change: Change) -> None:
        """One more change; what can't be read is left out, as it is of the comparison. Raises InputError."""
        with suppress(ObjectError), _told(self._path):
            line = line_of(change)
            self._listed, listed = False, self._listed or change.synced
            self._file.write(line + b"\n")
            self._listed = listed
            self.lines += 1

    def close(self) -> None:
        """Finish the file. Raises InputError."""
        written = [self._seen]
        try:
            with _told(self._path):
                self._file.close()
                if self._listed and self._mask:
                    written.append(f"{self._target}.part")
                    self._write_masked(written[-1])
                if self._listed:
                    Path(written[-1]).replace(self._target)
        finally:
            for each in written:
                Path(each).unlink(missing_ok=True)
        complain([f"{self._path}: {f'{self.lines:,} changes' if self._listed else _NOTHING}"])

    def _write_masked(self, path: str) -> None:
        masks = Masks(objects_of(line) for line in self._lines())
        with _opened(path, packed=self._packed) as file:
            file.write(first_line(self._of, self._began, masked=True) + b"\n")
            for line in self._lines():
                file.write(masked(line, masks.masked, masks.text) + b"\n")

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines after the first."""
        with Path(self._seen).open("rb") as file:
            lines = _all_lines(file, self._path)
            next(lines, None)
            yield from lines


def recording(path: str) -> tuple[Recording, Iterator[Change]]:
    """Return what a file says of itself, and its changes as they are read; - is standard input.
    Both raise InputError.
    """
    with _told(named(path)):
        lines = _all_lines(standard_input() if path == STDIN else opened(path), named(path))
        try:
            about = read_first(next(lines, b""))
        except ObjectError as error:
            raise InputError(f"{named(path)}: {error}") from None
    return about, _changes(named(path), lines)


def _changes(path: str, lines: Iterator[bytes]) -> Iterator[Change]:
    for number, line in enumerate(lines, start=2):
        try:
            yield change_of(line)
        except ObjectError as error:
            raise InputError(f"{path}: line {number}: {error}") from None


def _all_lines(raw: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield lines without their ends, unpacked if they are packed. `path`: in messages. Raises InputError."""
    buffered = _Counted(cast(RawIOBase, raw))
    packed = path.endswith(".gz") or buffered.peek(len(GZIP)).startswith(GZIP)
    try:
        with buffered, cast(BinaryIO, gzip.open(buffered)) if packed else buffered as file:
            first = True
            for number in count():
                line = file.readline(_LONGEST)
                if not line:
                    return
                if packed and number > MOST_LINES and number > buffered.taken:
                    raise InputError(f"{path}: unpacks to more than {MOST_LINES:,} lines, of less than a byte each")
                if not (first or line.endswith(b"\n")):
                    raise InputError(f"{path}: ends within a line: the recording was cut off")
                first = False
                yield line.removesuffix(b"\n")
    except (EOFError, zlib.error):
        raise InputError(f"{path}: the recording was cut off, or is damaged") from None
    except gzip.BadGzipFile as error:
        raise InputError(f"{path}: expected a gzip file: {error}") from None


class _Counted(BufferedReader):
    """Counts the bytes that were read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


class _Packed(gzip.GzipFile):
    """Closes its file too, so that a full disk is told."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="wb", compresslevel=6)
        self._packed = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._packed.close()


def _opened(path: str, *, packed: bool) -> BinaryIO:
    """Return a file for its owner alone: it holds what the owner may see of a cluster. Raises OSError, InputError."""
    file = private(path)
    return cast(BinaryIO, _Packed(file)) if packed else file


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Have an OSError about a file be one line that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error) or type(error).__name__).lower()}") from None


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
    """Return the profile to try, what reads pods for it, and the kubeconfig of its configuration. Raises InputError."""
    settings, frameworks = profiles(config, scheduler)
    framework = frameworks.get(scheduler or of) or next(iter(frameworks.values()))
    complain([*unasked(settings), *unfetched(frameworks)])
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
