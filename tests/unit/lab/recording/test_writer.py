"""The thread that writes: what a full or slow disk, another process and limits leave of a recording."""

import threading
from pathlib import Path

import pytest

from podberth.lab.recording.entries import Gone, Head, Told
from podberth.lab.recording.log import File, Limits, segments
from podberth.lab.recording.reading import part, parts
from podberth.lab.recording.writer import Read, Seen, Writer
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import Object, node


def writer(directory: Path, ended: list[str], limits: Limits | None = None, *, patient: bool = True) -> Writer:
    """One that writes; it has a head."""
    head = Head(5.0, began=1e9, fresh=True)
    found = Writer(directory, limits or Limits(), head, frozenset(), ended=ended.append, patient=patient)
    found.start()
    return found


def put(one: Writer, at: float, made: Object) -> None:
    """A node is read, and the engine is given it."""
    raw = wire.encode(made)
    thing = Decoder().node(raw)
    one.hand(Read("Node", thing, raw))
    one.hand(Seen(at, thing))


def test_each_process_appends(tmp_path: Path) -> None:
    """What was there stays, but for what a killed process has not written whole."""
    for at in (6.0, 7.0):
        one = writer(tmp_path, [])
        one.hand(Told(at, "Tick", []))
        one.close()
        path = segments(tmp_path)[-1]
        path.write_bytes(path.read_bytes() + b"torn")
    assert [[event.at for event in each.events()] for each in parts(tmp_path)] == [[6.0], [7.0]]
    assert segments(tmp_path)[0].read_bytes()[-4:] != b"torn"


def test_what_is_large_is_written_in_several_frames(tmp_path: Path) -> None:
    """No frame is so large that nobody reads it, whatever it is that comes together."""
    one = writer(tmp_path, [])
    large = ["node" * (1 << 18)]
    for _ in range(20):
        one.hand(Told(6.0, "ExtendersAnswered", large))
    one.close()
    assert [event.what for event in part(tmp_path).events() if isinstance(event, Told)] == [large] * 20


def test_a_full_disk_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why once, and takes what comes without a word."""

    def full(file: File, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(File, "write", full)
    ended: list[str] = []
    one = writer(tmp_path, ended)
    one.hand(Told(6.0, "Tick", []))
    one.flush()
    one.hand(Told(6.0, "Tick", []))
    one.close()
    assert ended == ["no space left on device"]
    assert one.error == "no space left on device"


def test_a_slow_disk_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the thread: too much waits for it, and that is the end."""
    go_on = threading.Event()
    monkeypatch.setattr(File, "write", lambda file, content: go_on.wait())
    ended: list[str] = []
    one = writer(tmp_path, ended, patient=False)
    while one.error is None:
        one.hand(Told(6.0, "Tick", []))
    go_on.set()
    one.close()
    assert ended == ["the disk is too slow"]


def test_a_segment_begins_with_what_was_known(tmp_path: Path) -> None:
    """Not with what is gone; who reads on from the segment before sees nothing twice."""
    one = writer(tmp_path, [], Limits(age=120.0))
    put(one, 6.0, node("n0"))
    put(one, 7.0, node("n1"))
    one.hand(Gone(8.0, "Node", "", "n0", ""))
    one.hand(Told(16.0, "Tick", []))
    one.flush()
    put(one, 17.0, node("n1", "8"))
    one.close()
    first, second = segments(tmp_path)
    assert [event.at for event in part(tmp_path).events()] == [6.0, 7.0, 8.0, 16.0, 17.0]
    first.unlink()
    later = part(tmp_path)
    assert (later.head.at, later.head.began, later.head.fresh) == (16.0, 1e9 + 11, False)
    assert [(event.at, getattr(event, "name", "")) for event in later.events()] == [(16.0, "n1"), (17.0, "n1")]
    assert [path.stem for path in segments(tmp_path)] == [second.stem]
