"""Shows a difference: as lines for a terminal, and as a page."""

from collections.abc import Iterator

from podberth.explain.report.pages import in_two, render
from podberth.explain.report.wording import count, printable
from podberth.lab.recording.difference import Difference

_SHOWN = 10
_PAGE = 500
_NAMES = {
    "waiting_p50_s": "waiting, median",
    "waiting_p99_s": "waiting, 99th percentile",
    "nodes_in_use": "nodes in use, mean",
    "waiting_pods": "waiting pods, mean",
}


def _figures(found: Difference) -> list[tuple[str, str, str]]:
    rows = [
        ("pods placed", f"{found.placed:,}", f"{found.other_placed:,}"),
        ("preemptions", f"{found.preemptions:,}", f"{found.other_preemptions:,}"),
    ]
    for each in found.measures:
        name, _, of = each.name.partition("[")
        if each.name.startswith(("waiting_p", "nodes_in_use", "waiting_pods")):
            about = f", priority {of[:-1]}" if of else ""
            unit = " s" if name.endswith("_s") else ""
            rows.append((f"{_NAMES.get(name, name)}{about}", f"{each.ours:,.3f}{unit}", f"{each.other:,.3f}{unit}"))
        elif name in ("used", "stranded"):
            rows.append((f"{of[:-1]} {name}, mean", f"{each.ours:.2%}", f"{each.other:.2%}"))
    return rows


def _regret(found: Difference) -> list[tuple[str, str]]:
    regret = found.regret
    rows = [
        ("placements judged", f"{regret.judged:,}"),
        ("on a best node", f"{regret.none:,}"),
        ("points better elsewhere", f"{regret.points:,}"),
        ("mean of a pod", f"{regret.mean:.4f}"),
        ("most of a pod", f"{regret.most:,}"),
        ("on a node that it refuses", f"{regret.refused:,}"),
        ("not judged", f"{regret.skipped:,}"),
    ]
    return rows + [(f"of it {name}", f"{points:+,}") for name, points in regret.by_plugin.items() if points]


def _lead(found: Difference) -> str:
    if not found.again:
        return f"{count(found.pods, 'pod')} in {found.seconds:,.0f} s, run by {found.other}"
    if found.empty:
        return f"nothing differs: {count(found.pods, 'pod')} in {found.seconds:,.0f} s"
    return (
        f"{found.moved:,} of {count(found.pods, 'pod')} go elsewhere, {found.sooner:,} sooner, {found.later:,} later, "
        f"in {found.seconds:,.0f} s"
    )


def lines(found: Difference) -> Iterator[str]:
    """Yield the lines for people."""
    yield printable(f"{found.of} and {found.other}: {_lead(found)}")
    if found.again:
        yield f"  of the first run's placements, {found.as_recorded:,} of {found.placed:,} are those that were recorded"
    figures = _figures(found)
    width = max(len(name) for name, _, _ in figures)
    for name, ours, other in figures:
        both = f"{ours:>14}  {other:>14}{'' if ours == other else '  *'}" if found.again else f"{other:>14}"
        yield printable(f"  {name:{width}}  {both}")
    yield printable(f"regret: recorded placements by the scores of {found.other}")
    for name, value in _regret(found):
        yield f"  {name:{width}}  {value:>14}"
    for each in found.pods_that_differ[:_SHOWN]:
        waits = (
            ""
            if each.waited == each.other_waited
            else f", waited {_seconds(each.waited)} → {_seconds(each.other_waited)}"
        )
        yield printable(f"  {each.pod}: {each.node or 'nowhere'} → {each.other or 'nowhere'}{waits}")
    if found.differ > _SHOWN:
        yield f"  and {found.differ - _SHOWN:,} more (-o json and html have more of them)"
    for note in found.notes:
        yield printable(f"  {note}")


def _seconds(waited: float | None) -> str:
    return "for ever" if waited is None else f"{waited:.3f} s"


def page(found: Difference) -> str:
    """Return the page."""
    shown = found.pods_that_differ[:_PAGE]
    return render(
        "difference.html",
        package="podberth.lab.recording",
        title=f"{found.of} and {found.other}",
        lead=_lead(found),
        answer=found,
        figures=_figures(found),
        regret=_regret(found),
        pods=in_two(shown),
        unshown=found.differ - len(shown),
    )
