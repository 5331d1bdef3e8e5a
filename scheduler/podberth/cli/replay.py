"""`berth replay`: what was recorded, decided again."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from podberth.cli import recordings
from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.inputs import named, profiles
from podberth.cli.options import PageForm, SchedulerName
from podberth.cli.output import PageOutput, as_data, private
from podberth.explain.explanation import API_VERSION
from podberth.explain.objects.world import DUMP
from podberth.explain.report.wording import count, printable
from podberth.model.kinds import KINDS

if TYPE_CHECKING:
    from podberth.lab.recording.reading import Recording, State
    from podberth.lab.recording.summary import Contents, Moment
    from podberth.lab.recording.verify import Verified

_COMMANDS = ("explain", "simulate", "capacity")
"""Commands that answer from a dump."""
app = typer.Typer(add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
def replay(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="What berth run --record or berth shadow --record has written.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="With --at: explain, simulate or capacity with its options, asked of the cluster as it was then.",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decide everything again, and say whether all decisions are the same.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="A moment: 23:15:02 (UTC), 2026-11-29T23:15:02Z, or 90s."),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", metavar="POD", help="Explain the last decision about a pod (until --at), in the state that it saw."
        ),
    ] = None,
    dump: Annotated[
        str | None, typer.Option("--dump", metavar="FILE", help="Write the cluster at --at, or the end, as a dump.")
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="OTHER",
            help="Say what this configuration would have done from --at, or the beginning, in place of the recorded "
            "one.",
        ),
    ] = None,
    scheduler: SchedulerName = None,
    copy: Annotated[
        str | None, typer.Option("--copy", metavar="OUT", help="Write the recording to another directory.")
    ] = None,
    mask: Annotated[
        bool,
        typer.Option("--mask", help="With --copy: replace names, values of labels and images, as berth dump does."),
    ] = False,
    output: PageForm = PageOutput.TABLE,
) -> int:
    """Show what is in a recording; verify it, ask about any second of it, or run it by another configuration.

    The exit code is 0; with --verify and --diff 1 when decisions differ; with --why and --at that of the command that
    answers; 2 when the input is wrong.
    """
    asked = [
        name for name, given in (("--verify", verify), ("--why", why), ("--dump", dump), ("--mask", mask)) if given
    ]
    if len(asked) > 1:
        raise InputError(f"{asked[0]} and {asked[1]}: expected one of them")
    if mask and copy is None:
        raise InputError("--mask: expected only together with --copy")
    if command and (at is None or asked or command[0] not in _COMMANDS):
        known = ", ".join(_COMMANDS)
        raise InputError(f"{command[0]}: expected one of {known} after --at TIME, and neither --verify nor --why")
    with recordings.told(directory, "berth replay"):
        from podberth.lab.recording import summary
        from podberth.lab.recording.reading import Recording

        recording = Recording(directory)
        if verify:
            return _verify(recording, output)
        if copy is not None:
            from podberth.lab.recording.copying import write_copy

            entries = write_copy(recording, recordings.to_write(copy), mask=mask)
            complain([f"{copy}: {entries:,} entries"])
            return 0
        if diff is not None:
            return _diff(recording, diff, at, scheduler, output)
        if at is None and why is None and dump is None:
            _print(summary.contents(recording), output)
            return 0
        moment = summary.moment(recording, at)
        if dump is not None:
            with private(dump) as file:
                file.write(_dump(moment.state()))
            return 0
        if why is not None:
            state, event, pod = summary.decision(recording, why, moment)
            state.assumed.pop(pod.uid, None)
            said = f"placed on {event.what[1]}" if event.kind.name == "PLACED" else f"failed: {event.what[2]}"
            when = summary.stamp(moment.head.began + event.at - moment.head.at)
            complain([printable(f"{pod.namespace}/{pod.name} at {when}: {said}")])
            return _ask(["explain", f"{pod.namespace}/{pod.name}"], state, moment, output)
        if not command:
            raise InputError(f"--at: expected a command after it: {', '.join(_COMMANDS)}; or --dump FILE")
        return _ask(command, moment.state(), moment, output)


def _diff(recording: "Recording", other: str, at: str | None, scheduler: str | None, output: PageOutput) -> int:
    from podberth.lab.recording import page, summary
    from podberth.lab.recording.difference import difference

    settings, _ = profiles(other, scheduler)
    begin = 0.0
    if at is not None:
        from_then = summary.moment(recording, at)
        begin = (from_then.at or from_then.head.at) - from_then.head.at
        whole = summary.Moment(recording, from_then.process)
    else:
        whole = summary.moment(recording, None)
    found = difference(whole, settings, name=named(other), profile=scheduler, begin=begin)
    match output:
        case PageOutput.TABLE:
            sys.stdout.writelines(f"{line}\n" for line in page.lines(found))
        case PageOutput.HTML:
            sys.stdout.write(page.page(found))
        case _:
            as_data(found, output)
    return 0 if found.empty else FOUND


def _dump(state: "State") -> bytes:
    kinds = {"apiVersion": API_VERSION, "kind": DUMP, "kinds": [kind.partition(".")[0] for kind in KINDS]}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [kinds, *state.documents()]})


def _ask(command: list[str], state: "State", moment: "Moment", output: PageOutput) -> int:
    """Run another command on a state, by the configuration of the recording unless it names one."""
    from podberth.cli.main import run

    with tempfile.TemporaryDirectory() as directory:
        cluster, config = Path(directory) / "cluster.json", Path(directory) / "configuration.json"
        cluster.write_bytes(_dump(state))
        given = ["--cluster", str(cluster), "-o", output.value]
        if moment.head.configuration and not any(word.startswith("--config") for word in command):
            config.write_bytes(msgspec.json.encode(moment.head.configuration))
            given += ["--config", str(config)]
        return run([*command, *given])


def _verify(recording: "Recording", output: PageOutput) -> int:
    from podberth.lab.recording.verify import by_engine, one_by_one

    found: list[Verified] = []
    for process in recording.processes():
        head = process[0][1]
        if head.of:
            raise InputError(f"{recording.directory}: was recorded of {head.of}: berth shadow --from compares with it")
        events = recording.events(process)
        found.append(by_engine(events, masked=head.masked) if head.fresh else one_by_one(events))
    if output is not PageOutput.TABLE:
        as_data({"processes": [msgspec.to_builtins(each) for each in found]}, output)
    else:
        sys.stdout.writelines(f"{line}\n" for each in found for line in _said(each))
    return FOUND if any(each.differ for each in found) else 0


def _said(found: "Verified") -> list[str]:
    decided = f"{found.placed:,} placed, {found.failed:,} failed, {count(found.preemptions, 'preemption')}"
    how = f"{found.stimuli:,} stimuli given to an engine"
    if not found.whole:
        how = (
            "it does not reach back to its start, so each pod that was placed was decided for itself, and a node that "
            "was kept for another pod or group may make it differ"
        )
        decided += f", {found.alone:,} of them not decided for themselves"
    lines = [f"{'equal' if not found.differ else f'{found.differ:,} differ'}: {decided} ({how})"]
    return lines + [
        printable(f"  at {each.at:.3f} s: recorded {each.recorded}, decided {each.decided}")
        for each in found.differences[:20]
    ]


def _print(found: "Contents", output: PageOutput) -> None:
    if output is not PageOutput.TABLE:
        as_data(found, output)
        return
    print(f"{found.directory}: recorded by {count(len(found.processes), 'run')}{', masked' * found.masked}")
    for each in found.processes:
        of = f"shadow of {each.of}" if each.of else "berth run"
        whole = "from its start" if each.whole else "its first segments are dropped"
        waits = "" if each.waited is None else f"; waited {each.waited[0]:.3f} s (median), {each.waited[1]:.3f} s (p99)"
        size = f"{each.bytes:,} bytes in {count(each.segments, 'segment')}"
        per = "" if each.bytes_per_pod is None else f", {each.bytes_per_pod:,.0f} for each pod that came"
        print(printable(f"  {each.began} to {each.ended}: {of}, {whole}"))
        print(f"    {size}{per}")
        print(f"    {each.nodes:,} nodes; {each.pods_came:,} pods came, {each.pods_went:,} went, {each.waiting:,} wait")
        print(f"    {each.placed:,} placed, {each.failed:,} attempts failed, {each.preemptions:,} preemptions{waits}")
