"""Says what another configuration would have done with what was recorded.

Both configurations run the recorded world on virtual time, each in the state that its own earlier decisions made, so
what differs is theirs. How far the first of these runs is what was recorded, is said beside it. Regret is another
measure, and needs no run: each recorded placement is scored by the other configuration in the state that was recorded,
as `berth shadow` does.
"""

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.explain.explanation import API_VERSION, Shown
from podberth.explain.report import shadow_text
from podberth.explain.report.pages import in_two, render
from podberth.explain.report.wording import count, printable
from podberth.explain.shadow.answer import Summary
from podberth.explain.shadow.shadow import Shadow
from podberth.framework.config import ConfigError, SchedulerConfiguration
from podberth.framework.profiles import annotated, build
from podberth.lab.play import run
from podberth.lab.recording.reading import Part
from podberth.lab.recording.verify import configured
from podberth.lab.recording.world import Recorded, changes
from podberth.lab.result import Result
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry

_MOST = 1_000
"""The number of pods that are listed of those that differ (`differ`)."""
_SAME = 1e-9
"""Seconds by which waits differ that are the same."""
_PAGE, _LINES = 500, 10
"""As many of them are on a page, and in a terminal."""


class Moved(Struct, frozen=True, rename="camel"):
    """A pod that goes elsewhere. Nodes are null where it is not placed; times are seconds that it waited."""

    pod: str
    priority: int
    node: str | None
    other: str | None
    waited: float | None
    other_waited: float | None


class Difference(Shown, kw_only=True, frozen=True):
    """What differs. `ours`, `others`: figures of both runs, as `podberth.lab.Result.summary` has them.

    `as_recorded`: pods of the first run that are on the node where they were in the recording. `again`: the recorded
    configuration was run; another scheduler than Berth can't be, so both runs are one.
    """

    kind: str = field(default="RecordingDifference")
    api_version: str = field(default=API_VERSION)
    of: str
    other: str
    again: bool
    seconds: float
    pods: int
    as_recorded: int
    moved: int
    sooner: int
    later: int
    ours: dict[str, float]
    others: dict[str, float]
    regret: Summary
    differ: int
    pods_that_differ: list[Moved]
    notes: list[str]

    @property
    def empty(self) -> bool:
        """Return whether nothing differs between the runs."""
        return not self.differ and self.ours == self.others


def difference(
    part: Part, other: SchedulerConfiguration, *, name: str, profile: str | None = None, begin: float = 0.0
) -> Difference:
    """Return what another configuration would have done from a time on.

    `name`: of the other configuration; `profile`: of it, the first without; `begin`: seconds since the recording began.
    Raises ConfigError, LogError.
    """
    head, recorded = part.head, Recorded(part, begin)
    world = recorded.world(name)
    two = run(world, other, profile=profile, seed=head.seed)
    one = two if head.of else run(world, configured(head), seed=head.seed)
    of_another = [f"{head.of} can't be run again, so only its regret says how they differ"] if head.of else []
    where = recorded.placements()
    rows = _rows(one, two)
    differ = [each for each in rows if each.node != each.other or each.waited != each.other_waited]
    longer = [
        each.other_waited - each.waited for each in rows if each.waited is not None and each.other_waited is not None
    ]
    return Difference(
        of=part.name,
        other=name,
        again=not head.of,
        seconds=round(recorded.span, 3),
        pods=len(rows),
        as_recorded=sum(each.node is not None and where.get(each.pod) == each.node for each in rows),
        moved=sum(each.node != each.other for each in rows),
        sooner=sum(each < -_SAME for each in longer),
        later=sum(each > _SAME for each in longer),
        ours=one.summary,
        others=two.summary,
        regret=regret(part, other, profile),
        differ=len(differ),
        pods_that_differ=differ[:_MOST],
        notes=list(dict.fromkeys([*of_another, *one.notes, *two.notes])),
    )


def _rows(one: Result, two: Result) -> list[Moved]:
    """Return each pod as both runs have it: they are of one world, so it is in the same row."""
    first, second = one.columns["decisions"], two.columns["decisions"]
    pods = [f"{namespace}/{pod}" for namespace, pod in zip(first["namespace"], first["pod"], strict=True)]
    both = first["node"], second["node"], first["waited"], second["waited"]
    return [Moved(*each) for each in zip(pods, first["priority"], *both, strict=True)]


def regret(part: Part, other: SchedulerConfiguration, profile: str | None = None) -> Summary:
    """Return how a configuration judges the recorded placements. Raises ConfigError, LogError."""
    frameworks = build(other, registry())
    framework = frameworks.get(profile or part.name) or next(iter(frameworks.values()), None)
    if framework is None:
        raise ConfigError("profiles: expected one at least")
    read = annotated(frameworks)
    modes, own = read.affinity, framework.profile.name
    decoder = Decoder(
        replace(read, affinity={**modes, part.name: modes[own]}) if own in modes else read, limits=other.limits
    )
    shadow = Shadow(framework, part.name, decoder=decoder, began=part.head.began, exact=not part.head.of)
    for change in changes(part.events(), part.head):
        shadow.see(change)
    shadow.finish()
    return shadow.summary()


def _lead(found: Difference) -> str:
    """Return what it comes to, in a sentence."""
    pods, seconds = count(found.pods, "pod"), f"{found.seconds:,.0f} s"
    if not found.again:
        return f"{pods} in {seconds}, run by {found.other}"
    if found.empty:
        return f"nothing differs: {pods} in {seconds}"
    return (
        f"{found.moved:,} of {pods} go elsewhere, {found.sooner:,} sooner, {found.later:,} later, in {seconds}; of the "
        f"first run's placements, {found.as_recorded:,} are those that were recorded"
    )


def _figures(found: Difference) -> list[tuple[str, str, str]]:
    """Return rows: a measure's name, and what both have of it."""

    def shown(name: str, figures: dict[str, float]) -> str:
        return f"{figures[name]:,.6g}" if name in figures else ""

    return [(name, shown(name, found.ours), shown(name, found.others)) for name in found.ours | found.others]


def lines(found: Difference) -> Iterator[str]:
    """Yield the lines for people."""
    yield printable(f"{found.of} and {found.other}: {_lead(found)}")
    figures = _figures(found)
    width = max(len(name) for name, _, _ in figures)
    for name, ours, other in figures:
        both = f"{ours:>14}  {other:>14}{'' if ours == other else '  *'}" if found.again else f"{other:>14}"
        yield printable(f"  {name:{width}}  {both}")
    yield printable(f"regret: recorded placements by the scores of {found.other}")
    for line in shadow_text.summary(found.regret):
        yield f"  {line}"
    for each in found.pods_that_differ[:_LINES]:
        waits = f", waited {_seconds(each.waited)} → {_seconds(each.other_waited)}"
        moved = f"{each.pod}: {each.node or 'nowhere'} → {each.other or 'nowhere'}"
        yield printable(f"  {moved}{waits if each.waited != each.other_waited else ''}")
    if found.differ > _LINES:
        yield f"  and {found.differ - _LINES:,} more (-o json and html have more of them)"
    for note in found.notes:
        yield printable(f"  {note}")


def _seconds(waited: float | None) -> str:
    return "for ever" if waited is None else f"{waited:.3f} s"


def page(found: Difference) -> str:
    """Return the page."""
    return render(
        "difference.html",
        package="podberth.lab.recording",
        title=f"{found.of} and {found.other}",
        lead=_lead(found),
        answer=found,
        figures=_figures(found),
        regret=[printable(each) for each in shadow_text.summary(found.regret)],
        pods=in_two(found.pods_that_differ[:_PAGE]),
        seconds=_seconds,
        unshown=found.differ - len(found.pods_that_differ[:_PAGE]),
    )
