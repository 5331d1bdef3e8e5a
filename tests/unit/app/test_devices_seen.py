"""What knows CEL is imported when devices are seen, beside the event loop; where there are none it never is."""

from importlib import import_module
from typing import Any

import pytest

from podberth.app import watch
from podberth.kube.resources import DEVICE_CLASSES, POD_GROUPS, Resource
from podberth.plugins.dynamic_resources.selecting import EVALUATING

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
