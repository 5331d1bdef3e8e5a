"""CPU profiles of Go processes are read as pprof writes them."""

from __future__ import annotations

import gzip

from bench.pprof import read
from podberth.kube.writes import integer, message, varint


def test_a_profile() -> None:
    """Numbers packed or not, inlined functions, strings by their index; the last value of a sample is its time."""
    strings = b"".join(message(6, name) for name in (b"", b"main", b"encode", b"read"))
    functions = b"".join(message(5, integer(1, 10 * i) + integer(2, i)) for i in (1, 2, 3))
    inlined = message(4, integer(1, 30)) + message(4, integer(1, 20))
    locations = message(4, integer(1, 1) + message(4, integer(1, 10))) + message(4, integer(1, 2) + inlined)
    packed = message(1, varint(2) + varint(1)) + message(2, varint(1) + varint(300))
    single = integer(1, 1) + integer(2, 1) + integer(2, 7)
    body = message(2, packed) + message(2, single) + locations + functions + strings
    profile = read(gzip.compress(body))
    assert profile.stacks == [(("read", "encode", "main"), 300), (("main",), 7)]
    assert profile.total == 307
    assert profile.within("main", "enc") == 300
