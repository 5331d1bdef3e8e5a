"""The log of a recording: what a killed process, a crafted file and limits leave of it."""

import os
import struct
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from podberth.lab.recording.log import MAGIC, File, Limits, LogError, drop, frames, repair, segments

FRAMES = [os.urandom(300), b"a" * 9000, b"", b"the end"]


def written(path: Path, contents: list[bytes]) -> Path:
    """A segment with these frames."""
    file = File(path)
    for each in contents:
        file.write(each)
    file.close()
    return path


def test_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Each frame by itself; only its owner may read it."""
    path = written(tmp_path / "1.log", FRAMES)
    assert list(frames(path)) == FRAMES
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a segment."""
    return written(tmp_path_factory.mktemp("whole") / "1.log", FRAMES).read_bytes()


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
    found: list[bytes] = []
    try:
        found += frames(path)
    except LogError as error:
        assert "another version" in str(error)
    assert found == FRAMES[: len(found)]
    assert len(found) < len(FRAMES)


def test_a_crafted_frame_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Kilobytes that would be 64 MiB: they are refused once they are more than a frame may hold."""
    payload = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert len(payload) < 10_000
    path = tmp_path / "1.log"
    path.write_bytes(MAGIC + struct.pack("<II", len(payload), zlib.crc32(payload)) + payload)
    with pytest.raises(LogError, match=r"^1\.log: is damaged: a frame holds more than 16 MiB$"):
        list(frames(path))


def test_limits_drop_the_oldest(tmp_path: Path) -> None:
    """By bytes, and by when each was written last; what is written now stays."""
    paths = [written(tmp_path / f"{number:08}.log", [os.urandom(1000)]) for number in range(1, 6)]
    for path in paths:
        os.utime(path, (0, 1e9))
    size = paths[0].stat().st_size
    drop(tmp_path, Limits(size=3 * size, age=60), paths[-1], now=1e9)
    assert segments(tmp_path) == paths[2:]
    drop(tmp_path, Limits(size=3 * size, age=60), paths[-1], now=1e9 + 61)
    assert segments(tmp_path) == paths[-1:]
    drop(tmp_path, Limits(size=1, age=60), paths[-1], now=1e9 + 61)
    assert segments(tmp_path) == paths[-1:]


def test_no_recording(tmp_path: Path) -> None:
    """An empty directory, none, and one of an older version."""
    with pytest.raises(LogError, match=r"^expected a directory that berth run --record"):
        segments(tmp_path)
    with pytest.raises(LogError, match=r"^no such file or directory$"):
        segments(tmp_path / "none")
    (tmp_path / "1.log").write_bytes(b"berth recording 1\n")
    with pytest.raises(LogError, match=r"^1\.log: another version of Berth has written it$"):
        list(frames(tmp_path / "1.log"))


@pytest.mark.parametrize("content", [b"berth recording 1\nsomething", b"2026-11-30 12:00:00 started\n"])
def test_what_no_process_of_this_version_has_begun_stays(tmp_path: Path, content: bytes) -> None:
    """A recording of an older version, and a log of something else."""
    path = tmp_path / "1.log"
    path.write_bytes(content)
    assert repair(path) == 0
    assert path.read_bytes() == content
