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
from podberth.cli.output import PageOutput, as_asked, as_data, private
from podberth.explain.explanation import API_VERSION
from podberth.explain.objects.world import DUMP
from podberth.explain.report.wording import count, printable
from podberth.model.kinds import KINDS

if TYPE_CHECKING:
    from podberth.lab.recording.contents import Contents
    from podberth.lab.recording.reading import State
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
    masked: Annotated[
        str | None,
        typer.Option(
            "--masked",
            metavar="OUT",
            help="Write the recording to another directory, with masks for names, values of labels and images, as "
            "berth dump does.",
        ),
    ] = None,
    output: PageForm = PageOutput.TABLE,
) -> int:
    """Show what is in a recording; verify it, ask about any second of it, or run it by another configuration.

    The exit code is 0; with --verify and --diff 1 when decisions differ; with --why and --at that of the command that
    answers; 2 when the input is wrong.
    """
    options = {"--verify": verify, "--why": why, "--dump": dump, "--diff": diff, "--masked": masked}
    asked = [name for name, given in options.items() if given]
    if len(asked) > 1:
        raise InputError(f"{asked[0]} and {asked[1]}: expected one of them")
    if at is not None and (verify or masked is not None):
        raise InputError(f"--at and {asked[0]}: expected one of them")
    if output is PageOutput.HTML and (verify or not (asked or at)):
        raise InputError("-o html: expected table, json or yaml, as there is no page of this answer")
    if command and (at is None or asked or command[0] not in _COMMANDS):
        known = ", ".join(_COMMANDS)
        raise InputError(f"{command[0]}: expected one of {known} after --at TIME, and no other option before it")
    with recordings.told(directory, "berth replay"):
        from podberth.lab.recording import reading

        if verify:
            return _verify(directory, output)
        if masked is not None:
            from podberth.lab.recording.masked import write_masked

            to = recordings.to_write(masked)
            if to.exists() and any(to.iterdir()):
                raise InputError(f"{masked}: expected a directory that is empty, or none")
            complain([f"{masked}: {write_masked(Path(directory), to):,} entries"])
            return 0
        if diff is not None:
            return _diff(directory, diff, at, scheduler, output)
        if not asked and at is None:
            from podberth.lab.recording.contents import contents

            _print(contents(directory), output)
            return 0
        part = reading.part(directory, at)
        if why is not None:
            state, decision, pod = reading.decision(why, part)
            state.assumed.pop(pod.uid, None)
            said = f"placed on {decision.node}" if hasattr(decision, "node") else f"failed: {decision.message}"
            complain([printable(f"{pod.namespace}/{pod.name} at {part.time(decision.at)}: {said}")])
            return _ask(["explain", pod.name, "-n", pod.namespace], state, output, scheduler)
        if dump is not None:
            whole = _dump(part.state())  # what was in the file is gone as soon as it is open
            with private(dump) as file:
                file.write(whole)
            return 0
        if not command:
            raise InputError(f"--at: expected a command after it: {', '.join(_COMMANDS)}; or --dump FILE")
        return _ask(command, part.state(), output, scheduler)


def _diff(directory: str, other: str, at: str | None, scheduler: str | None, output: PageOutput) -> int:
    from podberth.lab.recording import difference, reading

    settings, _ = profiles(other, scheduler)
    part = reading.part(directory, at)
    begin = 0.0 if part.until is None else part.until - part.head.at
    whole = reading.Part(part.paths, part.head)
    found = difference.difference(whole, settings, name=named(other), profile=scheduler, begin=begin)
    as_asked(found, output, lambda paged: difference.report(found))
    return 0 if found.empty else FOUND


def _dump(state: "State") -> bytes:
    kinds = {"apiVersion": API_VERSION, "kind": DUMP, "kinds": [kind.partition(".")[0] for kind in KINDS]}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [kinds, *state.documents()]})


def _ask(command: list[str], state: "State", output: PageOutput, scheduler: str | None) -> int:
    """Run another command on a state, by the configuration of that moment unless it names one."""
    from podberth.cli.main import run

    with tempfile.TemporaryDirectory() as directory:
        cluster, config = Path(directory) / "cluster.json", Path(directory) / "configuration.json"
        cluster.write_bytes(_dump(state))
        given = ["--cluster", str(cluster), "-o", output.value]
        given += [] if scheduler is None else ["--scheduler", scheduler]
        if state.configuration and not any(word.startswith("--config") for word in command):
            config.write_bytes(msgspec.json.encode(state.configuration))
            given += ["--config", str(config)]
        return run([*command, *given])


def _verify(directory: str, output: PageOutput) -> int:
    from podberth.lab.recording.reading import parts
    from podberth.lab.recording.verify import verify

    found: list[Verified] = []
    for part in parts(directory):
        if part.head.of:
            raise InputError(f"{directory}: was recorded of {part.head.of}: berth shadow --from compares with it")
        found.append(verify(part))
    if output is not PageOutput.TABLE:
        as_data({"processes": found}, output)
    else:
        sys.stdout.writelines(f"{line}\n" for each in found for line in _said(each))
    return FOUND if any(each.differ for each in found) else 0


def _said(found: "Verified") -> list[str]:
    decided = f"{found.placed:,} placed, {found.failed:,} failed, {count(found.preemptions, 'preemption')}"
    how = f"{found.stimuli:,} stimuli given to an engine"
    if not found.whole:
        decided += f", {found.unverified:,} of them not verified"
        how = "it does not reach back to its start: of each pod that was placed, was there no better node?"
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
