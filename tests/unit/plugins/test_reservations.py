"""One pod's claims beside what others have done to them: what is written next, waited for, and given back."""

from typing import Any

import pytest

from podberth.cache.devices import ClaimUser, Devices
from podberth.explain.objects.world import World
from podberth.framework.binding import AssumedPod, Delete, Patch, Wait
from podberth.model.devices import FINALIZER, AllocatedDevice, Allocation, DeviceID
from podberth.model.pod_group import NATIVE, GroupKey
from podberth.plugins.dynamic_resources.reservation import (
    NOTHING,
    PAUSE_SECONDS,
    ROUNDS,
    Reservation,
    ReservationError,
    ReservedClaim,
    give_back,
    is_other,
    may_be_used,
    moved_on,
    next_step,
    removed,
)
from tests.builders import Object, node, pod
from tests.devices import allocated, claim, device, resource_slice, result
from tests.unit.plugins.small import a_pod

KEY = ("ResourceClaim", "default", "c")
GROUP = GroupKey("default", "g", NATIVE)
GIVEN = Allocation(
    (
        AllocatedDevice(
            request="r",
            id=DeviceID("gpu.test", "n", "d0"),
            admin_access=False,
            share=None,
            consumed=None,
            binding_conditions=(),
            binding_failure_conditions=(),
        ),
    ),
    None,
)
TAKEN_OUT = {"status": {"reservedFor": [{"$patch": "delete", "uid": "p"}]}}


def there(*claims: Object) -> Devices:
    """A node with one device, and these claims."""
    world = World()
    world.add_all([node("n"), resource_slice("n", device("d0"), node="n"), *claims])
    return world.cluster.devices


def stored(version: str = "7", status: Object | None = None, **meta: Any) -> Object:
    return claim(meta={"finalizers": [FINALIZER], "resourceVersion": version, **meta}, status=status)


def mine(**fields: Any) -> ReservedClaim:
    return ReservedClaim(
        ("default", "c"), "claim/c", fields.pop("allocation", None), fields.pop("document", None), **fields
    )


def new(**fields: Any) -> ReservedClaim:
    """A claim that gets its device now."""
    return mine(allocation=GIVEN, document={"devices": {}}, **fields)


def assumed(**fields: Any) -> AssumedPod:
    return AssumedPod(a_pod(pod("p", uid="p")), 0, "n", **fields)


def step(one: ReservedClaim, devices: Devices, of: AssumedPod | None = None, **fields: Any) -> Wait | None:
    """The next step of a pod with this claim."""
    return next_step(Reservation([one], **fields), of or assumed(), devices, 30.0, ())


@pytest.mark.parametrize(("written", "over"), [({}, "7"), ({KEY: "9"}, "9"), ({KEY: "5"}, "7")])
@pytest.mark.parametrize("before", [False, True], ids=["given now", "allocated before"])
def test_a_claim_is_written_over_the_latest_version_that_is_known(
    before: bool, written: dict[tuple[str, str, str], str], over: str
) -> None:
    """Shown by the watch, or answered to our own write; the log says what it is written for."""
    wait = step(
        mine() if before else new(),
        there(stored(status=allocated(result("d0", "n"), reserved=["x"]) if before else None)),
        assumed(written=written),
    )
    assert wait is not None
    (patch,) = wait.writes
    assert isinstance(patch, Patch)
    assert (patch.uid, patch.resource_version, patch.subresource) == ("claim/c", over, "status")
    what = "reservation" if before else "allocation and reservation"
    assert patch.purpose == f"add {what} to claim default/c"
    assert [one["uid"] for one in patch.change["status"]["reservedFor"]] == (["x", "p"] if before else ["p"])


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (stored(), "claim default/c got deallocated elsewhere in the meantime"),
        (stored(uid="another"), 'could not find ResourceClaim "default/c"'),
        (stored(deletionTimestamp="2026-01-01T00:00:00Z"), "claim default/c got deleted in the meantime"),
    ],
    ids=["freed", "made anew", "deleted"],
)
def test_a_claim_that_has_no_device_any_more(now: Object, why: str) -> None:
    """It was allocated when the pod was decided on."""
    with pytest.raises(ReservationError) as raised:
        step(mine(), there(now))
    assert str(raised.value) == why


@pytest.mark.parametrize("shared", [True, False])
def test_the_same_devices_are_another_allocation_where_nobody_shares_the_claim(shared: bool) -> None:
    """Only a pod of the same group can have written what was promised here."""
    now = there(stored(status=allocated(result("d0", "n")))).claims["default", "c"]
    assert is_other(new(shared=shared), now) is not shared


@pytest.mark.parametrize("made", [True, False], ids=["made for the pod", "its own"])
def test_a_device_that_is_given_twice_is_taken_back(made: bool) -> None:
    """Over the version that is known; the UID of a claim that was made a moment ago is not."""
    both = [
        stored(status=allocated(result("d0", "n"), reserved=["p"])),
        claim("d", status=allocated(result("d0", "n"))),
    ]
    extended: Any = object() if made else None
    wait = step(mine(extended=extended), there(*both), asked=ROUNDS)
    back = Patch(KEY, "" if made else "claim/c", "7", {"status": NOTHING}, "status")
    assert wait == Wait(30.0, (back,))


def test_a_claim_that_was_only_moved_on_is_not_known_to_be_reserved() -> None:
    """The write says nothing of its status. After a conflict the pod stays in it: somebody may have put it there."""
    devices, one = there(stored(status=allocated(result("d0", "n"), reserved=["p"]))), mine()
    reservation, pod_ = Reservation([one]), assumed()
    wait = next_step(reservation, pod_, devices, 30.0, ())
    assert wait == Wait(30.0, (moved_on(devices.claims["default", "c"]),))
    pod_.written[KEY] = "8"
    assert next_step(reservation, pod_, devices, 30.0, ()) is None
    pod_.refused = 409
    assert give_back(reservation, pod_, devices) == ()


def test_an_attempt_that_wrote_nothing_leaves_the_claim_to_be_moved_on() -> None:
    """An earlier leader may have sent a write that takes the pod out: the next attempt overtakes it."""
    devices = there(stored(status=allocated(result("d0", "n"), reserved=["p"])))
    give_back(Reservation([mine()]), assumed(refused=409), devices)
    wait = step(mine(), devices)
    assert wait is not None
    assert wait.writes == (moved_on(devices.claims["default", "c"]),)


@pytest.mark.parametrize(
    ("late", "fields", "version", "ours"),
    [
        (True, {"over": "7", "asked_for": ("p",)}, "8", True),
        (False, {"over": "7", "asked_for": ("p",)}, "8", False),
        (True, {"over": "7", "asked_for": ("p",), "found": True}, "8", False),
        (True, {"over": "7", "asked_for": ("p",)}, None, False),
        (True, {"over": "7", "asked_for": ("p",)}, "7", False),
        (True, {"asked_for": ("p",)}, "8", False),
    ],
    ids=["reserved", "all Bindings are known", "found", "refused", "only the finalizer", "moved on"],
)
def test_who_has_reserved_a_claim(late: bool, fields: dict[str, Any], version: str | None, ours: bool) -> None:
    """What this process has reserved is noted as long as an earlier leader's Bindings may arrive, and freed at once."""
    devices = there(stored("9", allocated(result("d0", "n"), reserved=["p"])))
    devices.late_bindings = late
    written = {} if version is None else {KEY: version}
    give_back(Reservation([mine(**fields)]), assumed(written=written), devices)
    assert devices.reserved_here == ({(("default", "c"), "p")} if ours else set())
    assert may_be_used(devices.claims["default", "c"], a_pod(pod("p", uid="p")), devices) is (late and not ours)


@pytest.mark.parametrize(
    ("reserved", "fields", "flight", "out"),
    [
        (False, {}, False, False),
        (True, {}, False, True),
        (False, {"joined": True}, False, False),
        (False, {"joined": True}, True, True),
        (False, {}, True, False),
    ],
    ids=["not in it", "in it", "shared, and shown without it", "shared, and not shown yet", "written by another pod"],
)
def test_a_pod_is_taken_out_of_what_it_may_be_in(
    reserved: bool, fields: dict[str, Any], flight: bool, out: bool
) -> None:
    """Another pod of the group may have written that the claim is reserved for both."""
    devices = there(stored(status=allocated(result("d0", "n"), reserved=["p"]) if reserved else None))
    if flight:
        devices.assume("claim/c", GIVEN, ("default", "c"), "q", GROUP)
        devices.written("claim/c", "8")
    writes = give_back(Reservation([mine(**fields)]), assumed(), devices)
    assert writes == ((Patch(KEY, "claim/c", "7", TAKEN_OUT, "status", strategic=True),) if out else ())


@pytest.mark.parametrize("status", [403, 409, None])
def test_what_another_pod_has_written_stays_taken(status: int | None) -> None:
    """Two pods use a claim. The second one was refused to be reserved for, before the watch has shown the first."""
    devices = there(stored())
    devices.assume("claim/c", GIVEN, ("default", "c"), "q")
    devices.written("claim/c", "9")
    give_back(Reservation([mine(over="8")]), assumed(refused=status), devices)
    assert devices.allocated.is_taken(GIVEN.devices[0].id)
    assert devices.in_flight["claim/c"].version == "9"


@pytest.mark.parametrize("written", [True, False])
def test_a_pod_refused_after_its_claim_was_given(written: bool) -> None:
    """The API has stored the allocation, which counts until the watch shows what became of it."""
    devices = there(stored())
    devices.assume("claim/c", GIVEN, ("default", "c"), "p")
    give_back(Reservation([new(over="7")]), assumed(refused=403, written={KEY: "8" if written else "7"}), devices)
    assert devices.allocated.is_taken(GIVEN.devices[0].id) is written


def test_a_pause_that_is_over_is_no_time_that_is_over() -> None:
    """What comes next is waited for in full."""
    devices = there(stored())
    devices.assume("claim/c", GIVEN, ("default", "c"), "p")
    devices.rivals.gave({("gpu.test", "n")}, devices.wall)
    reservation, pod_ = Reservation([new(is_written=True)], asked=ROUNDS), assumed()
    wait = next_step(reservation, pod_, devices, 30.0, ())
    assert wait == Wait(30.0, on=frozenset((KEY,)), expired="the watch does not show what claims were given")
    devices = there(stored("8", allocated(result("d0", "n"), reserved=["p"])))
    devices.rivals.gave({("gpu.test", "n")}, devices.wall)
    wait = next_step(reservation, pod_, devices, 30.0, ())
    assert wait == Wait(PAUSE_SECONDS, on=frozenset((KEY,)), pause=True)
    pod_.expired = True
    assert next_step(reservation, pod_, devices, 30.0, ()) is None
    assert (reservation.paused, pod_.expired) == (True, False)


def test_a_pod_waits_for_nobody_once_it_writes() -> None:
    """What is under way for its claim began before, or is its own."""
    devices = there(stored(status=allocated(result("d0", "n"), reserved=["p"])))
    devices.users.add("claim/c", "q", ClaimUser("q", GROUP))
    devices.users.unseen["claim/c"] = "9"
    assert step(mine(), devices) is not None
    assert step(mine(shared=True), devices, asked=ROUNDS, group=GROUP) is None


def test_our_finalizer_does_not_hold_up_a_claim_that_is_deleted() -> None:
    """It is taken off first; those of others stay."""
    ours = stored(finalizers=["other", FINALIZER])
    first, then = removed(there(ours).claims["default", "c"])
    assert first == Patch(KEY, "claim/c", "7", {"metadata": {"finalizers": ["other"]}})
    assert (
        list(removed(there(stored(finalizers=["other"])).claims["default", "c"])) == [then] == [Delete(KEY, "claim/c")]
    )
