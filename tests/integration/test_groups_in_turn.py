"""Pod groups whose minCount changes, and groups that come one after the other, beside kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.integration.berth import Harbour
from tests.integration.sides import WHOSE, Sides
from tests.integration.test_gangs import ROOT, group

BASIC: Object = {"schedulingPolicy": {"basic": {}}}


@pytest.fixture
def sides(gated: ControlPlane, space: str, harbour: Harbour, add_nodes: Callable[..., None]) -> Iterator[Sides]:
    """Both halves of a control plane that has pod groups."""
    made = Sides(gated, space, harbour, add_nodes)
    yield made
    made.end()


def gang(sides: Sides, name: str, needed: int, count: int, of: str = "all") -> list[str]:
    """Create a gang with so many pods; their names."""
    for whose in WHOSE:
        group(sides.api, sides.namespace, f"{whose}-{name}", needed)
    return members(sides, name, range(count), of)


def members(sides: Sides, name: str, which: range, of: str = "all") -> list[str]:
    """Create some of a group's pods, each of which needs a node for itself; their names."""
    names = [f"{name}-{i}" for i in which]
    for whose in WHOSE:
        for one in names:
            sides.put(whose, one, of, cpu="600m", schedulingGroup={"podGroupName": f"{whose}-{name}"})
    return names


def need(sides: Sides, name: str, needed: int) -> None:
    """Change how many pods a gang needs."""
    for whose in WHOSE:
        spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
        sides.api.patch(f"{ROOT.format(sides.namespace)}/{whose}-{name}", {"spec": spec})


def test_min_count_changes(sides: Sides) -> None:
    """A gang that lacks pods, or room, starts when it needs one less, and does not when it needs one more."""
    for of in ("pods", "room"):
        for i in range(3):
            sides.node(f"{of}-{i}", of=of, cpu="1")
    sides.start(gates=["GenericWorkload"])
    lacks_pods = gang(sides, "pods", 4, 3, of="pods")
    lacks_room = gang(sides, "room", 4, 4, of="room")
    sides.waits("room-0", "minCount (4) cannot be satisfied")
    need(sides, "room", 5)
    need(sides, "pods", 5)
    need(sides, "pods", 3)
    sides.bound(lacks_pods, 3)
    sides.bound(lacks_room, 0)
    need(sides, "room", 3)
    sides.bound(lacks_room, 3)


def test_one_group_after_the_other(sides: Sides) -> None:
    """The second gang waits whole until the first has gone; a later pod joins it; of a plain group a part is bound."""
    for i in range(2):
        sides.node(f"{i}", cpu="1")
    sides.start(gates=["GenericWorkload"])
    first = gang(sides, "first", 2, 2)
    sides.bound(first, 2)
    second = gang(sides, "second", 2, 2)
    sides.waits("second-0")
    sides.bound(second, 0)
    sides.delete("first-0")
    sides.bound(second, 0)
    sides.delete("first-1")
    sides.bound(second, 2)
    late = members(sides, "second", range(2, 3))
    sides.waits(late[0], "Insufficient cpu")
    for whose in WHOSE:
        path = ROOT.format(sides.namespace)
        sides.api.create(path, {"metadata": {"name": f"{whose}-plain"}, "spec": BASIC})
    sides.node("2", cpu="1")
    sides.bound(late, 1)
    sides.node("3", cpu="1")
    plain = members(sides, "plain", range(2))
    sides.bound(plain, 1)
    sides.delete("second-0")
    sides.bound(plain, 2)
