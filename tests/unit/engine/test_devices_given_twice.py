"""Beside another scheduler: what both give is found whenever it is seen, and only pods near it wait.

After another leader: nothing is given before it is seen what that one gave.
"""

import pytest

from podberth.engine.instructions import Bind, DeviceGivenTwice, Failed, Instruction, PreBindWrite, Withdraw
from podberth.engine.orphaned_claims import MOST_BEGUN
from podberth.engine.stimuli import Bound, Compared
from podberth.framework.binding import Patch
from tests.builders import node, pod
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_devices import CLAIM, FINALIZED, WALL, another_has, only, write_all

SLOW = device("d0", _bindingConditions=["Attached"])


@pytest.fixture
def one(harness: Harness) -> Api:
    """A node with one device, and a claim."""
    harness.engine.epoch = WALL - harness.now
    return Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim(meta=FINALIZED))


def test_a_pod_that_is_bound_is_told_of(harness: Harness, one: Api) -> None:
    """However late the other claim is seen: people have to know."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    harness.bound("default/p")
    one.put(claiming(pod("p", on="n"), "c"))
    one.show(CLAIM)
    harness.after(3600)
    one.put(claim("theirs", meta=FINALIZED))
    there = claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"]))
    told = only(one.put(there), DeviceGivenTwice)
    assert told.pod.name == "p"
    assert told.note == "device gpu.test/n/d0 of claim default/c was also given to claim default/theirs"
    said = one.edit(("ResourceClaim", "default", "theirs"), metadata={"labels": {"any": "change"}})
    assert not [each for each in said if isinstance(each, DeviceGivenTwice)], "it was told"


def test_a_pod_whose_binding_the_watch_does_not_show_yet_is_told_of(harness: Harness, one: Api) -> None:
    """The watch of claims may be ahead of that of pods."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    harness.bound("default/p")
    there = claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"]))
    assert only(one.put(there), DeviceGivenTwice).pod.name == "p"
    said = one.put(claiming(pod("p", on="n"), "c")) + one.show(CLAIM)
    assert not [each for each in said if isinstance(each, DeviceGivenTwice)], "it was told"


def test_a_binding_that_is_under_way_is_withdrawn(harness: Harness, one: Api) -> None:
    """If that is too late, people are told once it is known."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    there = claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"]))
    said = one.put(there)
    assert only(said, Withdraw).pod.name == "p"
    assert not [each for each in said if isinstance(each, DeviceGivenTwice)]
    assert only(harness.handle(Bound("default/p")), DeviceGivenTwice).pod.name == "p"


def test_a_pod_that_waits_for_its_device_gives_way(harness: Harness) -> None:
    """It waits for the driver, not for another scheduler, and hears of the other claim all the same."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", SLOW, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    write_all(harness, api, harness.cycles())
    api.show(CLAIM)
    there = claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"]))
    back = only(api.put(there), PreBindWrite)
    assert back.writes[0].change["status"]["allocation"] is None
    assert "was given to claim default/theirs" in only(harness.handle(api.write(back)), Failed).message


def writes(said: list[Instruction]) -> list[PreBindWrite]:
    return [each for each in said if isinstance(each, PreBindWrite)]


@pytest.mark.parametrize("finalized", [True, False])
def test_a_new_leader_gives_nothing_before_its_watch_has_caught_up(harness: Harness, finalized: bool) -> None:
    """The watch stood still when the leader before gave the device, so it still looks free (seed 53545)."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"))
    api.put(claim("theirs", meta=FINALIZED))
    api.put(claim(meta=FINALIZED if finalized else {}))
    api.store(claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"])))
    harness.engine.takes_over(harness.now, 145.0)
    api.put(claiming(pod("p"), "c"))
    first = only(harness.cycles(), PreBindWrite)
    assert [write.subresource for write in first.writes if isinstance(write, Patch)] == [""], "no allocation"
    assert harness.handle(api.write(first)) == [], "the watch does not show it"
    said = api.show(("ResourceClaim", "default", "theirs"), CLAIM)
    assert "was given to claim default/theirs" in only(said, Failed).message
    assert writes(said) == []


def test_a_list_that_shows_the_write_is_heard_to_its_end(harness: Harness, one: Api) -> None:
    """What the leader before gave to another claim comes later in it (seed 1005232 of the storm)."""
    one.put(claim("theirs", meta=FINALIZED))
    one.store(claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"])))
    harness.engine.takes_over(harness.now, 145.0)
    one.put(claiming(pod("p"), "c"))
    harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    (again,) = writes(one.show(CLAIM))
    assert [write.subresource for write in again.writes if isinstance(write, Patch)] == [""], "no allocation"
    harness.handle(one.write(again))
    said = one.show(("ResourceClaim", "default", "theirs"), CLAIM)
    assert "was given to claim default/theirs" in only(said, Failed).message


def test_a_new_leader_whose_watch_has_caught_up_waits_for_nothing(harness: Harness, one: Api) -> None:
    """Once the watch has shown a write of its own to a claim, it has shown all that was written before."""
    one.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    one.put(claim("d", meta=FINALIZED))
    harness.engine.takes_over(harness.now, 145.0)
    one.put(claiming(pod("p"), "c"))
    first = only(harness.cycles(), PreBindWrite)
    answer = harness.handle(one.write(first))
    assert writes(answer) == []
    (again,) = writes(one.show(CLAIM))
    assert writes(harness.handle(one.write(again))) == []
    (given,) = writes(one.show(CLAIM))
    assert only(harness.handle(one.write(given)), Bind).node == "n"
    one.put(claiming(pod("q"), "d"))
    (given,) = writes(harness.cycles())
    assert [write.subresource for write in given.writes if isinstance(write, Patch)] == ["status"]


def test_a_new_leader_gives_nothing_before_claims_are_compared(harness: Harness, one: Api) -> None:
    """The watch shows its writes, and has lost what the leader before gave (beside seed 1200769 of the storm)."""
    one.put(claim("theirs", meta=FINALIZED))
    one.store(claim("theirs", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"])))
    harness.engine.takes_over(harness.now, 145.0, True)
    one.put(claiming(pod("p"), "c"))
    harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    (again,) = writes(one.show(CLAIM))
    assert writes(harness.handle(one.write(again))) == []
    assert writes(one.show(CLAIM)) == [], "the watch has caught up, and what it has lost is not known"
    said = one.show(("ResourceClaim", "default", "theirs"))
    assert "was given to claim default/theirs" in only(said, Failed).message
    assert writes(harness.handle(Compared())) == []


def test_once_claims_are_compared_nobody_waits(harness: Harness, one: Api) -> None:
    """Those that waited for it go on, and others do not wait."""
    one.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    one.put(claim("d", meta=FINALIZED))
    harness.engine.takes_over(harness.now, 145.0, True)
    one.put(claiming(pod("p"), "c"))
    harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    (again,) = writes(one.show(CLAIM))
    harness.handle(one.write(again))
    assert writes(one.show(CLAIM)) == []
    (given,) = writes(harness.handle(Compared()))
    assert only(harness.handle(one.write(given)), Bind).node == "n"
    one.put(claiming(pod("q"), "d"))
    (given,) = writes(harness.cycles())
    assert [write.subresource for write in given.writes if isinstance(write, Patch)] == ["status"]


def test_what_the_leader_before_has_begun_is_overtaken(harness: Harness, one: Api) -> None:
    """Its pod is gone, so nobody tries it, and an allocation may still be under way (seed 502205)."""
    one.put(claim("untouched"))
    one.put(claim("given", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"])))
    one.put(claim("tried", meta=FINALIZED))
    one.put(claiming(pod("p"), "tried"))
    one.put(claim("gated", meta=FINALIZED))
    held = claiming(pod("q"), "gated")
    held["spec"]["schedulingGates"] = [{"name": "later"}]
    one.put(held)
    writes = harness.engine.takes_over(harness.now, 145.0)
    assert {write.key for write in writes} == {CLAIM, ("ResourceClaim", "default", "gated")}
    assert all(write.resource_version == one.get(write.key)["metadata"]["resourceVersion"] for write in writes)
    assert all("podberth.dev/reserved-over" in write.change["metadata"]["annotations"] for write in writes)


def test_of_many_that_were_begun_the_newest_are_overtaken(harness: Harness, one: Api) -> None:
    """Anybody may write our finalizer, and a leader begins with one write for each of them at most."""
    for i in range(MOST_BEGUN):
        one.put(claim(f"c{i}", meta=FINALIZED))
    names = {write.key[2] for write in harness.engine.takes_over(harness.now, 145.0)}
    assert names == {f"c{i}" for i in range(MOST_BEGUN)}, "without the oldest one, c"


def given_elsewhere(api: Api) -> None:
    """Another scheduler gives a device of another pool while we look."""
    api.put(claim("x", meta=FINALIZED))
    api.put(claim("x", meta=FINALIZED, status=allocated(result("d0", "m"), node="m", reserved=["other"])))


def test_pods_in_other_pools_do_not_wait(harness: Harness, one: Api) -> None:
    """Only those whose device is of a pool where another scheduler was seen to give one."""
    given_elsewhere(one)
    one.put(claiming(pod("p"), "c"))
    assert only(write_all(harness, one, harness.cycles()), Bind).node == "n"


def test_another_scheduler_is_forgotten_after_a_while(harness: Harness, one: Api) -> None:
    """It gave a device of this pool, and took it back; five minutes later nobody waits for it."""
    one.put(claim("x", meta=FINALIZED))
    another_has(one, "x")
    one.put(claim("x", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    assert not [each for each in write_all(harness, one, harness.cycles()) if isinstance(each, Bind)]
    one.show(CLAIM)
    assert only(harness.tick(1.5), Bind).node == "n"
    harness.bound("default/p")
    one.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    harness.after(301)
    one.put(claim("c2", meta=FINALIZED))
    one.put(claiming(pod("q"), "c2"))
    assert only(write_all(harness, one, harness.cycles()), Bind).pod.name == "q"
