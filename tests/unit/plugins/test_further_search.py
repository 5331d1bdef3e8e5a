"""Looking further than kube-scheduler, where asked for: judged by trying every combination of devices."""

from collections.abc import Iterator
from itertools import chain, combinations, product
from random import Random
from typing import Any

import pytest

from podberth.model.devices import MOST_DEVICES, ResourceClaim
from podberth.plugins.dynamic_resources.pools import pools_of
from podberth.plugins.dynamic_resources.requested import AllocationError, requested_claim
from podberth.plugins.dynamic_resources.search import Search
from podberth.plugins.dynamic_resources.selecting import Programs
from tests.builders import Object
from tests.devices import asks, claim, device, first_of, request, resource_slice

from .test_allocator import Case, capped

FAILS = 'device.attributes["gpu.test"].size > 1'
"""Fails on a device without a size."""
SMALL = 'device.attributes["gpu.test"].?size.orValue(0) < 2'
ENOUGH = 100_000
Devices = list[Object]


def search(case: Case, further: int) -> Search:
    """For the claims of a case."""
    wants = [requested_claim(str(one), one.spec, case.devices.classes) for one in case.claims]
    pools = pools_of(case.node, case.devices)
    return Search(wants, pools, case.devices.allocated, Programs().selects, capped(), further=further)


def given(found: Search) -> list[str]:
    """request=device."""
    return [f"{one.alternative.name}={one.entry.id.device}" for those in found.result for one in those]


def usual(case: Case) -> list[str] | None:
    """What kube-scheduler's search finds; None: nothing, or it fails."""
    found = search(case, 0)
    try:
        return given(found) if found.run() else None
    except AllocationError:
        return None


def size(one: Object) -> int | None:
    found: int | None = one.get("attributes", {}).get("size", {}).get("int")
    return found


def takes(asked: Object, devices: Devices, whole: bool) -> Iterator[tuple[Object, ...]]:
    """Every choice of devices for what is asked, by plain reading; none where it can't be judged."""
    selectors = [one["cel"]["expression"] for one in asked.get("selectors", ())]
    judged = [one for one in devices if FAILS not in selectors or size(one) is not None]
    fitting = [
        one
        for one in judged
        if (FAILS not in selectors or (size(one) or 0) > 1) and (SMALL not in selectors or (size(one) or 0) < 2)
    ]
    if asked["allocationMode"] == "All":
        if whole and len(judged) == len(devices) and fitting:
            yield tuple(fitting)
        return
    yield from combinations(fitting, asked["count"])


def solutions(spec: Object, devices: Devices, whole: bool) -> Iterator[tuple[tuple[Object, ...], ...]]:
    """Every solution of a claim."""
    choices = []
    for one in spec["requests"]:
        several = one.get("firstAvailable") or [one["exactly"]]
        choices.append(list(chain.from_iterable(takes(asked, devices, whole) for asked in several)))
    for chosen in product(*choices):
        every = [one["name"] for those in chosen for one in those]
        sizes = [size(one) for those in chosen for one in those]
        if len(set(every)) < len(every):
            continue
        for constraint in spec.get("constraints", ()):
            if None in sizes or ("matchAttribute" in constraint and len(set(sizes)) > 1):
                break
            if "distinctAttribute" in constraint and len(set(sizes)) < len(sizes):
                break
        else:
            yield chosen


def some(random: Random) -> Object:
    """What a request, or an alternative, asks for."""
    chosen = random.choice([(), (), (SMALL,), (FAILS,)])
    if random.random() < 0.35:
        return asks("gpu", *chosen, allocationMode="All")
    return asks("gpu", *chosen, count=random.choice([1, 1, 2]))


def made(random: Random) -> tuple[Case, Object, Devices, bool]:
    """A small case: a node's own pool, and perhaps a shared one that is still being published."""
    devices = [device(f"d{i}", **({"size": random.randint(1, 2)} if random.random() < 0.8 else {})) for i in range(4)]
    requests = []
    for number in range(random.choice([1, 2, 2])):
        if random.random() < 0.7:
            requests.append(first_of(f"r{number}", a=some(random), b=some(random)))
        else:
            requests.append({"name": f"r{number}", "exactly": some(random)})
    more: dict[str, Any] = {}
    if random.random() < 0.5:
        more["constraints"] = [{random.choice(["matchAttribute", "distinctAttribute"]): "gpu.test/size"}]
    asked = claim("c", *requests, **more)
    whole = random.random() < 0.7
    objects = [resource_slice("n", *devices, node="n"), asked]
    if not whole:
        objects.append(resource_slice(random.choice(["late", "too-late"]), device("x"), allNodes=True, count=2))
    return Case(*objects), asked["spec"]["devices"], devices, whole


@pytest.mark.parametrize("seed", range(20))
def test_a_solution_is_found_if_there_is_one(seed: int) -> None:
    """And it is one. Where kube-scheduler's search finds one, looking further finds the same."""
    random = Random(seed)
    for _ in range(20):
        case, spec, devices, whole = made(random)
        exists = next(solutions(spec, devices, whole), None)
        found = search(case, ENOUGH)
        assert found.run() is (exists is not None), spec
        assert not found.given_up
        first = usual(case)
        if first is not None:
            assert given(found) == first
        if exists is not None:
            names = {one["name"]: one for one in devices}
            chosen = [one.split("=")[1] for one in given(found)]
            assert len(set(chosen)) == len(chosen)
            every = {
                tuple(sorted(one["name"] for those in each for one in those))
                for each in solutions(spec, devices, whole)
            }
            assert tuple(sorted(chosen)) in every
            assert set(chosen) <= names.keys()


@pytest.mark.parametrize("name", ["late", "too-late"], ids=["before the node's own", "after it"])
def test_there_is_something_to_find_further(name: str) -> None:
    """What makes kube-scheduler fail the pod: an alternative of a pool that is not complete."""
    asked = claim("c", first_of("r", every=asks("gpu", allocationMode="All"), one=asks("gpu")))
    late = resource_slice(name, device("x"), allNodes=True, count=2)
    case = Case(resource_slice("n", device("d0"), node="n"), asked, late)
    with pytest.raises(AllocationError, match=f"{name} is currently being updated"):
        search(case, 0).run()
    further = search(case, ENOUGH)
    assert further.run()
    assert given(further) == ["r/one=d0"]


def test_it_ends_after_its_steps() -> None:
    """However many combinations there are."""
    devices = [device(f"d{i}", size=i) for i in range(24)]
    same: dict[str, Any] = {"constraints": [{"matchAttribute": "gpu.test/other"}]}
    asked = claim("c", *(request(f"r{i}", "gpu", count=6) for i in range(4)), **same)
    case = Case(resource_slice("n", *devices, node="n"), asked, claim("d", request("r", "gpu", count=20)))
    found = search(case, 20)
    assert not found.run()
    assert found.given_up
    assert all(isinstance(one, ResourceClaim) for one in case.claims)


@pytest.mark.parametrize(("count", "found"), [(MOST_DEVICES, True), (MOST_DEVICES + 1, False)])
@pytest.mark.parametrize("further", [0, ENOUGH], ids=["as kube-scheduler", "further"])
def test_a_claim_may_have_so_many_devices(count: int, found: bool, further: int) -> None:
    """With one more, kube-scheduler fails the pod; looking further, the node has no solution."""
    devices = [device(f"d{i}") for i in range(MOST_DEVICES + 1)]
    made = search(Case(resource_slice("n", *devices, node="n"), claim("c", request(count=count))), further)
    if further or found:
        assert made.run() is found
    else:
        with pytest.raises(AllocationError, match="exceeds the claim limit of 32"):
            made.run()
