"""What a recording holds, and that an engine that is given it decides the same."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from podberth.engine.instructions import Bind, Instruction
from podberth.engine.stimuli import BindFailed, Cycle, Put
from podberth.lab.recording.entries import Kind
from podberth.lab.recording.log import Limits, segments
from podberth.lab.recording.reading import Event, KnownPod, Recording
from podberth.lab.recording.verify import Verified, by_engine, one_by_one
from tests.builders import node, pod
from tests.unit.lab.recording.flights import Flight, busy


def verified(directory: Path) -> list[Verified]:
    """What comes of deciding everything again."""
    recording = Recording(directory)
    return [
        by_engine(recording.events(each)) if each[0][1].fresh else one_by_one(recording.events(each))
        for each in recording.processes()
    ]


def events(directory: Path) -> list[Event]:
    """All events of the last process."""
    recording = Recording(directory)
    return list(recording.events(recording.processes()[-1]))


async def test_decides_the_same(tmp_path: Path) -> None:
    """Placements, failures with their messages, and preemptions, in their order."""
    flight = Flight(tmp_path)
    busy(flight)
    flight.close()
    (found,) = verified(tmp_path)
    assert (found.whole, found.differ, found.differences) == (True, 0, [])
    assert found.placed == len([1 for event in events(tmp_path) if event.kind is Kind.PLACED]) > 30
    assert found.failed > 10
    assert found.preemptions > 0


async def test_sees_what_differs(tmp_path: Path) -> None:
    """A recording whose seed is another one has other choices, and says which."""
    flight = Flight(tmp_path)
    busy(flight)
    flight.close()
    recorded = events(tmp_path)
    recorded[0].what[0].seed = 4
    found = by_engine(iter(recorded))
    assert found.differ > 0
    assert found.differences[0].recorded[0][:2] == found.differences[0].decided[0][:2]
    assert found.differences[0].recorded != found.differences[0].decided


async def test_holds_no_secrets(tmp_path: Path) -> None:
    """No environment, command or annotation that nobody reads: the parts of pods that decide, and no more."""
    flight = Flight(tmp_path)
    busy(flight, 5)
    flight.close()
    held = b"".join(frame for segment in segments(tmp_path) for frame in segment.frames())
    assert b"s3cret" not in held
    assert b"TOKEN" not in held
    pods = [event.known.document() for event in events(tmp_path) if isinstance(event.known, KnownPod)]
    assert pods[0]["spec"]["containers"][0].keys() <= {"name", "image", "resources", "ports"}


async def test_objects_come_back_as_the_engine_had_them(tmp_path: Path) -> None:
    """Each pod and node is equal to what was put, in all that a decision reads."""
    flight = Flight(tmp_path)
    put: list[Any] = []
    handle = flight.handle

    def noting(stimulus: Any, now: float) -> Any:
        if isinstance(stimulus, Put):
            put.append((stimulus.thing, stimulus.added, now))
        return handle(stimulus, now)

    flight.handle = noting
    busy(flight, 30)
    flight.close()
    found = [event for event in events(tmp_path) if event.known is not None]
    assert len(found) == len(put)
    for event, (thing, added, now) in zip(found, put, strict=True):
        assert event.known is not None
        assert (event.added, event.at) == (added, now)
        again = event.known.thing(flight.decoder)
        assert again == thing
        assert msgspec.json.encode(event.known.document())


async def test_old_segments_go(tmp_path: Path) -> None:
    """What is left begins with what was known, and each placement is decided again in the state that was."""
    flight = Flight(tmp_path, limits=Limits(size=1, age=60.0))
    for first in range(0, 400, 20):
        busy(flight, 20, first=first, nodes=0 if first else 4)
        flight.written()
    flight.close()
    held = segments(tmp_path)
    assert held[0].number > 1
    (found,) = verified(tmp_path)
    assert not found.whole
    assert found.placed > 10
    assert found.differ == 0
    state = {}
    for event in events(tmp_path):
        if isinstance(event.known, KnownPod):
            state[event.known.uid] = event.known.name
        elif event.kind is Kind.POD_GONE:
            state.pop(event.what[0], None)
    assert sorted(state.values()) == sorted(name for kind, name in flight.objects if kind == "Pod")


async def test_a_second_life_appends(tmp_path: Path) -> None:
    """A process that was killed leaves what it had written; the next one's recording is beside it."""
    killed = Flight(tmp_path)
    busy(killed, 20)
    killed.written()
    later = Flight(tmp_path)
    busy(later, 20)
    later.close()
    killed.close()
    found = verified(tmp_path)
    assert [each.differ for each in found] == [0, 0]
    assert found[0].placed > 0


async def test_a_refused_binding(tmp_path: Path) -> None:
    """Answers are recorded too: the pod waits out its backoff, and is tried again."""
    flight = Flight(tmp_path)
    flight.put(node("n0", "4"))
    flight.put(pod("web"))
    refused: list[Instruction] = flight.handle(Cycle(), flight.now)
    assert [type(each) for each in refused] == [Bind]
    flight.tell(BindFailed(refused[0].pod.uid, 500, "etcd is gone"))
    flight.work()
    assert not flight.placed
    flight.now += 30
    flight.work()
    assert flight.placed == {"web": "n0"}
    flight.close()
    (found,) = verified(tmp_path)
    assert (found.placed, found.failed, found.differ) == (2, 1, 0)


async def test_a_fault_of_the_recorder_ends_the_recording_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of the log, a metric that says it, and pods are placed as before."""
    flight = Flight(tmp_path)
    busy(flight, 5)
    before = len(flight.placed)

    def broken(*_: Any) -> None:
        raise RuntimeError("no")

    with capture_logs() as lines:
        monkeypatch.setattr(flight.recorder, "_stimulus", broken)
        busy(flight, 10, first=5)
    flight.close()
    assert [line["event"] for line in lines] == [
        "a stimulus could not be recorded, this is a bug of Berth",
        "the recording has ended, and the scheduler goes on",
    ]
    assert len(flight.placed) > before
    read = {each.read().family.name: each.read().values for each in flight.parts.instruments}
    assert read["berth_recording"] == {(): 0.0}
    assert read["berth_recording_bytes_total"][()] > 0
    assert [each.differ for each in verified(tmp_path)] == [0]
