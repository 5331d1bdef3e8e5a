"""Everything that is asked of a trace, for each profile; `podberth.explain.report` draws it, `-o json` prints it."""

from collections.abc import Iterable, Mapping

import msgspec

from podberth.explain.replay import (
    Compaction,
    Placement,
    Progress,
    Regret,
    Run,
    compaction,
    departures,
    fullest,
    measure,
    retrace,
    saturation,
    stretch_to,
    stretched,
)
from podberth.explain.trace import GPU, Trace
from podberth.framework.runtime import Framework


class ProfileStudy(msgspec.Struct, rename="camel", frozen=True):
    """One profile's figures. Only a saturation is known of a scheduler that was recorded elsewhere."""

    profile: str
    saturation: Run
    regret: Regret
    departures: Run | None = None
    compaction: Compaction | None = None


class Study(msgspec.Struct, rename="camel", frozen=True):
    """A trace, how it was played, and what came of it."""

    nodes: int
    pods: int
    together: int
    """Pods that are there at the trace's fullest moment, as it was published."""
    load: float
    """Where the saturation ended: what was asked for of `measure`, over what is there."""
    stretch: float
    """What lifetimes were multiplied by for arrivals and departures, and for the compaction."""
    profiles: list[ProfileStudy]
    measure: str = GPU
    """The resource by which the load is measured; empty where pods ask for nothing that nodes have."""


class Recorded(msgspec.Struct, rename="camel", frozen=True):
    """A saturation that another scheduler decided, in the order of its bindings (`python -m bench.trace` makes one)."""

    scheduler: str
    load: float
    placements: list[Placement]


def study(trace: Trace, frameworks: Mapping[str, Framework], load: float, fill: float, progress: Progress) -> Study:
    """Play the trace. `load`: where the saturation ends. `fill`: lifetimes are stretched until the pods of some moment
    ask for this much of what there is; 0 plays them as they are.
    """
    by = stretch_to(trace, fill) if fill else 1.0
    longer = stretched(trace, by)
    found = []
    for name, framework in frameworks.items():
        run, placements = saturation(trace, framework, load, progress)
        _, regret = retrace(trace, framework, load, placements, progress)
        found.append(
            ProfileStudy(
                name, run, regret, departures(longer, framework, progress), compaction(longer, framework, progress)
            )
        )
    return Study(len(trace.nodes), len(trace.arrivals), len(fullest(trace.arrivals)), load, by, found, measure(trace))


def beside(trace: Trace, recorded: Iterable[Recorded], framework: Framework, progress: Progress) -> list[ProfileStudy]:
    """Return what other schedulers did, in the same terms; their regret is by the framework's scores."""
    found = []
    for each in recorded:
        run, regret = retrace(trace, framework, each.load, each.placements, progress)
        found.append(ProfileStudy(each.scheduler, run, regret))
    return found
