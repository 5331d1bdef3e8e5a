"""What knows CEL is imported when devices are seen, beside the event loop; where there are none it never is."""

from importlib import import_module
from typing import Any

import pytest

from podberth.app import watch
from podberth.engine.instructions import DeviceGivenTwice, Instruction
from podberth.kube import reflector
from podberth.kube.resources import BY_KIND, DEVICE_CLASSES, POD_GROUPS, PODS, Resource
from podberth.model.devices import CLAIM
from podberth.plugins.dynamic_resources.selecting import EVALUATING
from tests.builders import Object, pod
from tests.devices import allocated, claim, result

from .test_pod_groups_followed import Followed, group


def gpus(name: str) -> dict[str, Any]:
    meta = {"name": name, "uid": name, "resourceVersion": "5"}
    return {"metadata": meta, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.test'"}}]}}


async def test_cel_is_imported_with_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the thread that decodes large objects, and once."""
    done: list[Any] = []

    def beside(*work: Any) -> str:
        done.append(work)
        return "under way"

    monkeypatch.setattr(watch, "beside", beside)
    world = Followed()
    seen: list[tuple[Resource, list[dict[str, Any]]]] = [(DEVICE_CLASSES, []), (POD_GROUPS, [group("train")])]
    for resource, objects in seen:
        await world.lists(resource, objects)
    assert done == []
    for objects in ([gpus("a")], [gpus("a"), gpus("b")]):
        await world.lists(DEVICE_CLASSES, objects)
    assert done == [(import_module, EVALUATING)]
    assert import_module(EVALUATING).selects


def stored(document: Object, version: int) -> Object:
    """As the API server has it."""
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


@pytest.mark.parametrize("batch", [1000, 1], ids=["", "delivered in parts"])
async def test_in_a_list_of_claims_those_that_were_freed_come_first(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Else a device that one claim has after the other seems to be given to both."""
    said: list[Instruction] = []
    world = Followed()
    monkeypatch.setattr(reflector, "BATCH_OBJECTS", batch)
    monkeypatch.setattr(world.scheduler, "_carry_out", said.extend)
    held = allocated(result("d0", "n"), reserved=["default/p"])
    await world.lists(PODS, [stored(pod("p", on="n"), 1)])
    await world.lists(BY_KIND[CLAIM], [stored(claim("a"), 2), stored(claim("c", status=held), 3)])
    await world.lists(BY_KIND[CLAIM], [stored(claim("a", status=held), 5), stored(claim("c"), 4)])
    assert not [one for one in said if isinstance(one, DeviceGivenTwice)]
    given = world.scheduler.engine.cluster.devices.allocated.claims
    assert list(given) == ["claim/a"]
