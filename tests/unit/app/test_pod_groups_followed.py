"""Pod groups count from the moment that the API server lists them until their API is gone for sure."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from podberth.app.scheduler import Scheduler
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.lease import Elector
from podberth.kube.reflector import Reflector
from podberth.kube.resources import COSCHEDULING_POD_GROUPS, POD_GROUPS, Resource
from podberth.model.pod_group import COSCHEDULING, NATIVE, GroupKey
from tests.builders import configuration
from tests.registered import registry

ABSENT = ApiError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = ApiError(403, "Forbidden", "podgroups is forbidden")
Answer = list[dict[str, Any]] | ApiError


class Brief:
    """The stream of a watch that brings something and ends."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    async def read(self) -> bytes:
        lines, self._lines = self._lines, b""
        return lines


class Server:
    """Answers lists, and ends each watch after `events`."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.events: list[dict[str, Any]] = []

    @asynccontextmanager
    async def stream(self, path: str, **_: Any) -> AsyncIterator[Brief]:
        yield Brief(b"".join(json.dumps(event).encode() + b"\n" for event in self.events))

    async def get(self, path: str, **_: Any) -> bytes:
        answer = self.answers[path]
        if isinstance(answer, ApiError):
            raise answer
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": answer}).encode()


class Followed:
    """A scheduler whose reflectors list when they are told to."""

    def __init__(self, elector: Elector | None = None, **fields: Any) -> None:
        """`fields`: of the configuration."""
        config = decode(configuration(**fields))
        self.server = Server()
        self.scheduler = Scheduler(cast(Client, self.server), build(config, registry()), config, elector=elector)

    def reflector(self, resource: Resource) -> Reflector[Any]:
        """The reflector of a kind."""
        return next(one for one in self.scheduler.watch.reflectors if one.resource is resource)

    async def lists(self, resource: Resource, answer: Answer) -> set[str]:
        """The kind is listed, with this answer; which APIs count then."""
        self.server.answers[resource.path()] = answer
        reflector = self.reflector(resource)
        reflector.resync()
        await reflector.step(float("inf"))  # all pauses are over by then
        if not isinstance(answer, ApiError):
            await reflector.step(float("inf"))
        while self.scheduler.work(cycles=False):
            pass
        return set(self.scheduler.engine.cluster.pod_groups.followed)


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "5"}, "spec": spec}


@pytest.mark.parametrize(("resource", "api"), [(POD_GROUPS, NATIVE), (COSCHEDULING_POD_GROUPS, COSCHEDULING)])
async def test_a_kind_that_appears_counts_until_it_is_gone(resource: Resource, api: str) -> None:
    world = Followed()
    with capture_logs() as logs:
        for _ in range(3):
            assert await world.lists(resource, ABSENT) == set()
    assert [(line["event"], line["kind"]) for line in logs] == [
        ("the API server does not have this kind: scheduling without it", resource.called)
    ]
    made = group("train", minMember=2, schedulingPolicy={"gang": {"minCount": 2}})
    assert await world.lists(resource, [made]) == {api}
    assert await world.lists(resource, [made]) == {api}
    found = world.scheduler.engine.cluster.pod_groups.get(GroupKey("default", "train", api))
    assert found is not None
    assert found.needed == 2
    # One 404 may come from a server that has just started; a gang must not be taken for single pods then.
    assert await world.lists(resource, ABSENT) == {api}
    assert await world.lists(resource, ABSENT) == set()
    assert len(world.scheduler.engine.cluster.pod_groups) == 0
    assert await world.lists(resource, [made]) == {api}


@pytest.mark.parametrize(("resource", "api"), [(POD_GROUPS, NATIVE), (COSCHEDULING_POD_GROUPS, COSCHEDULING)])
async def test_a_kind_without_objects_goes_too(resource: Resource, api: str) -> None:
    """Else pods that name a group would wait for it until a restart."""
    world = Followed()
    assert await world.lists(resource, []) == {api}
    assert await world.lists(resource, ABSENT) == {api}
    assert await world.lists(resource, ABSENT) == set()
    assert await world.lists(resource, ABSENT) == set()
    assert await world.lists(resource, []) == {api}


async def test_a_kind_that_is_forbidden_does_not_count_unless_it_did() -> None:
    world = Followed()
    with capture_logs() as logs:
        for _ in range(3):
            assert await world.lists(POD_GROUPS, FORBIDDEN) == set()
    assert [(line["event"], line["kind"], line["needed"]) for line in logs] == [
        ("not allowed to follow", "PodGroup", False)
    ]
    assert await world.lists(POD_GROUPS, []) == {NATIVE}
    assert await world.lists(POD_GROUPS, FORBIDDEN) == {NATIVE}


async def test_both_kinds_are_two_in_metrics_and_the_readiness() -> None:
    world = Followed()
    freshness = world.scheduler.freshness
    called = [reflector.resource.called for reflector in freshness.reflectors]
    assert len(set(called)) == len(called)
    assert set(called) >= {"PodGroup", "PodGroup.scheduling.x-k8s.io"}
    assert {one.resource.called for one in freshness.awaited()} >= {"PodGroup", "PodGroup.scheduling.x-k8s.io"}
    await world.lists(POD_GROUPS, ABSENT)
    await world.lists(COSCHEDULING_POD_GROUPS, [])
    assert not {"PodGroup", "PodGroup.scheduling.x-k8s.io"} & {one.resource.called for one in freshness.awaited()}
