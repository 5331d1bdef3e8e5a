"""Crowds with claims of their own are placed without a decision for each: as if each had been decided."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.cache.validate import validate
from podberth.explain.objects.documents import Document
from podberth.explain.objects.manifest import workloads
from podberth.explain.simulate import claimed_crowd
from podberth.explain.simulate.arrivals import batches
from podberth.explain.simulate.outcome import Outcome
from podberth.explain.simulate.plan import plan
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.plugins.registry import IN_TREE
from tests import storage
from tests.builders import Object, configuration, namespace, node, pod, profile
from tests.devices import claim, claim_template, device, device_class, request, resource_slice, templated
from tests.unit.explain.simulate.test_claimed_room import (
    CLASSES,
    EXTENDED_NODE,
    NET,
    NODE,
    OWN,
    REQUESTS,
    RESOURCE,
    VOLUME_NODE,
    networked,
    published,
)
from tests.unit.explain.simulate.test_plan import workload
from tests.unit.explain.story import framework, world

BY_RESOURCE = decode(
    configuration(
        profile(
            "berth",
            NodeResourcesFit={
                "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": RESOURCE}]}
            },
        )
    )
)
"""A profile that scores nodes by how many devices are left."""
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(there: list[Object], arriving: list[Object], *, counted: bool = True) -> Outcome:
    """What happens when these come. `counted`: as usual; else each pod is decided."""
    there, arriving = json.loads(json.dumps([there, arriving]))
    found = world([namespace("default"), *there])
    scheduler = framework()
    documents = [Document(each["kind"], json.dumps(each).encode(), "") for each in arriving]
    coming = batches(workloads(documents), found, scheduler, None, "default")
    with pytest.MonkeyPatch.context() as patched:
        if not counted:
            patched.setattr(claimed_crowd, "place_crowd", lambda *_, **__: 0)
        answer = plan(found, scheduler, coming)
    assert validate(found.cluster) == []
    return answer


def same(there: list[Object], arriving: list[Object]) -> None:
    """Both ways, all pods go to the same nodes and get the same devices."""
    assert outcome(there, arriving) == outcome(there, arriving, counted=False)


def crowd(made: Object, replicas: int, name: str = "w", **spec: Any) -> Object:
    """A workload of so many."""
    found = workload("StatefulSet" if spec else "ReplicaSet", made, **spec)
    found["metadata"]["name"] = name
    found["spec"]["replicas"] = replicas
    return found


@SLOW
@given(
    nodes=st.lists(NODE, min_size=1, max_size=4),
    wanted=st.sampled_from(REQUESTS),
    cpu=st.sampled_from(["1m", "600m", "1"]),
    replicas=st.sampled_from([2, 5, 40]),
    gpus=NET,
    nics=NET,
    priority=st.sampled_from([0, 10]),
)
def test_devices(
    nodes: list[tuple[str, str, bool]],
    wanted: list[Object],
    cpu: str,
    replicas: int,
    gpus: list[tuple[str, str]],
    nics: list[tuple[str, str]],
    priority: int,
) -> None:
    """Those that come later, with claims and without, find what is left."""
    there: list[Object] = [*CLASSES, claim_template("t", *wanted), pod("low", "200m", on="n0", priority=-1)]
    there += [*networked(gpus), *networked(nics, "nic.test")]
    for i, (make, room, nic) in enumerate(nodes):
        there += [node(f"n{i}", room, pods="12", labels={"zone": "ab"[i % 2]}), *published(f"n{i}", make, nic)]
    made = templated(pod("t", cpu, priority=priority), "t")
    same(there, [crowd(made, replicas), crowd(pod("p", "100m"), 3, "plain"), crowd(made, 3, "later")])


@SLOW
@given(
    nodes=st.lists(VOLUME_NODE, min_size=1, max_size=4),
    number=st.integers(1, 2),
    allowed=st.sampled_from([None, ["zone in a"]]),
    waits=st.booleans(),
    there_already=st.sampled_from(["", "a volume", "a claim"]),
    replicas=st.sampled_from([2, 5, 40]),
)
def test_volumes(
    nodes: list[tuple[int | None, str, str]],
    number: int,
    allowed: list[str] | None,
    waits: bool,
    there_already: str,
    replicas: int,
) -> None:
    """Limits of drivers, zones of classes; a volume or a claim that is there already."""
    there: list[Object] = [storage.storage_class("fast", "csi.test", waits=waits, allowed=allowed)]
    for i, (limit, room, zone) in enumerate(nodes):
        there.append(node(f"n{i}", room, pods="9", labels={"zone": zone}))
        there += [] if limit is None else [storage.csi_node(f"n{i}", csi_test=limit)]
    if there_already == "a volume":
        there.append(storage.volume("free", "10Gi", storage_class="fast"))
    elif there_already:
        there.append(storage.claim("data0-w-3", storage_class="fast"))
    claims = [{**OWN, "metadata": {"name": f"data{i}"}} for i in range(number)]
    made = crowd(pod("t", "100m"), replicas, volumeClaimTemplates=claims)
    same(there, [made, crowd(pod("t", "50m"), 4, "later", volumeClaimTemplates=claims)])


@SLOW
@given(
    nodes=st.lists(EXTENDED_NODE, min_size=1, max_size=4),
    number=st.sampled_from(["1", "2"]),
    served=st.booleans(),
    replicas=st.sampled_from([2, 5, 40]),
    scored=st.booleans(),
)
def test_extended_resources(
    nodes: list[tuple[str | None, int, str]], number: str, served: bool, replicas: int, scored: bool
) -> None:
    """Some nodes have the resource themselves, some have devices that serve it, some both or neither."""
    serving = {"extendedResourceName": RESOURCE} if served else {}
    there: list[Object] = [device_class("gpu", 'device.driver == "gpu.test"', **serving)]
    for i, (own, devices, room) in enumerate(nodes):
        there.append(node(f"n{i}", room, pods="12", others=None if own is None else {RESOURCE: own}))
        there.append(resource_slice(f"n{i}", *[device(f"d{k}") for k in range(devices)], node=f"n{i}"))
    arriving = [crowd(pod("t", "500m", others={RESOURCE: number}), replicas), crowd(pod("p", "100m"), 3, "plain")]
    arriving.append(crowd(pod("t", "50m", others={RESOURCE: "1"}), 3, "later"))
    with pytest.MonkeyPatch.context() as patched:
        if scored:
            patched.setattr(f"{__name__}.framework", lambda: build(BY_RESOURCE, IN_TREE)["berth"])
        same(there, arriving)


@SLOW
@given(
    replicas=st.sampled_from([2, 5]),
    modes=st.sampled_from(["RWO", "RWX", "RWOP"]),
    bound=st.booleans(),
    limit=st.sampled_from([None, 1, 3]),
)
def test_volumes_that_are_shared(replicas: int, modes: str, bound: bool, limit: int | None) -> None:
    """Beside those that each pod has of its own."""
    there: list[Object] = [storage.storage_class("fast", "csi.test", waits=True)]
    for name in "ab":
        there += [node(name, "2"), storage.csi_node(name, csi_test=limit)]
    there.append(storage.claim("shared", storage_class="fast", modes=modes, to="v" if bound else None))
    if bound:
        there.append(storage.volume("v", storage_class="fast", claimed="shared", modes=modes))
    made = storage.using(pod("t", "100m"), "shared")
    same(there, [crowd(made, replicas), crowd(made, replicas, "own", volumeClaimTemplates=[OWN])])


@pytest.mark.parametrize("of", ["devices", "volumes", "extended"])
def test_they_are_not_decided_one_by_one(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 pods, the engine decides as many as of 20."""
    decisions = 0
    decide = Framework.decide_quickly

    def counted(self: Framework, *more: Any, **options: Any) -> Any:
        nonlocal decisions
        decisions += 1
        return decide(self, *more, **options)

    monkeypatch.setattr(Framework, "decide_quickly", counted)
    there: list[Object] = [*CLASSES, claim_template(), storage.storage_class("fast", "csi.test", waits=True)]
    for i in range(10):
        there += [node(f"n{i}", "64"), storage.csi_node(f"n{i}", csi_test=30)]
        there.append(resource_slice(f"n{i}", *[device(f"d{k}") for k in range(24)], node=f"n{i}"))
    there.append(device_class("served", 'device.driver == "gpu.test"', extendedResourceName=RESOURCE))
    more: dict[str, Any] = {"volumeClaimTemplates": [OWN]} if of == "volumes" else {}
    made = templated(pod("t", "1"), "t") if of == "devices" else pod("t", "1")
    if of == "extended":
        made = pod("t", "1", others={RESOURCE: "1"})
    found = []
    for replicas in (20, 200):
        decisions = 0
        answer = outcome(there, [crowd(made, replicas, **more)])
        assert answer.placed_in_all == replicas
        found.append(decisions)
    assert found[0] == found[1] < 5


def test_a_claim_of_its_own_name_is_left_to_decisions() -> None:
    """Pods that also share a claim are decided one by one, as before."""
    made = templated(pod("t", "1"), "t")
    made["spec"]["resourceClaims"].append({"name": "mine", "resourceClaimName": "mine"})
    there = [*CLASSES, claim_template(), claim("mine", request()), node("n", "8")]
    same([*there, resource_slice("n", *[device(f"d{k}") for k in range(5)], node="n")], [crowd(made, 6)])
