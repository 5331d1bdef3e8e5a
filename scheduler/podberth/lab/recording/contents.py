"""Says what is in a recording."""

from pathlib import Path

from podberth.explain.explanation import Answer, Shown
from podberth.lab.recording.entries import Failed, Gone, Placed, Preempts, PutPod
from podberth.lab.recording.reading import Part, State, parts, stamp


class Figures(Shown, kw_only=True, frozen=True):
    """What one process has recorded. `began`, `ended`: RFC 3339; `waited`: seconds from a pod's arrival until it was
    placed, the median and the 99th percentile; `whole`: it reaches back to the start of the process.
    """

    of: str
    began: str
    ended: str
    seconds: float
    whole: bool
    segments: int
    bytes: int
    nodes: int
    pods_came: int
    pods_went: int
    placed: int
    failed: int
    preemptions: int
    waited: tuple[float, float] | None
    waiting: int
    bytes_per_pod: float | None


class Contents(Answer, kw_only=True, frozen=True):
    """What is in a recording."""

    kind: str = "Recording"
    directory: str
    masked: bool
    processes: list[Figures]


def contents(directory: str) -> Contents:
    """Return what is in a recording. Raises LogError."""
    found = parts(Path(directory))
    masked = any(each.head.masked for each in found)
    return Contents(directory=directory, masked=masked, processes=[_figures(each) for each in found])


def _figures(part: Part) -> Figures:
    head, state = part.head, State(part.head)
    counts = dict.fromkeys(("came", "went", "placed", "failed", "preemptions"), 0)
    since: dict[str, float] = {}
    waits: list[float] = []
    at = head.at
    for event in part.events():
        at = max(at, event.at)
        match event:
            case PutPod() if event.uid not in state.pods and not event.listed:
                counts["came"] += 1
                if not event.node_name:
                    since[event.uid] = event.at
            case Gone(kind="Pod"):
                counts["went"] += 1
                since.pop(event.uid, None)
            case Placed():
                counts["placed"] += 1
                if event.uid in since:
                    waits.append(event.at - since.pop(event.uid))
            case Failed():
                counts["failed"] += 1
            case Preempts():
                counts["preemptions"] += 1
        state.take(event)
    size = sum(path.stat().st_size for path in part.paths)
    waits.sort()
    return Figures(
        of=head.of,
        began=stamp(head.began),
        ended=part.time(at),
        seconds=round(at - head.at, 3),
        whole=head.fresh,
        segments=len(part.paths),
        bytes=size,
        nodes=sum(kind == "Node" for kind, _, _ in state.objects),
        pods_came=counts["came"],
        pods_went=counts["went"],
        placed=counts["placed"],
        failed=counts["failed"],
        preemptions=counts["preemptions"],
        waited=None if not waits else (round(waits[len(waits) // 2], 3), round(waits[int(len(waits) * 0.99)], 3)),
        waiting=sum(not pod.node_name and uid not in state.assumed for uid, pod in state.pods.items()),
        bytes_per_pod=None if not counts["came"] else round(size / counts["came"], 1),
    )
