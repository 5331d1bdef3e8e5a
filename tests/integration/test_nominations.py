"""The node that a pod is nominated for: named from outside, kept over a restart, given up, as by kube-scheduler."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.integration import checks
from tests.integration.classes import CLASSES, make_class
from tests.integration.sides import Sides, sides

__all__ = ["sides"]

pytestmark = pytest.mark.newest
SLOW: Object = {"terminationGracePeriodSeconds": 300}


class One(NamedTuple):
    """A pod: what it asks for, where it is or is nominated for, and where both end up."""

    name: str
    cpu: str
    on: str = ""
    nominated: str = ""
    high: bool = False
    ends_on: str = ""
    ends_nominated: str = ""


SCENARIOS: dict[str, tuple[str, list[One]]] = {
    "taken, though another one is better": (
        "ab",
        [One("there", "1", on="b", ends_on="b"), One("asks", "1", nominated="b", ends_on="b")],
    ),
    "too small": ("a", [One("asks", "5", nominated="a"), One("other", "3", ends_on="a")]),
    "needed by a pod of higher priority": (
        "a",
        [One("asks", "4", nominated="a"), One("other", "4", high=True, ends_on="a")],
    ),
    "with more victims than another one": (
        "ab",
        [
            One("stays-1", "2", on="a", ends_on="a"),
            One("stays-2", "2", on="a", ends_on="a"),
            One("victim", "3", on="b", ends_on="b"),
            One("asks", "4", nominated="a", high=True, ends_nominated="b"),
        ],
    ),
    "gone, and there is another one": ("a", [One("asks", "1", nominated="gone", ends_on="a")]),
    "gone, and there is no other": ("a", [One("asks", "5", nominated="gone")]),
}


@pytest.fixture
def middle(control_plane: Cluster) -> Iterator[str]:
    """The name of a priority class between that of `urgent` and none."""
    name = f"middle-{secrets.token_hex(4)}"
    make_class(control_plane.api, name, 500)
    yield name
    control_plane.api.delete(f"{CLASSES}/{name}")


def test_named_from_outside(sides: Sides, urgent: str) -> None:
    """Somebody has nominated pods before the schedulers start: who is bound where, and whose nomination is left."""
    for i, (places, pods) in enumerate(SCENARIOS.values()):
        for place in places:
            sides.node(f"{i}-{place}", of=str(i))
        for one in pods:
            how: Object = {"priorityClassName": urgent} if one.high else {}
            sides.pod(f"{i}-{one.name}", str(i), one.on and f"{i}-{one.on}", cpu=one.cpu, **SLOW, **how)
            if one.nominated:
                sides.nominate(f"{i}-{one.name}", f"{i}-{one.nominated}")
    sides.start()
    for i, (_, pods) in enumerate(SCENARIOS.values()):
        sides.ends({f"{i}-{one.name}": one.ends_on and f"{i}-{one.ends_on}" for one in pods})
        left = {f"{i}-{one.name}": one.ends_nominated and f"{i}-{one.ends_nominated}" for one in pods}
        sides.ends({}, left)
        for one in pods:
            # Whoever waits for victims may be tried once more, and has another message then.
            if not one.ends_on and not one.ends_nominated:
                sides.waits(f"{i}-{one.name}")
    sides.wait_going({"3-victim"})


def test_kept_over_a_restart(sides: Sides, urgent: str) -> None:
    """Killed while the victim goes: the next scheduler keeps the room from others, and nobody else has to go."""
    for at in "ab":
        sides.node(at, cpu="1")
    for name, at, cpu in (("victim", "a", "800m"), ("stays-1", "b", "450m"), ("stays-2", "b", "450m")):
        sides.pod(name, on=at, cpu=cpu, **SLOW)
    sides.start()
    sides.pod("urgent", cpu="600m", priorityClassName=urgent)
    sides.ends({}, {"urgent": "a"})
    checks.wait_events(sides.api, sides.namespace, "Preempted", 2)
    sides.kill()
    sides.start()
    # It fits beside the victim that goes, but not beside the pod that is to come in its place.
    sides.pod("rival", cpu="150m")
    assert "2 Insufficient cpu" in sides.waits("rival")
    sides.ends({"urgent": ""}, {"urgent": "a"})
    assert sides.going() == {"victim"}
    sides.delete("victim")
    sides.ends({"urgent": "a", "rival": "a", "stays-1": "b", "stays-2": "b"}, {"urgent": ""})
    assert sides.going() == set()
    assert len(checks.events(sides.api, sides.namespace, "Preempted")) == 2


def test_given_up(sides: Sides, urgent: str, middle: str) -> None:
    """A pod of higher priority takes the nomination over; and who waits for a nominated pod is tried when that goes."""
    for at in ("over", "goes"):
        sides.node(at, of=at, cpu="1")
    for name, at, cpu in (("1", "over", "300m"), ("2", "over", "300m"), ("3", "goes", "500m")):
        sides.pod(f"victim-{name}", on=at, cpu=cpu, **SLOW)
    sides.start()
    for at in ("over", "goes"):
        sides.pod(f"{at}-middle", of=at, cpu="600m", priorityClassName=middle)
        sides.ends({}, {f"{at}-middle": at})
    sides.pod("over-urgent", of="over", cpu="900m", priorityClassName=urgent)
    sides.ends({}, {"over-urgent": "over", "over-middle": ""})
    sides.pod("goes-small", of="goes", cpu="450m")
    sides.waits("goes-small", "1 Insufficient cpu")
    sides.delete("goes-middle")
    sides.ends({"goes-small": "goes"})
    sides.wait_going({f"victim-{i}" for i in (1, 2, 3)})
    for i in (1, 2):
        sides.delete(f"victim-{i}")
    sides.ends({"over-urgent": "over", "over-middle": ""})
