"""A new leader may find a pod waiting that the leader before has bound: what is reserved for it is not freed yet."""

from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed, Instruction, PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import Follows
from podberth.model.devices import EXTENDED_RESOURCE_CLAIM
from podberth.model.pod_group import NATIVE
from podberth.plugins.dynamic_resources.reservation import NOTHING
from tests.builders import configuration, node, pod, profile
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_claims_of_groups import GROUP, SHARED, held, reserved
from .test_claims_of_groups import cluster as gang_of_two
from .test_devices import CLAIM, FINALIZED, extended, only, write_all
from .test_gangs import bound
from .test_gangs_that_share import carry_out, writes

UNKNOWN = 145.0
"""Seconds for which the earlier leader's Bindings are not known."""
NOT_YET = "ResourceClaim not freed yet: an earlier leader may have bound the pod"


def frees(said: list[Instruction]) -> list[PostFilterWrite]:
    return [one for one in said if isinstance(one, PostFilterWrite)]


def given(harness: Harness, *users: str, cpu: str = "100m") -> Api:
    """A claim has the device of a node that has no room, and is reserved for these."""
    there = claim(meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=users))
    return Api(harness, node("n", cpu=cpu), device_class(), resource_slice("n", device("d0"), node="n"), there)


def waiting(cpu: str = "1") -> dict[str, Any]:
    return claiming(pod("p", cpu=cpu), "c")


def test_what_is_reserved_for_a_pod_is_freed_once_the_bindings_are_known(harness: Harness) -> None:
    """Its Binding may be on its way, or may not be shown yet (seed 700018)."""
    api = given(harness, "default/p")
    api.put(node("m"))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(waiting())
    said = harness.cycles()
    assert NOT_YET in only(said, Failed).message
    assert frees(said) == []
    assert frees(harness.tick(UNKNOWN - 1) + harness.cycles()) == []
    assert harness.engine.next_tick() == harness.now + 1
    said = harness.tick(1) + harness.tick(20) + harness.cycles()
    (write,) = only(said, PostFilterWrite).writes
    assert write.key == CLAIM
    assert NOT_YET not in only(said, Failed).message
    assert harness.engine.cluster.devices.kept_for == set()


def test_a_pod_that_turns_out_to_be_bound(harness: Harness) -> None:
    """Its claim keeps its device, and the pod is not tried again."""
    api = given(harness, "default/p")
    api.put(node("m"))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(waiting())
    harness.cycles()
    api.put(claiming(pod("p", cpu="1", on="n"), "c"))
    assert harness.tick(UNKNOWN) + harness.tick(20) + harness.cycles() == []


def test_what_is_reserved_for_nobody_is_freed_at_once(harness: Harness) -> None:
    """Nobody binds a pod for which its claim is not reserved."""
    api = given(harness)
    api.put(node("m"))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(waiting())
    assert only(harness.cycles(), PostFilterWrite).writes[0].key == CLAIM


def test_a_pod_that_another_leader_may_have_bound_is_not_taken_out(harness: Harness) -> None:
    """Our own Binding was refused, the other's may be stored yet."""
    api = given(harness, "default/p", cpu="4")
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(waiting())
    assert only(write_all(harness, api, harness.cycles()), Bind).node == "n"
    assert not [one for one in harness.bind_failed("default/p") if isinstance(one, UnreserveWrite)]
    harness.tick(UNKNOWN)
    said = harness.tick(20) + harness.cycles()
    assert only(write_all(harness, api, said), Bind).node == "n"
    assert only(harness.bind_failed("default/p"), UnreserveWrite).writes[0].key == CLAIM


def test_a_claim_that_was_made_for_a_pod(harness: Harness) -> None:
    """As kube-scheduler does, it is deleted and made anew, but not while the pod may be bound with it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    meta = {**FINALIZED, "annotations": {EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [owner]}
    made = claim("made", meta=meta, status=allocated(result("d0", "n"), node="n", reserved=["default/p"]))
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"), made)
    api.put(resource_slice("n", device("d0"), node="n"))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(extended())
    said = harness.cycles()
    assert NOT_YET in only(said, Failed).message
    assert frees(said) == []
    said = harness.tick(UNKNOWN) + harness.tick(20) + harness.cycles()
    assert "deletion of ResourceClaim completed" in only(said, Failed).message
    assert {write.key[2] for write in only(said, PostFilterWrite).writes} == {"made"}


def test_what_this_leader_has_reserved_itself_is_freed_at_once(harness: Harness) -> None:
    """Nobody else has bound a pod by that."""
    api = given(harness, cpu="4")
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(waiting())
    assert only(write_all(harness, api, harness.cycles()), Bind).node == "n"
    api.show(CLAIM)
    assert only(harness.bind_failed("default/p"), UnreserveWrite).writes[0].key == CLAIM
    api.put(node("n", cpu="100m"))
    api.put(node("m"))
    assert only(harness.tick(20) + harness.cycles(), PostFilterWrite).writes[0].key == CLAIM


def test_a_claim_that_the_leader_before_made_is_seen_late(harness: Harness) -> None:
    """The pod may be bound with that one, so none is given to another one."""
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"))
    api.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api.put(extended())
    first = only(harness.cycles(), PreBindWrite)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    meta = {**FINALIZED, "annotations": {EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [owner]}
    api.put(claim("theirs", meta=meta, status=allocated(result("d1", "n"), node="n", reserved=["default/p"])))
    write_all(harness, api, [first])
    write_all(harness, api, api.show(first.writes[0].key))
    said = api.show(first.writes[0].key)
    assert "was made for the pod as well" in only(said, Failed).message
    assert not [one for one in said if isinstance(one, Bind)]


@pytest.fixture
def gangs() -> Iterator[Harness]:
    """The gate for claims of groups is on."""
    harness = Harness(configuration(profile(DynamicResources={"featureGates": {"DRAWorkloadResourceClaims": True}})))
    harness.handle(Follows(NATIVE, True))
    yield harness
    assert validate(harness.engine.cluster) == []


@pytest.mark.parametrize("other", [True, False], ids=["freed", "let go of"])
def test_what_is_reserved_for_a_group(gangs: Harness, other: bool) -> None:
    """Any pod of it may be bound."""
    gangs.engine.takes_over(gangs.now, UNKNOWN)
    if other:
        gangs.put(node("m"))
    api = held(gangs)
    assert frees(gangs.cycles()) == []
    said = gangs.tick(UNKNOWN) + gangs.tick(20) + gangs.cycles()
    (write,) = only(said, PostFilterWrite).writes
    assert (write.key[2], write.change["status"]["reservedFor"]) == ("shared", None)
    assert api.get(("ResourceClaim", "default", "shared"))["status"]["reservedFor"] == [GROUP]


@pytest.mark.parametrize("gate", [True, False], ids=["for the group", "for each pod"])
def test_what_this_leader_has_reserved_for_a_gang_is_freed_at_once(gate: bool) -> None:
    """One pod has written the claim for all; nobody else has bound a pod by that."""
    harness = Harness(configuration(profile(DynamicResources={"featureGates": {"DRAWorkloadResourceClaims": gate}})))
    harness.handle(Follows(NATIVE, True))
    harness.engine.takes_over(harness.now, UNKNOWN)
    api = gang_of_two(harness)
    said = harness.cycles()
    writer = writes(said)[0].pod.uid
    assert sorted(bound(carry_out(api, harness, said))) == ["w0", "w1"]
    users = reserved(api)
    assert [one["uid"] for one in users] == (["train"] if gate else ["default/w0", "default/w1"])
    for number in range(2):
        harness.bind_failed(f"default/w{number}")
    if not gate:  # the pod that has written it is taken out, the other one not yet
        api.edit(SHARED, status={"reservedFor": [one for one in users if one["uid"] != writer]})
    api.put(node("n", cpu="100m"))
    api.put(node("m"))
    (write,) = only(harness.tick(20) + harness.cycles(), PostFilterWrite).writes
    assert (write.key, write.change) == (SHARED, {"status": NOTHING})
    assert validate(harness.engine.cluster) == []


def test_what_a_pod_of_a_gang_has_found_reserved_is_not_freed(harness: Harness) -> None:
    """The leader before may have bound that one. That this leader has reserved the claim for the other says nothing."""
    harness.handle(Follows(NATIVE, True))
    harness.engine.takes_over(harness.now, UNKNOWN)
    status = allocated(result("d0", "n"), node="n", reserved=["default/w0"])
    api = gang_of_two(harness, there=claim("shared", meta=FINALIZED, status=status))
    said = carry_out(api, harness, harness.cycles())
    assert sorted(bound(said)) == ["w0", "w1"]
    assert [one["uid"] for one in reserved(api)] == ["default/w0", "default/w1"]
    for number in range(2):
        harness.bind_failed(f"default/w{number}")
    api.edit(SHARED, status={"reservedFor": reserved(api)[:1]})
    api.put(node("n", cpu="100m"))
    api.put(node("m"))
    assert frees(harness.tick(20) + harness.cycles()) == []
    assert frees(harness.tick(UNKNOWN) + harness.tick(20) + harness.cycles()) != []
