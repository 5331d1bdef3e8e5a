"""`berth simulate`: what would happen, on a cluster or a trace."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from scheduler.cli.errors import FOUND, InputError, about, complain
from scheduler.cli.inputs import configuration, content, documents, named, world
from scheduler.cli.output import PageOutput, as_json, as_table
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.model.kinds import Decoder
from scheduler.model.mistakes import misfit
from scheduler.model.pod import Pod
from scheduler.plugins.annotation_affinity import annotated
from scheduler.plugins.registry import registry
from scheduler.whatif import manifest
from scheduler.whatif.documents import ObjectError
from scheduler.whatif.plan import Outcome, plan
from scheduler.whatif.profiles import TRACE_PROFILES
from scheduler.whatif.study import Recorded, Study, study
from scheduler.whatif.study import beside as recorded
from scheduler.whatif.trace import NODES_FILE, PODS_FILE, read
from scheduler.whatif.world import World

app = typer.Typer(add_completion=False)
_PROBLEMS = 8


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
    drain: Annotated[list[str] | None, typer.Option(help="The name of a node to drain; may be repeated.")] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            help="Read a file instead of a live cluster: what `kubectl get nodes,pods,ns -A -o yaml` prints. "
            "May be repeated."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="The namespace of pods in -f that do not name one.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="The KubeSchedulerConfiguration file.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="The profile to use, by its schedulerName.")] = None,
    context: Annotated[str | None, typer.Option(help="The context of the kubeconfig.")] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="The kubeconfig file.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Play a trace instead: a directory that has openb_nodes.csv and openb_pods.csv."),
    ] = None,
    load: Annotated[
        float, typer.Option(help="With --trace: create pods until they ask for this multiple of all GPUs.")
    ] = 1.3,
    fill: Annotated[
        float,
        typer.Option(
            help="With --trace: lengthen the pods' lifetimes until they ask for this share of the scarcest resource at "
            "some moment. 0: leave the lifetimes as they are."
        ),
    ] = 0.6,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --trace: what `python -m bench.trace` recorded of another scheduler, to compare with; may be "
            "repeated."
        ),
    ] = None,
    output: Annotated[PageOutput, typer.Option("-o", "--output", help="The form of the answer.")] = PageOutput.TABLE,
) -> int:
    """Show what would happen if pods were created, or nodes added or drained. Nothing is written.

    With --trace, a production trace is played with each profile of --config; without --config, with the default profile
    and one that packs nodes. The exit code is 0 when all pods get a node, 1 when some wait, 2 when the input is wrong.
    """
    if trace is not None:
        if files or drain or cluster:
            raise InputError("--trace plays a trace on its own nodes: -f, --drain and --cluster don't go with it")
        return _trace(trace, config, load, fill, beside or [], output)
    if not files and not drain:
        raise InputError("nothing to simulate: give pods or nodes with -f, nodes to drain with --drain, or a --trace")
    settings = configuration(config)
    with about(named(config) if config else "configuration"):
        frameworks = build(settings, registry())
    framework = _framework(frameworks, scheduler)
    decoder = Decoder(annotated(frameworks))
    if cluster:
        there, where, usual = world(cluster, decoder), ", ".join(map(named, cluster)), "default"
    else:
        from scheduler.cli.live import listed

        there, where, usual = listed(kubeconfig or settings.client_connection.kubeconfig or None, context, decoder)
    complain(there.problems[:_PROBLEMS])
    for name in drain or ():
        if there.cluster.nodes.live_row(name) is None:
            raise InputError(f"--drain: {name}: no such node in {where}")
    notes: list[str] = []
    complete = partial(_completed, world=there, namespace=namespace, usual=usual, profile=framework, notes=notes)
    pods = [pod for file in files or () for pod in _arriving(file, there, complete)]
    answer = plan(there, framework, pods, drain or (), notes)
    _print(answer, output)
    return FOUND if answer.waiting else 0


def _framework(frameworks: dict[str, Framework], wanted: str | None) -> Framework:
    if wanted is not None and wanted not in frameworks:
        raise InputError(f"--scheduler: {wanted}: expected one of the profiles {', '.join(frameworks)}")
    return frameworks[wanted] if wanted is not None else next(iter(frameworks.values()))


def _arriving(file: str, there: World, complete: Callable[[dict[str, Any]], Pod]) -> Iterable[Pod]:
    """The pods of a file, as many as its workloads want; whatever else it holds is added to the cluster.

    Raises InputError.
    """
    held = documents(file)
    found: dict[str, Pod] = {}
    with about(named(file)):
        there.add_documents([document for document in held if document.kind != "Pod"], named(file))
        for document in held:
            for pod in manifest.pods([document]):
                for copy in _copies(pod, manifest.replicas(document)):
                    done = complete(copy)
                    if done.key in found or done.key in there.placed or done.key in there.waiting:
                        raise ObjectError(f"Pod {done.key}: there is one of this name already")
                    found[done.key] = done
    return found.values()


def _completed(
    pod: dict[str, Any], world: World, namespace: str | None, usual: str, profile: Framework, notes: list[str]
) -> Pod:
    """The pod as the API server would have it, for this profile. Raises ObjectError."""
    asked = {**pod, "spec": {**pod["spec"], "schedulerName": profile.profile.name}}
    done = world.decode(manifest.completed(asked, namespace, usual, world.priority_classes, notes))
    assert isinstance(done, Pod)
    if done.shape.problem:
        raise ObjectError(f"Pod {done.key}: {done.shape.problem}")
    return replace(done, uid=done.uid or f"new/{done.key}", node_name="")


def _copies(pod: dict[str, Any], count: int | None) -> Iterable[dict[str, Any]]:
    if count is None:
        return [pod]
    metadata = pod["metadata"]
    return [{**pod, "metadata": {**metadata, "name": f"{metadata['name']}-{i}"}} for i in range(count)]


def _trace(
    directory: Path, config: str | None, load: float, fill: float, beside: list[Path], output: PageOutput
) -> int:
    if not 0 < load <= 10:
        raise InputError(f"--load: {load:g}: expected more than 0 and at most 10")
    if not 0 <= fill <= 1:
        raise InputError(f"--fill: {fill:g}: expected 0 to 1")
    with about(str(directory)):
        found = read(content(str(directory / NODES_FILE)), content(str(directory / PODS_FILE)))
        if not found.nodes or not found.arrivals:
            raise ObjectError("holds no node or no pod")
    others = []
    for path in beside:
        raw = content(str(path))
        with about(str(path)):
            try:
                others.append(msgspec.json.decode(raw, type=Recorded))
            except msgspec.DecodeError as error:
                raise ObjectError(f"expected what python -m bench.trace writes: {misfit(error)}") from None
    settings = configuration(config) if config else TRACE_PROFILES
    with about(named(config) if config else "configuration"):
        frameworks = build(settings, registry())
    with _progress() as progress:
        answer = study(found, frameworks, load, fill, progress)
        more = recorded(found, others, next(iter(frameworks.values())), progress)
    _print(replace(answer, profiles=[*more, *answer.profiles]), output)
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Where the run is, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the trace") as status:
        yield status.update


def _print(answer: Outcome | Study, output: PageOutput) -> None:
    match output:
        case PageOutput.JSON:
            as_json(answer)
        case PageOutput.HTML:
            from scheduler.report.simulation_page import outcome_page, study_page

            sys.stdout.write(study_page(answer) if isinstance(answer, Study) else outcome_page(answer))
        case PageOutput.TABLE:
            from scheduler.report.simulation_tables import OutcomeTable, StudyTable

            as_table(StudyTable(answer) if isinstance(answer, Study) else OutcomeTable(answer))
