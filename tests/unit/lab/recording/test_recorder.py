"""What a recording holds, and that an engine that is given it decides the same."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.engine.instructions import Bind, Instruction
from podberth.engine.stimuli import BindFailed, Cycle, Put, Tick
from podberth.framework.config import decode, default_configuration
from podberth.kit import Cluster, Plugin, Pod, Reads, Rejections
from podberth.lab.recording import recorder
from podberth.lab.recording.entries import (
    Entry,
    Gone,
    Head,
    Placed,
    Preempts,
    PutObject,
    PutPod,
    Template,
    Told,
    encoder,
)
from podberth.lab.recording.log import File, Limits, LogError, frames, segments
from podberth.lab.recording.reading import Event, State, document, part, parts, thing_of
from podberth.lab.recording.recorder import kept
from podberth.lab.recording.verify import Verified, verify
from podberth.plugins.registry import registry
from tests.builders import configuration, node, pod, profile
from tests.unit.lab.recording.flights import Flight, busy


def put_pod(template: int) -> PutPod:
    """A pod of a template."""
    state = ("1", "", False, False, False, False, "Pending", 0, None, "", None, ())
    return PutPod(1.0, False, False, template, "u", "default", "web", "", {}, None, *state)


def put_node(json: str | None, kind: str = "Node") -> PutObject:
    """A node, or what says that it is one."""
    return PutObject(1.0, False, False, kind, "", "n0", "1", json)


def verified(directory: Path) -> list[Verified]:
    """What comes of deciding everything again."""
    return [verify(each) for each in parts(directory)]


def events(directory: Path) -> list[Event]:
    """All events of the last process."""
    return list(part(directory).events())


async def test_decides_the_same(tmp_path: Path) -> None:
    """Placements, failures with their messages, and preemptions, in their order."""
    flight = Flight(tmp_path)
    busy(flight)
    flight.close()
    (found,) = verified(tmp_path)
    assert (found.whole, found.differ, found.differences) == (True, 0, [])
    assert found.placed == len([1 for event in events(tmp_path) if isinstance(event, Placed)]) > 30
    assert found.failed > 10
    assert found.preemptions > 0


async def test_sees_what_differs(tmp_path: Path) -> None:
    """A recording whose seed is another one has other choices, and says which."""
    flight = Flight(tmp_path)
    busy(flight)
    flight.close()
    recorded = part(tmp_path)
    recorded.head.seed = 4
    found = verify(recorded)
    assert found.differ > 0
    assert found.differences[0].recorded[0][:2] == found.differences[0].decided[0][:2]
    assert found.differences[0].recorded != found.differences[0].decided


async def test_holds_no_secrets(tmp_path: Path) -> None:
    """No environment, command or annotation that nobody reads: the parts of pods that decide, and no more."""
    flight = Flight(tmp_path)
    busy(flight, 5)
    flight.close()
    held = b"".join(frame for segment in segments(tmp_path) for frame in frames(segment))
    assert b"s3cret" not in held
    assert b"TOKEN" not in held
    pods = [document(event) for event in events(tmp_path) if isinstance(event, PutPod)]
    assert pods[0]["spec"]["containers"][0].keys() <= {"name", "image", "resources", "ports"}


class Racks(Plugin):
    """A plugin that reads an annotation of pods."""

    name = "Racks"
    reads = Reads(pod_annotations=("example.com/rack",))

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nothing."""
        return ()


async def test_annotations_that_plugins_read_since_a_reload_are_kept(tmp_path: Path) -> None:
    """A pod that comes later has them, and nothing that nobody reads."""
    flight = Flight(tmp_path)
    plugins = {"multiPoint": {"enabled": [{"name": "Racks"}]}}
    flight.reload(decode(configuration(profile(plugins=plugins))), {**registry(), "Racks": Racks})
    made = pod("web")
    made["metadata"]["annotations"] = {"example.com/rack": "a", "note": "s3cret"}
    flight.put(made)
    flight.close()
    (found,) = [document(event) for event in events(tmp_path) if isinstance(event, PutPod)]
    assert found["metadata"]["annotations"] == {"example.com/rack": "a"}


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
    found = [event for event in events(tmp_path) if isinstance(event, (PutObject, PutPod))]
    assert len(found) == len(put)
    for event, (thing, added, now) in zip(found, put, strict=True):
        assert (event.added, event.at) == (added, now)
        assert thing_of(event, flight.decoder) == thing


async def test_old_segments_go(tmp_path: Path) -> None:
    """What is left begins with what was known, and each placement is decided again in the state that was."""
    flight = Flight(tmp_path, limits=Limits(size=20_000, age=60.0))
    for first in range(0, 400, 20):
        busy(flight, 20, first=first, nodes=0 if first else 4)
        flight.written()
    flight.close()
    held = segments(tmp_path)
    assert int(held[0].stem) > 1
    (found,) = verified(tmp_path)
    assert not found.whole
    assert found.placed > 10
    assert found.differ == 0
    state = {}
    for event in events(tmp_path):
        if isinstance(event, PutPod):
            state[event.uid] = event.name
        elif isinstance(event, Gone):
            state.pop(event.uid, None)
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
    flight.written()
    before = len(flight.placed)

    def broken(*_: Any) -> None:
        raise RuntimeError("no")

    with capture_logs() as lines:
        monkeypatch.setattr(recorder, "Told", broken)
        busy(flight, 10, first=5)
        flight.close()
    assert [line["event"] for line in lines] == [
        "an entry could not be recorded, this is a bug of Berth",
        "the recording has ended, and the scheduler goes on",
    ]
    assert len(flight.placed) > before
    read = {each.read().family.name: each.read().values for each in flight.parts.instruments}
    assert read["berth_recording"] == {(): 0.0}
    assert read["berth_recording_bytes_total"][()] > 0
    assert [each.differ for each in verified(tmp_path)] == [0]


@pytest.mark.parametrize("waits", [True, False])
async def test_room_that_was_kept_is_not_verified(tmp_path: Path, waits: bool) -> None:
    """After a preemption, until that pod is placed, no placement on another node than the best is a difference."""
    flight = Flight(tmp_path, limits=Limits(age=60.0))
    flight.put(node("small", "2"))
    flight.put(node("large", "8"))
    flight.now += 30
    flight.tell(Tick())
    flight.written()
    if waits:
        flight.put(pod("waits", "9"))
        uid = flight.objects["Pod", "waits"]["metadata"]["uid"]
        flight.recorder.writer.hand(Preempts(flight.now, uid, "large", []))
    flight.put(pod("web", "1"))
    flight.recorder.writer.hand(Told(flight.now, "Cycle", []))
    web = flight.objects["Pod", "web"]
    flight.recorder.writer.hand(Placed(flight.now, web["metadata"]["uid"], "small"))
    flight.close()
    segments(tmp_path)[0].unlink()
    (found,) = verified(tmp_path)
    assert (found.whole, found.placed, found.unverified, found.differ) == (False, 1, int(waits), int(not waits))


@pytest.mark.parametrize(("name", "assumed"), [("BindFailed", {}), ("BindWithdrawn", {}), ("CallFailed", {"u": "n0"})])
async def test_what_undoes_a_placement(name: str, assumed: dict[str, str]) -> None:
    """Of what fails after a pod was decided only its Binding: what a plugin does after that changes nothing."""
    state = State(Head(0.0))
    for event in (put_pod(0), Placed(1.0, "u", "n0"), Told(2.0, name, ["u", "timeout"])):
        state.take(event)
    assert state.assumed == assumed


FORM = Template(1.0, 0, '{"metadata": {"namespace": "default"}, "spec": {"containers": 5}}')


@pytest.mark.parametrize(
    "entries",
    [
        [put_pod(7)],
        [FORM, put_pod(0)],
        [Template(1.0, 0, '{"spec": []}')],
        [put_node(None)],
        [put_node('{"metadata": {"name": "s"}}', "Secret")],
        [put_node("{}")],
        [put_node('{"metadata": {"name": "n0"}, "status": []}')],
        [Told(1.0, "BindFailed", [])],
        [Told(1.0, "BindFailed", ["u"])],
        [Told(1.0, "BindFailed", [["u"]])],
        [Told(1.0, "Epoch", ["late"])],
        [Told(1.0, "PreBindWritten", ["u", 5])],
    ],
)
async def test_what_is_damaged_is_said_in_a_line(tmp_path: Path, entries: list[Entry]) -> None:
    """Entries that refer to what is not there, that are no objects, or that no stimulus is made of."""
    head = Head(0.0, fresh=True, configuration=kept(default_configuration()))
    for content, said in (
        (encoder.encode([head, *entries]), "is damaged"),
        (b"\xc1 no entries", r"^1\.log: is damaged"),
    ):
        file = File(tmp_path / "1.log")
        file.write(content)
        file.close()
        with pytest.raises(LogError, match=said):
            verified(tmp_path)
