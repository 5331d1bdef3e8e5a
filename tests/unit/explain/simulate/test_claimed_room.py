"""Pods with claims from templates are counted where no device is reached from two nodes; the figures are the same."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from podberth.cache.validate import validate
from podberth.explain.simulate import capacity as counting
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.capacity import Capacity
from podberth.explain.simulate.room import room as counted
from podberth.explain.simulate.simulation import Simulation
from tests import storage
from tests.builders import Object, node, pod
from tests.devices import (
    asks,
    claim,
    claim_template,
    claiming,
    device,
    device_class,
    first_of,
    request,
    resource_slice,
    templated,
)
from tests.unit.explain.simulate.test_capacity import asked, limits, on_nodes
from tests.unit.explain.story import framework, world

CLASSES = [device_class("gpu", 'device.driver == "gpu.test"'), device_class("nic", 'device.driver == "nic.test"')]
SHARED = {"_allowMultipleAllocations": True}
SETS = [{"name": "s", "counters": {"slots": {"value": "3"}}}]


def uses(slots: int) -> Object:
    counters = {"slots": {"value": str(slots)}}
    return {"_consumesCounters": [{"counterSet": "s", "counters": counters}]}


MAKES: dict[str, list[Object]] = {
    "plain": [device("a", model="x"), device("b", model="y"), device("c", model="x"), device("d")],
    "shared": [device("a", {"memory": "8Gi"}, **SHARED), device("b", {"memory": "3Gi"}, **SHARED)],
    "parts": [device("a", **uses(2)), device("b", **uses(1)), device("c", **uses(1)), device("d", **uses(3))],
    "tainted": [device("a", _taints=[{"key": "k", "effect": "NoSchedule"}]), device("b", model="x")],
    "none": [],
}
REQUESTS: list[list[Object]] = [
    [request()],
    [request(count=2)],
    [request("r", "gpu", 'device.attributes["gpu.test"].?model.orValue("") == "x"')],
    [request(capacity={"requests": {"memory": "2Gi"}})],
    [first_of("r", two=asks(count=2), one=asks())],
    [request("r"), request("s", "nic")],
    [request(adminAccess=True)],
]
NODE = st.tuples(st.sampled_from(sorted(MAKES)), st.sampled_from(["1", "2", "9"]), st.booleans())


def published(name: str, make: str, nic: bool) -> list[Object]:
    """The objects by which drivers describe a node."""
    counted = make == "parts"
    found = [resource_slice(name, *MAKES[make], node=name, count=2 if counted else 1)]
    if counted:
        found.append(resource_slice(f"{name}-s", pool=name, node=name, count=2, sharedCounters=SETS))
    return [*found, resource_slice(f"nic-{name}", device("p"), node=name, driver="nic.test")] if nic else found


NET = st.lists(st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["", "a", "b"])), max_size=12)
"""Devices that nodes reach over the network: the model, and the zone of the nodes; empty: all."""


def networked(devices: list[tuple[str, str]], driver: str = "gpu.test") -> list[Object]:
    """A pool for each zone, and one for all."""
    found = []
    for zone in sorted({zone for _, zone in devices}):
        there = [device(f"d{i}", model=model) for i, (model, of) in enumerate(devices) if of == zone]
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        spec = {"nodeSelector": {"nodeSelectorTerms": [term]}} if zone else {"allNodes": True}
        found.append(resource_slice(f"net-{zone or 'all'}", *there, driver=driver, **spec))
    return found


def without_notes_on_limits(answer: Capacity) -> Capacity:
    """The figures. Of several things that keep the next pod out, the sums name one."""
    return structs.replace(
        answer,
        nodes=[structs.replace(each, limits=[]) for each in answer.nodes],
        limits=[],
        message=None,
        stranded=answer.stranded,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(NODE, min_size=1, max_size=4),
    wanted=st.sampled_from(REQUESTS),
    cpu=st.sampled_from(["1m", "600m", "1"]),
    gpus=NET,
    nics=NET,
)
def test_it_is_what_one_after_the_other_finds(
    nodes: list[tuple[str, str, bool]],
    wanted: list[Object],
    cpu: str,
    gpus: list[tuple[str, str]],
    nics: list[tuple[str, str]],
) -> None:
    """As many on each node, and as many more with one more node."""
    there: list[Object] = [*CLASSES, claim_template("t", *wanted), *networked(gpus), *networked(nics, "nic.test")]
    for i, (make, room, nic) in enumerate(nodes):
        there += [node(f"n{i}", room, pods="12", labels={"zone": "ab"[i % 2]}), *published(f"n{i}", make, nic)]
    made = templated(pod("t", cpu), "t")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batch, "differs_by_claims", property(lambda batch: False))
        slowly = asked(json.loads(json.dumps(made)), *json.loads(json.dumps(there)))
    quickly = asked(made, *there)
    assert without_notes_on_limits(quickly) == without_notes_on_limits(slowly)
    mine = {each.node: set(each.limits) for each in quickly.nodes}
    theirs = {each.node: set(each.limits) for each in slowly.nodes}
    assert all(mine[name] <= theirs[name] for name in mine if mine[name] and theirs[name])


def crowd(count: int) -> list[Object]:
    """Nodes with four devices each."""
    found: list[Object] = [*CLASSES, claim_template()]
    for i in range(count):
        found += [node(f"n{i}", "8"), resource_slice(f"n{i}", *[device(f"d{k}") for k in range(4)], node=f"n{i}")]
    return found


def test_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pod is placed."""

    def placed(*_: Any) -> Any:
        raise AssertionError("pods are placed one after the other")

    monkeypatch.setattr(counting, "Filling", placed)
    answer = asked(templated(pod("t", "1"), "t"), *crowd(100))
    assert answer.fits == 400
    assert [(each.reason, each.nodes) for each in answer.limits] == [("cannot allocate all claims", 100)]
    assert [each.adds for each in answer.one_more] == [4]
    assert asked(templated(pod("t", "3"), "t"), *crowd(2)).limits[0].reason == "Insufficient cpu"
    others = [resource_slice("net", device("p"), allNodes=True, driver="nic.test")]  # which no claim asks for
    assert asked(templated(pod("t", "1"), "t"), *crowd(3), *others).fits == 12


@pytest.mark.parametrize("why", ["a device for all", "a claim of its own name", "a claim that is there"])
def test_what_is_not_counted(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted if a pod may take something from one on another node, or finds what its equals don't."""
    placed: list[Any] = []

    class Begun(Simulation):
        def __init__(self, *more: Any) -> None:
            placed.append(more)
            super().__init__(*more)

    monkeypatch.setattr(counting, "Simulation", Begun)
    there, made = crowd(2), templated(pod("t", "1"), "t")
    if why == "a device for all":
        there.append(resource_slice("net", device("x"), allNodes=True))
    elif why == "a claim of its own name":
        there.append(claim("mine", request()))
        made["spec"]["resourceClaims"] += claiming(pod("q"), "mine")["spec"]["resourceClaims"]
    else:
        there.append(claim("w-3-t", request()))
    answer = asked(made, *there)
    assert len(placed) == 1
    assert on_nodes(answer).keys() <= {"n0", "n1"}


def test_nothing_is_left_taken() -> None:
    """After it was counted, all devices are free, and the columns are right."""
    there = world([*crowd(3)])
    there.add_all([claim("t-t", meta={"ownerReferences": [{"uid": "default/t", "controller": True, "name": "t"}]})])
    made = templated(pod("t"), "t")
    made["status"] = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "t-t"}]}
    asking: Any = there.decode(made)
    found = counted(asking, framework(), there.cluster)
    assert found is not None
    assert found.counts[:3].tolist() == [4, 4, 4]
    assert not there.cluster.devices.in_flight
    assert len(there.cluster.devices.allocated) == 0
    assert validate(there.cluster) == []


OWN: Object = {
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME_NODE = st.tuples(st.sampled_from([None, 0, 1, 3]), st.sampled_from(["250m", "2"]), st.sampled_from("ab"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(VOLUME_NODE, min_size=1, max_size=4),
    number=st.integers(1, 2),
    allowed=st.sampled_from([None, ["zone in a"]]),
    waits=st.booleans(),
    used=st.integers(0, 2),
    there_already=st.booleans(),
)
def test_volumes_of_their_own(
    nodes: list[tuple[int | None, str, str]],
    number: int,
    allowed: list[str] | None,
    waits: bool,
    used: int,
    there_already: bool,
) -> None:
    """Limits of drivers, zones of classes, volumes that are attached; a volume that is there is one pod's alone."""
    there: list[Object] = [storage.storage_class("fast", "csi.test", waits=waits, allowed=allowed)]
    for i, (limit, room, zone) in enumerate(nodes):
        there.append(node(f"n{i}", room, pods="9", labels={"zone": zone}))
        there += [] if limit is None else [storage.csi_node(f"n{i}", csi_test=limit)]
    for i in range(used):
        bound = storage.claim(f"c{i}", storage_class="fast", to=f"v{i}")
        user = storage.using(pod(f"q{i}", "1m", on="n0"), f"c{i}")
        there += [bound, storage.volume(f"v{i}", storage_class="fast", claimed=f"c{i}"), user]
    if there_already:
        there.append(storage.volume("free", "10Gi", storage_class="fast"))
    made = pod("t", "100m")
    claims = [{**OWN, "metadata": {"name": f"data{i}"}} for i in range(number)]
    _same(made, there, volumeClaimTemplates=claims)


RESOURCE = "example.com/gpu"
EXTENDED_NODE = st.tuples(st.sampled_from([None, "0", "3"]), st.integers(0, 4), st.sampled_from(["1", "9"]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=st.lists(EXTENDED_NODE, min_size=1, max_size=4), number=st.sampled_from(["1", "2"]), served=st.booleans())
def test_extended_resources(nodes: list[tuple[str | None, int, str]], number: str, served: bool) -> None:
    """Some nodes have the resource themselves, some have devices that serve it, some both or neither."""
    there: list[Object] = [
        device_class("gpu", 'device.driver == "gpu.test"', **({"extendedResourceName": RESOURCE} if served else {}))
    ]
    for i, (own, devices, room) in enumerate(nodes):
        there.append(node(f"n{i}", room, pods="12", others=None if own is None else {RESOURCE: own}))
        there.append(resource_slice(f"n{i}", *[device(f"d{k}") for k in range(devices)], node=f"n{i}"))
    _same(pod("t", "500m", others={RESOURCE: number}), there)


def _same(made: Object, there: list[Object], **spec: Any) -> None:
    """Both ways find as many on each node, and as many more with one more node."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batch, "differs_by_claims", property(lambda batch: False))
        slowly = asked(json.loads(json.dumps(made)), *json.loads(json.dumps(there)), **spec)
    quickly = asked(made, *there, **spec)
    assert on_nodes(quickly) == on_nodes(slowly)
    assert (quickly.fits, quickly.exhausted) == (slowly.fits, slowly.exhausted)
    assert quickly.one_more == slowly.one_more
    assert quickly.stranded == slowly.stranded


def test_volumes_and_extended_resources_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pod is placed; what keeps the next one out is named."""

    def placed(*_: Any) -> Any:
        raise AssertionError("pods are placed one after the other")

    monkeypatch.setattr(counting, "Filling", placed)
    there = [storage.storage_class("fast", "csi.test"), node("a", "9"), storage.csi_node("a", csi_test=3)]
    answer = asked(pod("t", "1"), *there, volumeClaimTemplates=[OWN])
    assert (answer.fits, limits(answer)) == (3, {"node(s) exceed max volume count": 1})
    there = [
        device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName=RESOURCE),
        node("a", "9"),
        node("b", "9"),
    ]
    there += [resource_slice("a", device("d"), device("e"), node="a")]
    answer = asked(pod("t", "1", others={RESOURCE: "1"}), *there)
    assert on_nodes(answer) == {"a": 2}
    assert limits(answer)["cannot allocate all claims"] >= 1
