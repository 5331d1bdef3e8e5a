"""A pod is deleted after its claim was given a device and before it is bound: somebody frees the device.

Found by the storm (seed 358). kube-scheduler 1.37 takes the pod out of `reservedFor` then, and nobody frees the device.
"""

import pytest

from podberth.engine.instructions import Bind, Instruction, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import Gone
from podberth.framework.binding import Patch
from podberth.plugins.dynamic_resources.reservation import NOTHING
from tests.builders import node, pod
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_devices import CLAIM, FINALIZED, only, write_all


@pytest.fixture
def one(harness: Harness) -> Api:
    """A node with one device, and a claim."""
    return Api(harness, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), claim(meta=FINALIZED))


def gone(harness: Harness, name: str = "p") -> list[Instruction]:
    return harness.handle(Gone("Pod", "default", name, f"default/{name}"))


def unreserved(said: list[Instruction]) -> list[Patch]:
    return [
        patch for one in said if isinstance(one, UnreserveWrite) for patch in one.writes if isinstance(patch, Patch)
    ]


@pytest.mark.parametrize("seen", [False, True])
def test_its_entry_is_left_to_the_claim_controller(harness: Harness, one: Api, seen: bool) -> None:
    """It frees the device when it takes the entry out, and only then."""
    one.put(claiming(pod("p"), "c"))
    assert only(write_all(harness, one, harness.cycles()), Bind).node == "n"
    if seen:
        one.show(CLAIM)
    said = gone(harness)
    if not seen:
        said += one.show(CLAIM)
    assert unreserved(said) == []
    users = one.get(CLAIM)["status"]["reservedFor"]
    assert [user["uid"] for user in users] == ["default/p"]


def test_a_pod_that_is_being_deleted_leaves_its_entry_too(harness: Harness, one: Api) -> None:
    """The claim controller looks at pods that are being deleted and have no node."""
    one.put(claiming(pod("p"), "c"))
    asked = only(harness.cycles(), PreBindWrite)
    leaving = claiming(pod("p"), "c")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    one.put(leaving)
    said = harness.handle(one.write(asked))
    assert unreserved(said) == []
    assert not [each for each in said if isinstance(each, Bind)]


def test_a_pod_that_the_api_server_does_not_know_leaves_its_entry(harness: Harness, one: Api) -> None:
    """The watch shows no more that it is gone, and who learns that later may not lead any more (seed 502068)."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    one.show(CLAIM)
    assert unreserved(harness.bind_failed("default/p", status=404, message="not found")) == []
    assert unreserved(gone(harness)) == []


@pytest.mark.parametrize("order", ["shown first", "gone first"])
def test_what_it_gave_back_before_is_freed_when_it_goes(harness: Harness, one: Api, order: str) -> None:
    """Its Binding is refused, it is taken out of its claim, and deleted before its next attempt."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    one.show(CLAIM)
    (out,) = unreserved(harness.bind_failed("default/p"))
    assert out.change == {"status": {"reservedFor": [{"$patch": "delete", "uid": "default/p"}]}}
    if order == "shown first":
        one.edit(CLAIM, status={"reservedFor": None})
        said = gone(harness)
    else:
        assert unreserved(gone(harness)) == []
        said = one.edit(CLAIM, status={"reservedFor": None})
    (freed,) = unreserved(said)
    assert freed == Patch(
        CLAIM, "claim/c", one.get(CLAIM)["metadata"]["resourceVersion"], {"status": NOTHING}, "status"
    )
    assert unreserved(one.edit(CLAIM, status={"allocation": None})) == []
    assert len(harness.engine.orphaned_claims) == 0


def test_a_claim_that_others_use_is_left_alone(harness: Harness) -> None:
    there = claim(meta=FINALIZED, status=allocated(result("d0", "n"), node="n", reserved=["other"]))
    api = Api(harness, node("n", cpu="1"), device_class(), resource_slice("n", device("d0"), node="n"), there)
    api.put(claiming(pod("p", cpu="2"), "c"))
    harness.cycles()
    assert unreserved(gone(harness)) == []
    assert len(harness.engine.orphaned_claims) == 0


def test_a_claim_that_another_pod_is_about_to_use_is_left_alone(harness: Harness, one: Api) -> None:
    """Its device was promised to that pod."""
    one.put(claiming(pod("p"), "c"))
    one.put(claiming(pod("q", cpu="100"), "c"))
    asked = only(harness.cycles(), PreBindWrite)
    assert unreserved(gone(harness, "q")) == []
    said = harness.handle(one.write(asked)) + one.show(CLAIM)
    assert unreserved(said) == []
    assert [each.pod.name for each in said if isinstance(each, Bind)] == ["p"]


@pytest.mark.parametrize("first", ["pod", "claim"])
def test_a_claim_that_is_deleted_is_forgotten(harness: Harness, one: Api, first: str) -> None:
    """Whatever is still known of its pod: each claim of a template ends with its pod."""
    one.put(claiming(pod("p"), "c"))
    write_all(harness, one, harness.cycles())
    if first == "pod":
        gone(harness)
    harness.lose("ResourceClaim", "default", "c")
    gone(harness)
    assert len(harness.engine.orphaned_claims) == 0
    assert harness.engine.cluster.devices.users.moved_on == set()
