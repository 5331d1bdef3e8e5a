"""`berth explain`: why a pod goes where it goes, or nowhere."""

import sys
from difflib import get_close_matches
from typing import Annotated

import typer

from scheduler.cli.errors import FOUND, InputError, about, complain
from scheduler.cli.group import explain_and_print, find_group, group_from_file, group_named, holds_group, member_note
from scheduler.cli.inputs import configuration, named, world
from scheduler.cli.options import (
    ClusterFiles,
    ConfigFile,
    Context,
    Kubeconfig,
    PageForm,
    RequestTimeout,
    SchedulerName,
    Validate,
)
from scheduler.cli.output import PageOutput, as_data, as_table
from scheduler.cli.pods import from_cluster, from_file
from scheduler.cli.which import owner, waiting
from scheduler.engine.eviction.settings import Settings
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.plugins.annotation_affinity import annotated
from scheduler.plugins.registry import registry
from scheduler.whatif.explain import explain as explained
from scheduler.whatif.explanation import FITS, Explanation
from scheduler.whatif.pending import Pending, pending
from scheduler.whatif.promises import wanted_by
from scheduler.whatif.races import Races
from scheduler.whatif.world import World

app = typer.Typer(add_completion=False)
_PROBLEMS = 8
_ALWAYS = "default-scheduler"
"""Every cluster has it."""


@app.command()
def explain(
    pod: Annotated[
        str | None,
        typer.Argument(
            help="The pod: its name, or namespace/name; or what owns pods, such as deploy/web or job/x; or a group: "
            "podgroup/train.",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="The pod's namespace.")] = None,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="With --pending or -l: pods of all namespaces.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--pending", help="Explain all pods that wait, grouped by cause and owner.")
    ] = False,
    selector: Annotated[
        str | None, typer.Option("-l", "--selector", help="Explain the waiting pods with these labels: app=web.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--filename",
            help="A file with a pod (or Deployment, Job …) that does not exist yet; - is standard input.",
        ),
    ] = None,
    cluster: ClusterFiles = None,
    config: ConfigFile = None,
    scheduler: SchedulerName = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    timeout: RequestTimeout = "30s",
    output: PageForm = PageOutput.TABLE,
    everything: Annotated[bool, typer.Option("--all", help="Show every node and every score.")] = False,
    validate: Validate = True,
    cases: Annotated[str | None, typer.Option(help="Answer each case of a file: one line of JSON in, one out.")] = None,
) -> int:
    """Show why a pod goes to a node, or to none: every node with its numbers, and changes that would help.

    The exit code is 0 when a node can take the pod, 1 when none can, 2 when the input is wrong. Of several pods, it is
    0 when none waits; of a pod group, when enough of its pods find a node.
    """
    if cases is not None:
        from scheduler.cli.cases import print_cases

        return print_cases(cases)
    group = group_named(pod)
    of = owner(pod) if pod is not None and file is None else None
    several = every or selector is not None or of is not None
    if pod is None and file is None and not several:
        raise InputError(
            "name a pod, give one with -f FILE, or ask about all with --pending (see berth explain --help)"
        )
    if several and (file is not None or (pod is not None and of is None)):
        raise InputError("--pending and -l are about pods that wait: they don't go with -f or the name of a pod")
    if all_namespaces and namespace is not None:
        raise InputError("-n and -A: expected one of them")
    settings = configuration(config)
    with about(named(config) if config else "configuration"):
        frameworks = build(settings, registry())
    notes: list[str] = []
    path = kubeconfig or settings.client_connection.kubeconfig or None
    decoder = Decoder(annotated(frameworks))
    if settings.extenders:
        addresses = ", ".join(extender.url_prefix for extender in settings.extenders)
        notes.append(f"HTTP extenders are not asked here, and may reject nodes or change scores: {addresses}")
    if settings.percentage_of_nodes_to_score or any(p.percentage_of_nodes_to_score for p in settings.profiles):
        notes.append("percentageOfNodesToScore is set: the scheduler may score fewer nodes than are shown here")
    if cluster:
        there, where, usual = world(cluster, decoder), ", ".join(map(named, cluster)), "default"
    else:
        from scheduler.cli.live import listed

        there, where, usual = listed(path, context, decoder, classes=file is not None, timeout=timeout)
    complain(there.problems[:_PROBLEMS])
    if several:
        inside = None if all_namespaces else namespace or usual
        pods = waiting(there, namespace=inside, of=of, selector=selector)
        found = pending(pods, there, frameworks, _ran(there), notes=notes)
        if not pods and inside is not None and of is None:
            more = len(waiting(there, namespace=None, of=None, selector=selector))
            found.notes.append(f"no pod waits in the namespace {inside}; in all namespaces (-A): {more:,}")
        print_pending(found, output, everything=everything)
        return FOUND if pods else 0
    if group is not None or (file is not None and pod is None and holds_group(file)):
        if file is not None:
            gang = group_from_file(file, group, namespace, there, notes, usual, validate=validate)
        else:
            assert group is not None
            gang = find_group(group, namespace, there, where, usual)
        first = next(iter((*gang.waiting, *gang.running)), None)
        framework = (
            next(iter(frameworks.values())) if first is None else _framework(frameworks, scheduler, first, notes)
        )
        seen = first is None or scheduler is not None or _claimed(first, frameworks, there, notes)
        return explain_and_print(
            gang, framework, there, notes, output, claimed=seen, from_file=file is not None, everything=everything
        )
    if file is not None:
        asked, node, written = from_file(file, pod, namespace, there, notes, usual, validate=validate)
    else:
        races = Races(there.cluster, frameworks)

        def look(placed: Pod) -> None:
            notes.extend(filter(None, [races.note(placed)]))

        asked, node, written = from_cluster(pod or "", namespace, there, where, usual, look=look)
    framework = _framework(frameworks, scheduler, asked, notes)
    claimed = node is not None or scheduler is not None or _claimed(asked, frameworks, there, notes)
    notes += filter(None, [member_note(asked, there, framework) if node is None else ""])
    known = None
    if node is not None and wanted_by(asked, framework) is not None:
        from scheduler.cli.history import past

        known, problems = past(there, Settings(), dump=bool(cluster), kubeconfig=path, context=context, taken=asked.uid)
        complain(problems)
    others = there.waiting.values()
    answer = explained(
        asked,
        framework,
        there.cluster,
        node=node,
        notes=notes,
        past=known,
        claimed=claimed,
        others=others,
        written=written,
    )
    _print(answer, output, everything=everything)
    return 0 if answer.outcome == FITS else FOUND


def _claimed(pod: Pod, frameworks: dict[str, Framework], there: World, notes: list[str]) -> bool:
    """Whether anything shows that somebody runs the scheduler that the pod names."""
    name = pod.scheduler_name
    ran = _ran(there)
    if not name or name in frameworks or name in ran:
        return True
    known = {*frameworks, *ran} - {""}
    near = get_close_matches(name, known, n=1)
    notes.append(
        f"no pod here was placed by {name}, which is no profile of this configuration"
        + (f"; did you mean {near[0]}?" if near else f": known are {', '.join(sorted(known))}")
    )
    return False


def _ran(there: World) -> frozenset[str]:
    """The schedulers that somebody runs, as far as placed pods show."""
    return frozenset((_ALWAYS, *(placed.scheduler_name for placed in there.placed.values())))


def _framework(frameworks: dict[str, Framework], wanted: str | None, pod: Pod, notes: list[str]) -> Framework:
    """The profile that was asked for, else the one that the pod names, else the first.

    Raises InputError for an unknown one.
    """
    if wanted is not None:
        if wanted not in frameworks:
            raise InputError(f"--scheduler: {wanted}: expected one of the profiles {', '.join(frameworks)}")
        return frameworks[wanted]
    found = frameworks.get(pod.scheduler_name)
    if found is None:
        found = next(iter(frameworks.values()))
        if pod.scheduler_name:
            notes.append(
                f"the pod asks for the scheduler {pod.scheduler_name}; this is how {found.profile.name} sees it"
            )
    return found


def _print(answer: Explanation, output: PageOutput, *, everything: bool) -> None:
    match output:
        case PageOutput.JSON | PageOutput.YAML:
            as_data(answer, output)
        case PageOutput.HTML:
            from scheduler.report.page import page

            sys.stdout.write(page(answer))
        case PageOutput.TABLE:
            from scheduler.report.tables import ExplanationTable

            as_table(ExplanationTable(answer, everything))


def print_pending(answer: Pending, output: PageOutput, *, everything: bool) -> None:
    """Print why several pods wait."""
    match output:
        case PageOutput.JSON | PageOutput.YAML:
            as_data(answer, output)
        case PageOutput.HTML:
            from scheduler.report.pending_page import pending_page

            sys.stdout.write(pending_page(answer))
        case PageOutput.TABLE:
            from scheduler.report.pending_table import PendingTable

            as_table(PendingTable(answer, everything))
