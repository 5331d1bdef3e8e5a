"""`berth explain`: why a pod goes where it goes, or nowhere."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from podberth.cli import options
from podberth.cli.errors import FOUND, WRONG, InputError, complain
from podberth.cli.errors import about as naming
from podberth.cli.finding import (
    find_group,
    from_cluster,
    from_file,
    group_from_file,
    group_of_named,
    holds_group,
    home,
    waiting,
    why_none,
)
from podberth.cli.given import given, past
from podberth.cli.inputs import lines, named, unasked
from podberth.cli.output import PageOutput, as_json, as_report
from podberth.cli.subject import Group, Owner, PodName, subject
from podberth.evictor.gates import Settings
from podberth.explain.cases import answer
from podberth.explain.doubts import note, running, seen_by, unheld
from podberth.explain.explain import explain as explained
from podberth.explain.explanation import FITS
from podberth.explain.gangs.answer import GOOD, UNSCHEDULABLE
from podberth.explain.gangs.explain import attempted, explain_group, in_short
from podberth.explain.gangs.gang import Gang, gang_of, kept_from
from podberth.explain.objects.documents import ObjectError, parse
from podberth.explain.objects.manifest import workloads
from podberth.explain.objects.world import World
from podberth.explain.pending import pending
from podberth.explain.promises import Races, wanted_by
from podberth.explain.report.wording import count, some
from podberth.explain.spelling import similar
from podberth.explain.written import Written, of_cluster
from podberth.framework.config import ConfigError
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.mistakes import misfit
from podberth.model.pod import Pod

_LISTED = 8


def _print_cases(path: str) -> int:
    """Answer every case of a file; the exit code says whether all of them could be read.

    Raises InputError when the file itself can't be.
    """
    code = 0
    for number, line in enumerate(lines(path), start=1):
        name: object = f"line {number}"
        try:
            case = msgspec.json.decode(line)
            if not isinstance(case, dict):
                raise ObjectError("expected a case: {id, config, objects, pod}")
            name = case.get("id", name)
            result = {"id": name, "got": answer(case, lambda text: parse(text.encode()))}
        except (msgspec.DecodeError, RecursionError) as error:
            result = {"id": name, "error": misfit(error)}
            code = WRONG
        except (ConfigError, ObjectError, PluginError) as error:
            result = {"id": name, "error": " | ".join(str(error).splitlines())}
            code = WRONG
        as_json(msgspec.json.encode(result))
    return code


app = typer.Typer(add_completion=False)


@app.command()
def explain(
    pod: Annotated[
        str | None,
        typer.Argument(
            help="The pod: its name, or namespace/name; or what owns pods, such as deploy/web or job/x; or a group: "
            "podgroup/train.",
            show_default=False,
            autocompletion=options.pods,
        ),
    ] = None,
    namespace: Annotated[str | None, options.of_namespace("The pod's namespace.")] = None,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="With --pending or -l: pods of all namespaces.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--pending", help="Explain all pods that wait, grouped by cause and owner.")
    ] = False,
    selector: Annotated[
        str | None,
        options.of_labels("Explain the waiting pods with these labels: app=web."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--filename",
            help="A file with a pod (or Deployment, Job …) that does not exist yet; - is standard input.",
        ),
    ] = None,
    cluster: options.ClusterFiles = None,
    config: options.ConfigFile = None,
    scheduler: options.SchedulerName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    timeout: options.RequestTimeout = "30s",
    output: options.PageForm = PageOutput.TABLE,
    everything: Annotated[bool, typer.Option("--all", help="Show every node and every score.")] = False,
    validate: options.Validate = True,
    cases: Annotated[str | None, typer.Option(help="Answer each case of a file: one line of JSON in, one out.")] = None,
) -> int:
    """Show why a pod goes to a node, or to none: every node with its numbers, and changes that would help.

    The exit code is 0 when a node can take the pod, 1 when none can, 2 when the input is wrong. Of several pods, it is
    0 when none waits; of a pod group, when enough of its pods find a node.
    """
    if cases is not None:
        return _print_cases(cases)
    about = None if pod is None else subject(pod)
    group = about if isinstance(about, Group) else None
    of = about if isinstance(about, Owner) and file is None else None
    several = every or selector is not None or of is not None
    if pod is None and file is None and not several:
        raise InputError(
            "name a pod, give one with -f FILE, or ask about all with --pending (see berth explain --help)"
        )
    if several and (file is not None or (pod is not None and of is None)):
        raise InputError("--pending and -l are about pods that wait: they don't go with -f or the name of a pod")
    if all_namespaces and namespace is not None:
        raise InputError("-n and -A: expected one of them")
    all_given = given(
        config,
        cluster,
        [file] if file is not None else (),
        scheduler=scheduler,
        validate=validate,
        kubeconfig=kubeconfig,
        context=context,
        timeout=timeout,
        namespace=namespace,
        classes=file is not None,
    )
    settings, frameworks, framework, there, where, usual, files, path = all_given
    held = files[file] if file is not None else []
    notes = unasked(settings)
    if settings.percentage_of_nodes_to_score or any(p.percentage_of_nodes_to_score for p in settings.profiles):
        notes.append("percentageOfNodesToScore is set: the scheduler may score fewer nodes than are shown here")
    if several:
        inside = None if all_namespaces else namespace or (usual if of is None else home(there, of, usual))
        pods = waiting(there, namespace=inside, of=of, selector=selector)
        notes += note(pods, there)
        found = pending(pods, there, frameworks, running(there.placed.values()), notes=notes)
        found.notes.extend([] if pods else why_none(there, inside, of, selector))
        as_report(found, output, everything=everything)
        return FOUND if pods else 0
    if file is not None and group is None:
        with naming(named(file)):
            of_group = group_of_named(held, workloads(held), about, namespace, there, usual)
        if of_group is not None:
            group, namespace = of_group
    if group is not None or (file is not None and pod is None and holds_group(held)):
        if file is not None:
            gang = group_from_file(file, held, group, namespace, there, notes, usual)
        else:
            assert group is not None
            gang = find_group(group, namespace, there, where, usual)
        first = next(iter((*gang.waiting, *gang.running)), None)
        instead: list[str] = []
        if first is not None:
            ran = running(there.placed.values())
            framework, instead = _view(frameworks, scheduler, first, ran, notes)
        return _explain_and_print(
            gang, framework, there, notes, output, instead=instead, from_file=file is not None, everything=everything
        )
    each: Mapping[str, Pod] = {}
    if file is not None:
        asked, node, written, each = from_file(file, held, about, namespace, there, notes, usual)
    else:
        races = Races(there.cluster, frameworks)

        def look(placed: Pod) -> None:
            notes.extend(filter(None, [races.note(placed)]))

        assert isinstance(about, PodName)
        asked, node, written, _ = from_cluster(about, namespace, there, where, usual, look=look)
    ran = running([*there.placed.values(), *([] if node is None else [asked])])
    framework, instead = _view(frameworks, scheduler, asked, ran, notes)
    if each:
        asked = _one_of(each, framework, there, notes)
    if node is None:
        notes += filter(None, [_member_note(asked, there, framework)])
        notes += kept_from(asked.priority, asked.scheduling_group, there.cluster)
    known = None
    if node is not None and wanted_by(asked, framework) is not None:
        known, problems = past(
            there,
            Settings(),
            dump=bool(cluster),
            kubeconfig=path,
            context=context,
            timeout=timeout,
            taken=asked.uid,
        )
        complain(problems)
    others = there.waiting.values()
    notes += note([asked], there)
    answer = explained(
        asked,
        framework,
        there.cluster,
        node=node,
        notes=notes,
        past=known,
        instead=instead,
        others=others,
        written=written,
        unheld=unheld(asked, there),
    )
    as_report(answer, output, fitted=True, everything=everything)
    return 0 if answer.outcome == FITS else FOUND


def _view(
    frameworks: dict[str, Framework], wanted: str | None, pod: Pod, ran: Mapping[str, int], notes: list[str]
) -> tuple[Framework, list[str]]:
    """Return the profile by which the pod is looked at, and the schedulers that it could name if nobody runs its own.

    `wanted`: the profile that was asked for; `ran`: scheduler → how many pods it placed.
    """
    if wanted is not None:
        return frameworks[wanted], []
    name = pod.scheduler_name
    framework, instead = seen_by(pod, frameworks, ran)
    if name and name not in frameworks:
        notes.append(f"the pod asks for the scheduler {name}; this is how {framework.profile.name} sees it")
    if instead:
        near = next(iter(similar(name, instead)), "")
        too = "" if ran.get(near) else ", which placed none either"
        known = f"; did you mean {near}{too}?" if near else f": known are {', '.join(sorted(instead))}"
        notes.append(f"no pod here was placed by {name}, which is no profile of this configuration{known}")
    return framework, instead


def _one_of(each: Mapping[str, Pod], framework: Framework, world: World, notes: list[str]) -> Pod:
    """Return the pod of a DaemonSet that is explained: the first for whose node there is no room, else the first.

    `each`: node → the pod for it. Raises PluginError.
    """
    full = [node for node, pod in each.items() if not len(framework.find(pod, world.cluster).feasible)]
    room = f"{count(len(full), 'node')} without room for it: {some(full, _LISTED)}" if full else "each has room for it"
    notes.append(f"{count(len(each), 'node')} where the DaemonSet has to run and has no pod yet: {room}")
    return each[next(iter(full or each))]


def _member_note(pod: Pod, world: World, framework: Framework) -> str:
    """Return which group a pod belongs to, and what that lacks; empty for a pod of none."""
    key = world.cluster.pod_groups.of(pod)
    if key is None:
        return ""
    gang = gang_of(key, world.cluster)
    if gang is None:
        return f"it belongs to the pod group {key}, which is not there"
    said = f"it belongs to the pod group {key}, of which {_together(gang)}"
    lacks = in_short(gang, framework, world.cluster) if gang.waiting else ""
    return f"{said}: {lacks or 'enough fit'} (berth explain podgroup/{key.name} -n {key.namespace})"


def _together(gang: Gang) -> str:
    count = gang.group.min_count
    return "pods start one by one" if count is None else f"{count:,} pods start together"


def _explain_and_print(
    gang: Gang,
    framework: Framework,
    world: World,
    notes: list[str],
    output: PageOutput,
    *,
    instead: Sequence[str],
    from_file: bool,
    everything: bool,
) -> int:
    """Explain a group; the exit code."""

    def written(pod: Pod) -> Written | None:
        return None if from_file else of_cluster(pod, world)

    answer = explain_group(gang, framework, world.cluster, notes=notes, instead=instead, written=written)
    if answer.outcome == UNSCHEDULABLE or (answer.outcome in GOOD and answer.fits < len(gang.waiting)):
        fits = answer.fits if answer.outcome in GOOD else 0
        more = attempted(gang, framework, world.cluster, fits=fits)
        answer = replace(answer, notes=[*answer.notes, more] if more else answer.notes)
    if from_file:
        answer = replace(answer, remedies=[replace(remedy, commands=[]) for remedy in answer.remedies])
    as_report(answer, output, everything=everything)
    return 0 if answer.outcome in GOOD else FOUND
