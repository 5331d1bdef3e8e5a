"""Line splitting over any chunks."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from podberth.kube.listwatch import LineSplitter


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20), st.data())
def test_any_chunking_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    """However the network cuts the bytes, the same lines come out, in order, and nothing is held back."""
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = LineSplitter()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:end])
    assert found == [line for line in lines if line.strip()]
    assert not splitter.cut


def test_an_unfinished_line_is_held_back_and_can_be_dropped() -> None:
    """A line without its newline never comes out; after clear() it is forgotten."""
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    held_back = [splitter.cut]
    splitter.clear()
    assert [*held_back, splitter.cut] == [True, False]
    assert splitter.feed(b'{"c":3}\n') == [b'{"c":3}']


def test_a_line_of_many_megabytes_takes_linear_time() -> None:
    """Twenty megabytes in 1 KiB chunks are joined once, not once a chunk (which would copy 200 GB)."""
    splitter = LineSplitter()
    chunk = b"x" * 1024
    started = time.process_time()
    for _ in range(20 * 1024):
        assert splitter.feed(chunk) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 20 * 1024 * 1024
    assert time.process_time() - started < 20  # quadratic copying takes minutes
