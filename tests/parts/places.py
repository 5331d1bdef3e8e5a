"""Where tests are, as far as it decides which part of all tests they are in."""

from __future__ import annotations

from pathlib import PurePath

WHOLE = PurePath("tests/integration")
"""Of the tests on real processes, these take longest and mostly wait: they run in two halves at the same time."""
_REAL = ("as_created", "chart", "contract", "differential", "image", "release")
REAL = tuple(PurePath("tests", folder) for folder in _REAL)
"""The other folders with tests on real processes. All others are not even read for these."""
END_TO_END = PurePath("tests/e2e")
"""Kubernetes' own tests, which mostly wait, too."""
STORM = PurePath("tests/storm")
HOSTILE = PurePath("tests/unit/bench")
SITE = PurePath("tests/site")
MIDDLE = tuple(PurePath("tests/unit", folder) for folder in ("engine", "framework", "plugins", "cache"))


def may_be_real(file: PurePath) -> bool:
    """Whether a test on real processes in this file, named from the root of the repository, is in one of the parts."""
    return any(file.is_relative_to(folder) for folder in (WHOLE, END_TO_END, *REAL))
