"""Says what is in a recording, and finds moments in it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import field

from podberth.explain.explanation import API_VERSION, Shown
from podberth.lab.recording.entries import Head, Kind
from podberth.lab.recording.log import LogError, Segment
from podberth.lab.recording.reading import Event, KnownPod, Recording, State
from podberth.lab.recording.verify import FACTS

_SINCE = re.compile(r"\+?(\d+(?:\.\d+)?)s?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?")
Process = list[tuple[Segment, Head]]


class Part(Shown, kw_only=True, frozen=True):
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
    objects: int
    placed: int
    failed: int
    preemptions: int
    waited: tuple[float, float] | None
    waiting: int
    bytes_per_pod: float | None


class Contents(Shown, kw_only=True, frozen=True):
    """What is in a recording. `cut`: bytes at the ends of segments that were not written whole."""

    kind: str = field(default="Recording")
    api_version: str = field(default=API_VERSION)
    directory: str
    masked: bool
    processes: list[Part]


def contents(recording: Recording) -> Contents:
    """Return what is in a recording. Raises LogError."""
    processes = recording.processes()
    masked = any(head.masked for process in processes for _, head in process)
    return Contents(
        directory=str(recording.directory), masked=masked, processes=[_part(recording, each) for each in processes]
    )


def _part(recording: Recording, process: Process) -> Part:
    head = process[0][1]
    state = State()
    came = went = objects = 0
    facts = dict.fromkeys(FACTS, 0)
    since: dict[str, float] = {}
    waits: list[float] = []
    at = head.at
    for event in recording.events(process):
        at = max(at, event.at)
        if event.kind in FACTS:
            facts[event.kind] += 1
            if event.kind is Kind.PLACED and event.what[0] in since:
                waits.append(event.at - since.pop(event.what[0]))
        elif isinstance(event.known, KnownPod):
            known = event.known
            if known.uid not in state.pods and not event.listed:
                came += 1
                if not known.state.node:
                    since[known.uid] = event.at
        elif event.kind is Kind.POD_GONE:
            went += 1
            since.pop(event.what[0], None)
        objects += event.kind is Kind.OBJECT
        state.take(event)
    size = sum(path.stat().st_size for each, _ in process for path in (each.path, each.state) if path.exists())
    waits.sort()
    return Part(
        of=head.of,
        began=stamp(head.began),
        ended=stamp(head.began + at - head.at),
        seconds=round(at - head.at, 3),
        whole=head.fresh,
        segments=len(process),
        bytes=size,
        nodes=sum(kind == "Node" for kind, _, _ in state.objects),
        pods_came=came,
        pods_went=went,
        objects=objects,
        placed=facts[Kind.PLACED],
        failed=facts[Kind.FAILED],
        preemptions=facts[Kind.PREEMPTS],
        waited=None if not waits else (round(waits[len(waits) // 2], 3), round(waits[int(len(waits) * 0.99)], 3)),
        waiting=sum(not pod.state.node and uid not in state.assumed for uid, pod in state.pods.items()),
        bytes_per_pod=None if not came else round(size / came, 1),
    )


def stamp(seconds: float) -> str:
    """Return a time of the calendar as RFC 3339 has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Moment:
    """A moment of one process. `at`: on the clock of its events; None: its end."""

    def __init__(self, recording: Recording, process: Process, at: float | None = None) -> None:
        self.recording, self.process, self.at = recording, process, at

    @property
    def head(self) -> Head:
        """Return what the process says of itself."""
        return self.process[0][1]

    def events(self) -> Iterator[Event]:
        """Yield the events until then."""
        for event in self.recording.events(self.process):
            if self.at is not None and event.at > self.at:
                return
            yield event

    def state(self) -> State:
        """Return what was known then."""
        found = State()
        for event in self.events():
            found.take(event)
        return found


def moment(recording: Recording, text: str | None) -> Moment:
    """Return the moment that a text means: RFC 3339, a time of the recording's last day in UTC, or seconds since the
    last process began; None is the end.

    Raises LogError.
    """
    processes = recording.processes()
    last = processes[-1]
    if text is None:
        return Moment(recording, last)
    head = last[0][1]
    if found := _SINCE.fullmatch(text):
        return Moment(recording, last, head.at + float(found[1]))
    try:
        if _CLOCK.fullmatch(text):
            day = datetime.fromtimestamp(last[-1][1].began, UTC).date().isoformat()
            text = f"{day}T{text if len(text.partition(':')[0]) == 2 else f'0{text}'}Z"
        wanted = datetime.fromisoformat(text)
    except ValueError:
        raise LogError(f"--at {text}: expected a time such as 23:15:02, 2026-11-29T23:15:02Z or 90s") from None
    seconds = wanted.replace(tzinfo=wanted.tzinfo or UTC).timestamp()
    for process in reversed(processes):
        began = process[0][1]
        if began.began <= seconds:
            return Moment(recording, process, began.at + seconds - began.began)
    raise LogError(f"--at {text}: the recording begins at {stamp(processes[0][0][1].began)}")


def decision(recording: Recording, pod: str, until: Moment) -> tuple[State, Event, KnownPod]:
    """Return the state in which a pod was decided last until then, the decision, and the pod.

    `pod`: namespace/name, or a name that one namespace has. Raises LogError.
    """
    namespace, _, name = pod.rpartition("/")
    last: tuple[int, KnownPod] | None = None
    known: dict[str, KnownPod] = {}
    for number, event in enumerate(until.events()):
        if isinstance(event.known, KnownPod) and event.known.name == name:
            if not namespace or event.known.namespace == namespace:
                known[event.known.uid] = event.known
        elif event.kind in (Kind.PLACED, Kind.FAILED) and event.what[0] in known:
            last = number, known[event.what[0]]
    if last is None:
        seen = "the pod was seen, and nothing was decided about it" if known else "no such pod was seen"
        raise LogError(f"{pod}: {seen} until then")
    state = State()
    for number, event in enumerate(until.events()):
        if number == last[0]:
            return state, event, last[1]
        state.take(event)
    raise LogError(f"{pod}: the recording was shortened meanwhile")
