"""The log never blocks who logs, keeps its lines apart, and says what it lost."""

from __future__ import annotations

import io
import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from podberth.service import log
from podberth.service.log import MOST_CHARACTERS, MOST_KINDS, MOST_LINES, WHILE_SECONDS, LogWriter, RateLimit


def told(count: int) -> str:
    """The line about lost ones."""
    return f"lost {count}"


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """(reading end, writing end) of a pipe that nobody reads unless the test does."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        yield reading, stream
    os.close(reading)


def test_a_stalled_reader_holds_nobody_up(pipe: tuple[int, io.TextIOWrapper]) -> None:
    """With a full pipe, lines beyond the bound are dropped and counted; read again, the counts told add up to it."""
    reading, stream = pipe
    log_writer = LogWriter(stream, told)
    line = "x" * 10_000
    for _ in range(2 * MOST_CHARACTERS // len(line)):
        log_writer.msg(line)
    dropped = log_writer.dropped
    assert dropped > 0
    assert not log_writer.flush(0.0)
    found = bytearray()
    reader = threading.Thread(
        target=lambda: deque(map(found.extend, iter(lambda: os.read(reading, 65536), b"")), maxlen=0)
    )
    reader.start()
    assert log_writer.flush(60.0)
    log_writer.msg("again")
    assert log_writer.flush(60.0)
    stream.close()
    reader.join(60.0)
    lines = found.decode().splitlines()
    # the writer may have begun while lines were still dropped, and then tells of them twice
    assert sum(int(text.removeprefix("lost ")) for text in lines if text.startswith("lost ")) == dropped
    assert lines.count(line) + dropped == 2 * MOST_CHARACTERS // len(line)
    assert "again" in lines


class FullDisk(io.StringIO):
    """Refuses to write while it is full."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_a_full_disk_is_no_error() -> None:
    """Lines that can't be written are counted, and told of once there is room."""
    disk = FullDisk()
    log_writer = LogWriter(disk, told)
    for i in range(3):
        log_writer.msg(f"line {i}")
        assert log_writer.flush(60.0)
    assert log_writer.dropped == 3
    disk.full = False
    log_writer.msg("line 3")
    assert log_writer.flush(60.0)
    assert disk.getvalue().splitlines() == ["line 3", "lost 3"]


def test_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is in a name, a line is one JSON object on one line of printable ASCII; bearer tokens are hidden."""
    log.configure("info")
    try:
        hostile = "a\nb\r\x1b[31m\u2028\u202e\x9b"
        structlog.get_logger("test").info("x", pod=hostile, error="sent Bearer abcdefghijkl.mnop-q: refused", attempt=1)
        log.flush()
    finally:
        structlog.reset_defaults()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isascii()
    assert line.isprintable()
    read = json.loads(line)
    assert (read["pod"], read["error"], read["attempt"]) == (hostile, "sent Bearer …: refused", 1)


@pytest.mark.parametrize(
    "said",
    ["bearer\tabcdefghijkl", "BEARER abcdefghijkl", ["a", "Bearer abcdefghijkl"], {"a": ("Bearer abcdefghijkl",)}],
)
def test_tokens_are_hidden_however_they_are_written(said: object) -> None:
    """In capitals, after other spaces, and within lists, in a file as on a terminal."""
    assert "abcdefgh" in json.dumps(said)
    assert "abcdefgh" not in log.as_json(None, "info", {"error": said})
    assert "abcdefgh" not in str(log.harmless(None, "info", {"error": said}))


def test_control_characters_on_a_terminal() -> None:
    """They are written out there, also in lists; the line breaks of a traceback stay."""
    line = {"pod": "a\x1b[31mb\n", "kinds": ["c\x07"], "exception": "one\n\x1b]0;two\x07", "count": 3}
    assert log.written_out(None, "info", line) == {
        "pod": "a\\x1b[31mb\\x0a",
        "kinds": ["c\\x07"],
        "exception": "one\n\\x1b]0;two\\x07",
        "count": 3,
    }


def test_a_burst_is_told_a_few_times() -> None:
    """The first lines are written; the next while begins with how many were not; other kinds have their own."""
    now, said = [0.0], list[tuple[str, dict[str, Any]]]()
    rate_limit = RateLimit(clock=lambda: now[0])

    def say(event: str, **facts: Any) -> None:
        said.append((event, facts))

    for _ in range(1000):
        rate_limit.write("filter", say, "failed", node="n0")
    assert said == [("failed", {"node": "n0"})] * MOST_LINES
    rate_limit.write("score", say, "failed", node="n0")
    assert len(said) == MOST_LINES + 1
    now[0] = WHILE_SECONDS
    rate_limit.write("filter", say, "failed", node="n1")
    rate_limit.write("filter", say, "failed", node="n2")
    assert [facts for _, facts in said[MOST_LINES + 1 :]] == [
        {"node": "n1", "lines_left_out": 1000 - MOST_LINES},
        {"node": "n2"},
    ]


def test_kinds_are_bounded() -> None:
    """More kinds than are remembered are one kind: who can make kinds up has no more lines for that."""
    now, said = [0.0], list[tuple[int, int]]()
    rate_limit = RateLimit(clock=lambda: now[0])

    def say(event: str, **facts: int) -> None:
        said.append((facts["kind"], facts.get("lines_left_out", 0)))

    for kind in range(MOST_KINDS + 2 * MOST_LINES):
        rate_limit.write(kind, say, "failed", kind=kind)
    assert len(said) == MOST_KINDS + MOST_LINES
    said.clear()
    now[0] = WHILE_SECONDS
    rate_limit.write(MOST_KINDS, say, "failed", kind=MOST_KINDS)
    rate_limit.write(MOST_KINDS + MOST_LINES, say, "failed", kind=MOST_KINDS + MOST_LINES)
    assert said == [(MOST_KINDS, 0), (MOST_KINDS + MOST_LINES, 0)], (
        "those that were first have not failed lately, and are forgotten"
    )
