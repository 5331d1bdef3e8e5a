"""What a plugin raises is its own failure, whatever it is; what the engine raises through it stays the engine's."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podberth.framework.declaration import Foreign
from podberth.framework.guard import Guard
from podberth.framework.interface import Plugin
from podberth.framework.status import PluginError


class Own(Plugin):
    """A plugin that does as it is told."""

    name = "Own"

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def filter(self) -> Any:  # type: ignore[override] # asked without a pod
        return self._act()

    def skips(self, shape: Any) -> Any:
        return self._act()


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


ENDS = [
    (SystemExit(7), r"it tried to end the process \(7\)"),
    (KeyboardInterrupt(), "it was interrupted"),
    (asyncio.CancelledError(), "it was cancelled"),
    (GeneratorExit(), "it failed without a message"),
    (MemoryError(), "it ran out of memory"),
]


@pytest.mark.parametrize(("error", "words"), ENDS, ids=[type(error).__name__ for error, _ in ENDS])
def test_no_exception_of_a_plugin_ends_the_process(error: BaseException, words: str) -> None:
    """It fails the plugin's pod under the plugin's name, and the next question is asked as ever."""
    guard = Guard()
    guard.uninterrupted = True
    own: Any = Foreign(Own(raising(error)))
    own.guard = guard
    with pytest.raises(PluginError, match=f'running Filter plugin "Own": {words} \\(test_guard.py:\\d+\\)$'):
        guard(own, own.filter)
    with pytest.raises(PluginError, match=f'running Skips plugin "Own": {words} \\(test_guard.py:\\d+\\)$'):
        own.skips(None)
    assert guard.running is None


def test_a_key_that_somebody_pressed() -> None:
    """Where no shell hears of signals, as in `berth explain`, Ctrl-C ends the command whatever it is at."""
    guard = Guard()
    own = Own(raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        guard(own, own.filter)


class OwnError(Exception):
    """What a plugin's package calls its failures."""


@pytest.mark.parametrize(
    ("raises", "words"),
    [
        (lambda: dict[str, int]()["zone"], 'there is no entry "zone"'),
        (lambda: "text".rows, 'it uses "rows", which a value of the kind str does not have'),  # type: ignore[attr-defined]
        (lambda: 1 / 0, "division by zero"),
        (lambda: [].pop(), "pop from empty list"),
        (lambda: raising(OwnError("no route"))(), "OwnError: no route"),
        (lambda: raising(OwnError())(), "OwnError"),
        (lambda: raising(NotImplementedError())(), "it is not implemented"),
    ],
    ids=["key", "attribute", "division", "list", "own", "own without text", "not implemented"],
)
def test_errors_in_plain_words(raises: Callable[[], Any], words: str) -> None:
    """Python's names for exceptions say nothing to an operator; a name that the plugin has chosen may."""
    guard, own = Guard(), Own(raises)
    with pytest.raises(PluginError) as error:
        guard(own, own.filter)
    assert error.value.text == words
