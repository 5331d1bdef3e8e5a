"""The wire format by itself, and Status objects in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube import protobuf
from scheduler.kube.errors import ApiError, Cause, Details, Status, read_status
from scheduler.kube.protobuf import integer, message, text


@pytest.mark.parametrize(
    ("number", "want"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**63 - 1, "ff" * 8 + "7f")]
)
def test_varints(number: int, want: str) -> None:
    """Seven bits a byte, as the format's own examples have them."""
    assert protobuf.varint(number).hex() == want


def test_an_empty_text_is_left_out() -> None:
    """Its absence means the same."""
    assert text(1, "") == b""
    assert text(1, "ab") == b"\x0a\x02ab"


FIELDS = st.lists(st.tuples(st.integers(1, 15), st.integers(0, 2**64 - 1) | st.binary(max_size=300)))


@given(FIELDS)
def test_what_was_put_together_comes_apart(wanted: list[tuple[int, int | bytes]]) -> None:
    """Numbers and bytes of any size come back in their order."""
    body = b"".join(integer(n, value) if isinstance(value, int) else message(n, value) for n, value in wanted)
    assert list(protobuf.fields(body)) == wanted


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """A broken answer is a message to show, and never anything but a Status."""
    assert isinstance(read_status(protobuf.MAGIC + body), Status)


@pytest.mark.parametrize("body", [b"\x80", b"\x0a", b"\x0a\x05ab", b"\x0b", b"\x09\x01", b"\x08" + b"\xff" * 10])
def test_what_is_cut_off_is_refused(body: bytes) -> None:
    """A key without its value, fewer bytes than promised, a wire type that is none, a number without end."""
    with pytest.raises(protobuf.MalformedError):
        list(protobuf.fields(body))


def test_fixed_numbers_are_passed_over() -> None:
    """Fields of types that no Status has today do not hide those that follow."""
    assert list(protobuf.fields(b"\x0d1234\x0912345678\x10\x07")) == [(1, b"1234"), (1, b"12345678"), (2, 7)]


def test_a_status_is_read_as_in_json() -> None:
    """Every field that errors act on: reason, message, code, causes, seconds to wait."""
    cause = text(1, "FieldValueInvalid") + text(2, "must be set") + text(3, "action")
    details = text(1, "web-0") + text(2, "g") + text(3, "pods") + message(4, cause) + integer(5, 7) + text(6, "u-1")
    body = message(1, b"") + text(2, "Failure") + text(3, "no") + text(4, "Invalid") + message(5, details)
    answer = protobuf.envelope("v1", "Status", body + integer(6, 422))
    assert read_status(answer) == Status(
        kind="Status",
        status="Failure",
        message="no",
        reason="Invalid",
        code=422,
        details=Details("web-0", "g", "pods", "u-1", [Cause("FieldValueInvalid", "must be set", "action")], 7),
    )
    error = ApiError.from_answer(429, answer)
    assert (error.reason, error.retry_after, error.has_cause("FieldValueInvalid")) == ("Invalid", 7.0, True)
