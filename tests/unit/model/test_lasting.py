"""How long a pod runs, as far as anybody has said so."""

import pytest

from podberth.model.kinds import Decoder
from podberth.model.pod import Lasting, duration, expected_text, lasting, since_epoch
from podberth.model.wire import encode


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("2h0m5s", 7205),
        ("", None),
        ("90", None),
        ("1m1h", None),
        ("-5s", None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert duration(text) == seconds


def test_what_is_said_of_a_pod() -> None:
    """Services run until somebody removes them, unless they say otherwise."""
    assert lasting("Always", None, None) is None
    assert lasting("Always", None, "soon") is None
    assert lasting("Never", None, "soon") == Lasting(None, None)
    assert lasting("OnFailure", 60, "1h") == Lasting(60, 3600)
    assert Lasting(60, 3600).seconds(trusting=True) == 60
    assert Lasting(3600, 60).seconds(trusting=True) == 60
    assert Lasting(3600, 60).seconds(trusting=False) == 3600
    assert Lasting(None, 60).seconds(trusting=False) is None


def test_a_long_text_is_not_kept() -> None:
    """An annotation may have 256 KiB, and thousands of pods may each have another one."""
    annotations = encode({"podberth.dev/expected-duration": "1" * 100_000})
    assert expected_text(annotations) == ""
    assert expected_text(b"{}") is None


def test_of_a_pod_on_the_wire() -> None:
    pod = {
        "metadata": {"name": "p", "annotations": {"podberth.dev/expected-duration": "1h"}},
        "spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 120, "containers": []},
    }
    assert Decoder().pod(encode(pod)).lasts == Lasting(120, 3600)


def test_times() -> None:
    assert since_epoch("2026-01-01T00:00:00Z") == 1_767_225_600.0
    assert since_epoch("yesterday") is None
