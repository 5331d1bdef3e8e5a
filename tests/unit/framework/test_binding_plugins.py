"""Reserve and PreBind of several plugins, in-tree or not: order, refusal, and the way back."""

from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.framework.binding import (
    AssumedPod,
    BindingPlugins,
    BindResult,
    Patch,
    Refusal,
    Wait,
    WaitingPods,
    by_point,
)
from podberth.framework.guard import Guard
from podberth.framework.interface import Plugin
from podberth.framework.status import PluginError, Reject, Unschedulable
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import pod

POD = Decoder().pod(wire.encode(pod("p")))
KEY = ("PersistentVolumeClaim", "default", "c")


class Holder(Plugin):
    """A plugin that notes what it is asked."""

    def __init__(self, name: str, log: list[str], reserved: Any = None, steps: tuple[Any, ...] = ()) -> None:
        self.name = name  # type: ignore[misc] # each of them is a plugin of its own
        self._log = log
        self._reserved = reserved
        self._steps = list(steps)

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> Any:
        self._log.append(f"{self.name} reserves {pod.name} on {row}")
        if isinstance(self._reserved, Exception):
            raise self._reserved
        return self._reserved

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> None:
        self._log.append(f"{self.name} gives back {assumed.reserved}")

    def pre_bind(self, assumed: AssumedPod, cluster: Cluster) -> Any:
        self._log.append(f"{self.name} prepares {assumed.reserved} with {assumed.written}")
        return self._steps.pop(0) if self._steps else None


class Binder(Plugin):
    """Has the Binding posted."""

    name = "Binder"

    def bind(self, assumed: AssumedPod, cluster: Cluster) -> BindResult:
        return BindResult.POST


def asked(*holders: Holder) -> BindingPlugins:
    points = {"reserve": holders, "pre_bind": holders, "bind": (Binder(),)}
    return BindingPlugins(by_point(points), Guard(), lambda point, status: None, POD, 3, "n", WaitingPods())


def test_in_order_and_back() -> None:
    """Plugins reserve in order, and give back in the opposite one, each what it has reserved, once."""
    log: list[str] = []
    plugins = asked(Holder("A", log, "a"), Holder("B", log, "b"))
    assert plugins.ask("reserve", Cluster()) is None
    assert plugins.ask("pre_bind", Cluster()) is None
    assert plugins.ask("bind", Cluster()) is BindResult.POST
    assert plugins.unreserve(Cluster()) == ([], [])
    assert plugins.unreserve(Cluster()) == ([], [])
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
    plugins = asked(Holder("A", log, "a"), Holder("B", log, no), Holder("C", log))
    refused = plugins.ask("reserve", Cluster())
    assert refused == Refusal("B", no.reason)
    plugins.unreserve(Cluster())
    assert log == ["A reserves p on 3", "B reserves p on 3", "A gives back a"]


def test_one_breaks() -> None:
    """Whatever a plugin raises comes out under its name, after the others have given back."""
    log: list[str] = []
    plugins = asked(Holder("A", log, "a"), Holder("B", log, RuntimeError("boom")))
    with pytest.raises(PluginError, match='running Reserve plugin "B": boom'):
        plugins.ask("reserve", Cluster())
    plugins.unreserve(Cluster())
    assert log[-1] == "A gives back a"


def test_waiting() -> None:
    """A plugin is asked again with what was written for it; those that are done are not."""
    log: list[str] = []
    write = Wait(9.0, (Patch(KEY, "u", "1", {}),))
    plugins = asked(Holder("A", log, "a"), Holder("B", log, "b", (write, Wait(9.0, on=frozenset({KEY})))))
    plugins.ask("reserve", Cluster())
    assert plugins.ask("pre_bind", Cluster()) is write
    assert plugins.plugin == "B"
    plugins.wrote({KEY: "2"})
    waits = plugins.ask("pre_bind", Cluster())
    assert isinstance(waits, Wait)
    assert waits.on == {KEY}
    assert plugins.ask("pre_bind", Cluster()) is None
    assert plugins.ask("bind", Cluster()) is BindResult.POST
    assert plugins.plugin == "Binder"
    assert log.count("A prepares a with {}") == 1
    assert log[-1] == f"B prepares b with { {KEY: '2'} }"


def test_pre_bind_rejects() -> None:
    """The rejection is told as the plugin's."""
    no = Reject(Unschedulable("no longer"))
    assert asked(Holder("A", [], steps=(no,))).ask("pre_bind", Cluster()) == Refusal("A", no.reason)
