"""Bugs about devices that kube-scheduler had in 2026, as scenes: docs/evidence/storm.md says what Berth does in each.

Those that need a gang are met as far as one pod at a time goes: pods of a group are refused, and hold nothing.
"""

from podberth.engine.instructions import Bind, Failed, PreBindWrite
from podberth.model.devices import FINALIZER, DeviceID
from tests.builders import Object, node, pod
from tests.devices import asks, claim, claiming, device, device_class, first_of, resource_slice

from .api import Api
from .conftest import Harness
from .test_devices import CLAIM, only, write_all

FINALIZED = {"finalizers": [FINALIZER]}


def two_nodes(harness: Harness) -> Api:
    """Each with a device."""
    slices = [resource_slice(name, device("d0"), node=name) for name in ("n", "m")]
    return Api(harness, node("n"), node("m"), device_class(), *slices, claim(meta=FINALIZED))


def in_group(document: Object) -> Object:
    document["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    return document


def test_138765_a_gang_holds_no_devices(harness: Harness) -> None:
    """k/k #138765: the first pod of a gang took the whole device, and the gang never became complete.

    Pods of a group are refused with a message that says so, and a pod that is in no group gets the device.
    """
    api = two_nodes(harness)
    preferred = first_of("r", whole=asks(), half=asks())
    for name in ("a", "b"):
        api.put(claim(f"c-{name}", preferred, meta=FINALIZED))
        api.put(in_group(claiming(pod(name), f"c-{name}")))
    said = harness.cycles()
    messages = [one.message for one in said if isinstance(one, Failed)]
    assert len(messages) == 2
    assert all("pod uses spec.schedulingGroup" in message for message in messages)
    assert harness.engine.cluster.devices.in_flight == {}
    api.put(claiming(pod("p"), "c"))
    assert only(write_all(harness, api, harness.cycles()), Bind).pod.name == "p"


def test_140053_pods_that_share_a_claim_do_not_collide(harness: Harness) -> None:
    """k/k #140053: two pods with one unallocated claim were both reserved, and the second failed in PreBind.

    In Berth the second one goes where the first has promised the claim to be, before anything is written, and neither
    is tried a second time.
    """
    api = two_nodes(harness)
    for name in ("p", "q"):
        api.put(claiming(pod(name), "c"))
    bound: dict[str, str] = {}
    tries = 0
    for _ in range(4):
        said = harness.cycles()
        tries += sum(isinstance(one, PreBindWrite) for one in said)
        for one in write_all(harness, api, said):
            assert not isinstance(one, Failed)
            if isinstance(one, Bind):
                bound[one.pod.name] = one.node
        for one in api.show(CLAIM):
            assert not isinstance(one, Failed)
        harness.after(1.0)
    assert bound.keys() == {"p", "q"}
    assert len(set(bound.values())) == 1
    assert tries == 2
    reserved = {one["name"] for one in api.get(CLAIM)["status"]["reservedFor"]}
    assert reserved == {"p", "q"}


def test_140269_an_allocation_outlives_a_pod_that_is_turned_back(harness: Harness) -> None:
    """k/k #140269: a pod that was turned back restored an older claim, without the allocation of the other pod.

    Here the second pod's Binding is refused. The device stays with the claim, and the pod is bound on its next try.
    """
    api = two_nodes(harness)
    api.put(claiming(pod("p"), "c"))
    where = only(write_all(harness, api, harness.cycles()), Bind).node
    harness.bound("default/p")
    api.show(CLAIM)
    api.put(claiming(pod("q"), "c"))
    assert only(write_all(harness, api, harness.cycles()), Bind).node == where
    said = write_all(harness, api, harness.bind_failed("default/q"))
    assert only(said, Failed).pod.name == "q"
    assert harness.engine.cluster.devices.allocated.is_taken(DeviceID("gpu.test", where, "d0"))
    assert api.get(CLAIM)["status"]["allocation"] is not None
    api.show(CLAIM)
    harness.after(10.0)
    assert only(write_all(harness, api, harness.cycles()), Bind).node == where
