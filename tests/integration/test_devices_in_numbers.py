"""More pods than devices, on a real API server: none is given twice, whoever else gives them, and whatever ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.devices import device
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.devices import Devices, claiming
from tests.integration.objects import NODES, node, pods_path

AddNodes = Callable[..., None]
MODELS = ("small", "large")
DEVICES = 40
PODS = 48
FREED = 8


@pytest.fixture
def devices(control_plane: Cluster, real_namespace: str, add_nodes: AddNodes) -> Iterator[Devices]:
    """40 devices of two models, on ten nodes."""
    made = Devices(control_plane, real_namespace)
    names = [f"{made.name}-{i}" for i in range(DEVICES // 4)]
    add_nodes(control_plane, [node(name, "zone-0") for name in names])
    made.make_class()
    for name in names:
        made.make_slice(name, *[device(f"d{i}", model=MODELS[i % 2]) for i in range(4)])
    yield made
    made.close()


def add_pods(devices: Devices, schedulers: Sequence[str], numbers: Sequence[int]) -> None:
    """Each wants a device of one model."""
    for i in numbers:
        model = MODELS[i // len(schedulers) % 2]
        devices.make_claim(f"p{i}", f'device.attributes["{devices.driver}"].model == "{model}"')
        devices.add(f"p{i}", schedulers[i % len(schedulers)], resourceClaims=claiming(f"p{i}"))


def bound(devices: Devices) -> list[str]:
    """Names of pods that have a node."""
    pods = devices.api.list(pods_path(devices.namespace), fieldSelector="spec.nodeName!=")
    return [one["metadata"]["name"] for one in pods]


def wait_settled(devices: Devices, count: int) -> None:
    """So many pods are bound, and nothing is wrong with any."""
    wait_for(f"{count} pods with devices", lambda: len(bound(devices)) == count, checks.BOUND)
    assert devices.misplaced() == []


def test_more_pods_than_devices(devices: Devices, harbour: Harbour) -> None:
    """48 pods want 40 devices: 40 get one. Eight go, and those that wait take their devices."""
    berth = harbour.berth(devices.cluster)
    add_pods(devices, [berth.scheduler_name], range(PODS))
    wait_settled(devices, DEVICES)
    for name in bound(devices)[:FREED]:
        devices.free(name)
    wait_settled(devices, DEVICES)
    assert len(devices.given()) == DEVICES
    berth.end()


def test_killed_in_between(devices: Devices, harbour: Harbour) -> None:
    """Killed while it gives devices: the next Berth finishes what was written and gives nothing again."""
    berth = harbour.berth(devices.cluster, clientConnection={"qps": 10, "burst": 5})  # a quarter of a minute
    add_pods(devices, [berth.scheduler_name], range(PODS))
    wait_for("some pods to be bound", lambda: bound(devices), checks.BOUND)
    berth.kill()
    assert len(bound(devices)) < DEVICES
    again = harbour.berth(devices.cluster, berth.scheduler_name)
    wait_settled(devices, DEVICES)
    again.end()


def test_beside_kube_scheduler(devices: Devices, harbour: Harbour) -> None:
    """Both give devices of the same pools at once: no pod that Berth binds has a device that another claim has.

    kube-scheduler may give one of its own devices twice when Berth takes back what both had given: it notes that the
    device is free, although its own claim still has it.
    """
    berth = harbour.berth(devices.cluster)
    kube, kube_name = harbour.kube_scheduler(devices.cluster)
    add_pods(devices, [berth.scheduler_name, kube_name], range(PODS))
    mine = [f"p{i}" for i in range(0, PODS, 2)]

    def settled() -> list[str]:
        held = [name for name in bound(devices) if name in mine]
        left = DEVICES - len(mine)  # what kube-scheduler can't have taken
        return held if len(held) >= left and not twice(devices, mine) else []

    held = wait_for("Berth to have its part, and nothing that another one has", settled, checks.BOUND)
    assert all(count == 1 for count in devices.given(held).values())
    berth.end()
    assert kube.running


def twice(devices: Devices, names: Sequence[str]) -> list[tuple[str, str]]:
    """Devices of these claims that another claim has as well."""
    every, ours = devices.given(), devices.given(names)
    return [device for device in ours if every[device] > 1]


def test_one_claim_is_given_by_another_scheduler(devices: Devices, harbour: Harbour) -> None:
    """Both schedule a pod with the same claim: who writes second goes where the claim is."""
    berth = harbour.berth(devices.cluster)
    _, kube_name = harbour.kube_scheduler(devices.cluster)
    pairs = 10
    for i in range(pairs):
        devices.make_claim(f"c{i}")
        for name, scheduler in ((f"ours-{i}", berth.scheduler_name), (f"theirs-{i}", kube_name)):
            devices.add(name, scheduler, resourceClaims=claiming(f"c{i}"))
    wait_settled(devices, 2 * pairs)
    assert len(devices.api.list(NODES)) >= DEVICES // 4
    berth.end()
