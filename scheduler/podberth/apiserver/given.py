"""What the server gives to objects out of nothing: the time, uids and generated names.

The simulation of `tests/storm` puts its own functions here, so that all of it follows from a seed.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def _uid() -> str:
    return str(uuid.uuid4())


def _suffix() -> str:
    return "".join(random.choices(SUFFIX_LETTERS, k=5))


@dataclass(slots=True)
class Given:
    """`wall` is seconds since the epoch, `suffix` what follows a generateName."""

    wall: Callable[[], float] = time.time
    uid: Callable[[], str] = _uid
    suffix: Callable[[], str] = _suffix


GIVEN = Given()
"""For all servers of this process."""
