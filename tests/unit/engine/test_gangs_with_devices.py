"""Gangs whose pods have claims: devices are promised in the group's cycle, and written before anybody is bound."""

import pytest

from podberth.engine.binding_table import State
from podberth.engine.instructions import Instruction, PreBindWrite
from podberth.engine.stimuli import Follows, PreBindWriteFailed
from podberth.model.devices import FINALIZER
from podberth.model.pod_group import NATIVE
from tests.builders import Object, node
from tests.devices import claim, claiming, device, device_class, resource_slice

from .api import Api
from .conftest import Harness
from .test_gangs import bound, failures, group, member

FINALIZED = {"finalizers": [FINALIZER]}


@pytest.fixture
def gangs(harness: Harness) -> Harness:
    """A harness whose API server serves PodGroups."""
    harness.handle(Follows(NATIVE, True))
    return harness


def cluster(harness: Harness, devices: int) -> Api:
    there = [device(f"d{i}") for i in range(devices)]
    claims = [claim(f"c{i}", meta=FINALIZED) for i in range(2)]
    return Api(harness, node("n"), device_class(), resource_slice("n", *there, node="n"), *claims, group(min_count=2))


def worker(number: int, of: str | None = None) -> Object:
    return claiming(
        member(f"w{number}", "100m", meta={"uid": f"default/w{number}"}), f"c{number}" if of is None else of
    )


def writes(said: list[Instruction]) -> list[PreBindWrite]:
    return [one for one in said if isinstance(one, PreBindWrite)]


def test_devices_for_all_or_for_none(gangs: Harness) -> None:
    api = cluster(gangs, 1)
    api.put(worker(0))
    api.put(worker(1))
    said = gangs.cycles()
    assert (bound(said), writes(said)) == ([], [])
    assert failures(said)["w1"] == "0/1 nodes are available: 1 cannot allocate all claims."
    assert gangs.engine.cluster.devices.in_flight == {}, "nothing is promised any more"


def test_all_are_written_before_anybody_is_bound(gangs: Harness) -> None:
    api = cluster(gangs, 2)
    api.put(worker(0))
    api.put(worker(1))
    first, second = writes(gangs.cycles())
    assert gangs.handle(api.write(first)) == []
    assert gangs.engine.binding.state("default/w0") is State.GROUP_GATHERING
    assert sorted(bound(gangs.handle(api.write(second)))) == ["w0", "w1"]


def test_a_claim_that_is_not_written_keeps_all_from_being_bound(gangs: Harness) -> None:
    """The other one waits for it; it is tried again, and then both are bound."""
    api = cluster(gangs, 2)
    api.put(worker(0))
    api.put(worker(1))
    first, second = writes(gangs.cycles())
    gangs.handle(api.write(first))
    said = gangs.handle(PreBindWriteFailed(second.pod.uid, 500, "boom", {}))
    assert bound(said) == []
    said = gangs.tick(10.0) + gangs.cycles()
    (again,) = writes(said)
    assert sorted(bound(gangs.handle(api.write(again)))) == ["w0", "w1"]
