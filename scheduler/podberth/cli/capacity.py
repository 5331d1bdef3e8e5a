"""`berth capacity`: how many more pods fit, and what limits them."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from podberth.cli import options
from podberth.cli.errors import FOUND, about, complain
from podberth.cli.finding import add_groups, group_meant, group_of_named
from podberth.cli.given import given
from podberth.cli.inputs import named
from podberth.cli.output import PageOutput, as_report
from podberth.cli.subject import Group, Owner, PodName, called, chosen, in_file, namespace_of
from podberth.explain.doubts import note
from podberth.explain.gangs.capacity import GangCapacity, gang_capacity
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import Workload
from podberth.explain.objects.documents import Document, ObjectError, plain
from podberth.explain.objects.manifest import groups_made, in_groups
from podberth.explain.objects.world import World
from podberth.explain.report.wording import some
from podberth.explain.simulate.arrivals import Batch, beyond, quota_notes
from podberth.explain.simulate.capacity import capacity
from podberth.framework.runtime import Framework
from podberth.model.pod_group import POD_GROUP_KINDS

_OWN = ("name", "uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")
_LISTED = 8


def _about_gangs(held: Sequence[Document], asked: PodName | Owner | Group | None) -> bool:
    """Return whether a question is about a gang: there is a pod group, and no other thing is named."""
    groups = (each for each in held if each.kind in POD_GROUP_KINDS)
    names = [str((plain(each).get("metadata") or {}).get("name")) for each in groups]
    if isinstance(asked, Group):
        return asked.name in names
    return bool(names) and (asked is None or (isinstance(asked, PodName) and asked.name in names))


def _capacity_of_gangs(
    held: Sequence[Document],
    workloads: Sequence[Workload],
    asked: PodName | Owner | Group | None,
    there: World,
    framework: Framework,
    namespace: str | None,
    usual: str,
) -> GangCapacity:
    """Return how many more gangs fit of the pod group in a file. Raises ObjectError."""
    key = group_meant(add_groups(held, namespace, there, usual), asked)
    batches = []
    for workload in _together(workloads):
        batch = _more(workload, there, namespace, usual, framework)
        if batch.count and batch.pod(0).scheduling_group == key:
            batches.append(batch)
    if not batches:
        raise ObjectError(f"holds no pod of the pod group {key}")
    group = there.cluster.pod_groups.get(key)
    assert group is not None
    return gang_capacity(there.cluster, framework, group, batches)


def _more(workload: Workload, there: World, namespace: str | None, usual: str, framework: Framework) -> Batch:
    """Return the pods of a workload that come besides those that are there, without gates: they would not be tried.

    Raises ObjectError.
    """
    spec = workload.pod["spec"]
    ungated = {**workload.pod, "spec": {key: value for key, value in spec.items() if key != "schedulingGates"}}
    workload = workload._replace(pod=ungated)
    batch = Batch(workload, there, namespace, usual, framework.profile.name)
    start = beyond(batch, there)
    if start > workload.start:
        batch = Batch(workload._replace(start=start), there, namespace, usual, framework.profile.name)
        batch.notes.append(f"{batch.owner}: counted from {batch.first.name} on: those before have pods or claims")
    if spec.get("schedulingGates"):
        batch.notes.append(f"{batch.owner}: counted as if its scheduling gates were gone")
    return batch


def _together(workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads; pods that differ in their names only are one that makes as many."""
    found: dict[bytes, Workload] = {}
    others: list[Workload] = []
    for each in workloads:
        if not each.alone:
            others.append(each)
            continue
        metadata = {key: value for key, value in (each.pod.get("metadata") or {}).items() if key not in _OWN}
        key = msgspec.json.encode((metadata, each.pod["spec"]))
        known = found.get(key)
        found[key] = _many(known or each)._replace(wanted=1 + (known.wanted or 0 if known else 0))
    return [*found.values(), *others]


app = typer.Typer(add_completion=False)


@app.command("capacity")
def _capacity(
    file: Annotated[
        str, typer.Option("-f", "--filename", help="A file with a pod, or what makes pods; - is standard input.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(help="Which of the file's pods or workloads, if there are several: web, or deploy/web."),
    ] = None,
    namespace: Annotated[str | None, options.of_namespace("The namespace of a pod that does not name one.")] = None,
    cluster: options.ClusterFiles = None,
    config: options.ConfigFile = None,
    scheduler: options.SchedulerName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    timeout: options.RequestTimeout = "30s",
    at_least: Annotated[
        int, typer.Option(min=0, help="The exit code is 0 if so many more fit, and 1 if they do not.")
    ] = 1,
    output: options.PageForm = PageOutput.TABLE,
    everything: Annotated[bool, typer.Option("--all", help="Show every node.")] = False,
    validate: options.Validate = True,
) -> int:
    """Show how many more pods like one fit, on which nodes, what limits them, and what one more node would add.

    Of a file with a PodGroup and its pods, it is shown how many more such gangs fit. Nobody is preempted for them, and
    pods that wait are not counted as placed. Nothing is written.
    """
    asked = in_file(name)
    all_given = given(
        config,
        cluster,
        [file],
        scheduler=scheduler,
        validate=validate,
        kubeconfig=kubeconfig,
        context=context,
        timeout=timeout,
        namespace=namespace,
    )
    there, framework, usual, held = all_given.world, all_given.framework, all_given.usual, all_given.files[file]
    with about(named(file)):
        made = groups_made(held)
        documents, workloads = [*held, *made.groups], in_groups(manifest.workloads(held), made.jobs)
        if (of_group := group_of_named(documents, workloads, asked, namespace, there, usual)) is not None:
            asked, namespace = of_group
        if _about_gangs(documents, asked):
            gangs = _capacity_of_gangs(documents, workloads, asked, there, framework, namespace, usual)
            gangs.notes.extend(made.notes)
            as_report(gangs, output, everything=everything)
            return _judged(at_least, gangs.gangs, gangs.exhausted)
        workload = _chosen(manifest.workloads(held), asked)
        inside = namespace_of(asked, workload, namespace)
        complain(there.add_beside(held, inside or usual))
        batch = _more(workload, there, inside, usual, framework)
        complain(list(note([batch.pod(0)], there)))
        answer = capacity(there.cluster, framework, batch)
        answer.notes.extend(quota_notes([batch], there, answer.fits))
    as_report(answer, output, everything=everything)
    return _judged(at_least, answer.fits, answer.exhausted)


def _judged(at_least: int, fits: int, exhausted: bool) -> int:
    """Return the exit code, and say where it is not known that so many do not fit."""
    if fits < at_least and not exhausted:
        complain([f"--at-least {at_least}: not known: the search ended at {fits}, and more may fit"])
    return 0 if fits >= at_least else FOUND


def _chosen(found: list[Workload], asked: PodName | Owner | Group | None) -> Workload:
    """Return the one that is asked about, as something that makes many pods. Raises ObjectError."""
    meant = chosen(found, asked)
    if not meant:
        raise ObjectError(f"holds no {called(asked)}" if asked else "holds nothing that makes pods")
    if len(meant) > 1:
        raise ObjectError(f"holds {some([each.name for each in meant], _LISTED)}: name one")
    return _many(meant[0]) if meant[0].alone else meant[0]


def _many(workload: Workload) -> Workload:
    """Return a pod that stands for others like it, each with a name of its own."""
    return workload._replace(kind="ReplicaSet", written=workload.written or workload.kind)
