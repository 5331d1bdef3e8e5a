"""How long a pod runs at most, as far as anybody has said so.

`spec.activeDeadlineSeconds` is enforced by the kubelet. The annotation is its owner's word, which nobody enforces.
"""

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from podberth.model.wire import annotation

EXPECTED_DURATION = "podberth.dev/expected-duration"
"""Annotation of a pod: how long it is expected to run, such as 90s, 15m or 1h30m."""
_TOKEN = b"expected-duration"
_DURATION = re.compile(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_LONGEST = 32
"""Longer texts are no durations, and are not kept."""


class Lasting(NamedTuple):
    """What is known of the end of a pod that does not run for ever. Durations in seconds, from its start."""

    enforced: int | None
    """It is stopped after so long."""
    expected: int | None
    """Its owner expects it to end after so long."""

    def seconds(self, *, trusting: bool) -> int | None:
        """The longest that it can run; None: nobody knows. `trusting`: a time that is only expected counts."""
        known = [each for each in (self.enforced, self.expected if trusting else None) if each is not None]
        return min(known, default=None)


@lru_cache(maxsize=4096)
def lasting(restart_policy: str | None, deadline: int | None, expected: str | None) -> Lasting | None:
    """The Lasting of a pod; None: it runs until somebody removes it."""
    seconds = None if expected is None else duration(expected)
    if deadline is None and seconds is None and restart_policy not in ("Never", "OnFailure"):
        return None
    return Lasting(deadline, seconds)


def expected_text(annotations: bytes) -> str | None:
    """The annotation's value in a pod's annotations, None where it has none: then nothing is decoded."""
    text = annotation(annotations, EXPECTED_DURATION, _TOKEN)
    return text if text is None or len(text) <= _LONGEST else ""


def duration(text: str) -> int | None:
    """Seconds of a text such as 1h30m; None where it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


@lru_cache(maxsize=4096)
def since_epoch(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
