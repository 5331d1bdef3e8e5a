"""Counts work, where seconds would depend on the machine: lines of Python, and calls of methods."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def lines(work: Callable[[], T]) -> tuple[int, T]:
    """How many lines of Python some work takes, and what it returns."""
    count = 0

    def line(_frame: FrameType, event: str, _what: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        done = work()
    finally:
        sys.settrace(before)
    return count, done


def calls(patch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> Counter[str]:
    """How often each of these methods is called from now on, by its name."""
    counted: Counter[str] = Counter()
    for of, name in methods:
        _count(patch, of, name, counted)
    return counted


def _count(patch: pytest.MonkeyPatch, of: type, name: str, counted: Counter[str]) -> None:
    before = getattr(of, name)

    def counting(self: Any, *args: Any, **more: Any) -> Any:
        counted[name] += 1
        return before(self, *args, **more)

    patch.setattr(of, name, counting)
