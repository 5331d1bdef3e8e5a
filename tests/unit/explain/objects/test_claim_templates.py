"""Claims that are made from templates for pods that do not exist yet: `berth simulate` and `berth capacity`."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.explain.objects import resource_claims
from podberth.explain.objects.dump import smallest
from podberth.explain.objects.resource_claims import Templated
from tests.builders import Object, node, pod
from tests.devices import (
    allocated,
    attribute,
    claim,
    claim_template,
    claiming,
    device,
    device_class,
    request,
    resource_slice,
    result,
    templated,
)
from tests.unit.explain.simulate.test_capacity import asked, on_nodes
from tests.unit.explain.simulate.test_plan import outcome, workload

GPU = device_class("gpu", 'device.driver == "gpu.test"')
THERE = [GPU, claim_template()]


def gpus(name: str, count: int, **fields: Any) -> list[Object]:
    """A node with devices."""
    return [node(name, "8"), resource_slice(name, *[device(f"d{i}", **fields) for i in range(count)], node=name)]


def test_a_claim_as_the_controller_makes_it() -> None:
    """Owned by its pod, with the template's labels and spec."""
    made = resource_claims.claim(claim_template(), Templated("t", "t"), owner="p", namespace="default", uid="u")
    assert made["metadata"] == {
        "name": "p-t",
        "namespace": "default",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "t"},
        "labels": {"made": "yes"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    }
    assert made["spec"] == claim_template()["spec"]["spec"]
    assert resource_claims.status("p", templated(pod("p"), "t")["spec"]) == [{"name": "t", "resourceClaimName": "p-t"}]


@pytest.mark.parametrize(("long", "short"), [(60, 10), (10, 60), (300, 300)])
def test_long_names_are_cut(long: int, short: int) -> None:
    """Each by its share, to what a name may have."""
    name = resource_claims.claim_name("p" * long, "c" * short)
    assert len(name) <= 63
    assert name.count("-") == 1
    assert {"p", "c"} < set(name)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_pods_of_a_workload_get_claims_of_their_own(kind: str) -> None:
    """As many as there are devices; the claims and what they get are named."""
    count = {"parallelism": 4, "completions": 4} if kind == "Job" else {"replicas": 4}
    held = claim("x", status=allocated(result("d0", "b"), node="b", reserved=["u"]))
    found = outcome([*THERE, *gpus("a", 2), *gpus("b", 2), held], [workload(kind, templated(pod("t"), "t"), **count)])
    (told,) = found.workloads
    assert (told.placed, told.waiting, Counter(told.nodes)) == (3, 1, Counter(a=2, b=1))
    assert {(each.pod, claim, *those) for each in found.placed for claim, those in each.devices.items()} == {
        (each.pod, f"{each.pod.removeprefix('default/')}-t", *each.devices[f"{each.pod.removeprefix('default/')}-t"])
        for each in found.placed
    }
    assert {one for each in found.placed for those in each.devices.values() for one in those} == {
        "gpu.test/a/d0",
        "gpu.test/a/d1",
        "gpu.test/b/d1",
    }
    (waits,) = found.waiting
    assert waits.message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")


def test_a_template_that_is_not_there() -> None:
    """Its pods wait for a claim that nobody can make, and a note says so."""
    found = outcome([GPU, *gpus("a", 1)], [templated(pod("p"), "t")])
    assert found.notes == ["the ResourceClaimTemplate default/t is not known: claims are not made from it"]
    assert [(each.pod, each.message) for each in found.waiting] == [
        ("default/p", 'pod "default/p": ResourceClaim not created yet')
    ]


def test_a_template_may_come_with_the_pods() -> None:
    """In the same file, before them or after."""
    found = outcome([GPU, *gpus("a", 1)], [templated(pod("p"), "t"), claim_template()])
    assert [(each.pod, each.devices) for each in found.placed] == [("default/p", {"p-t": ["gpu.test/a/d0"]})]


def test_a_claim_that_pods_share() -> None:
    """The first pod has it allocated; the second goes to the same node and gets the same device."""
    arriving = [claiming(pod("p"), "c"), claiming(pod("q"), "c")]
    found = outcome([GPU, *gpus("a", 1), *gpus("b", 1), claim()], arriving)
    assert len({each.node for each in found.placed}) == 1
    assert len({str(each.devices) for each in found.placed}) == 1
    assert len(found.placed) == 2


def test_extended_resources() -> None:
    """The scheduler makes the claim, which is named as well."""
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    asking = pod("p")
    asking["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "2"}}
    found = outcome([served, *gpus("a", 3)], [asking])
    ((name, devices),) = found.placed[0].devices.items()
    assert name.startswith("p-extended-resources-")
    assert devices == ["gpu.test/a/d0", "gpu.test/a/d1"]


def holder(name: str, on: str, device: str, *, owned: bool = True) -> list[Object]:
    """A placed pod with a claim that was made for it, and that claim."""
    made = templated(pod(name, "1", on=on, priority=0), "t")
    made["metadata"]["uid"] = f"default/{name}"
    made["status"] = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": f"{name}-t"}]}
    if owned:
        made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"default/{name}", "controller": True}
    status = allocated(result(device, on), node=on, reserved=[f"default/{name}"])
    return [made, claim(f"{name}-t", status=status, meta={"ownerReferences": [owner], "resourceVersion": "7"})]


def test_devices_of_a_drained_node_are_given_up() -> None:
    """The pod's next life has a claim without devices, which is allocated elsewhere."""
    there = [*THERE, *gpus("a", 1), *gpus("b", 1), *holder("p", "a", "d0")]
    found = outcome(there, drain=["a"])
    assert [(each.pod, each.node, each.was, each.devices) for each in found.placed] == [
        ("default/p", "b", "a", {"p-t": ["gpu.test/b/d0"]})
    ]


def test_a_victim_takes_its_claim_along() -> None:
    """Its device is free for a pod that comes later."""
    there = [*THERE, node("a", "1"), resource_slice("a", device("d0"), node="a"), *holder("low", "a", "d0")]
    urgent = pod("urgent", "1", priority=9)
    found = outcome(there, [urgent, templated(pod("later"), "t")])
    assert [each.pod for each in found.preempted] == ["default/low"]
    assert {each.pod: each.devices for each in found.placed} == {
        "default/urgent": {},
        "default/later": {"later-t": ["gpu.test/a/d0"]},
    }


def test_capacity_counts_devices() -> None:
    """Devices bound how many fit where there is room for more pods, and what one more node adds."""
    held = claim("x", status=allocated(result("d0", "b"), node="b", reserved=["u"]))
    answer = asked(templated(pod("t", "1"), "t"), *THERE, *gpus("a", 3), *gpus("b", 2), held)
    assert on_nodes(answer) == {"a": 3, "b": 1}
    assert answer.claims == {"t": "1 of class gpu"}
    assert [(each.reason, each.nodes) for each in answer.limits] == [("cannot allocate all claims", 2)]
    assert {(each.like, each.adds) for each in answer.one_more} <= {("a", 3), ("b", 2)}
    assert answer.one_more


REQUEST = st.builds(
    lambda name, count, fast: request(
        name, "gpu", *(['device.attributes["gpu.test"].fast'] if fast else []), count=count
    ),
    st.sampled_from(["r", "s"]),
    st.integers(1, 2),
    st.booleans(),
)
TEMPLATE = st.builds(
    lambda requests, match: claim_template(
        "t", *requests, **({"constraints": [{"matchAttribute": "gpu.test/root"}]} if match else {})
    ),
    st.lists(REQUEST, min_size=1, max_size=2, unique_by=lambda one: one["name"]),
    st.booleans(),
)
POOL = st.lists(st.tuples(st.booleans(), st.sampled_from(["x", "y"]), st.booleans()), max_size=5)
"""Of each device: whether it is fast, its root, and whether somebody has it."""


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pools=st.lists(POOL, min_size=1, max_size=3), template=TEMPLATE, cpu=st.sampled_from(["1", "2", "3"]))
def test_it_is_what_comes_true(pools: list[list[tuple[bool, str, bool]]], template: Object, cpu: str) -> None:
    """As many are placed when so many more are created, one by one; with one more node, so many more."""
    there: list[Object] = [GPU, template]
    for i, pool in enumerate(pools):
        there += furnished(f"n{i}", pool)
        there += [
            claim(f"x{i}-{j}", status=allocated(result(f"d{j}", f"n{i}"), node=f"n{i}", reserved=["u"]))
            for j, (_, _, held) in enumerate(pool)
            if held
        ]
    made = templated(pod("t", cpu), "t")
    answer = asked(json.loads(json.dumps(made)), *there)
    come = outcome(there, [workload("ReplicaSet", made, replicas=answer.fits + 2)])
    assert come.workloads[0].placed == answer.fits
    assert Counter(come.workloads[0].nodes) == Counter(on_nodes(answer))
    for more in answer.one_more:
        again = furnished("more", pools[int(more.like[1:])])
        assert asked(json.loads(json.dumps(made)), *there, *again).fits == answer.fits + more.adds


def furnished(name: str, pool: list[tuple[bool, str, bool]]) -> list[Object]:
    """A node with such devices."""
    devices = [
        device(f"d{j}", _attributes={"fast": attribute(fast), "gpu.test/root": attribute(root)})
        for j, (fast, root, _) in enumerate(pool)
    ]
    return [node(name, "8"), resource_slice(name, *devices, node=name)]


def test_dumps_keep_templates() -> None:
    """Without them no claim could be made."""
    assert smallest(claim_template()) == claim_template()
