"""The wire format by itself; what `writes` says in it is compared with its JSON in test_writes."""

from __future__ import annotations

import pytest

from podberth.kube import writes


@pytest.mark.parametrize(
    ("number", "want"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**63 - 1, "ff" * 8 + "7f")]
)
def test_varints(number: int, want: str) -> None:
    """Seven bits a byte, as the format's own examples have them."""
    assert writes.varint(number).hex() == want


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (writes.text(1, ""), ""),
        (writes.text(1, "ab"), "0a026162"),
        (writes.text(1, "é"), "0a02c3a9"),
        (writes.message(15, b""), "7a00"),
        (writes.integer(2, 300), "10ac02"),
        (writes.envelope("v1", "Pod", b"x"), "6b3873000a090a0276311203506f64120178"),
    ],
    ids=["absent", "text", "UTF-8", "empty message", "integer", "envelope"],
)
def test_fields(made: bytes, want: str) -> None:
    """A key, a length, the content; an empty text is left out, an empty message is there."""
    assert made.hex() == want


@pytest.mark.parametrize("length", [127, 128, 2047, 2048, 20_000])
def test_lengths_that_are_looked_up_and_that_are_not(length: int) -> None:
    """Every length is written as the number that it is."""
    body = b"x" * length
    want = b"\x12" + writes.varint(length) + body
    assert writes.message(2, body) == writes.text(2, body.decode()) == want
