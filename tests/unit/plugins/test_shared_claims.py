"""Claims that several pods of a group use: whether what one of them was promised is what the API shows."""

import pytest
from msgspec.structs import replace

from podberth.cache.devices import ClaimUser
from podberth.explain.objects.world import World
from podberth.framework.binding import AssumedPod
from podberth.model.devices import AllocatedDevice, Allocation, ClaimSpec, DeviceID, ResourceClaim
from podberth.model.pod_group import NATIVE, GroupKey
from podberth.model.quantity import parse_quantity
from podberth.model.shape import PodClaim
from podberth.plugins.dynamic_resources.claims import ExtendedClaim, claims_of_group, peers_of
from podberth.plugins.dynamic_resources.reservation import (
    ROUNDS,
    Reservation,
    ReservedClaim,
    _consumers,
    _to_be_made,
    is_other,
    next_step,
)
from tests.builders import node, pod
from tests.devices import allocated, claim, claiming, device, device_class, request, resource_slice, result
from tests.unit.cache.test_groups import TRAIN, group, member
from tests.unit.plugins.small import a_node, a_pod, plugin

RESULT = {"request": "r", "driver": "gpu.test", "pool": "a", "device": "d0", "shareID": "s"}


@pytest.mark.parametrize(
    ("promised", "stored", "other"),
    [("0.5Ki", "512", False), ("1.5Ki", "1536", False), ("2e0", "2e0", False), ("1Gi", "1Gi", False), ("1", "2", True)],
)
def test_an_amount_may_come_back_in_another_notation(promised: str, stored: str, other: bool) -> None:
    """What counts is how much it is."""
    document = claim("c", request("r"))
    document["status"] = {"allocation": {"devices": {"results": [{**RESULT, "consumedCapacity": {"m": stored}}]}}}
    there = World().decode(document)
    assert isinstance(there, ResourceClaim)
    device = AllocatedDevice(
        request="r",
        id=DeviceID("gpu.test", "a", "d0"),
        admin_access=False,
        share="s",
        consumed={"m": parse_quantity(promised)},
        binding_conditions=(),
        binding_failure_conditions=(),
    )
    one = ReservedClaim(there.key, there.uid, Allocation((device,), None), {}, shared=True)
    assert is_other(one, there) is other


THEIRS = "device gpu.test/n/d0 of claim default/c was given to claim default/theirs by another scheduler"


@pytest.mark.parametrize(
    ("users", "peers", "gives_way"),
    [(["p"], [], True), (["p", "q"], ["q"], True), (["p", "q"], [], False)],
    ids=["its own", "of pods that give way with it", "of a pod that runs"],
)
def test_what_others_use_is_not_taken_back(users: list[str], peers: list[str], gives_way: bool) -> None:
    """Though another claim has the device as well: a pod that runs with it would lose it."""
    world = World()
    given = [
        claim(name, status=allocated(result("d0", "n"), reserved=of)) for name, of in (("c", users), ("theirs", ["x"]))
    ]
    world.add_all([node("n"), resource_slice("n", device("d0"), node="n"), *given])
    reservation = Reservation([ReservedClaim(("default", "c"), "claim/c", None, None)], asked=ROUNDS)
    assumed = AssumedPod(a_pod(pod("p", uid="p")), 0, "n")
    wait = next_step(reservation, assumed, world.cluster.devices, 30.0, peers)
    assert reservation.lost == (THEIRS if gives_way else "")
    assert (wait is not None) is gives_way


@pytest.mark.parametrize("claiming", [True, False], ids=["a group with claims", "a group without"])
def test_those_that_give_way_together(claiming: bool) -> None:
    """The pods of a group that are assumed; and while none is bound, the group itself, which its claims are for."""
    cluster = World().cluster
    cluster.put_node(a_node(node("n")))
    cluster.pod_groups.followed.add(TRAIN.api)
    cluster.pod_groups.put(group("train"))
    claims = group("train") if claiming else None
    mine = member("a")
    assert not peers_of(a_pod(pod("alone")), None, cluster)
    for one in (mine, member("b")):
        cluster.assume(one, 0)
    assert set(peers_of(mine, claims, cluster)) == {"a", "b"} | ({"uid-train"} if claiming else set())
    cluster.put_pod(member("c", node="n"))
    assert set(peers_of(mine, claims, cluster)) == {"a", "b"}


def test_the_claims_of_a_group_are_those_it_names_and_those_that_were_made_for_it() -> None:
    """One that is not there yet, or that has the name and was made for somebody else, is none of its own."""
    world = World()
    owners = [("made", "uid-train"), ("theirs", "uid-other")]
    owned = [
        claim(name, meta={"ownerReferences": [{"kind": "PodGroup", "name": "g", "uid": uid, "controller": True}]})
        for name, uid in owners
    ]
    world.add_all([claim("named"), *owned])
    asked = [("a", "named", None), ("b", "missing", None), *((name, None, "t") for name in "cdef")]
    train = replace(
        group("train"),
        resource_claims=tuple(PodClaim(*one) for one in asked),
        made_claims=(("c", "made"), ("d", "theirs"), ("e", None)),
    )
    assert [one.name for one in claims_of_group(train, world.cluster.devices)] == ["named", "made"]


@pytest.mark.parametrize("in_group", [True, False], ids=["of a group", "alone"])
def test_the_pods_of_a_group_share_their_claims_and_not_what_is_made_for_each(in_group: bool) -> None:
    """The claim for extended resources is one pod's own."""
    world = World()
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    world.add_all([node("n"), served, resource_slice("n", device("d0"), device("d1"), node="n"), claim("c")])
    world.cluster.pod_groups.followed.add(TRAIN.api)
    document = claiming(pod("p", uid="p", others={"example.com/gpu": "1"}), "c")
    if in_group:
        document["spec"]["schedulingGroup"] = {"podGroupName": TRAIN.name}
    found = plugin("DynamicResources").reserve(world.decode(document), world.cluster, 0)
    assert [(one.extended is not None, one.shared) for one in found.claims] == [(False, in_group), (True, False)]


@pytest.mark.parametrize(("there", "added"), [(0, 256), (10, 246), (255, 1)])
def test_a_claim_is_reserved_for_as_many_pods_as_the_api_takes(there: int, added: int) -> None:
    """256 (AllocationResultsMaxSize's sibling ResourceClaimReservedForMaxSize); the pod itself is one of them."""
    devices, group = World().cluster.devices, GroupKey("default", "g", NATIVE)
    for i in range(300):
        devices.users.add("claim/c", f"u{i}", ClaimUser(f"p{i}", group))
    one = ReservedClaim(("default", "c"), "claim/c", None, None, shared=True)
    mine = a_pod(pod("p7", uid="u7"))
    found = list(_consumers(one, Reservation(group=group), mine, devices, [f"t{i}" for i in range(there)]))
    assert len({each["uid"] for each in found}) == len(found) == added
    assert found[0] == {"resource": "pods", "name": "p7", "uid": "u7"}


def test_the_name_of_a_claim_that_is_made_is_no_longer_than_names_may_be() -> None:
    """It begins with the pod's, and ends in five letters that tell it from others."""
    devices, wanted = World().cluster.devices, ExtendedClaim(ClaimSpec((), (), ()), ())
    short = [_to_be_made(a_pod(pod("p")), wanted, devices).name for _ in range(2)]
    assert [name[:-5] for name in short] == ["p-extended-resources-"] * 2
    assert short[0] != short[1]
    long = _to_be_made(a_pod(pod("x" * 253)), wanted, devices).name
    assert (len(long), long[:248]) == (253, "x" * 248)
