"""Says what another configuration would have done with what was recorded.

Both configurations run the recorded world on virtual time, each in the state that its own earlier decisions made, so
what differs is theirs. How far the first of these runs is what was recorded, is said beside it. Regret is another
measure, and needs no run: each recorded decision is scored by the other configuration in the state that was recorded.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from podberth.explain.explanation import API_VERSION, Shown
from podberth.explain.shadow.shadow import Shadow
from podberth.framework.config import ConfigError, SchedulerConfiguration
from podberth.framework.profiles import annotated, build
from podberth.lab.play import run
from podberth.lab.recording.summary import Moment
from podberth.lab.recording.verify import configured
from podberth.lab.recording.world import Recorded, changes, recorded_of
from podberth.lab.result import Result
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry

_MOST = 1_000
"""The number of pods that are listed of those that differ (`differ`)."""


class Moved(Struct, frozen=True, rename="camel"):
    """A pod that goes elsewhere. Nodes are null where it is not placed; times are seconds that it waited."""

    pod: str
    priority: int
    node: str | None
    other: str | None
    waited: float | None
    other_waited: float | None


class Regret(Struct, frozen=True, rename="camel"):
    """How the other configuration judges the recorded placements: points by which its best node is better.

    `mean`: over all that were judged; `most`: of one pod; `refused`: on nodes that it rejects, or that it would leave
    waiting; `by_plugin`: points by the plugin that gives them; `skipped`: not judged.
    """

    judged: int
    none: int
    points: int
    mean: float
    most: int
    refused: int
    skipped: int
    by_plugin: dict[str, int]


class Measure(Struct, frozen=True):
    """A figure of both runs, by the name that `podberth.lab.Result.summary` has for it."""

    name: str
    ours: float
    other: float


class Difference(Shown, kw_only=True, frozen=True):
    """What differs. `as_recorded`: pods of the first run that are on the node where they were in the recording.

    `again`: the recorded configuration was run; another scheduler than Berth can't be, so both runs are one.
    """

    kind: str = field(default="RecordingDifference")
    api_version: str = field(default=API_VERSION)
    of: str
    other: str
    again: bool
    seconds: float
    pods: int
    placed: int
    other_placed: int
    as_recorded: int
    moved: int
    sooner: int
    later: int
    preemptions: int
    other_preemptions: int
    regret: Regret
    measures: list[Measure]
    differ: int
    pods_that_differ: list[Moved]
    notes: list[str]

    @property
    def empty(self) -> bool:
        """Return whether nothing differs between the runs."""
        return (
            not self.moved
            and not self.sooner
            and not self.later
            and not any(each.ours != each.other for each in self.measures)
        )


def difference(
    moment: Moment,
    other: SchedulerConfiguration,
    *,
    name: str,
    profile: str | None = None,
    begin: float = 0.0,
) -> Difference:
    """Return what another configuration would have done from a time on.

    `name`: of the other configuration; `profile`: of it, the first without; `begin`: seconds since the recording began.
    Raises ConfigError, LogError.
    """
    head = moment.head
    recorded = Recorded(moment, begin)
    world = recorded.world(name)
    two = run(world, other, profile=profile, seed=head.seed)
    one = two if head.of else run(world, configured(head), seed=head.seed)
    rows = list(zip(*(one.columns["decisions"][each] for each in ("namespace", "pod", "priority")), strict=True))
    where = recorded.placements()
    moved: list[Moved] = []
    counts = dict.fromkeys(("placed", "other", "as_recorded", "moved", "sooner", "later"), 0)
    for (namespace, pod, priority), node, there, waited, longer in zip(
        rows, *(each.columns["decisions"][column] for column in ("node", "waited") for each in (one, two)), strict=True
    ):
        counts["placed"] += node is not None
        counts["other"] += there is not None
        counts["as_recorded"] += node is not None and where.get(f"{namespace}/{pod}") == node
        counts["moved"] += node != there
        counts["sooner"] += waited is not None and longer is not None and longer < waited - 1e-9
        counts["later"] += waited is not None and longer is not None and longer > waited + 1e-9
        if node != there or waited != longer:
            moved.append(Moved(f"{namespace}/{pod}", priority, node, there, waited, longer))
    return Difference(
        of=recorded_of(head),
        other=name,
        again=not head.of,
        seconds=round(recorded.span, 3),
        pods=len(rows),
        placed=counts["placed"],
        other_placed=counts["other"],
        as_recorded=counts["as_recorded"],
        moved=counts["moved"],
        sooner=counts["sooner"],
        later=counts["later"],
        preemptions=len(one.columns["preemptions"]["at"]),
        other_preemptions=len(two.columns["preemptions"]["at"]),
        regret=regret(moment, other, profile),
        measures=_measures(one, two),
        differ=len(moved),
        pods_that_differ=moved[:_MOST],
        notes=_notes(head.of, [*one.notes, *two.notes]),
    )


def _measures(one: Result, two: Result) -> list[Measure]:
    names = [*one.summary, *(each for each in two.summary if each not in one.summary)]
    return [Measure(each, one.summary.get(each, np.nan), two.summary.get(each, np.nan)) for each in names]


def _notes(of: str, notes: Iterable[str]) -> list[str]:
    """Return what has to be known of the runs."""
    of_another = [f"{of} can't be run again, so only its regret says how they differ"]
    return list(dict.fromkeys([*(of_another if of else []), *notes]))


def regret(moment: Moment, other: SchedulerConfiguration, profile: str | None = None) -> Regret:
    """Return how a configuration judges the recorded placements. Raises ConfigError, LogError."""
    frameworks = build(other, registry())
    of = recorded_of(moment.head)
    framework = frameworks.get(profile or of) or next(iter(frameworks.values()), None)
    if framework is None:
        raise ConfigError("profiles: expected one at least")
    read = annotated(frameworks)
    modes, own = read.affinity, framework.profile.name
    decoder = Decoder(replace(read, affinity={**modes, of: modes[own]}) if own in modes else read, limits=other.limits)
    shadow = Shadow(framework, of, decoder=decoder, began=moment.head.began, exact=not moment.head.of)
    for change in changes(moment):
        shadow.see(change)
    shadow.finish()
    found = shadow.tally
    judged = found.counts["same"] + found.counts["tie"] + found.counts["better"]
    return Regret(
        judged=judged,
        none=found.counts["same"] + found.counts["tie"],
        points=found.points,
        mean=round(found.points / judged, 4) if judged else 0.0,
        most=found.most,
        refused=found.counts["refused"] + found.counts["nowhere"],
        skipped=sum(found.skipped.values()),
        by_plugin=dict(sorted(found.plugins.items(), key=lambda each: (-abs(each[1]), each[0]))),
    )
