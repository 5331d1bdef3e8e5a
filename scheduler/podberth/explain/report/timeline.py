"""A pod's story for people: a line for each thing that happened, with the time since the first one."""

from collections.abc import Iterator

from podberth.engine.story import Timeline
from podberth.explain.report.wording import count, printable

_WIDTH = 11


def lines(timeline: Timeline, *, points: bool = False) -> Iterator[str]:
    """Yield the story as lines of text. `points`: with a line for each extension point of each attempt."""
    pod = timeline.pod
    yield printable(f"{pod.namespace}/{pod.name}: {timeline.state}")
    yield printable(f"UID {pod.uid}, scheduled by {pod.scheduler_name}")
    if timeline.entries:
        yield f"Seen first at {_clock(timeline.entries[0].time)}. It is now {_clock(timeline.told_at)}."
    if not timeline.leads:
        leader = timeline.leader or "nobody"
        yield printable(f"This replica stands by and decides nothing: {leader} leads, and has the rest of the story.")
    if timeline.leads_since:
        since = _clock(timeline.leads_since)
        yield f"This replica leads since {since}. Another leader saw the first part, and what it did is not told here."
    if timeline.others:
        yield printable(f"Other pods had the same name: {', '.join(timeline.others)} (ask by --uid).")
    yield ""
    for i, entry in enumerate(timeline.entries):
        if timeline.left_out and i == timeline.left_out_after:
            yield f"{'…':>{_WIDTH}}  {_left_out(timeline.left_out)}"
        yield f"{after(entry.seconds):>{_WIDTH}}  {printable(entry.text)}"
        if points:
            for point in entry.details.get("points", ()):
                spent = f"{1000 * point['seconds']:.3f} ms"
                yield printable(f"{'':>{_WIDTH}}    {point['point']:<12} {spent:>12}  {point['status']}")
    if timeline.left_out and timeline.left_out_after >= len(timeline.entries):
        yield f"{'…':>{_WIDTH}}  {_left_out(timeline.left_out)}"


def after(seconds: float) -> str:
    """Return the time since the first entry, the less precise the longer it is."""
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"


def _left_out(number: int) -> str:
    return f"{count(number, 'entry' if number == 1 else 'entrie')} not kept, to make room"


def _clock(time: str) -> str:
    return f"{time[:19].replace('T', ' ')} UTC"
