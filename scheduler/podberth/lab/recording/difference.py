"""Says what another configuration would have done with what was recorded.

Both configurations run the recorded world on virtual time, each in the state that its own earlier decisions made, so
what differs is theirs. How far the first of these runs is what was recorded, is said beside it. Regret is another
measure, and needs no run: each recorded placement is scored by the other configuration in the state that was recorded,
as `berth shadow` does.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from podberth.explain.explanation import Answer
from podberth.explain.report import shadow_text
from podberth.explain.report.parts import GOOD, HELD, Column, Report, Rows, Words, line
from podberth.explain.report.wording import count
from podberth.explain.shadow.answer import Compared, Summary, Tally
from podberth.explain.shadow.shadow import Shadow, decoder_for
from podberth.framework.config import ConfigError, SchedulerConfiguration, decode
from podberth.framework.profiles import build
from podberth.lab.play import run
from podberth.lab.recording.reading import Part
from podberth.lab.recording.world import Recorded, changes
from podberth.lab.result import Result
from podberth.plugins.registry import registry

_MOST = 1_000
"""The number of pods that are listed of those that differ (`differ`)."""
_SAME = 1e-9
"""Seconds by which waits differ that are the same."""
_LINES = 10
"""As many of them are shown on a terminal."""


class Moved(Struct, frozen=True, rename="camel"):
    """A pod that goes elsewhere. Nodes are null where it is not placed; times are seconds that it waited."""

    pod: str
    priority: int
    node: str | None
    other: str | None
    waited: float | None
    other_waited: float | None


class Difference(Answer, kw_only=True, frozen=True):
    """What differs. `ours`, `others`: figures of both runs, as `podberth.lab.Result.summary` has them.

    `as_recorded`: pods of the first run that are on the node where they were in the recording. `again`: the recorded
    configuration was run; another scheduler than Berth can't be, so both runs are one.
    """

    kind: str = "RecordingDifference"
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
    one = two if head.of else run(world, decode(recorded.configuration), seed=head.seed)
    notes = [f"{head.of} can't be run again, so only its regret says how they differ"] if head.of else []
    if recorded.reconfigured:
        notes = [f"{part.name} was configured otherwise meanwhile: its run goes by the configuration of the begin"]
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
        as_recorded=sum(
            each.node is not None and each.node == node for each, node in zip(rows, recorded.placements(), strict=True)
        ),
        moved=sum(each.node != each.other for each in rows),
        sooner=sum(each < -_SAME for each in longer),
        later=sum(each > _SAME for each in longer),
        ours=one.summary,
        others=two.summary,
        regret=regret(part, other, profile, begin),
        differ=len(differ),
        pods_that_differ=differ[:_MOST],
        notes=list(dict.fromkeys([*notes, *one.notes, *two.notes])),
    )


def _rows(one: Result, two: Result) -> list[Moved]:
    """Return each pod as both runs have it: they are of one world, so it is in the same row."""
    first, second = one.columns["decisions"], two.columns["decisions"]
    pods = [f"{namespace}/{pod}" for namespace, pod in zip(first["namespace"], first["pod"], strict=True)]
    both = first["node"], second["node"], first["waited"], second["waited"]
    return [Moved(*each) for each in zip(pods, first["priority"], *both, strict=True)]


def regret(part: Part, other: SchedulerConfiguration, profile: str | None, begin: float) -> Summary:
    """Return how a configuration judges what was placed since `begin`. Raises ConfigError, LogError."""
    frameworks = build(other, registry())
    framework = frameworks.get(profile or part.name) or next(iter(frameworks.values()), None)
    if framework is None:
        raise ConfigError("profiles: expected one at least")
    decoder = decoder_for(framework, frameworks, part.name, other.limits)
    shadow = Shadow(framework, part.name, decoder=decoder, began=part.head.began, exact=not part.head.of)
    since = Tally()

    def tally(answers: Iterable[Compared]) -> None:
        for each in answers:
            if each.at >= begin:
                since.add(each)

    for change in changes(part.events(), part.head):
        tally(shadow.see(change))
    tally(shadow.finish())
    shadow.tally = since
    found = shadow.summary()
    return replace(found, seconds=round(max(found.seconds - begin, 0.0), 3))


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


def report(found: Difference) -> Report:
    """Return it in words: the figures of both runs, the regret, and the pods that go elsewhere."""
    ours, others = found.ours, found.others
    names = [found.of, found.other] if found.again else [found.other]
    figures = Rows(
        "Figures, those that differ first",
        [Column("Figure"), *(Column(name, number=True) for name in names)],
        sorted(dict.fromkeys((*ours, *others)), key=lambda name: ours.get(name) == others.get(name)),
        lambda name: (name, *(_shown(each.get(name)) for each in (ours, others)[-len(names) :])),
    )
    pods = Rows(
        "Pods that differ",
        [
            Column("Pod that differs", called="Pod"),
            Column("Priority", number=True),
            Column(found.of),
            Column(found.other),
            Column("Waited (s)", number=True),
            Column("Then", number=True),
        ],
        found.pods_that_differ,
        lambda one: (
            one.pod,
            f"{one.priority:,}",
            one.node or "nowhere",
            one.other or "nowhere",
            _shown(one.waited),
            _shown(one.other_waited),
        ),
        most=_LINES,
        how="-o json and html have more of them",
        beyond=found.differ - len(found.pods_that_differ),
    )
    regret = Words(
        f"Regret: recorded placements by the scores of {found.other}", [*map(line, shadow_text.summary(found.regret))]
    )
    return Report(
        by="Berth replay",
        headline=f"{found.of} and {found.other}: {_lead(found)}",
        verdict=GOOD if found.empty else HELD,
        lines=[line(note, "yellow") for note in found.notes],
        parts=[figures, regret, pods],
        foot="Both runs are on virtual time, each in the state that its own decisions made. Nothing was written.",
    )


def _shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.6g}"
