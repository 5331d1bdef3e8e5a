"""Messages of plugins' exceptions, which end with file and line."""

import re

_PLACE = re.compile(r" \(test_\w+\.py:\d+\)")


def without_place(text: str) -> str:
    """The text without the line of a test that raised, where it has one."""
    return _PLACE.sub("", text)
