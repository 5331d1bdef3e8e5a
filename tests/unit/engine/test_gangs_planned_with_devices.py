"""Gangs whose pods claim devices, in a dry run: what is reserved there, and which devices running pods give back."""

from podberth.cache.validate import validate
from podberth.engine.stimuli import Follows
from podberth.model.pod_group import NATIVE
from tests.builders import Object
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .conftest import Harness, node
from .test_gangs import conditions, group, member
from .test_gangs_preempting import group as of_priority
from .test_gangs_preempting import member as of_group
from .test_gangs_preempting import running as low
from .test_gangs_preempting import victims
from .test_gangs_reserving import events, reserving, running


def with_a_device(name: str, cpu: str = "4") -> list[Object]:
    return [node(name, cpu), resource_slice(name, device("d0"), node=name)]


def held(name: str, on: str, *pods: str) -> Object:
    """A claim that has the device of a node."""
    return claim(name, status=allocated(result("d0", on), node=on, reserved=pods))


def settled(harness: Harness) -> None:
    assert validate(harness.engine.cluster) == []
    assert harness.engine.cluster.devices.in_flight == {}


def test_room_is_kept_where_devices_become_free() -> None:
    """The device of n0 is given back at 1100, that of n1 at 1200 and that of n2 never: another pod uses it, too."""
    harness = reserving()
    harness.put(device_class(), *(one for i in range(3) for one in with_a_device(f"n{i}")))
    harness.put(held("c0", "n0", "a"), held("c1", "n1", "b"), held("c2", "n2", "c", "d"))
    harness.put(claiming(running("a", "n0", lasts=100), "c0"), claiming(running("b", "n1", lasts=200), "c1"))
    harness.put(
        claiming(running("c", "n2", lasts=50), "c2"), claiming(running("d", "n2", restartPolicy="Always"), "c2")
    )
    harness.put(claim("w0"), claim("w1"), group(min_count=2))
    harness.put(*(claiming(member(f"train-{i}", "100m"), f"w{i}") for i in range(2)))
    said = harness.cycles()
    kept = "room is kept for it on 2 nodes until 2026-01-01T00:26:40Z, it should have it all by 2026-01-01T00:20:00Z"
    assert conditions(said)[0][2].endswith(f", {kept}")
    assert events(said) == [("RoomKept", kept)]
    (room,) = harness.engine.cluster.reservations.by_profile.values()
    assert sorted(room.planned.values()) == ["n0", "n1"]
    assert len(harness.engine.cluster.devices.allocated) == 3, "nothing is given back but in a dry run"
    settled(harness)


def test_no_room_is_kept_where_no_device_becomes_free() -> None:
    harness = reserving()
    harness.put(device_class(), *with_a_device("n0"), held("c0", "n0", "a", "gone"))
    harness.put(claiming(running("a", "n0", lasts=100), "c0"), claim("w0"), group(min_count=1))
    harness.put(claiming(member("train-0", "100m"), "w0"))
    said = harness.cycles()
    assert conditions(said)[0][2].endswith(
        "no room is kept for it: there is too little room even if all pods end that may"
    )


def test_two_pods_of_a_plan_do_not_count_on_one_device() -> None:
    """Either node has one device, and room for both pods once the victim is gone, as in kube-scheduler's plan."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(device_class(), *(one for i in range(2) for one in with_a_device(f"n{i}", "2")))
    harness.put(low("low-0", "n0", "2"), low("low-1", "n1", "2"))
    harness.put(claim("w0"), claim("w1"), of_priority("high", 2, priority=5))
    harness.put(*(claiming(of_group("high", i, priority=5), f"w{i}") for i in range(2)))
    assert victims(harness.cycles()) == {"low-0", "low-1"}
    settled(harness)


def test_pods_of_a_plan_that_share_a_claim_are_planned_where_its_device_is() -> None:
    """n0 has two devices, and two victims; there would be room for one of the pods on n1 without any."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(device_class(), *with_a_device("n0", "2"), *with_a_device("n1", "1"))
    harness.put(low("low-0", "n0", "1"), low("low-1", "n0", "1"), low("low-2", "n1", "1"))
    harness.put(claim("shared"), of_priority("high", 2, priority=5))
    harness.put(*(claiming(of_group("high", i, priority=5), "shared") for i in range(2)))
    assert victims(harness.cycles()) == {"low-0", "low-1"}
    settled(harness)
