"""The log of a recording: what a killed process, a full disk and limits leave of it."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.lab.recording.log import Limits, Log, LogError, To, frames, repair, segments

Paths = pytest.TempPathFactory
FRAMES = [os.urandom(300), b"a" * 9000, b"", b"the end"]


def written(directory: Path, contents: list[bytes]) -> Log:
    """A log with these frames."""
    log = Log(directory, Limits(), patience=60)
    for each in contents:
        log.put(To.LOG, each)
    log.close()
    return log


def test_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Each frame by itself; only its owner may read it."""
    written(tmp_path, FRAMES)
    (segment,) = segments(tmp_path)
    assert list(segment.frames()) == FRAMES
    assert segment.path.stat().st_mode & 0o077 == 0


def test_each_process_appends_a_segment(tmp_path: Path) -> None:
    """What was there stays."""
    written(tmp_path, FRAMES)
    written(tmp_path, [b"more"])
    assert [list(each.frames()) for each in segments(tmp_path)] == [FRAMES, [b"more"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a segment."""
    directory = tmp_path_factory.mktemp("whole")
    written(directory, FRAMES)
    return segments(directory)[0].path.read_bytes()


@given(st.data())
def test_a_process_may_be_killed_at_any_byte(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever end it has, what is before it can be read, and the next process cuts it off."""
    path = tmp_path_factory.mktemp("cut") / "00000001.log"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    found = list(frames(path))
    assert found == FRAMES[: len(found)]
    before = path.stat().st_size
    assert repair(path) == before - path.stat().st_size
    assert list(frames(path)) == found
    assert repair(path) == 0


@given(st.data())
def test_what_is_damaged_is_not_read(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A byte that has changed ends what can be read before its frame; it is never read as something else."""
    path = tmp_path_factory.mktemp("bad") / "00000001.log"
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x10,)) + whole[at + 1 :])
    found = list(frames(path))
    assert found == FRAMES[: len(found)]
    assert len(found) < len(FRAMES)


def test_a_full_disk_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why, and takes what comes without a word."""
    log = Log(tmp_path, Limits(), patience=60)

    def full(content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log.file, "write", full)
    log.put(To.LOG, b"one")
    log.close()
    assert log.error == "no space left on device"
    log.put(To.LOG, b"two")
    log.close()


def test_a_slow_disk_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the thread: the queue is full, and that is the end."""
    log = Log(tmp_path, Limits())
    begun, go_on = threading.Event(), threading.Event()

    def slow(content: bytes) -> None:
        begun.set()
        go_on.wait()

    monkeypatch.setattr(log.file, "write", slow)
    log.put(To.LOG, b"")
    begun.wait()
    while log.error is None:
        log.put(To.LOG, b"")
    go_on.set()
    log.close()
    assert log.error == "the disk is too slow"


def test_limits_drop_the_oldest(tmp_path: Path) -> None:
    """Only where the next segment has what was known when it began."""
    log = Log(tmp_path, Limits(size=1 << 20), patience=60)
    for number in range(8):
        log.put(To.LOG, os.urandom(300_000))
        log.put(To.NEXT_SEGMENT)
        if number not in (0, 3):
            log.put(To.STATE, b"known")
        log.put(To.STATE_ENDS)
    log.close()
    held = segments(tmp_path)
    assert held[-1].number == 9
    assert [each.number for each in held] == list(range(held[0].number, 10))
    assert held[0].state.exists()
    assert sum(each.path.stat().st_size for each in held) <= (1 << 20) + 300_000


def test_age_drops_the_oldest(tmp_path: Path) -> None:
    """By when it was written last."""
    log = Log(tmp_path, Limits(age=3600.0), wall=lambda: 1e10, patience=60)
    log.put(To.LOG, b"old")
    log.put(To.NEXT_SEGMENT)
    log.put(To.STATE, b"known")
    log.put(To.STATE_ENDS)
    log.close()
    assert [each.number for each in segments(tmp_path)] == [2]


def test_no_recording(tmp_path: Path) -> None:
    """An empty directory, and none."""
    with pytest.raises(LogError, match=r"^expected a directory that berth run --record"):
        segments(tmp_path)
    with pytest.raises(LogError, match=r"^no such file or directory$"):
        segments(tmp_path / "none")
