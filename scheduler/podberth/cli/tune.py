"""`berth tune`: searches the configuration that is best for some goals, and judges it on periods it has not seen."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from podberth.cli.errors import InputError, complain
from podberth.cli.inputs import profiles
from podberth.cli.options import ConfigFile, PageForm, SchedulerName
from podberth.cli.output import PageOutput, as_asked, progress, yaml_of

if TYPE_CHECKING:
    from podberth.lab.tune.evidence import Tuned

_EXTRAS = {"lab": ("optuna", "altair", "vl_convert"), "dask": ("distributed",)}
app = typer.Typer(add_completion=False)


@app.command()
def tune(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="WORLD",
            help="Where the pods come from: a dump with pods that wait, a recording, a trace, or a table of pods.",
            show_default=False,
        ),
    ],
    goal: Annotated[
        list[str] | None,
        typer.Option(
            help="What to improve; may be repeated: waiting-p50, waiting-p99 or bound[:PRIORITY], packing, "
            "fragmentation[:RESOURCE], spread[:LABEL], preemptions, moves, cost[:LABEL]."
        ),
    ] = None,
    minimum: Annotated[
        list[str] | None, typer.Option("--min", help="GOAL=NUMBER to keep to, shares from 0 to 1: bound=0.99.")
    ] = None,
    maximum: Annotated[
        list[str] | None, typer.Option("--max", help="GOAL=NUMBER to keep to: waiting-p99:1000=60.")
    ] = None,
    config: ConfigFile = None,
    scheduler: SchedulerName = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Vary only settings of these names, such as weight.*; may be repeated.")
    ] = None,
    prices: Annotated[
        str | None, typer.Option(help="CSV with label,value,price: what an hour of a node with this label costs.")
    ] = None,
    periods: Annotated[int, typer.Option(help="Parts of the world's time; as many pods come in each.")] = 6,
    held_out: Annotated[int, typer.Option(help="The last of these, which only judge.")] = 2,
    fill: Annotated[
        float,
        typer.Option(
            help="Lengthen the pods' lifetimes until they ask for this share of the scarcest resource at some moment. "
            "0: leave the lifetimes as they are."
        ),
    ] = 0.0,
    trials: Annotated[
        int, typer.Option(help="How many configurations are tried, earlier ones of --study included.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the search: the same seed, the same result.")] = 0,
    at_once: Annotated[
        int, typer.Option(help="Trials that are under way at once: more for more workers. It is part of the search.")
    ] = 16,
    seeds: Annotated[int, typer.Option(help="With how many seeds the best are judged.")] = 5,
    jobs: Annotated[int, typer.Option(help="Processes on this machine. 0: as many as it has cores.")] = 0,
    dask: Annotated[
        str | None, typer.Option(help="The address of a Dask scheduler, whose workers do it: tcp://HOST:8786.")
    ] = None,
    results: Annotated[Path, typer.Option(help="The directory for the winner and its page.")] = Path("tune"),
    study: Annotated[
        Path | None, typer.Option(help="The file by which a search goes on. Without: study.journal in --results.")
    ] = None,
    output: PageForm = PageOutput.TABLE,
) -> int:
    """Search the weights, strategies and arguments of plugins that are best for some goals in a world.

    The first periods train; the last ones only judge, with the base and the default beside. Ctrl-C loses nothing: the
    same command goes on. --results gets winner.yaml, a file for each other trial that none beats, and evidence.html.
    """
    _need("lab", "dask") if dask else _need("lab")
    from podberth.explain.report.wording import count
    from podberth.lab import read_world
    from podberth.lab.tune import goals as words
    from podberth.lab.tune.evidence import report
    from podberth.lab.tune.tune import Asked, Tuning

    _within(trials=(trials, 1, 1_000_000), seeds=(seeds, 1, 1_000), jobs=(jobs, 0, 4_096), periods=(periods, 2, 1_000))
    _within(held_out=(held_out, 1, periods - 1), fill=(fill, 0, 10), at_once=(at_once, 1, 10_000))
    if not goal:
        raise InputError("--goal: expected one at least, such as --goal packing")
    asked = Asked(
        goals=tuple(words.goal(text) for text in dict.fromkeys(goal)),
        bounds=(
            *(words.bound(text, least=True) for text in minimum or ()),
            *(words.bound(text, least=False) for text in maximum or ()),
        ),
        prices=words.prices(Path(prices)) if prices else (),
        vary=tuple(vary or ()),
        periods=periods,
        held_out=held_out,
        fill=fill,
        trials=trials,
        seed=seed,
        at_once=at_once,
        seeds=seeds,
    )
    base, frameworks = profiles(config, scheduler)
    results.mkdir(parents=True, exist_ok=True)
    file = study or results / "study.journal"
    with progress("reading the world"):
        tuning = Tuning(read_world(path), base, scheduler or next(iter(frameworks)), asked, file)
    told = [f"varied: {', '.join(map(str, tuning.space.settings))}"]
    if tuning.space.idle:
        told.append(f"not varied, as nothing in this world is scored by it: {', '.join(tuning.space.idle)}")
    complain(told)
    try:
        with _time_left() as tell:
            answer = tuning.carried_out(jobs or _cores(), dask, tell, f"berth {shlex.join(sys.argv[1:])}")
    except KeyboardInterrupt:
        complain([f"{count(len(tuning.search.done), 'trial')} of {trials:,} are in {file}; the same command goes on"])
        raise
    _write(answer, results)
    winner = yaml_of(answer.configurations[answer.winner])
    as_asked(answer, output, lambda paged: report(answer, winner) if paged else report(answer))
    return 0


def _need(*extras: str) -> None:
    """Raise InputError for the first of our extras whose libraries are not installed."""
    for extra in extras:
        if any(find_spec(name) is None for name in _EXTRAS[extra]):
            raise InputError(f"tune: expected the extra podberth[{extra}]: pip install 'podberth[{extra}]'")


def _within(**given: tuple[float, float, float]) -> None:
    """Raise InputError for an option (value, least, most) that is out of bounds."""
    for name, (value, least, most) in given.items():
        if not least <= value <= most:
            raise InputError(f"--{name.replace('_', '-')}: {value:g}: expected {least:g} to {most:g}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _time_left() -> Iterator[Callable[[str, int, int], None]]:
    """Show how far a search is, and how long the rest will take; on a terminal only."""
    from podberth.explain.report.wording import duration

    with progress("starting workers") as show:
        begun: dict[str, tuple[float, int]] = {}

        def tell(what: str, done: int, of: int) -> None:
            since, first = begun.setdefault(what, (monotonic(), done))
            left = (monotonic() - since) * (of - done) / (done - first) if done > first else None
            show(f"{done:,} of {of:,} {what}" + (f", {duration(left)} left" if left is not None else ""))

        yield tell


def _write(answer: "Tuned", results: Path) -> None:
    """Write the winner, the others of the front, the page and its pictures. Raises OSError."""
    from podberth.explain.report.pages import page
    from podberth.lab.tune.evidence import pictures, report

    for number, (_, svg) in enumerate(pictures(answer), start=1):
        (results / f"picture-{number}.svg").write_text(svg)
    for name, configuration in answer.configurations.items():
        text = yaml_of(configuration)
        if name == answer.winner:
            (results / "winner.yaml").write_text(text)
            (results / "evidence.html").write_text(page(report(answer, text)))
        elif name.isdecimal():
            (results / f"trial-{name}.yaml").write_text(text)
