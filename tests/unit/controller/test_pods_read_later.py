"""A pod with hundreds of containers is decoded on the loop, and read by its own attempt."""

from typing import Any

import pytest

from scheduler.kube.beside import LARGE_BYTES
from scheduler.kube.resources import PODS
from scheduler.model.wire import encode
from tests.builders import pod

from .test_pod_groups_followed import Followed


@pytest.mark.parametrize("many", [3, 1_000])
async def test_it_is_not_read_where_the_watch_brings_it(many: int) -> None:
    """That would take several milliseconds, which no namespace pays for."""
    made: dict[str, Any] = pod("p", uid="p")
    made["metadata"]["resourceVersion"] = "5"
    made["spec"]["containers"] = [{"name": f"c{i}", "image": f"{i}"} for i in range(many)]
    assert len(encode(made)) < LARGE_BYTES
    world = Followed()
    await world.lists(PODS, [made])
    (waiting,) = world.scheduler.engine.queue
    assert waiting.pod.shape.complete == (many == 3)
    assert waiting.pod.shape.images == tuple(f"{i}:latest" for i in range(many))
