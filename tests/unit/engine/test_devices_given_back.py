"""A pod that does not get to its node: its claims are reserved for it no longer. Devices that are late are given up."""

import pytest

from podberth.engine.instructions import Bind, Failed, PostFilterWrite, PreBindWrite, RecordEvent, UnreserveWrite
from podberth.engine.stimuli import PostFilterWriteFailed, PreBindWriteFailed, TakenOut, TakingOut
from podberth.framework.binding import Delete, Patch
from podberth.model.devices import DeviceID
from podberth.plugins.dynamic_resources.reservation import RESERVED_OVER
from tests.builders import node, pod
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_devices import CLAIM, FINALIZED, WALL, extended, only, write_all

SLOW = device("d0", _bindingConditions=["Attached"], _bindingFailureConditions=["Broken"])
TAKEN_OUT = {"status": {"reservedFor": [{"$patch": "delete", "uid": "default/p"}]}}


@pytest.fixture
def one(harness: Harness) -> Api:
    """A node with one device, and a claim."""
    return Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim(meta=FINALIZED))


@pytest.mark.parametrize("seen", [False, True])
def test_a_pod_that_is_not_bound_is_taken_out_of_its_claims(harness: Harness, one: Api, seen: bool) -> None:
    """By its own entry, whoever else changes the claim. What the claim was given stays."""
    one.put(claiming(pod("p"), "c"))
    assert only(write_all(harness, one, harness.cycles()), Bind).node == "n"
    if seen:
        one.show(CLAIM)
    said = harness.bind_failed("default/p")
    (patch,) = only(said, UnreserveWrite).writes
    version = one.get(CLAIM)["metadata"]["resourceVersion"]
    assert patch == Patch(CLAIM, "claim/c", version, TAKEN_OUT, "status", strategic=True)


@pytest.mark.parametrize("shown", [False, True])
def test_a_claim_that_was_being_made_keeps_its_device_until_it_is_gone(harness: Harness, shown: bool) -> None:
    """The answer was lost, and the claim had changed: by us. Others had the device meanwhile (beside seed 920386)."""
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"))
    api.put(resource_slice("n", device("d0"), node="n"))
    api.put(extended())
    create = only(harness.cycles(), PreBindWrite)
    made = create.writes[0].key
    written = api.write(create)
    status = only(harness.handle(written), PreBindWrite)
    if shown:
        api.show(made)
    api.write(status)
    harness.handle(PreBindWriteFailed("default/p", 409, "it has changed", written.written))
    api.put(extended("q"))
    assert not [one for one in harness.tick(20) + harness.cycles() if isinstance(one, PreBindWrite)]
    harness.lose(*made)
    again = only(harness.tick(20) + harness.cycles(), PreBindWrite)
    assert again.writes[0].key != made
    harness.lose(*again.writes[0].key)


def test_an_attempt_takes_no_device_that_the_one_before_may_have(harness: Harness) -> None:
    """Each claim that is being made is known by a number of its own."""
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"))
    api.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    api.put(extended())
    found = []
    for _ in range(2):
        create = only(harness.tick(20) + harness.cycles(), PreBindWrite)
        written = api.write(create)
        status = only(harness.handle(written), PreBindWrite)
        harness.handle(PreBindWriteFailed("default/p", 409, "it has changed", written.written))
        (patch,) = status.writes
        found += [one["device"] for one in patch.change["status"]["allocation"]["devices"]["results"]]
    assert sorted(found) == ["d0", "d1"]
    for key in list(harness.engine.cluster.devices.unshown()):
        harness.lose("ResourceClaim", *key)


def test_the_claim_of_an_earlier_attempt_is_deleted_before_another_one_is_made(harness: Harness) -> None:
    """What deletes it may be late, and would delete the other one, which has another name besides (seed 920386)."""
    api = Api(harness, node("n"), device_class(extendedResourceName="test/gpu"))
    api.put(resource_slice("n", device("d0"), device("d1"), node="n"))
    api.put(extended())
    assert only(write_all(harness, api, harness.cycles()), Bind).node == "n"
    writes = only(harness.bind_failed("default/p"), UnreserveWrite).writes
    harness.handle(TakingOut("default/p"))
    said = harness.tick(20) + harness.cycles()
    assert not [each for each in said if isinstance(each, (Bind, PreBindWrite))]
    (create,) = only(harness.handle(TakenOut("default/p", {})), PreBindWrite).writes
    assert create.key not in {write.key for write in writes}
    harness.lose(*writes[0].key)


@pytest.mark.parametrize("known", [True, False], ids=["taken out", "refused"])
def test_a_pod_that_is_being_taken_out_of_its_claim_waits_for_that(harness: Harness, one: Api, known: bool) -> None:
    """The claim still looks reserved for it. Bound now, the pod would lose its device when the write arrives."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    one.show(CLAIM)
    harness.bind_failed("default/p")
    harness.handle(TakingOut("default/p"))
    said = harness.tick(20) + harness.cycles()
    assert not [each for each in said if isinstance(each, (Bind, PreBindWrite))]
    one.edit(CLAIM, metadata={"labels": {"any": "change"}})
    if not known:
        assert only(harness.handle(TakenOut("default/p", {})), Bind).node == "n"
        return
    reserved = one.get(CLAIM)["status"].pop("reservedFor")
    version = one.store(one.get(CLAIM))
    said = harness.handle(TakenOut("default/p", {CLAIM: version}))
    assert not [each for each in said if isinstance(each, (Bind, PreBindWrite))], "the watch does not show it yet"
    write = only(one.show(CLAIM), PreBindWrite)
    (patch,) = write.writes
    assert isinstance(patch, Patch)
    assert patch.change["status"]["reservedFor"] == reserved
    assert only(harness.handle(one.write(write)), Bind).node == "n"
    assert not harness.engine.cluster.devices.users.taking_out


@pytest.mark.parametrize("first", [True, False], ids=["the claim is written", "what is under way comes first"])
def test_what_an_earlier_leader_has_reserved_is_written_once_more(harness: Harness, first: bool) -> None:
    """It may have sent a write that takes the pod out of the claim, and have died: no such write comes later."""
    there = claim(meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["default/p"]))
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), there)
    api.put(claiming(pod("p"), "c"))
    write = only(harness.cycles(), PreBindWrite)
    version = api.get(CLAIM)["metadata"]["resourceVersion"]
    change = {"metadata": {"annotations": {RESERVED_OVER: version}}}
    assert write.writes == (Patch(CLAIM, "claim/c", version, change),)
    if not first:
        api.edit(CLAIM, status={"reservedFor": None})
        harness.handle(PreBindWriteFailed("default/p", 409, "it has changed", {}))
        write = only(harness.tick(5.0) + harness.cycles(), PreBindWrite)
        (patch,) = write.writes
        assert isinstance(patch, Patch)
        assert [one["uid"] for one in patch.change["status"]["reservedFor"]] == ["default/p"]
    assert only(harness.handle(api.write(write)), Bind).node == "n"


@pytest.mark.parametrize("begun", [True, False])
def test_what_an_earlier_leader_has_begun_to_allocate_is_written_once(harness: Harness, begun: bool) -> None:
    """Somebody else has the device. An allocation over the claim's version may be under way: it is to be refused."""
    other = claim("other", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["default/o"]))
    there = claim(meta=FINALIZED if begun else None)
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), other, there)
    api.put(claiming(pod("p"), "c"))
    version = api.get(CLAIM)["metadata"]["resourceVersion"]
    writes = [each.writes for each in harness.cycles() if isinstance(each, PostFilterWrite)]
    change = {"metadata": {"annotations": {RESERVED_OVER: version}}}
    assert writes == ([(Patch(CLAIM, "claim/c", version, change),)] if begun else [])
    api.edit(CLAIM, metadata={"annotations": change["metadata"]["annotations"]})
    api.put(node("m"))
    said = harness.tick(60.0) + harness.cycles()
    assert [each for each in said if isinstance(each, Failed)], "it was tried again"
    assert not [each for each in said if isinstance(each, PostFilterWrite)]


def test_what_could_not_be_written_is_tried_again_after_the_backoff(harness: Harness) -> None:
    """The claim has not changed, so no event comes of it."""
    other = claim("other", meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["default/o"]))
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), other)
    api.put(claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    refused = only(harness.cycles(), PostFilterWrite)
    said = harness.handle(PostFilterWriteFailed("default/p", refused.writes)) + harness.cycles()
    assert not said, "it waits out its backoff"
    assert only(harness.tick(20) + harness.cycles(), PostFilterWrite).writes == refused.writes
    harness.handle(PostFilterWriteFailed("default/nobody", ()))
    assert not [one for one in harness.tick(20) + harness.cycles() if isinstance(one, Failed)], "it waits for an event"


def test_a_conflict_over_a_version_that_others_wrote(harness: Harness) -> None:
    """That the finalizer was written says nothing of the allocation: its device is kept until the watch tells."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim())
    api.put(claiming(pod("p"), "c"))
    answer = api.write(only(harness.cycles(), PreBindWrite))
    api.edit(CLAIM, metadata={"labels": {"any": "change"}})
    api.write(only(harness.handle(answer), PreBindWrite))  # it has happened, and the answer was lost
    harness.handle(PreBindWriteFailed("default/p", 409, "changed", {}))
    assert harness.engine.cluster.devices.allocated.is_taken(DeviceID("gpu.test", "n", "d0"))


@pytest.mark.parametrize("first", ["refused", "gone"])
def test_a_conflict_with_nobody_of_a_pod_that_goes(harness: Harness, one: Api, first: str) -> None:
    """Nobody tries to bind it again, so the claim is written at once, and then has another version."""
    one.put(claiming(pod("p"), "c"))
    harness.cycles()
    refused = PreBindWriteFailed("default/p", 409, "changed", {})
    if first == "refused":
        harness.handle(refused)
    said = harness.lose("Pod", "default", "p", "default/p")
    if first == "gone":
        said = harness.handle(refused)
    (patch,) = only(said, UnreserveWrite).writes
    devices, device_id = harness.engine.cluster.devices.allocated, DeviceID("gpu.test", "n", "d0")
    assert devices.is_taken(device_id)
    one.edit(CLAIM, **patch.change)
    assert not devices.is_taken(device_id)


def test_what_another_leader_has_reserved_stays(harness: Harness, one: Api) -> None:
    """The Lease was deleted, so there are two for a moment. Without its claim, the pod could not start where it is."""
    one.put(claiming(pod("p"), "c"))
    harness.cycles()
    one.edit(CLAIM, status=allocated(result("d0", "n"), node="n", reserved=["default/p"]))
    said = harness.handle(PreBindWriteFailed("default/p", 409, "it has changed", {}))
    assert not [each for each in said if isinstance(each, UnreserveWrite)]


def test_a_pod_that_somebody_else_has_bound_keeps_its_claims(harness: Harness, one: Api) -> None:
    """It needs them where it is."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    said = harness.bind_failed("default/p", status=409)
    assert not [each for each in said if isinstance(each, UnreserveWrite)]


def test_a_pod_that_appears_on_a_node_keeps_its_claims(harness: Harness) -> None:
    """While it waits for its device, somebody else binds it."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", SLOW, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    write_all(harness, api, harness.cycles())
    said = api.put(claiming(pod("p", on="n"), "c"))
    assert not [each for each in said if isinstance(each, UnreserveWrite)]


def test_a_claim_that_was_made_for_the_pod_is_deleted(harness: Harness) -> None:
    """Nobody else could use it."""
    api = Api(harness, node("n"), device_class(extendedResourceName="gpu.test/device"))
    api.put(resource_slice("n", device("d0"), node="n"))
    made = pod("p")
    made["spec"]["containers"][0]["resources"] = {"requests": {"gpu.test/device": "1"}}
    api.put(made)
    first = only(harness.cycles(), PreBindWrite)
    key = first.writes[0].key
    said = harness.handle(api.write(first))
    said = harness.handle(api.write(only(said, PreBindWrite)))
    assert only(harness.handle(api.write(only(said, PreBindWrite))), Bind).node == "n"
    freed, gone = only(harness.bind_failed("default/p"), UnreserveWrite).writes
    assert freed == Patch(key, "", "", {"metadata": {"finalizers": None}})
    assert gone == Delete(key, "")


def test_it_is_said_once_what_the_pod_waits_for(harness: Harness) -> None:
    """As kube-scheduler says it."""
    api = Api(harness, node("n"), device_class(), resource_slice("n", SLOW, node="n"), claim(meta=FINALIZED))
    api.put(claiming(pod("p"), "c"))
    event = only(write_all(harness, api, harness.cycles()), RecordEvent)
    assert (event.kind, event.reason) == ("Normal", "BindingConditionsPending")
    assert event.note == "waiting for binding conditions for device on node n"
    said = api.edit(CLAIM, metadata={"labels": {"any": "change"}})
    assert not [each for each in said if isinstance(each, RecordEvent)]


def late(harness: Harness, seconds: float) -> Api:
    """A claim that a scheduler which has ended allocated so long ago, and whose device is not ready."""
    harness.engine.epoch = WALL + seconds - harness.now
    slow = result("d0", "n", bindingConditions=["Attached"])
    status = allocated(slow, node="n", reserved=["default/p"])
    status["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    there = claim(meta=FINALIZED, status=status)
    return Api(harness, node("n"), device_class(), resource_slice("n", SLOW, node="n"), there)


def test_the_time_began_when_the_claim_was_allocated(harness: Harness) -> None:
    """A scheduler that comes upon the claim after 500 seconds waits for 100 more."""
    api = late(harness, 500)
    api.put(claiming(pod("p"), "c"))
    write_all(harness, api, harness.cycles())
    assert not [each for each in harness.tick(99) if isinstance(each, Failed)]
    assert "device binding timeout: claim=c" in only(harness.tick(2), Failed).message


def test_of_the_time_less_than_a_second_is_left(harness: Harness) -> None:
    """No more than that is waited."""
    api = late(harness, 599.5)
    api.put(claiming(pod("p"), "c"))
    write_all(harness, api, harness.cycles())
    assert not [each for each in harness.tick(0.4) if isinstance(each, Failed)]
    assert "device binding timeout: claim=c" in only(harness.tick(0.2), Failed).message


def test_a_device_that_was_late_before_is_not_waited_for(harness: Harness) -> None:
    """The claim is freed at once."""
    late(harness, 700).put(claiming(pod("p"), "c"))
    said = harness.cycles()
    assert only(said, PostFilterWrite).writes[0].key == CLAIM
    assert "resourceclaim not available on the node" in only(said, Failed).message
