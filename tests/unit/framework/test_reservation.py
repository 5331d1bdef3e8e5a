"""Reserve and PreBind of several plugins, in-tree or not: order, refusal, and the way back."""

from typing import Any

import pytest

from scheduler.framework.guard import Guard
from scheduler.framework.permit import WaitingPods
from scheduler.framework.plugin import Plugin
from scheduler.framework.reservation import Binding, Held, Patch, Reservation, Wait, way
from scheduler.framework.status import PluginError, Reject, Unschedulable
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from tests.builders import pod

POD = Decoder().pod(wire.encode(pod("p")))
KEY = ("PersistentVolumeClaim", "default", "c")


class Holder(Plugin):
    """A plugin that notes what it is asked."""

    def __init__(self, name: str, log: list[str], reserved: Any = None, steps: tuple[Any, ...] = ()) -> None:
        self.name = name
        self._log = log
        self._reserved = reserved
        self._steps = list(steps)

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> Any:
        self._log.append(f"{self.name} reserves {pod.name} on {row}")
        if isinstance(self._reserved, Exception):
            raise self._reserved
        return self._reserved

    def unreserve(self, held: Held, cluster: Cluster) -> None:
        self._log.append(f"{self.name} gives back {held.memory}")

    def pre_bind(self, held: Held, cluster: Cluster) -> Any:
        self._log.append(f"{self.name} prepares {held.memory} with {held.written}")
        return self._steps.pop(0) if self._steps else None


class Binder(Plugin):
    """The end of every way."""

    name = "Binder"

    def bind(self, held: Held, cluster: Cluster) -> Binding:
        return Binding.POST


def reservation(*plugins: Holder) -> Reservation:
    points = {"reserve": plugins, "pre_bind": plugins, "bind": (Binder(),)}
    return Reservation(way(points), Guard(), POD, (3, "n"), WaitingPods())


def test_in_order_and_back() -> None:
    """Plugins reserve in order, and give back in the opposite one, each what it has reserved, once."""
    log: list[str] = []
    held = reservation(Holder("A", log, "a"), Holder("B", log, "b"))
    assert held.take(Cluster()) is None
    assert held.advance(Cluster()) is Binding.POST
    assert held.release(Cluster()) == []
    assert held.release(Cluster()) == []
    assert log == [
        "A reserves p on 3",
        "B reserves p on 3",
        "A prepares a with {}",
        "B prepares b with {}",
        "B gives back b",
        "A gives back a",
    ]


def test_one_refuses() -> None:
    """The others give back what they have; the one that refuses holds nothing."""
    log: list[str] = []
    no = Reject(Unschedulable("not here"))
    held = reservation(Holder("A", log, "a"), Holder("B", log, no), Holder("C", log))
    refused = held.take(Cluster())
    assert refused == ("B", no.reason)
    held.release(Cluster())
    assert log == ["A reserves p on 3", "B reserves p on 3", "A gives back a"]


def test_one_breaks() -> None:
    """Whatever a plugin raises comes out under its name, after the others have given back."""
    log: list[str] = []
    held = reservation(Holder("A", log, "a"), Holder("B", log, RuntimeError("boom")))
    with pytest.raises(PluginError, match='running Reserve plugin "B": RuntimeError: boom'):
        held.take(Cluster())
    held.release(Cluster())
    assert log[-1] == "A gives back a"


def test_waiting() -> None:
    """A plugin is asked again with what was written for it; those that are done are not."""
    log: list[str] = []
    write = Wait(9.0, (Patch(KEY, "u", "1", {}),))
    held = reservation(Holder("A", log, "a"), Holder("B", log, "b", (write, Wait(9.0, on=frozenset({KEY})))))
    held.take(Cluster())
    assert held.advance(Cluster()) is write
    assert held.plugin == "B"
    held.note({KEY: "2"})
    waits = held.advance(Cluster())
    assert isinstance(waits, Wait)
    assert waits.on == {KEY}
    assert held.advance(Cluster()) is Binding.POST
    assert held.plugin == "Binder"
    assert log.count("A prepares a with {}") == 1
    assert log[-1] == f"B prepares b with { {KEY: '2'} }"


def test_pre_bind_refuses() -> None:
    """The pod fails with upstream's words."""
    held = reservation(Holder("A", [], steps=(Reject(Unschedulable("no longer")),)))
    with pytest.raises(PluginError, match='running PreBind plugin "A": no longer'):
        held.advance(Cluster())
