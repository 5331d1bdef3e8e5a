"""Devices in virtual time: what is found, promised, written, awaited and given back, and never given twice."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from podberth.engine.instructions import Bind, Failed, Instruction, PostFilterWrite, PreBindWrite
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import PreBindWriteFailed
from podberth.framework.binding import Create, Delete, ObjectKey, Patch
from podberth.model.devices import FINALIZER, DeviceID
from tests.builders import Object, node, pod
from tests.devices import (
    allocated,
    asks,
    claim,
    claiming,
    device,
    device_class,
    first_of,
    request,
    resource_slice,
    result,
    taint_rule,
)

from .api import Api
from .conftest import Harness

CLAIM: ObjectKey = ("ResourceClaim", "default", "c")
FINALIZED = {"finalizers": [FINALIZER]}
WALL = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def only(instructions: Sequence[Instruction], kind: type[Any]) -> Any:
    """The one instruction of a kind."""
    (found,) = [instruction for instruction in instructions if isinstance(instruction, kind)]
    return found


def place_of(harness: Harness, uid: str = "default/p") -> Place | None:
    queued = harness.engine.queue.get(uid)
    return None if queued is None else queued.place


def write_all(harness: Harness, api: Api, said: list[Instruction]) -> list[Instruction]:
    """Carry out what is written before the binding, until there is something else to do."""
    while writes := [one for one in said if isinstance(one, PreBindWrite)]:
        said = [more for one in writes for more in harness.handle(api.write(one))]
    return said


@pytest.fixture
def one(harness: Harness) -> Api:
    """A node with one device, and a claim."""
    return Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim(meta=FINALIZED))


def test_a_claim_is_allocated_and_reserved_before_the_pod_is_bound(harness: Harness, one: Api) -> None:
    """The allocation names the device and the node, and the reservation the pod."""
    one.put(claiming(pod("p"), "c"))
    said = harness.cycles()
    (write,) = only(said, PreBindWrite).writes
    assert isinstance(write, Patch)
    assert write.subresource == "status"
    said = harness.handle(one.write(only(said, PreBindWrite)))
    assert only(said, Bind).node == "n"
    status = one.get(CLAIM)["status"]
    assert status["allocation"]["devices"]["results"] == [result("d0", "n")]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    assert status["allocation"]["nodeSelector"] == {"nodeSelectorTerms": terms}
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "default/p"}]


def test_a_claim_without_the_finalizer_gets_it_first(harness: Harness) -> None:
    """The status is then written over the version that this made."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim())
    api.put(claiming(pod("p"), "c"))
    first = only(harness.cycles(), PreBindWrite)
    assert first.writes[0].change == {"metadata": {"finalizers": [FINALIZER]}}
    second = only(harness.handle(api.write(first)), PreBindWrite)
    assert second.writes[0].resource_version == api.get(CLAIM)["metadata"]["resourceVersion"]
    assert only(harness.handle(api.write(second)), Bind).node == "n"


def test_a_device_that_is_promised_is_not_given_to_the_next_pod(harness: Harness, one: Api) -> None:
    """Before anything is written."""
    one.put(claim("other", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    one.put(claiming(pod("q"), "other"))
    said = harness.cycles()
    assert only(said, PreBindWrite).pod.name == "p"
    failed = only(said, Failed)
    assert failed.message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_a_device_stays_taken_until_the_watch_shows_what_was_written(harness: Harness, one: Api) -> None:
    """An older version of the claim, which has no allocation, does not free it."""
    one.put(claim("other", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    said = harness.cycles()
    old = one.get(CLAIM)
    write_all(harness, one, said)
    harness.tell({**old, "metadata": {**old["metadata"], "labels": {"late": "news"}}})
    one.put(claiming(pod("q"), "other"))
    assert only(harness.cycles(), Failed).pod.name == "q"
    one.show(CLAIM)
    assert harness.engine.cluster.devices.in_flight == {}
    assert harness.engine.cluster.devices.allocated.is_taken(DeviceID("gpu.test", "n", "d0"))


def test_a_claim_that_was_freed_long_ago_does_not_free_its_device_again(harness: Harness, one: Api) -> None:
    """Upstream #136269: another claim has the device meanwhile, and what was freed is seen late, and twice."""
    held = claim("first", meta=FINALIZED, status=allocated(result("d0", "n"), node="n"))
    one.put(held)
    one.edit(("ResourceClaim", "default", "first"), status={"allocation": None})
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    one.show(CLAIM)
    harness.tell({**held, "metadata": {**held["metadata"], "resourceVersion": "1"}})
    harness.lose("ResourceClaim", "default", "first", "claim/first")
    holders = harness.engine.cluster.devices.allocated
    assert holders.claims_holding(DeviceID("gpu.test", "n", "d0")) == ["claim/c"]


def test_a_refused_write_gives_the_device_back(harness: Harness, one: Api) -> None:
    """The pod waits out its backoff, and another one gets the device."""
    one.put(claim("other", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    harness.cycles()
    harness.handle(PreBindWriteFailed("default/p", 403, "no", {}))
    assert place_of(harness) is Place.BACKOFF
    one.put(claiming(pod("q"), "other"))
    assert only(harness.cycles(), PreBindWrite).pod.name == "q"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_claim_that_is_named_twice_is_allocated_once(harness: Harness, devices: int) -> None:
    """Another claim gets what is left."""
    there = resource_slice("n", *[device(f"d{i}") for i in range(devices)], node="n")
    api = Api(harness, node("n"), device_class(), there, claim(meta=FINALIZED), claim("other", meta=FINALIZED))
    twice = pod("p")
    twice["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": "c"} for name in ("a", "b")]
    api.put(twice)
    written = only(harness.cycles(), PreBindWrite)
    assert [write.key for write in written.writes] == [CLAIM]
    assert only(write_all(harness, api, [written]), Bind).pod.name == "p"
    api.put(claiming(pod("q"), "other"))
    write_all(harness, api, harness.cycles())
    given = api.get(("ResourceClaim", "default", "other"))["status"].get("allocation")
    assert (given is None) == (devices == 1)
    assert given is None or given["devices"]["results"] == [result("d1", "n")]


@pytest.mark.parametrize("ends", ["edited", "deleted"])
def test_a_promise_that_ends_wakes_who_waited_for_it(harness: Harness, one: Api, ends: str) -> None:
    """Nothing was written after all, as a later version of the claim shows, whatever was changed in it."""
    one.put(claim("other", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    write = only(harness.cycles(), PreBindWrite)
    harness.handle(PreBindWriteFailed("default/p", 409, "changed", {}))
    one.put(claiming(pod("q"), "other"))
    waiting = [each.pod.name for each in harness.tick(20) + harness.cycles() if isinstance(each, Failed)]
    assert sorted(waiting) == ["p", "q"], "the device may be given, and the claim may have it"
    if ends == "edited":
        one.edit(CLAIM, metadata={"labels": {"any": "change"}})
    else:
        harness.lose(*CLAIM, write.writes[0].uid)
    said = write_all(harness, one, harness.tick(20) + harness.cycles())
    assert len([each for each in said if isinstance(each, Bind)]) == 1


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("admin", [True, False])
def test_who_waits_for_the_same_claim_is_woken_when_it_gets_nothing(harness: Harness, admin: bool, gone: bool) -> None:
    """Also where the pod is gone by then, and where the devices are taken from nobody."""
    asked = request(adminAccess=True) if admin else request()
    there = [node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim("c", asked, meta=FINALIZED)]
    api = Api(harness, *there)
    api.put(claiming(pod("p"), "c"))
    harness.cycles()
    api.put(claiming(pod("q"), "c"))
    harness.cycles()
    if gone:
        harness.lose("Pod", "default", "p", "default/p")
    harness.cycles()
    harness.after(20)
    assert not harness.cycles()
    assert place_of(harness, "default/q") is Place.UNSCHEDULABLE
    harness.handle(PreBindWriteFailed("default/p", 403, "no", {}))
    assert place_of(harness, "default/q") is not Place.UNSCHEDULABLE


def test_after_a_conflict_the_device_is_kept_until_the_watch_tells(harness: Harness, one: Api) -> None:
    """Somebody has written the claim, and that may have been us."""
    one.put(claim("other", meta=FINALIZED))
    one.put(claiming(pod("p"), "c"))
    prepare = only(harness.cycles(), PreBindWrite)
    one.write(prepare)  # it has happened, and the answer was lost
    harness.handle(PreBindWriteFailed("default/p", 409, "changed", {}))
    one.put(claiming(pod("q"), "other"))
    assert only(harness.cycles(), Failed).pod.name == "q"
    one.show(CLAIM)
    assert harness.engine.cluster.devices.allocated.claims_holding(DeviceID("gpu.test", "n", "d0")) == ["claim/c"]
    harness.after(20)
    assert "n" in {one.node for one in write_all(harness, one, harness.cycles()) if isinstance(one, Bind)}


def test_after_a_conflict_with_nobody_the_device_is_free_again(harness: Harness, one: Api) -> None:
    """The claim is as it was, so its watch never tells: it is written, and then it has another version."""
    one.put(claiming(pod("p"), "c"))
    harness.cycles()
    harness.handle(PreBindWriteFailed("default/p", 409, "changed", {}))
    (patch,) = only(harness.tick(20) + harness.cycles(), PostFilterWrite).writes
    assert isinstance(patch, Patch)
    one.edit(CLAIM, **patch.change)
    harness.after(20)
    assert only(write_all(harness, one, harness.cycles()), Bind).node == "n"


def test_after_a_conflict_with_somebody_else_the_device_is_free_again(harness: Harness, one: Api) -> None:
    """The claim was changed, and has nothing."""
    one.put(claiming(pod("p"), "c"))
    harness.cycles()
    harness.handle(PreBindWriteFailed("default/p", 409, "changed", {}))
    assert harness.engine.cluster.devices.allocated.is_taken(DeviceID("gpu.test", "n", "d0"))
    one.edit(CLAIM, metadata={"labels": {"a": "b"}})
    assert not harness.engine.cluster.devices.allocated.is_taken(DeviceID("gpu.test", "n", "d0"))


@pytest.mark.parametrize("written", [True, False])
def test_a_pod_that_goes_while_its_claim_is_written(harness: Harness, one: Api, written: bool) -> None:
    """The device is kept until the answer says whether the claim has it."""
    one.put(claiming(pod("p"), "c"))
    prepare = only(harness.cycles(), PreBindWrite)
    harness.lose("Pod", "default", "p", "default/p")
    device_id, holders = DeviceID("gpu.test", "n", "d0"), harness.engine.cluster.devices.allocated
    assert holders.is_taken(device_id)
    answer = one.write(prepare) if written else PreBindWriteFailed("default/p", 404, "gone", {})
    harness.handle(answer)
    assert holders.is_taken(device_id) is written
    one.show(CLAIM)
    assert holders.is_taken(device_id) is written


def test_a_pod_waits_for_its_claims_in_front_of_the_queue(harness: Harness) -> None:
    """One that names a claim, and one whose claim is made from a template and has to be its own."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), device("d1"), node="n"))
    api.put(claiming(pod("p"), "c"))
    assert place_of(harness) is Place.GATED
    api.put(claim(meta=FINALIZED))
    assert place_of(harness) is Place.ACTIVE
    made = pod("q")
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    api.put(made)
    assert place_of(harness, "default/q") is Place.GATED
    owner = {"kind": "Pod", "name": "q", "uid": "somebody", "controller": True}
    api.put(claim("q-gpu", meta={**FINALIZED, "ownerReferences": [owner]}))
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "q-gpu"}]
    api.put(made)
    assert place_of(harness, "default/q") is Place.GATED
    owner["uid"] = "default/q"
    api.put(claim("q-gpu", meta={**FINALIZED, "uid": "its own", "ownerReferences": [owner]}))
    assert place_of(harness, "default/q") is Place.ACTIVE


def test_claims_of_others_do_not_move_a_pod_whose_own_is_not_named_yet(harness: Harness, one: Api) -> None:
    """Not even one that frees its device: in a crowd that waits for its claims, each that ends would move them all."""
    made = pod("p")
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    one.put(made)
    assert place_of(harness) is Place.GATED
    before = dict(harness.engine.queue.incoming)
    one.put(claim("other", meta=FINALIZED, status=allocated(result("d0", "n"), node="n")))
    one.edit(("ResourceClaim", "default", "other"), status={"allocation": None})
    one.edit(("ResourceClaim", "default", "other"), status=allocated(result("d0", "n"), node="n"))
    harness.lose("ResourceClaim", "default", "other", "claim/other")
    assert harness.engine.queue.incoming == before


@pytest.mark.parametrize(
    "change",
    [
        resource_slice("m", device("d9"), node="n", pool="more"),
        device_class("late"),
        node("m"),
    ],
    ids=["a slice", "a class", "a node"],
)
def test_what_wakes_a_pod_without_devices(harness: Harness, change: Object) -> None:
    """New devices, classes and nodes may help."""
    api = Api(harness, node("n"), device_class(), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert only(harness.cycles(), Failed).pod.name == "p"
    api.put(change)
    assert place_of(harness) in (Place.ACTIVE, Place.BACKOFF)


def test_the_end_of_a_slice_that_its_pool_had_too_many_wakes_who_waits(harness: Harness) -> None:
    """Two slices of a pool that is to have one: none of its devices is given until one of them is gone."""
    slices = [resource_slice(f"s{i}", device(f"d{i}"), node="n", pool="p") for i in range(2)]
    api = Api(harness, node("n"), device_class(), *slices, claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert only(harness.cycles(), Failed).pod.name == "p"
    harness.after(20)
    harness.lose("ResourceSlice", "", "s1")
    assert only(harness.cycles(), PreBindWrite).node == "n"


def test_the_end_of_a_class_that_an_older_one_replaces_wakes_who_waits(harness: Harness) -> None:
    """The newest class for an extended resource serves it, though its devices are nowhere."""
    classes = [device_class("old"), device_class("new", 'device.driver == "other"')]
    for day, one in enumerate(classes, 1):
        one["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        one["spec"]["extendedResourceName"] = "test/gpu"
    Api(harness, node("n"), *classes, resource_slice("n", device("d0"), node="n"), extended())
    assert only(harness.cycles(), Failed).pod.name == "p"
    harness.after(20)
    harness.lose("DeviceClass", "", "new")
    assert only(harness.cycles(), PreBindWrite).node == "n"


def test_a_freed_device_wakes_who_waits_for_it(harness: Harness, one: Api) -> None:
    """A claim that has lost its allocation, and one that is gone with it."""
    for how in ("freed", "gone"):
        one.put(claim(how, meta=FINALIZED, status=allocated(result("d0", "n"), node="n")))
        one.put(claiming(pod(f"p-{how}"), "c"))
        harness.cycles()
        uid = f"default/p-{how}"
        assert place_of(harness, uid) is Place.UNSCHEDULABLE
        if how == "freed":
            one.edit(("ResourceClaim", "default", how), status={"allocation": None})
        else:
            harness.lose("ResourceClaim", "default", how, f"claim/{how}")
        assert place_of(harness, uid) in (Place.ACTIVE, Place.BACKOFF)
        harness.lose("Pod", "default", f"p-{how}", uid)


def test_a_claim_that_keeps_its_only_pod_from_all_nodes_is_freed(harness: Harness) -> None:
    """It was given a device of a node that is full by now."""
    there = claim(meta=FINALIZED, status=allocated(result("d0", "m"), node="m", reserved=["default/p"]))
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), there)
    api.put(claiming(pod("p"), "c"))
    said = harness.cycles()
    told = "1 resourceclaim not available on the node. deallocation of ResourceClaim completed"
    assert told in only(said, Failed).message
    (write,) = only(said, PostFilterWrite).writes
    assert write.change == {"status": {"allocation": None, "reservedFor": None, "devices": None}}


def test_a_claim_that_others_use_is_not_freed(harness: Harness) -> None:
    """Nobody's devices are taken away."""
    there = claim(meta=FINALIZED, status=allocated(result("d0", "m"), node="m", reserved=["default/p", "other"]))
    api = Api(harness, node("n"), device_class(), there)
    api.put(claiming(pod("p"), "c"))
    assert not [one for one in harness.cycles() if isinstance(one, PostFilterWrite)]


def extended(name: str = "p", amount: str = "1") -> Object:
    return pod(name, others={"test/gpu": amount})


def test_a_claim_is_made_for_an_extended_resource(harness: Harness) -> None:
    """It is created, given a device, and named in the pod's status."""
    of = device_class(extendedResourceName="test/gpu")
    api = Api(harness, node("n"), of, resource_slice("n", device("d0"), node="n"))
    api.put(extended())
    said = harness.cycles()
    (create,) = only(said, PreBindWrite).writes
    assert isinstance(create, Create)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    assert create.document["metadata"] == {
        "generateName": "p-extended-resources-",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "container-0-request-0", "exactly": asked}]
    assert create.document["spec"] == {"devices": {"requests": requests}}
    said = harness.handle(api.write(only(said, PreBindWrite)))
    said = harness.handle(api.write(only(said, PreBindWrite)))
    (patch,) = only(said, PreBindWrite).writes
    assert patch.key == ("Pod", "default", "p")
    name = create.key[2]
    mapping = {"containerName": "main", "resourceName": "test/gpu", "requestName": "container-0-request-0"}
    assert patch.change == {
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": [mapping]}}
    }
    said = harness.handle(api.write(only(said, PreBindWrite)))
    assert only(said, Bind).node == "n"
    api.show(create.key)
    devices = harness.engine.cluster.devices
    assert devices.in_flight == {}
    assert devices.allocated.claims_holding(DeviceID("gpu.test", "n", "d0")) == [f"made/{name}"]


def test_a_claim_of_an_earlier_attempt_is_deleted(harness: Harness) -> None:
    """As upstream: what it was given may not be right any more."""
    owner = {"kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    meta = {
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        **FINALIZED,
    }
    of = device_class(extendedResourceName="test/gpu")
    api = Api(harness, node("n"), of, resource_slice("n", device("d0"), node="n"), claim("made", meta=meta))
    api.put(extended())
    said = harness.cycles()
    assert (
        "1 cannot schedule extended resource claim. deletion of ResourceClaim completed" in only(said, Failed).message
    )
    unfinalize, delete = only(said, PostFilterWrite).writes
    assert unfinalize.change == {"metadata": {"finalizers": []}}
    assert delete == Delete(("ResourceClaim", "default", "made"), "claim/made")
    harness.lose("ResourceClaim", "default", "made", "claim/made")
    assert only(harness.tick(20) + harness.cycles(), PreBindWrite).writes, "it had no devices, and was in the way"


def test_the_end_of_a_claim_without_devices_concerns_its_own_namespace(harness: Harness) -> None:
    """Anybody may make and delete such claims all day: others do not pay for that."""
    owner = {"kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    meta = {"ownerReferences": [owner], "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"), claim("made", meta=meta))
    theirs = extended("q")
    theirs["metadata"] |= {"namespace": "elsewhere", "uid": "elsewhere/q"}
    api.put(theirs)
    api.put(extended())
    harness.cycles()
    harness.lose("ResourceClaim", "default", "made", "claim/made")
    harness.tick(0)
    assert place_of(harness) is not Place.UNSCHEDULABLE
    assert place_of(harness, "elsewhere/q") is Place.UNSCHEDULABLE


def test_a_share_of_a_device_is_written(harness: Harness) -> None:
    """Its capacity, under a UUID of its own (version 4, as from uuid.NewUUID); a device that is whole has neither."""
    parts = device("d0", {"memory": "4Gi"}, _allowMultipleAllocations=True)
    asked = request("part", capacity={"requests": {"memory": "1Gi"}}), request("whole", count=1)
    api = Api(harness, node("n"), device_class(), claim("c", *asked, meta=FINALIZED))
    api.put(resource_slice("n", parts, device("d1"), node="n"))
    api.put(claiming(pod("p"), "c"))
    (write,) = only(harness.cycles(), PreBindWrite).writes
    assert isinstance(write, Patch)
    given = {one["request"]: one for one in write.change["status"]["allocation"]["devices"]["results"]}
    assert given["part"]["consumedCapacity"] == {"memory": "1Gi"}
    assert UUID(given["part"]["shareID"]).version == 4
    assert given["whole"] == result("d1", "n", request="whole")
    held = harness.engine.cluster.devices.in_flight["claim/c"].allocation.devices
    assert [one.consumed is None for one in held] == [False, True]


def test_nodes_of_a_device_that_can_t_be_written(harness: Harness) -> None:
    """An allocation has one term: of a slice with two, it would be for other nodes (createNodeSelector)."""
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("a", "b")]
    for number, said in ((1, None), (2, "unsupported ResourceSlice.NodeSelector with 2 terms")):
        each = Harness()
        there = resource_slice("s", device("d0"), nodeSelector={"nodeSelectorTerms": terms[:number]})
        api = Api(each, node("n", labels={"a": "1"}), device_class(), there, claim(meta=FINALIZED))
        api.put(claiming(pod("p"), "c"))
        found = each.cycles()
        if said is None:
            (write,) = only(found, PreBindWrite).writes
            assert isinstance(write, Patch)
            assert write.change["status"]["allocation"]["nodeSelector"] == {"nodeSelectorTerms": terms[:1]}
        else:
            assert said in only(found, Failed).message


def test_a_class_that_comes_later_serves_an_extended_resource(harness: Harness) -> None:
    """NodeResourcesFit leaves to devices what no node has, and what it kept is asked again."""
    api = Api(harness, node("n"), resource_slice("n", device("d0"), node="n"))
    api.put(extended())
    assert "1 Insufficient test/gpu" in only(harness.cycles(), Failed).message
    api.put(device_class(extendedResourceName="test/gpu"))
    harness.after(20)
    assert only(harness.cycles(), PreBindWrite).node == "n"


def test_binding_waits_for_the_conditions_of_a_device(harness: Harness) -> None:
    """And goes on when its driver has set them."""
    slow = device("d0", _bindingConditions=["Attached"], _bindingFailureConditions=["Broken"])
    api = Api(harness, node("n"), device_class(), resource_slice("n", slow, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    said = write_all(harness, api, harness.cycles())
    assert not [one for one in said if isinstance(one, Bind)]
    api.show(CLAIM)
    status = {"driver": "gpu.test", "pool": "n", "device": "d0"}
    said = api.edit(CLAIM, status={"devices": [{**status, "conditions": [{"type": "Attached", "status": "False"}]}]})
    assert not [one for one in said if isinstance(one, Bind)]
    said = api.edit(CLAIM, status={"devices": [{**status, "conditions": [{"type": "Attached", "status": "True"}]}]})
    assert only(said, Bind).node == "n"


@pytest.mark.parametrize("ends", ["Broken", "deleted"])
def test_a_device_that_fails_while_it_is_waited_for(harness: Harness, ends: str) -> None:
    """Its driver says so, or the claim is gone."""
    slow = device("d0", _bindingConditions=["Attached"], _bindingFailureConditions=["Broken"])
    api = Api(harness, node("n"), device_class(), resource_slice("n", slow, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert not [one for one in write_all(harness, api, harness.cycles()) if isinstance(one, Failed)]
    api.show(CLAIM)
    if ends == "deleted":
        said = harness.lose(*CLAIM, "claim/c")
        assert 'could not find ResourceClaim "default/c"' in only(said, Failed).message
        return
    failed = {"type": "Broken", "status": "True", "reason": "Fire", "message": "it burns"}
    status = {"driver": "gpu.test", "pool": "n", "device": "d0", "conditions": [failed]}
    said = api.edit(CLAIM, status={"devices": [status]})
    why = 'device binding failed: claim=c, reason=Fire, message="it burns"'
    assert only(said, Failed).message == f'running PreBind plugin "DynamicResources": {why}'


def test_a_device_of_a_claim_that_is_made_for_the_pod_gets_ready(harness: Harness) -> None:
    """The watch may be slow to show the claim, whose time counts from its allocation."""
    harness.engine.epoch = WALL - harness.now
    slow = device("d0", _bindingConditions=["Attached"])
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"), resource_slice("n", slow, node="n"))
    api.put(extended())
    first = harness.cycles()
    key = only(first, PreBindWrite).writes[0].key
    said = write_all(harness, api, first)
    assert not [one for one in said if isinstance(one, (Bind, Failed))]
    status = {"driver": "gpu.test", "pool": "n", "device": "d0"}
    said = api.edit(key, status={"devices": [{**status, "conditions": [{"type": "Attached", "status": "True"}]}]})
    assert only(said, Bind).node == "n"


def test_a_device_that_does_not_get_ready_in_time_is_given_up(harness: Harness) -> None:
    """The pod's next attempt frees the claim, so that it may be given another device."""
    harness.engine.epoch = WALL - harness.now
    slow = device("d0", _bindingConditions=["Attached"])
    api = Api(harness, node("n"), device_class(), resource_slice("n", slow, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    write_all(harness, api, harness.cycles())
    api.edit(CLAIM, status={"allocation": {"allocationTimestamp": "2026-01-01T00:00:00Z"}})
    said = harness.tick(601)
    assert 'running PreBind plugin "DynamicResources": device binding timeout: claim=c' in only(said, Failed).message
    harness.after(20)
    assert only(harness.cycles(), PostFilterWrite).writes[0].key == CLAIM


def test_a_search_over_all_combinations_is_given_up(harness: Harness) -> None:
    """Its pod fails with an error, and the next one has its turn."""
    values = [device(f"d{i:02}", number=i) for i in range(40)]
    requests = [request(f"r{i}", count=6) for i in range(5)]
    constraint = [{"requests": ["r4"], "matchAttribute": "gpu.test/number"}]
    api = Api(harness, node("n"), device_class(), resource_slice("n", *values, node="n"))
    api.put(claim("evil", *requests, meta={**FINALIZED, "namespace": "evil"}, constraints=constraint))
    api.put(claiming(pod("evil", namespace="evil"), "evil"))
    api.put(claim("c", meta=FINALIZED))
    api.put(claiming(pod("good"), "c"))
    said = harness.cycles()
    failed = only(said, Failed)
    text = "gave up looking for devices after 200,000 steps (about 0.2 s of one core)"
    assert (failed.pod.name, failed.reason) == ("evil", "SchedulerError")
    assert failed.message == f'running Filter plugin "DynamicResources": {text}'
    assert only(said, PreBindWrite).pod.name == "good"


@pytest.mark.parametrize(
    ("taint", "tolerations", "fits"),
    [
        ({"key": "broken", "effect": "NoSchedule"}, [], False),
        ({"key": "broken", "effect": "NoSchedule"}, [{"key": "broken", "operator": "Exists"}], True),
        ({"key": "broken", "effect": "None"}, [], True),
    ],
)
def test_a_taint_rule_keeps_claims_off(harness: Harness, taint: Object, tolerations: list[Object], fits: bool) -> None:
    """Unless they tolerate it."""
    asked = request(tolerations=tolerations) if tolerations else request()
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"))
    api.put(taint_rule("r", taint, driver="gpu.test"))
    api.put(claim("c", asked, meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert bool([one for one in harness.cycles() if isinstance(one, PreBindWrite)]) is fits


@pytest.mark.parametrize(
    ("selector", "taints"),
    [
        ({"driver": "gpu.test", "pool": "n", "device": "d0"}, True),
        ({"driver": "other.test", "pool": "n", "device": "d0"}, False),
        ({"driver": "gpu.test", "pool": "m", "device": "d0"}, False),
        ({"driver": "gpu.test", "pool": "n", "device": "d1"}, False),
        ({"pool": "n"}, True),
        ({"pool": "m"}, False),
        ({}, True),
    ],
    ids=str,
)
def test_a_taint_rule_is_about_what_it_names(harness: Harness, selector: dict[str, str], taints: bool) -> None:
    """Driver, pool and device, as far as they are named; without a selector about all, as in upstream's tracker.go."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim(meta=FINALIZED))
    api.put(taint_rule("r", {"key": "broken", "effect": "NoSchedule"}, **selector))
    api.put(claiming(pod("p"), "c"))
    assert bool([one for one in harness.cycles() if isinstance(one, Failed)]) is taints


def test_the_first_alternative_is_preferred(harness: Harness) -> None:
    """Of two nodes, the one that has it."""
    api = Api(
        harness, node("a"), node("b"), device_class("big"), device_class("small", "device.driver == 'small.test'")
    )
    api.put(device_class("big", "device.driver == 'big.test'"))
    api.put(resource_slice("a", device("d0"), node="a", driver="small.test"))
    api.put(resource_slice("b", device("d0"), node="b", driver="big.test"))
    api.put(claim("c", first_of("r", x=asks("big"), y=asks("small")), meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert only(harness.cycles(), PreBindWrite).node == "b"


def test_a_pool_whose_slices_are_nodes_own_is_judged_node_by_node(harness: Harness) -> None:
    """What is wanted is in the slice of the last node only, and of a slice that comes anew."""
    api = Api(harness, device_class(), *[node(name) for name in "abcd"])
    for name in "abcd":
        model = "large" if name == "d" else "small"
        one = device(f"{name}0", model=model)
        api.put(resource_slice(name, one, node=name, pool="shared", count=4))
    for name in ("c", "later"):
        api.put(claim(name, request("r", "gpu", 'device.attributes["gpu.test"].model == "large"'), meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    said = harness.cycles()
    assert only(write_all(harness, api, said), Bind).node == "d"
    api.show(CLAIM)
    api.put(claiming(pod("q"), "later"))
    assert only(harness.cycles(), Failed).pod.name == "q"
    both = (device("a0", model="small"), device("a1", model="large"))
    api.put(resource_slice("a", *both, node="a", pool="shared", count=4))
    harness.after(20)
    assert only(write_all(harness, api, harness.cycles()), Bind).node == "a"


EXPENSIVE = "lists.range(200).all(x, lists.range(200).all(y, x + y + {} >= 0))"
"""Legal, 80,000 units of cost and more: not over Kubernetes' limit."""


def test_an_expression_that_costs_too_much_fails_its_pod(harness: Harness) -> None:
    """An evaluation can't be interrupted, so that it must be short."""
    api = Api(harness, device_class(), node("n"), resource_slice("n", device("d0"), device("d1"), node="n"))
    api.put(claim("evil", request("r", "gpu", EXPENSIVE.format(0)), meta=FINALIZED))
    api.put(claiming(pod("evil"), "evil"))
    assert "CEL runtime error: the expression costs more than 5,000 steps" in only(harness.cycles(), Failed).message


def test_expressions_that_are_dear_together_take_several_attempts(harness: Harness) -> None:
    """Three requests of 16 selectors each. What an attempt has evaluated before it gave up, the next one knows."""
    selectors = [f"lists.range(33).all(x, lists.range(33).all(y, x + y + {i} >= 0))" for i in range(48)]
    requests = [request(f"r{i}", "gpu", *selectors[i::3]) for i in range(3)]
    shared = [device(f"d{i}", number=i) for i in range(6)]
    api = Api(harness, device_class(), node("a"), node("b"), resource_slice("net", *shared, allNodes=True))
    api.put(claim("c", *requests, meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    assert "gave up looking for devices after 200,000 steps" in only(harness.cycles(), Failed).message
    harness.after(20)
    assert only(harness.cycles(), PreBindWrite).pod.name == "p"


def another_has(api: Api, name: str = "theirs") -> None:
    """Another scheduler gives the only device to a claim of its own."""
    api.put(claim(name, meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"])))


def test_a_device_that_another_scheduler_gave_meanwhile_is_not_written(harness: Harness) -> None:
    """No write is refused for it: the claims are two. It was seen before ours was written."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim())
    api.put(claiming(pod("p"), "c"))
    first = only(harness.cycles(), PreBindWrite)
    another_has(api)
    said = harness.handle(api.write(first))
    assert "was given to claim default/theirs by another scheduler" in only(said, Failed).message
    assert "allocation" not in api.get(CLAIM)["status"]
    assert harness.engine.cluster.devices.in_flight == {}


def test_what_was_written_is_taken_back_when_another_scheduler_gave_the_device(harness: Harness, one: Api) -> None:
    """It was seen after ours was written, and before the pod was bound. The pod waits for another device."""
    one.put(claiming(pod("theirs", scheduler="another"), "theirs"))
    one.put(claiming(pod("p"), "c"))
    said = harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    assert not [x for x in said if isinstance(x, Bind)], "the watch has not shown yet what others wrote before"
    assert not [x for x in one.show(CLAIM) if isinstance(x, Bind)], "another one may not have seen it yet"
    another_has(one)
    back = only(harness.tick(1.5), PreBindWrite)
    assert back.writes[0].change["status"]["allocation"] is None
    said = harness.handle(one.write(back))
    assert "was given to claim default/theirs by another scheduler" in only(said, Failed).message
    one.show(CLAIM)
    devices = harness.engine.cluster.devices
    assert devices.allocated.claims_holding(DeviceID("gpu.test", "n", "d0")) == ["claim/theirs"]
    one.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    harness.after(20)
    said = harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    one.show(CLAIM)
    assert only(harness.tick(1.5), Bind).node == "n"
    assert one.get(CLAIM)["status"]["allocation"]["devices"]["results"][0]["device"] == "d1"


def test_nobody_waits_for_the_watch_where_nobody_else_gives_devices(harness: Harness, one: Api) -> None:
    """The pod is bound as soon as its claim is written."""
    one.put(claiming(pod("p"), "c"))
    said = harness.handle(one.write(only(harness.cycles(), PreBindWrite)))
    assert only(said, Bind).node == "n"


def test_what_could_not_be_taken_back_is_taken_back_by_the_next_attempt(harness: Harness, one: Api) -> None:
    """A claim has a device of its own, and another one has it too: the pod is not bound with it."""
    one.put(claim("c", meta=FINALIZED, status=allocated(result("d0", "n"), node="n")))
    another_has(one)
    one.put(claiming(pod("p"), "c"))
    back = only(harness.cycles(), PreBindWrite)
    assert back.writes[0].change["status"]["allocation"] is None
    assert isinstance(only(harness.handle(one.write(back)), Failed), Failed)
