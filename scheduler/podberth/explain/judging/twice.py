"""Fields that an object has twice: one of the values would be lost unnoticed."""

import json
from collections.abc import Iterator
from typing import Any

from podberth.explain.documents import ObjectError


class _Pairs(list[tuple[str, Any]]):
    """A mapping, with all that it says."""


def twice(raw: bytes) -> Iterator[str]:
    """A line for each. Raises ObjectError."""
    try:
        whole = json.loads(raw, object_pairs_hook=_Pairs)
    except RecursionError:
        raise ObjectError("is nested too deep") from None
    left: list[tuple[str, Any]] = [("", whole)]
    while left:
        path, value = left.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            below = []
            for key, each in value:
                here = f"{path}.{key}" if path else key
                if key in seen:
                    yield f"{here}: is there twice"
                seen.add(key)
                below.append((here, each))
        elif isinstance(value, list):
            below = [(f"{path}[{i}]", each) for i, each in enumerate(value)]
        else:
            continue
        left += reversed(below)
