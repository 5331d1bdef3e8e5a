"""Prints the answers of `berth shadow` for people: a line for each pod, and what it comes to at the end."""

from collections.abc import Iterator, Mapping

from podberth.explain.report.wording import count, printable
from podberth.explain.shadow.answer import BETTER, NOWHERE, OLDER, REFUSED, SAME, SKIPPED, TIE, Compared, Summary

_MARKS = {SAME: "=", TIE: "=", BETTER: "≠", REFUSED: "✗", NOWHERE: "✗", SKIPPED: "·"}
_PLUGINS = 4


def line(one: Compared) -> str:
    """Return the comparison of one pod, in one line."""
    return printable(f"{_MARKS[one.verdict]} {one.pod} on {one.node}: {_said(one)}{_state(one)}")


def _said(one: Compared) -> str:
    points = "" if one.points is None else f", {count(one.points, 'point')}"
    match one.verdict:
        case "same":
            return f"the same node{points}"
        case "tie":
            return f"a tie with {one.best}{points} each" if one.best else "a tie"
        case "better":
            parts = [f"{each.plugin} {each.ours - each.theirs:+d}" for each in one.scores[:_PLUGINS]]
            more = [f"{len(one.scores) - _PLUGINS} more"] if len(one.scores) > _PLUGINS else []
            total = (one.points or 0) + one.lead
            return f"{one.best} has {one.lead} more points, {total} to {one.points} ({', '.join(parts + more)})"
        case "refused":
            return f"{one.plugin} refuses that node: {one.reason}; it would go to {one.best}"
        case "nowhere":
            return f"it would wait: {one.plugin}: {one.reason}"
    return f"not compared: {one.reason}"


def _state(one: Compared) -> str:
    if one.state is None:
        return f" [{count(one.newer, 'placement')} while it waited]" if one.newer and one.lead else ""
    placements = count(one.apart, "placement")
    return (
        f" [in an older state, {placements} before]" if one.state == OLDER else f" [in a newer state, {placements} on]"
    )


def summary(found: Summary) -> Iterator[str]:
    """Yield the lines about all pods together."""
    yield printable(
        f"{count(found.pods, 'pod')} of {found.of} compared with profile {found.profile} in {found.seconds:,.0f} s"
    )
    if found.pods:
        other = f" ({found.other_state:,} of both in an older or newer state)" if found.other_state else ""
        yield f"  {found.same + found.tie:,} agree: {found.same:,} same node, {found.tie:,} ties{other}"
        mean = f", by {found.points / found.better:.1f} points on average, {found.most} at most" if found.better else ""
        yield f"  {found.better:,} better elsewhere{mean}{_listed(found.plugins, '{:+d}')}"
        yield f"  {found.refused:,} on a node that Berth refuses, {found.nowhere:,} that it would leave waiting" + (
            _listed(found.refusals, "{}")
        )
    for reason, pods in found.skipped.items():
        yield printable(f"  {count(pods, 'pod')} not compared: {reason}")
    waiting = found.waiting
    if waiting.pods:
        tried = "" if waiting.looked == waiting.pods else f" (of {waiting.looked} that were tried)"
        yield f"  {count(waiting.pods, 'pod')} refused by {printable(found.of)} still wait; Berth has a node for " + (
            f"{len(waiting.fit):,} of them now{tried}"
        )
        for pod, node in list(waiting.fit.items())[:_PLUGINS]:
            yield printable(f"    {pod} → {node}")
    if found.unreadable:
        yield f"  {count(found.unreadable, 'object')} could not be read, and are left out"


def _listed(numbers: Mapping[str, int], form: str) -> str:
    shown = [f"{name} {form.format(number)}" for name, number in list(numbers.items())[:_PLUGINS] if number]
    return f": {', '.join(shown)}" if shown else ""
