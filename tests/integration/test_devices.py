"""Pods that claim devices, on a real API server: with the chart's rights, nobody's device is given twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.devices import claim, device, request
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.devices import ROOT, Devices, claiming
from tests.integration.objects import node, pod, pods_path
from tests.integration.test_rights import Grant, grant

__all__ = ["grant"]

AddNodes = Callable[..., None]


@pytest.fixture
def devices(control_plane: Cluster, real_namespace: str, add_nodes: AddNodes) -> Iterator[Devices]:
    """Two nodes with two devices each, of two models."""
    made = Devices(control_plane, real_namespace)
    names = [f"{made.name}-a", f"{made.name}-b"]
    add_nodes(control_plane, [node(name, "zone-0") for name in names])
    for name in names:
        made.make_slice(name, device("d0", model="small"), device("d1", model="large"))
    yield made
    made.close()


def create(devices: Devices, name: str, scheduler: str, **how: Any) -> None:
    devices.api.create(pods_path(devices.namespace), pod(name, scheduler, **how))


def test_no_device_is_given_twice_and_freed_ones_are_taken(devices: Devices, harbour: Harbour) -> None:
    """Three pods want one of the two large devices; the third gets it when one pod has gone with its claim."""
    devices.make_class()
    berth = harbour.berth(devices.cluster)
    for i in range(3):
        devices.make_claim(f"c{i}", f'device.attributes["{devices.driver}"].model == "large"')
        create(devices, f"p{i}", berth.scheduler_name, resourceClaims=claiming(f"c{i}"))
    bound = checks.wait_bound(devices.api, devices.namespace, 2)
    given = devices.given()
    assert set(given.values()) == {1}
    assert {device for _, device in given} == {"d1"}
    for claim_ in devices.claims():
        allocation = claim_.get("status", {}).get("allocation")
        if allocation is not None:
            (consumer,) = claim_["status"]["reservedFor"]
            pool = allocation["devices"]["results"][0]["pool"]
            where = {checks.node_of(one) for one in bound if one["metadata"]["uid"] == consumer["uid"]}
            assert where == {pool}
    gone = next(one["metadata"]["name"] for one in bound if checks.node_of(one))
    devices.api.delete(f"{pods_path(devices.namespace)}/{gone}")
    path = f"{ROOT}/namespaces/{devices.namespace}/resourceclaims/{gone.replace('p', 'c')}"
    devices.api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
    devices.api.patch(path, {"metadata": {"finalizers": None}})
    devices.api.delete(path)
    checks.wait_bound(devices.api, devices.namespace, 2)
    assert set(devices.given().values()) == {1}


@pytest.mark.newest
def test_an_allocation_says_when_it_was_made(devices: Devices, harbour: Harbour) -> None:
    """Older API servers leave the time out by default."""
    devices.make_class()
    berth = harbour.berth(devices.cluster)
    devices.make_claim("c", f'device.attributes["{devices.driver}"].model == "large"')
    create(devices, "p", berth.scheduler_name, resourceClaims=claiming("c"))
    checks.wait_bound(devices.api, devices.namespace, 1)
    (claim_,) = devices.claims()
    assert claim_["status"]["allocation"]["allocationTimestamp"]


@pytest.mark.newest
def test_an_extended_resource_is_served_by_a_device(devices: Devices, harbour: Harbour, grant: Grant) -> None:
    """A claim is made, given a device, and named in the pod's status, with the manifest's rights."""
    resource = f"{devices.driver}/device"
    devices.make_class(extendedResourceName=resource)
    berth = harbour.berth(devices.cluster, token=grant(set()))
    made = pod("web", berth.scheduler_name)
    amounts = made["spec"]["containers"][0].setdefault("resources", {})
    for kind in ("requests", "limits"):
        amounts[kind] = {**amounts.get(kind, {}), resource: "1"}
    devices.api.create(pods_path(devices.namespace), made)
    (found,) = checks.wait_bound(devices.api, devices.namespace, 1)
    (claim_,) = devices.claims()
    status = found["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim_["metadata"]["name"]
    (mapping,) = status["requestMappings"]
    assert mapping["resourceName"] == resource
    allocation = claim_["status"]["allocation"]
    assert allocation["devices"]["results"][0]["pool"] == checks.node_of(found)
    assert allocation["allocationTimestamp"]
    assert claim_["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}


@pytest.mark.newest
def test_both_take_as_much_of_a_capacity(devices: Devices, harbour: Harbour, add_nodes: AddNodes) -> None:
    """Of a range in thousandths: kube-scheduler at its default flags counts in whole numbers."""
    devices.make_class()
    (berth, theirs), where = (harbour.berth(devices.cluster), harbour.kube_scheduler(devices.cluster)[1]), devices.name
    add_nodes(devices.cluster, [node(f"{where}-c", "zone-0")])
    tenths = {"default": "200m", "validRange": {"min": "200m", "max": "2", "step": "100m"}}
    shares = {**device("shares", {"lanes": "4"}), "allowMultipleAllocations": True}
    shares["capacity"]["lanes"]["requestPolicy"] = tenths
    devices.make_slice(f"{where}-c", shares)
    for name, scheduler in (("ours", berth.scheduler_name), ("theirs", theirs)):
        asked = request("r", where, capacity={"requests": {"lanes": "250m"}})
        devices.make("resourceclaims", claim(name, asked, meta={"namespace": devices.namespace}), devices.namespace)
        create(devices, name, scheduler, resourceClaims=claiming(name))
    checks.wait_bound(devices.api, devices.namespace, 2)
    results = [one["status"]["allocation"]["devices"]["results"][0] for one in devices.claims()]
    assert [result["consumedCapacity"] for result in results] == [{"lanes": "1"}] * 2


def test_a_pod_waits_for_the_claim_of_its_template(devices: Devices, harbour: Harbour) -> None:
    """It is gated until the claim is there and named in its status, as the claim controller does it."""
    devices.make_class()
    berth = harbour.berth(devices.cluster)
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request("r", devices.name)]}}}}
    devices.api.create(f"{ROOT}/namespaces/{devices.namespace}/resourceclaimtemplates", template)
    create(
        devices,
        "p",
        berth.scheduler_name,
        resourceClaims=[{"name": "device", "resourceClaimTemplateName": "t"}],
    )
    created = devices.api.get(f"{pods_path(devices.namespace)}/p")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": created["metadata"]["uid"], "controller": True}
    made = claim("p-device", request("r", devices.name), meta={"namespace": devices.namespace})
    made["metadata"]["ownerReferences"] = [owner]
    devices.make("resourceclaims", made, devices.namespace)
    names = [{"name": "device", "resourceClaimName": "p-device"}]
    path = f"{pods_path(devices.namespace)}/p/status"
    devices.api.patch(path, {"status": {"resourceClaimStatuses": names}})
    checks.wait_bound(devices.api, devices.namespace, 1)
    assert set(devices.given().values()) == {1}
    assert not checks.events(devices.api, devices.namespace, "FailedScheduling")
