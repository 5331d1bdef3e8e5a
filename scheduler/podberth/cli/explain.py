"""`berth explain`: why a pod goes where it goes, or nowhere."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec.structs import replace

from podberth.cli import completion, options
from podberth.cli.errors import FOUND, WRONG, InputError, about, complain
from podberth.cli.given import given, past
from podberth.cli.group import explain_and_print, find_group, group_from_file, holds_group, member_note
from podberth.cli.inputs import STDIN, lines, named, unasked
from podberth.cli.options import (
    ClusterFiles,
    ConfigFile,
    Context,
    Kubeconfig,
    PageForm,
    RequestTimeout,
    SchedulerName,
    Validate,
    labels,
)
from podberth.cli.output import PageOutput, as_asked, as_json
from podberth.cli.subject import Group, Owner, PodName, called, chosen, namespace_of, place_of, subject, unknown
from podberth.evictor.gates import Settings
from podberth.explain import report
from podberth.explain.cases import answer
from podberth.explain.doubts import note, running, seen_by, unheld
from podberth.explain.explain import explain as explained
from podberth.explain.explanation import FITS
from podberth.explain.gangs.gang import kept_from
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import KINDS, Workload, path_of
from podberth.explain.objects.documents import Document, ObjectError, parse
from podberth.explain.objects.world import World
from podberth.explain.pending import pending
from podberth.explain.promises import Races, wanted_by
from podberth.explain.report.wording import some
from podberth.explain.simulate.arrivals import Batch, quota_notes
from podberth.explain.spelling import meant, near_names, similar
from podberth.explain.written import Written, of_cluster
from podberth.framework.config import ConfigError
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.kinds import Modelled
from podberth.model.mistakes import misfit
from podberth.model.pod import Pod

_LISTED = 8
_MADE_BY = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are owned by an object of another kind, named after it with a suffix."""


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


def home(world: World, of: Owner, usual: str) -> str | None:
    """Return the namespace of an owner that was named without one: the usual one, else the only one that has it.

    None where nobody is owned by it. Raises InputError.
    """
    spaces = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if usual in spaces:
        return usual
    if len(spaces) > 1:
        raise InputError(f"{of.kind} {of.name}: there is one in {some(spaces, _LISTED)}: say which with -n")
    return next(iter(spaces), None)


def waiting(world: World, *, namespace: str | None, of: Owner | None, selector: str | None) -> list[Pod]:
    """Return the pods that wait; `namespace` None: of all namespaces. Raises InputError."""
    found = _of(world.waiting.values(), namespace, of, selector)
    if found or of is None or any(_owned(pod, of) for pod in _all(world) if namespace in (None, pod.namespace)):
        return found
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    raise InputError(f"{of.kind} {of.name}: no pod {where} is owned by it{_meant(world, of)}")


def _meant(world: World, of: Owner) -> str:
    """Return a text that says where else it is, or how it is perhaps spelt."""
    elsewhere = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if elsewhere:
        return f"; there is one in {some(elsewhere, _LISTED)}"
    by = _MADE_BY.get(of.kind, of.kind)
    owners = {pod.owner[1] for pod in _all(world) if pod.owner and pod.owner[0] == by}
    names = {each.rpartition("-")[0] if of.kind in _MADE_BY else each for each in owners}
    return meant(near_names(of.name, sorted(filter(None, names))))


def _why_none(world: World, namespace: str | None, of: Owner | None, selector: str | None) -> Iterator[str]:
    """Yield what to say where none of the pods that are asked about waits."""
    if of is not None and selector is None:
        yield f"{of.kind} {f'{namespace}/' if namespace else ''}{of.name}: all its pods have nodes"
    if of is None and namespace is not None:
        more = len(waiting(world, namespace=None, of=None, selector=selector))
        absent = _no_namespace(world, namespace)
        yield f"no pod waits in the namespace {namespace}{absent}; in all namespaces (-A): {more:,}"
    if selector is not None and not _of(_all(world), None, None, selector):
        yield f"no pod at all has these labels: {selector}"


def _no_namespace(world: World, name: str) -> str:
    """Return what to say of a namespace that is not there; nothing where it is, or where namespaces are not known."""
    known = world.cluster.namespaces
    if not known or name in known:
        return ""
    return f", which does not exist{meant(near_names(name, sorted(known)))}"


def _all(world: World) -> Iterator[Pod]:
    return chain(world.waiting.values(), world.placed.values())


def _of(pods: Iterable[Pod], namespace: str | None, of: Owner | None, selector: str | None) -> list[Pod]:
    matches = None if selector is None else labels(selector)
    return [
        pod
        for pod in pods
        if (namespace is None or pod.namespace == namespace)
        and (of is None or _owned(pod, of))
        and (matches is None or matches(pod.labels))
    ]


def _owned(pod: Pod, of: Owner) -> bool:
    if pod.owner is None:
        return False
    kind, name = of
    if kind in _MADE_BY:
        return pod.owner[0] == _MADE_BY[kind] and pod.owner[1].rpartition("-")[0] == name
    return pod.owner[:2] == (kind, name)


class Asked(NamedTuple):
    """The pod, as if it waited; the node that it was taken off for the question; and how it was written, if known."""

    pod: Pod
    node: str | None
    written: Written | None = None


def _from_cluster(
    asked: PodName,
    namespace: str | None,
    world: World,
    where: str,
    usual: str = "default",
    *,
    look: Callable[[Pod], None] = lambda placed: None,
) -> Asked:
    """Return a pod of a cluster, waiting or placed; `look` sees a placed one before it is taken off its node.

    Without a namespace the `usual` one is looked in first; else a name that only one pod has will do.

    Raises InputError.
    """
    name, namespace = asked.name, place_of(asked, namespace)
    key = f"{namespace}/{name}"
    if namespace is None:
        keys = [key for key in _keys(world) if key.partition("/")[2] == name]
        here = f"{usual}/{name}"
        key = here if here in keys or not keys else keys[0]
        if len(keys) > 1 and key != here:
            raise InputError(f"{name}: more than one pod has this name: {some(keys, _LISTED)}; say which with -n")
    if key in world.finished:
        raise InputError(f"{key}: the pod has finished, there is nothing to schedule")
    if key in world.waiting:
        pod = world.waiting[key]
        return Asked(pod, None, of_cluster(pod, world))
    if key in world.placed:
        pod = world.placed[key]
        look(pod)
        world.take(pod)
        return Asked(replace(pod, node_name=""), pod.node_name)
    names = near_names(name, (key.partition("/")[2] for key in _keys(world)))
    near = [key for close in names for key in _keys(world) if key.partition("/")[2] == close]
    hint = f" (did you mean {some(near, _LISTED)}?)" if near else unknown(asked.space, world.cluster.namespaces)
    raise InputError(f"{key}: no such pod in {where}{hint}")


def from_file(
    file: str,
    held: list[Document],
    asked: PodName | Owner | Group | None,
    namespace: str | None,
    world: World,
    notes: list[str],
    usual: str,
) -> Asked:
    """Return the pod (or the first of a workload) of a manifest, completed as the API server would on creation.

    The claims that a StatefulSet makes for the pod are added to the world.

    Raises InputError.
    """
    with about(named(file)):
        found = manifest.workloads(held)
        if not found:
            strange = manifest.without_pods(held)
            raise ObjectError("\n".join(strange) or f"holds no pod: expected one of {', '.join(KINDS)}")
        named_ones = chosen(found, asked)
        if len(named_ones) != 1:
            known = some([each.name for each in found], _LISTED)
            raise ObjectError(f"expected one {called(asked)}, got {known}" if asked else f"holds {known}: name one")
        [asked_for] = named_ones
        namespace = namespace_of(asked, asked_for, namespace)
        world.add_what_pods_are_made_with(held)
        workload = asked_for if asked_for.claims else asked_for._replace(kind="PodTemplate")
        batch = Batch(workload, world, namespace, usual)
        for thing in batch.objects(0):
            world.add(thing)
        pod = batch.pod(0)
        notes += [*batch.notes, *quota_notes([batch], world, 1)]
        unreadable = [warning for warning in pod.shape.warnings if "not a quantity" in warning]
        if unreadable:
            raise ObjectError("\n".join(unreadable))
        if node := asked_for.pod["spec"].get("nodeName"):
            notes.append(f"spec.nodeName {node} was left out: a pod that has one is not scheduled")
    placed = world.placed.get(pod.key)
    if placed is not None:
        world.take(placed)
    alone = len(held) == 1 and file != STDIN and asked_for.kind in KINDS
    written = _written(file, asked_for, world, namespace, usual) if alone else None
    return Asked(replace(pod, node_name=""), placed.node_name if placed else None, written)


def _written(file: str, workload: Workload, world: World, namespace: str | None, usual: str) -> Written:
    """Return the pod as it stands in a file."""

    def whole(pod: Mapping[str, Any]) -> dict[str, Any]:
        return manifest.completed(workload.made(pod, 0), namespace, usual, world.admission, [])

    def create(pod: Mapping[str, Any]) -> Modelled:
        made = whole(pod)
        if wrong := world.admission.wrong(made) - before:
            raise ObjectError(f"the API server refuses it: {min(wrong)}")
        return world.decode(made)

    now = whole(workload.pod)
    before = world.admission.wrong(now)

    steps = path_of(workload.kind).split(".") if workload.kind != "Pod" else []
    return Written(workload.pod, create, create, now, file, "".join(f"/{step}" for step in (*steps, "spec")))


def _keys(world: World) -> list[str]:
    return sorted((*world.waiting, *world.placed, *world.finished))


app = typer.Typer(add_completion=False)


@app.command()
def explain(
    pod: Annotated[
        str | None,
        typer.Argument(
            help="The pod: its name, or namespace/name; or what owns pods, such as deploy/web or job/x; or a group: "
            "podgroup/train.",
            show_default=False,
            autocompletion=completion.pods,
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
        classes=file is not None,
    )
    settings, frameworks, there, where, usual, files, path = all_given
    held = files[file] if file is not None else []
    notes = unasked(settings)
    if settings.percentage_of_nodes_to_score or any(p.percentage_of_nodes_to_score for p in settings.profiles):
        notes.append("percentageOfNodesToScore is set: the scheduler may score fewer nodes than are shown here")
    if several:
        inside = None if all_namespaces else namespace or (usual if of is None else home(there, of, usual))
        pods = waiting(there, namespace=inside, of=of, selector=selector)
        notes += note(pods, there)
        found = pending(pods, there, frameworks, running(there.placed.values()), notes=notes)
        found.notes.extend([] if pods else _why_none(there, inside, of, selector))
        as_asked(found, output, lambda: report.pending_page(found), lambda: report.PendingTable(found, everything))
        return FOUND if pods else 0
    if group is not None or (file is not None and pod is None and holds_group(held)):
        if file is not None:
            gang = group_from_file(file, held, group, namespace, there, notes, usual)
        else:
            assert group is not None
            gang = find_group(group, namespace, there, where, usual)
        first = next(iter((*gang.waiting, *gang.running)), None)
        framework, instead = next(iter(frameworks.values())), list[str]()
        if first is not None:
            ran = running(there.placed.values())
            framework, instead = _view(frameworks, scheduler, first, ran, notes)
        return explain_and_print(
            gang, framework, there, notes, output, instead=instead, from_file=file is not None, everything=everything
        )
    if file is not None:
        asked, node, written = from_file(file, held, about, namespace, there, notes, usual)
    else:
        races = Races(there.cluster, frameworks)

        def look(placed: Pod) -> None:
            notes.extend(filter(None, [races.note(placed)]))

        assert isinstance(about, PodName)
        asked, node, written = _from_cluster(about, namespace, there, where, usual, look=look)
    ran = running([*there.placed.values(), *([] if node is None else [asked])])
    framework, instead = _view(frameworks, scheduler, asked, ran, notes)
    if node is None:
        notes += filter(None, [member_note(asked, there, framework)])
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
    as_asked(
        answer, output, lambda: report.explanation_page(answer), lambda: report.ExplanationTable(answer, everything)
    )
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
