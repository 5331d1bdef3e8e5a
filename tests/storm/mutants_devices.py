"""Bugs put into what gives devices, and into what sends again; `mutants` says how, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from podberth.app import objects
from podberth.cache.devices import AllocatedDevices
from podberth.engine.engine import Engine
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.binding import Patch
from podberth.plugins.dynamic_resources import reservation
from tests.storm.mutants import mutant, was
from tests.storm.mutants_services import MUTANTS, named

__all__ = ["MUTANTS", "named"]


@mutant("devices that are given away count as free")
def forgets_devices() -> Iterator[None]:
    put = was(AllocatedDevices, "put")

    def careless(self: AllocatedDevices, uid: str, allocation: Any) -> Any:
        return put(self, uid, None)

    with patch.object(AllocatedDevices, "put", careless):
        yield


@mutant("a claim gets its device and is reserved for nobody")
def reserves_for_nobody() -> Iterator[None]:
    statuses = was(reservation, "_statuses")

    def careless(*given: Any) -> Iterator[Patch]:
        for write in statuses(*given):
            status = {key: value for key, value in write.change["status"].items() if key != "reservedFor"}
            yield replace(write, change={"status": status})

    with patch.object(reservation, "_statuses", careless):
        yield


@mutant("a new leader gives devices by what its watch has shown, however long ago that was")
def believes_its_watch() -> Iterator[None]:
    with _knows_all("taken_over"):
        yield


@mutant("a new leader gives devices before what its watch has lost is found")
def compares_nothing() -> Iterator[None]:
    with _knows_all("uncompared"):
        yield


@mutant("a new leader takes back what is reserved for pods that the leader before may have bound")
def frees_what_is_reserved() -> Iterator[None]:
    with _knows_all("late_bindings"):
        yield


@contextmanager
def _knows_all(doubt: str) -> Iterator[None]:
    """A new leader does not have this doubt about the leader before."""
    takes_over = was(Engine, "takes_over")

    def careless(self: Engine, *given: Any) -> list[Patch]:
        writes: list[Patch] = takes_over(self, *given)
        setattr(self.cluster.devices, doubt, False)
        return writes

    with patch.object(Engine, "takes_over", careless):
        yield


@mutant("a write that is not answered is sent again at once, each time")
def never_tires() -> Iterator[None]:
    with patch.object(objects, "_ASK_AGAIN", 0.0):
        yield


@mutant("that a victim could not be removed counts as news")
def takes_refusals_for_news() -> Iterator[None]:
    for_room = was(SchedulingQueue, "wake_for_room")
    with patch.object(SchedulingQueue, "wake_for_room", lambda *given, real=True: for_room(*given)):
        yield
