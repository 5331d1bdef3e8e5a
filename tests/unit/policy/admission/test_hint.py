"""What the first bytes of a review say: whose it is."""

import sys

from podberth.policy.admission.review import HEAD_BYTES, Hint, hint


def test_a_hint_is_taken_from_the_first_of_thousands_of_uids() -> None:
    """It is looked for before a namespace's slots are: what it costs must not depend on what the object holds."""
    owners = b",".join(b'{"uid":"uid-%d","namespace":"other"}' % i for i in range(4_000))
    body = bytearray(b'{"request": {"uid": "u-1", "namespace": "team", "object": {"owners": [%b]}}}' % owners)
    calls = 0

    def call(_frame: object, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        found = hint(body)
    finally:
        sys.setprofile(before)
    assert found == Hint("u-1", "team")
    assert calls < 50


def test_a_hint_is_of_the_head_alone() -> None:
    """What stands behind the head is the object's."""
    assert hint(b" " * HEAD_BYTES + b'"uid": "u-1", "namespace": "team"') == Hint()
