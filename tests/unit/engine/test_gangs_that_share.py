"""Claims that pods of a group share before they are allocated: one pod writes them, and all are bound, or none is.

Upstream's open bugs are cases here: kubernetes/kubernetes#140053 (those that write second fail), #140269 and #140478
(they stay stuck).
"""

from collections.abc import Iterator

import pytest

from podberth.engine.instructions import Bind, Failed, Instruction, PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import Follows, Gone, PreBindWriteFailed
from podberth.framework.binding import Patch
from podberth.model.devices import FINALIZER
from podberth.model.pod_group import NATIVE
from podberth.plugins.dynamic_resources.reservation import NOTHING
from tests.builders import Object, node
from tests.devices import allocated, claim, claiming, device, device_class, resource_slice, result

from .api import Api
from .conftest import Harness
from .test_gangs import bound, failures, group, member

FINALIZED = {"finalizers": [FINALIZER]}
SHARED = ("ResourceClaim", "default", "shared")


@pytest.fixture
def gangs(harness: Harness) -> Iterator[Harness]:
    """A harness whose API server serves PodGroups; at the end nobody counts on any claim."""
    harness.handle(Follows(NATIVE, True))
    yield harness
    assert len(harness.engine.cluster.devices.users) == 0


def worker(number: int, *of: str) -> Object:
    return claiming(member(f"w{number}", "100m", meta={"uid": f"default/w{number}"}), *of)


def sharing(harness: Harness, pods: int = 2, finalized: bool = True) -> Api:
    """One device, one claim, and a gang that shares it."""
    there = claim("shared", meta=FINALIZED if finalized else {})
    api = Api(
        harness,
        node("n", cpu="100", pods="500"),
        device_class(),
        resource_slice("n", device("d0"), node="n"),
        there,
        group(min_count=pods),
    )
    for number in range(pods):
        api.put(worker(number, "shared"))
    return api


def writes(said: list[Instruction]) -> list[PreBindWrite]:
    return [one for one in said if isinstance(one, PreBindWrite)]


def reserved(api: Api) -> list[str]:
    return [one["name"] for one in api.get(SHARED)["status"]["reservedFor"]]


def carry_out(api: Api, harness: Harness, said: list[Instruction]) -> list[Instruction]:
    """The API does what is asked for, and the watch is quick, until nothing is written any more; all that was said."""
    found = list(said)
    while asked := writes(said):
        said = []
        for one in asked:
            said += harness.handle(api.write(one))
            said += api.show(*dict.fromkeys(patch.key for patch in one.writes))
        found += said
    return found


@pytest.mark.parametrize("finalized", [True, False])
def test_one_pod_writes_what_all_were_promised(gangs: Harness, finalized: bool) -> None:
    api = sharing(gangs, 3, finalized)
    said = carry_out(api, gangs, gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    assert len(writes(said)) == (1 if finalized else 2), "nobody else writes"
    assert sorted(reserved(api)) == ["w0", "w1", "w2"]
    assert failures(said) == {}


def test_the_answer_comes_before_the_watch(gangs: Harness) -> None:
    """Those that wait go on once the watch shows what was written."""
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    assert bound(gangs.handle(api.write(first))) == []
    assert sorted(bound(api.show(SHARED))) == ["w0", "w1"]


def test_the_watch_comes_before_the_answer(gangs: Harness) -> None:
    """Those that wait go on with the answer."""
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    answer = api.write(first)
    assert bound(api.show(SHARED)) == []
    assert sorted(bound(gangs.handle(answer))) == ["w0", "w1"]


@pytest.mark.parametrize("status", [409, 500])
def test_another_pod_writes_when_the_first_one_may_not(gangs: Harness, status: int) -> None:
    """What the claim was promised is held for those that are left; the first pod comes after them."""
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    said = gangs.handle(PreBindWriteFailed(first.pod.uid, status, "boom", {}))
    if status == 409:
        assert writes(said) == [], "the claim has changed, and the watch will show it"
        said += api.edit(SHARED, metadata={"labels": {"any": "change"}})
    (second,) = writes(said)
    assert second.pod.uid != first.pod.uid
    said = gangs.handle(api.write(second)) + api.show(SHARED) + gangs.tick(10.0) + gangs.cycles()
    said = carry_out(api, gangs, said)
    assert sorted(bound(said)) == ["w0", "w1"]


@pytest.mark.parametrize("others", [True, False])
def test_a_refusal_that_nothing_tells_of(gangs: Harness, others: bool) -> None:
    """Nobody has changed the claim: it is written once more, or its watch would never tell (seed 50410).

    `others`: the pods that wait for the write are still there; else the gang is tried again.
    """
    api = sharing(gangs, 3)
    said = gangs.cycles()
    (first,) = writes(said)
    said = gangs.handle(PreBindWriteFailed(first.pod.uid, 409, "boom", {}))
    if not others:
        for name in {"w0", "w1", "w2"} - {first.pod.name}:
            gangs.lose("Pod", "default", name, f"default/{name}")
            api.put(worker(int(name[1:]), "shared"))
        said += gangs.tick(20.0) + gangs.cycles()
    assert writes(said) == []
    said = gangs.tick(0.9)
    assert writes(said) == [], "the watch may be about to tell"
    (again,) = writes(gangs.tick(0.2))
    assert [patch.subresource for patch in again.writes if isinstance(patch, Patch)] == [""]
    assert writes(gangs.handle(api.write(again))) == [], "the watch does not show it yet"
    said = carry_out(api, gangs, api.show(SHARED) + gangs.tick(20.0) + gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    assert sorted(reserved(api)) == ["w0", "w1", "w2"]


def test_a_refusal_that_the_watch_tells_of_late(gangs: Harness) -> None:
    """Once another pod writes the claim, those that gave the watch a moment have as long as any for that."""
    api = sharing(gangs, 3)
    (first,) = writes(gangs.cycles())
    gangs.handle(PreBindWriteFailed(first.pod.uid, 409, "boom", {}))
    gangs.tick(0.5)
    (second,) = writes(api.edit(SHARED, metadata={"labels": {"any": "change"}}))
    assert failures(gangs.tick(30.0)) == {}
    said = gangs.handle(api.write(second)) + api.show(SHARED) + gangs.cycles()
    assert sorted(bound(carry_out(api, gangs, said))) == ["w0", "w1", "w2"]


def test_a_pod_is_deleted_while_it_writes(gangs: Harness) -> None:
    """The others go on once it is known what became of the write. Its entry is left to the claim controller."""
    api = sharing(gangs, 3)
    api.put(group(min_count=2))
    (first,) = writes(gangs.cycles())
    name = first.pod.name
    said = gangs.handle(Gone("Pod", "default", name, first.pod.uid))
    assert (bound(said), writes(said)) == ([], [])
    said = gangs.handle(api.write(first)) + api.show(SHARED)
    assert len(bound(said)) == 2
    assert name not in bound(said)
    assert not [one for one in said if isinstance(one, UnreserveWrite)]


def test_a_pod_is_deleted_and_its_write_was_refused(gangs: Harness) -> None:
    api = sharing(gangs, 3)
    api.put(group(min_count=2))
    (first,) = writes(gangs.cycles())
    gangs.handle(Gone("Pod", "default", first.pod.name, first.pod.uid))
    said = gangs.handle(PreBindWriteFailed(first.pod.uid, 403, "no", {}))
    assert len(bound(carry_out(api, gangs, said))) == 2


def test_another_scheduler_allocates_the_claim(gangs: Harness) -> None:
    """With other devices than those that were promised: the gang is tried again with these."""
    there = claim("shared", meta=FINALIZED)
    api = Api(gangs, node("n"), node("m"), device_class(), there, group(min_count=2))
    api.put(resource_slice("n", device("d0"), node="n"))
    api.put(resource_slice("m", device("e0"), node="m"))
    for number in range(2):
        api.put(worker(number, "shared"))
    (first,) = writes(gangs.cycles())
    other = "m" if first.node == "n" else "n"
    status = allocated(result("e0" if other == "m" else "d0", other), node=other)
    said = api.put(claim("shared", meta=FINALIZED, status=status))
    said += gangs.handle(PreBindWriteFailed(first.pod.uid, 409, "conflict", {}))
    said = carry_out(api, gangs, said)
    for _ in range(3):
        said += carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert {one.pod.name: one.node for one in said if isinstance(one, Bind)} == {"w0": other, "w1": other}
    assert sorted(reserved(api)) == ["w0", "w1"]


def test_shared_claims_and_own_ones(gangs: Harness) -> None:
    """In any order: kube-scheduler mixes up which claim was given what (Reserve takes allocations by their order)."""
    names = [("shared", "own0"), ("own1", "shared"), ("shared", "own2")]
    claims = [claim(name, meta=FINALIZED) for name in ("shared", "own0", "own1", "own2")]
    devices = [device(f"d{number}") for number in range(4)]
    api = Api(gangs, node("n"), device_class(), resource_slice("n", *devices, node="n"), *claims, group(min_count=3))
    for number, of in enumerate(names):
        api.put(worker(number, *of))
    said = carry_out(api, gangs, gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    given = [
        one["device"]
        for name in ("shared", "own0", "own1", "own2")
        for one in api.get(("ResourceClaim", "default", name))["status"]["allocation"]["devices"]["results"]
    ]
    assert sorted(given) == ["d0", "d1", "d2", "d3"], "no device is given twice"


def test_the_others_go_where_the_device_is(gangs: Harness) -> None:
    """What is promised counts for their choice of nodes (#140087)."""
    api = Api(gangs, node("n", cpu="1"), node("m"), device_class(), claim("shared", meta=FINALIZED), group(min_count=2))
    api.put(resource_slice("n", device("d0"), node="n"))
    for number in range(2):
        api.put(claiming(member(f"w{number}", "600m", meta={"uid": f"default/w{number}"}), "shared"))
    said = gangs.cycles()
    assert (bound(said), writes(said)) == ([], [])
    why = "0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node."
    assert why in failures(said).values()
    assert gangs.engine.cluster.devices.in_flight == {}


def test_pods_of_other_groups_wait(gangs: Harness) -> None:
    """What is promised to a gang is not written yet, and it may be given back."""
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    api.put(claiming(member("other", "100m", "alone", meta={"uid": "default/other"}), "shared"))
    api.put(group("alone", min_count=1))
    said = gangs.cycles()
    why = "0/1 nodes are available: resource claim default/shared is in the process of being allocated."
    assert failures(said)["other"] == why
    said = carry_out(api, gangs, gangs.handle(api.write(first)) + api.show(SHARED) + gangs.tick(15.0) + gangs.cycles())
    assert sorted(bound(said)) == ["other", "w0", "w1"]


def test_a_pod_that_comes_later_shares_what_is_being_written(gangs: Harness) -> None:
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    api.put(worker(2, "shared"))
    said = gangs.cycles()
    assert writes(said) == [], "it waits for its turn"
    said = carry_out(api, gangs, gangs.handle(api.write(first)) + api.show(SHARED))
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    assert sorted(reserved(api)) == ["w0", "w1", "w2"]


def test_a_claim_that_was_allocated_before(gangs: Harness) -> None:
    """Its pods are reserved for together as well, and nobody runs into a conflict."""
    there = claim("shared", meta=FINALIZED, status=allocated(result("d0", "n"), node="n"))
    api = Api(gangs, node("n"), device_class(), resource_slice("n", device("d0"), node="n"), there, group(min_count=3))
    for number in range(3):
        api.put(worker(number, "shared"))
    said = carry_out(api, gangs, gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1", "w2"]
    assert len(writes(said)) == 1


def test_no_more_pods_than_a_claim_takes(gangs: Harness) -> None:
    """The API takes 256: more are told so before anything is written, instead of being refused for ever."""
    api = sharing(gangs, 260)
    said = gangs.cycles()
    assert (bound(said), writes(said)) == ([], [])
    assert set(failures(said).values()) & {"0/1 nodes are available: resourceclaim in use."}
    assert api.get(SHARED).get("status", {}) == {}


def test_a_member_that_fails_is_taken_out(gangs: Harness) -> None:
    """It was reserved for together with the others, and its Binding is refused."""
    api = sharing(gangs)
    said = carry_out(api, gangs, gangs.cycles())
    assert sorted(bound(said)) == ["w0", "w1"]
    said = gangs.bind_failed("default/w1")
    (out,) = [one for one in said if isinstance(one, UnreserveWrite)]
    change = {"status": {"reservedFor": [{"$patch": "delete", "uid": "default/w1"}]}}
    version = api.get(SHARED)["metadata"]["resourceVersion"]
    assert out.writes == (Patch(SHARED, "claim/shared", version, change, "status", strategic=True),)
    assert [one.pod.name for one in said if isinstance(one, Failed)] == ["w1"]


def test_a_member_that_waits_for_the_watch_in_vain_is_taken_out(gangs: Harness) -> None:
    """It is reserved for by what another one wrote, though the watch has not shown that."""
    api = sharing(gangs)
    (first,) = writes(gangs.cycles())
    gangs.handle(api.write(first))
    said = gangs.tick(600.5)
    outs = [patch for one in said if isinstance(one, UnreserveWrite) for patch in one.writes]
    taken = [patch.change["status"]["reservedFor"][0]["uid"] for patch in outs if isinstance(patch, Patch)]
    assert sorted(taken) == ["default/w0", "default/w1"]
    api.show(SHARED)


def test_own_claims_of_a_gang_are_not_waited_for(gangs: Harness) -> None:
    """Once they are written, whatever the watch shows: no other pod writes them."""
    claims = [claim(name, meta=FINALIZED) for name in ("own0", "own1")]
    devices = [device(f"d{number}") for number in range(2)]
    api = Api(gangs, node("n"), device_class(), resource_slice("n", *devices, node="n"), *claims, group(min_count=2))
    for number in range(2):
        api.put(worker(number, f"own{number}"))
    said = [more for one in writes(gangs.cycles()) for more in gangs.handle(api.write(one))]
    assert sorted(bound(said)) == ["w0", "w1"]
    api.show(*(("ResourceClaim", "default", f"own{number}") for number in range(2)))


def test_what_an_earlier_attempt_left_is_freed(gangs: Harness) -> None:
    """The claim has a device on a node that is full now: the gang is not stuck with it (#140478)."""
    there = claim("shared", meta=FINALIZED, status=allocated(result("d0", "n"), node="n"))
    api = Api(gangs, node("n", cpu="100m"), node("m"), device_class(), there, group(min_count=2))
    api.put(resource_slice("n", device("d0"), node="n"))
    api.put(resource_slice("m", device("e0"), node="m"))
    for number in range(2):
        api.put(worker(number, "shared"))
    said = gangs.cycles()
    assert bound(said) == []
    (freed,) = [one for one in said if isinstance(one, PostFilterWrite)]
    version = api.get(SHARED)["metadata"]["resourceVersion"]
    assert freed.writes == (Patch(SHARED, "claim/shared", version, {"status": NOTHING}, "status"),)
    api.edit(SHARED, status=NOTHING)
    said = carry_out(api, gangs, gangs.tick(15.0) + gangs.cycles())
    assert {one.pod.name: one.node for one in said if isinstance(one, Bind)} == {"w0": "m", "w1": "m"}


def test_what_others_use_is_not_freed(gangs: Harness) -> None:
    status = allocated(result("d0", "n"), node="n", reserved=["other"])
    api = Api(gangs, node("n", cpu="100m"), node("m"), device_class(), group(min_count=2))
    api.put(claim("shared", meta=FINALIZED, status=status))
    for number in range(2):
        api.put(worker(number, "shared"))
    said = gangs.cycles()
    assert bound(said) == []
    assert not [one for one in said if isinstance(one, PostFilterWrite)]
