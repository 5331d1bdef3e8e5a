"""A plugin that holds the loop: named while it does, and ended if it is a third party's."""

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.app.watchdog import Watchdog
from podberth.framework.declaration import Foreign
from podberth.framework.guard import Guard
from podberth.framework.interface import Plugin
from podberth.framework.status import PluginError


class Sleepy(Plugin):
    """Sleeps until somebody wakes it, and thinks that it can catch everything."""

    name = "Sleepy"

    def __init__(self, woken: threading.Event) -> None:
        self._woken = woken

    def permit(self) -> str:
        while True:
            try:
                self._woken.wait(60)
                return "slept well"
            except Exception:  # noqa: BLE001, S110 (what a careless plugin does)
                pass


def test_a_third_party_plugin_is_ended() -> None:
    """The pod fails under its name, and what comes next is not disturbed."""
    guard = Guard()
    sleepy: Any = Foreign(Sleepy(threading.Event()))
    with capture_logs() as logs, Watchdog([guard], limit=1.2):
        with pytest.raises(PluginError, match=r'running Permit plugin "Sleepy": held the scheduler for 1\.2s without'):
            guard(sleepy, sleepy.permit)
        assert guard.running is None
        assert guard(sleepy, lambda: "next") == "next"
    (line,) = logs
    assert (line["event"], line["plugin"], line["point"]) == ("a plugin holds the loop", "Sleepy", "Permit")


class Stubborn(Plugin):
    """Goes on whatever is raised in it, three times."""

    name = "Stubborn"

    def __init__(self) -> None:
        self.interrupted = 0

    def permit(self) -> str:
        while self.interrupted < 3:
            try:
                threading.Event().wait(60)
            except BaseException:  # noqa: BLE001 (what a very careless plugin does)
                self.interrupted += 1
        return "gave in"


def test_a_plugin_that_swallows_its_end_is_named_each_time() -> None:
    """It is interrupted again and again, and the log says so."""
    guard = Guard()
    stubborn: Any = Foreign(Stubborn())
    with capture_logs() as logs, Watchdog([guard], limit=0.3):
        assert guard(stubborn, stubborn.permit) == "gave in"
    again = [line for line in logs if line["event"] == "a plugin goes on although it was interrupted"]
    assert [(line["plugin"], line["point"]) for line in again] == [("Stubborn", "Permit")] * 2


def test_an_in_tree_plugin_is_only_named() -> None:
    """It may be in the midst of the columns: it is told on, and left to end."""
    guard = Guard()
    woken = threading.Event()
    sleepy = Sleepy(woken)

    with capture_logs() as logs, Watchdog([guard], limit=0.0) as watchdog:
        waker = threading.Thread(target=wake_once_named, args=(logs, woken))
        waker.start()
        assert guard(sleepy, sleepy.permit) == "slept well"
        waker.join()
        assert watchdog.held_seconds > 0
    assert [line["plugin"] for line in logs] == ["Sleepy"]


def wake_once_named(logs: list[Any], woken: threading.Event) -> None:
    pause = threading.Event()
    while not logs:
        pause.wait(0.01)
    woken.set()
