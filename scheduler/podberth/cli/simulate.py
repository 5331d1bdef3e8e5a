"""`berth simulate`: what would happen, on a cluster or a trace."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from podberth.cli import options
from podberth.cli.errors import FOUND, Faults, InputError, about, complain
from podberth.cli.given import given
from podberth.cli.inputs import configuration, named
from podberth.cli.output import PageOutput, as_asked, as_report, progress
from podberth.explain.doubts import note
from podberth.explain.judging.schema import shown
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import KINDS, Workload
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.manifest import groups_made, in_groups
from podberth.explain.objects.world import World
from podberth.explain.report.wording import count
from podberth.explain.simulate.arrivals import Batch, batches, refuse_twins, rolled_out, still_to_come
from podberth.explain.simulate.plan import plan, settled
from podberth.explain.simulate.removable import removals
from podberth.explain.spelling import meant, near_names
from podberth.framework.runtime import Framework
from podberth.model.kinds import Modelled
from podberth.model.namespaced import Namespace, SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod

_PROBLEMS = 8


def _chosen_by(selector: str | None) -> Callable[[Node], bool]:
    """Return whether a node has these labels. Raises InputError."""
    if selector is None:
        return lambda node: True
    matches = options.labels(selector)
    return lambda node: matches(node.labels)


def _print_removable(
    world: World, framework: Framework, chosen: Callable[[Node], bool], where: str, output: PageOutput
) -> int:
    """Print which of the chosen nodes could be removed; the exit code. Raises InputError if none is chosen."""
    if not any(chosen(node) for _, node in world.cluster.nodes.live()):
        raise InputError(f"--selector: no node of {where} has these labels")
    simulation, waiting = settled(world, framework)
    found = removals(simulation.cluster, framework, chosen, only_wait={pod.uid for pod in waiting})
    as_report(found, output)
    return 0 if found.removable else FOUND


class Asked:
    """The things that files ask for: pods to create, and objects to add."""

    def __init__(self, there: World, framework: Framework, namespace: str | None, usual: str) -> None:
        self.batches: list[Batch] = []
        self.added: list[Modelled] = []
        self.not_simulated: list[str] = []
        self.notes: list[str] = []
        self._there = there
        self._framework = framework
        self._namespace = namespace
        self._usual = usual

    @property
    def empty(self) -> bool:
        """Return whether there is nothing of which a simulation would show anything."""
        return not self.batches and all(isinstance(each, SelectingObject | Namespace) for each in self.added)

    def add(self, file: str, held: list[Document]) -> None:
        """Add what a file holds. Raises InputError."""
        with about(named(file)):
            problems = len(self._there.problems)
            made = groups_made(held)
            self.notes += made.notes
            self.added += self._there.added([*held, *made.groups], self._namespace or self._usual, named(file))
            complain([f"{named(file)}: {line}" for line in self._there.problems[problems:][:_PROBLEMS]])
            self.not_simulated += manifest.unknown_kinds(held)
            left_out = manifest.made_by_others(held)
            if left_out:
                self.notes.append(f"{count(left_out, 'object')} of {named(file)} left out: others there make them")
            found = self._batches(in_groups(manifest.workloads(held), made.jobs))
            for batch in found:
                if batch.workload.kind not in KINDS and not batch.workload.note:
                    self.notes.append(f"{batch.owner}: counted as {count(batch.count, 'pod')}")
            new: list[Batch] = []
            for batch in found:
                replaced = rolled_out(batch, self._there)
                self.not_simulated += [replaced] if replaced else []
                workloads, notes = still_to_come(batch, self._there)
                self.notes += notes
                new += [batch] if workloads == [batch.workload] else self._batches(workloads)
            earlier, self.batches = self.batches, [*self.batches, *new]
            refuse_twins(new, earlier, self._there)

    def _batches(self, workloads: list[Workload]) -> list[Batch]:
        return batches(
            workloads, self._there, self._framework, self._namespace, self._usual, refused=self.not_simulated
        )


app = typer.Typer(add_completion=False)


@app.command()
def simulate(
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            help="A file with pods or workloads to create, or nodes to add; - is standard input. May be repeated.",
        ),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of a node to drain; may be repeated.",
            autocompletion=options.nodes,
        ),
    ] = None,
    cluster: options.ClusterFiles = None,
    namespace: Annotated[str | None, options.of_namespace("The namespace of pods in -f that do not name one.")] = None,
    config: options.ConfigFile = None,
    scheduler: options.SchedulerName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    timeout: options.RequestTimeout = "30s",
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Play a trace instead: a directory with the files of openb, Google 2019, Helios or the plain "
            "form, or Azure's database."
        ),
    ] = None,
    load: Annotated[
        float,
        typer.Option(
            help="With --trace: the inflation ends when pods asked for this multiple of all GPUs, else of all CPU."
        ),
    ] = 1.3,
    fill: Annotated[
        float,
        typer.Option(
            help="With --trace: lengthen the pods' lifetimes until they ask for this share of the scarcest resource at "
            "some moment. 0: leave the lifetimes as they are."
        ),
    ] = 0.6,
    seeds: Annotated[
        int,
        typer.Option(
            help="With --trace: play it so often, each time with other ties and another order of the inflation."
        ),
    ] = 1,
    output: options.PageForm = PageOutput.TABLE,
    only_mine: Annotated[
        bool,
        typer.Option(
            "--only-mine/--all-pods", help="Leave out, or list, the pods that waited before. JSON always has both."
        ),
    ] = True,
    disable_eviction: Annotated[
        bool,
        typer.Option(
            "--disable-eviction",
            help="With --drain: delete pods although PodDisruptionBudgets forbid it.",
        ),
    ] = False,
    removable: Annotated[
        bool, typer.Option("--removable", help="Show which nodes could be removed: all their pods land elsewhere.")
    ] = False,
    selector: Annotated[
        str | None,
        options.of_labels("With --removable: look at the nodes with these labels: pool=web."),
    ] = None,
    validate: options.Validate = True,
) -> int:
    """Show what would happen if pods were created, or nodes added or drained. Nothing is written.

    With --trace, a production trace is played with each profile of --config; without --config, with the default profile
    and one that packs nodes. The exit code is 0 when all pods of -f and of drained nodes get a node, 1 when some do
    not, when no controller creates some of a drained node again, or when something could not be simulated, 2 when the
    input is wrong. Pods that waited before do not count. With --removable it is 0 when a node could go, 1 when none
    could.
    """
    if selector is not None and not removable:
        raise InputError("--selector: expected only together with --removable")
    if removable:
        if files or drain or trace is not None or disable_eviction:
            others = "-f, --drain, --disable-eviction and --trace don't go with it"
            raise InputError(f"--removable tries all nodes of a cluster: {others}")
        chosen = _chosen_by(selector)
    if trace is not None:
        if files or drain or cluster:
            raise InputError("--trace plays a trace on its own nodes: -f, --drain and --cluster don't go with it")
        return _trace(trace, config, load, fill, seeds, output)
    if not (files or drain or removable):
        raise InputError("nothing to simulate: give pods or nodes with -f, nodes to drain with --drain, or a --trace")
    all_given = given(
        config,
        cluster,
        files or (),
        scheduler=scheduler,
        validate=validate,
        kubeconfig=kubeconfig,
        context=context,
        timeout=timeout,
        namespace=namespace,
    )
    there, framework = all_given.world, all_given.framework
    if removable:
        return _print_removable(there, framework, chosen, all_given.where, output)
    faults = Faults()
    for name in drain or ():
        with faults.noting():
            if there.cluster.nodes.live_row(name) is None:
                raise InputError(f"--drain: {shown(name)}: no such node in {all_given.where}{_meant(name, there)}")
    asked = Asked(there, framework, namespace, all_given.usual)
    for file, held in all_given.files.items():
        with faults.noting():
            asked.add(file, held)
    faults.tell()
    if files and not drain and asked.empty:
        strange = asked.not_simulated or ["they make no pods and are no nodes"]
        raise InputError("\n".join(f"{', '.join(map(named, files))}: nothing to simulate: {line}" for line in strange))
    answer = plan(
        there,
        framework,
        asked.batches,
        added=asked.added,
        drain=list(dict.fromkeys(drain or ())),
        force=disable_eviction,
        not_simulated=asked.not_simulated,
        notes=[*asked.notes, *note(_meant_pods(asked, there, drain or ()), there)],
    )
    as_report(answer, output, only_mine=only_mine)
    return 0 if answer.good else FOUND


def _meant_pods(asked: Asked, there: World, drained: Sequence[str]) -> list[Pod]:
    """Return one pod of each workload, and the pods on drained nodes."""
    moved = [pod for pod in there.placed.values() if pod.node_name in drained]
    return [*moved, *(batch.pod(0) for batch in asked.batches if batch.count)]


def _meant(name: str, there: World) -> str:
    return meant(near_names(name, (node.name for _, node in there.cluster.nodes.live())))


def _trace(path: Path, config: str | None, load: float, fill: float, seeds: int, output: PageOutput) -> int:
    from podberth.framework.profiles import build  # these take as long to import as a small simulation
    from podberth.lab import pictures
    from podberth.lab.gpus import plugins
    from podberth.lab.study import profiles_for, study
    from podberth.lab.study_report import report
    from podberth.lab.traces import FORMS, reader_of

    if not 0 < load <= 10:
        raise InputError(f"--load: {load:g}: expected more than 0 and at most 10")
    if not 0 <= fill <= 1:
        raise InputError(f"--fill: {fill:g}: expected 0 to 1")
    if not 1 <= seeds <= 100:
        raise InputError(f"--seeds: {seeds}: expected 1 to 100")
    with about(str(path)):
        reader = reader_of(path)
        if not path.exists():
            raise ObjectError("no such file or directory")
        if reader is None:
            raise ObjectError(f"expected a trace: {FORMS}")
        world = reader()
        if not world.objects or not world.arrivals:
            raise ObjectError("holds no node or no pod")
    with about(named(config) if config else "configuration"):
        settings = profiles_for(world, configuration(config) if config else None)
        build(settings, plugins())
    if output is PageOutput.HTML:
        pictures.require()
    with progress("reading the trace") as tell:
        answer = study(world, settings, load, fill, seeds, tell)
    as_asked(answer, output, lambda paged: report(answer, page=paged))
    return 0
