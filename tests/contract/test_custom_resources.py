"""CustomResourceDefinitions: stored, served, with a status of their own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.contract.client import MERGE_PATCH, Api, condition, names

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Widgets(NamedTuple):
    """A custom kind that is served for one test."""

    group: str
    path: str

    def widget(self, name: str, **content: Any) -> dict[str, Any]:
        """One of them."""
        return {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": name}, **content}


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    """Define Widgets and wait until they are served."""
    group = f"c{uuid.uuid4().hex[:8]}.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": SCHEMA},
    }
    body = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }
    (await api.post(DEFINITIONS, body)).ok()
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    await api.eventually(
        f"{DEFINITIONS}/widgets.{group}", lambda reply: condition(reply.ok(), "Established").get("status") == "True"
    )
    await api.eventually(path, lambda reply: reply.code == 200)
    yield Widgets(group, path)
    await api.delete(f"{DEFINITIONS}/widgets.{group}")


async def test_served(api: Api, widgets: Widgets) -> None:
    """A custom object is created without its status, and listed with its kind."""
    body = widgets.widget("w", spec={"size": 1}, status={"seen": 9})
    created = (await api.post(widgets.path, body)).ok()
    assert created["spec"] == {"size": 1}
    assert "status" not in created
    assert created["metadata"]["generation"] == 1
    listed = (await api.get(widgets.path)).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{widgets.group}/v1")
    assert (listed["items"][0]["kind"], names(listed)) == ("Widget", ["w"])


async def test_discovered(api: Api, widgets: Widgets) -> None:
    """Discovery tells the kind and its status."""
    found = await api.eventually(f"/apis/{widgets.group}/v1", lambda reply: reply.code == 200)
    by_name = {resource["name"]: resource for resource in found["resources"]}
    assert by_name.keys() == {"widgets", "widgets/status"}
    assert by_name["widgets"]["namespaced"] is True
    groups = await api.eventually("/apis", lambda reply: widgets.group in str(reply.body))
    assert widgets.group in [group["name"] for group in groups["groups"]]


async def test_status_is_apart(api: Api, widgets: Widgets) -> None:
    """Spec and status are written through their own paths, and only the spec counts as a generation."""
    (await api.post(widgets.path, widgets.widget("w", spec={"size": 1}))).ok()
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 7}, "status": {"seen": 1}}
    through_status = (await api.patch(f"{widgets.path}/w/status", patch, MERGE_PATCH)).ok()
    assert (through_status["spec"]["size"], through_status["status"]) == (1, {"seen": 1})
    assert "labels" not in through_status["metadata"]
    assert through_status["metadata"]["generation"] == 1
    patch["status"] = {"seen": 2}
    through_main = (await api.patch(f"{widgets.path}/w", patch, MERGE_PATCH)).ok()
    assert (through_main["spec"]["size"], through_main["status"]) == (7, {"seen": 1})
    assert through_main["metadata"]["labels"] == {"a": "b"}
    assert through_main["metadata"]["generation"] == 2


async def test_updates_name_their_version(api: Api, widgets: Widgets) -> None:
    """A custom object can't be overwritten blindly."""
    created = (await api.post(widgets.path, widgets.widget("w", spec={"size": 1}))).ok()
    message = (await api.put(f"{widgets.path}/w", widgets.widget("w", spec={"size": 2}))).refused(422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in message
    (await api.put(f"{widgets.path}/w", {**created, "spec": {"size": 2}})).ok()
    message = (await api.put(f"{widgets.path}/w", {**created, "spec": {"size": 3}})).refused(409, "Conflict")
    assert message.startswith(f'Operation cannot be fulfilled on widgets.{widgets.group} "w": ')


async def test_the_kind_is_needed(api: Api, widgets: Widgets) -> None:
    """A body without kind could be anything; built-in kinds are guessed, custom ones aren't."""
    message = (await api.post(widgets.path, {"metadata": {"name": "w"}})).refused(400, "BadRequest")
    assert message.startswith("the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing")


async def test_no_strategic_merge(api: Api, widgets: Widgets) -> None:
    """There is no strategic merge for kinds without Go types; the refusal says what there is."""
    (await api.post(widgets.path, widgets.widget("w", spec={"size": 1}))).ok()
    message = (await api.patch(f"{widgets.path}/w", {"spec": {"size": 2}})).refused(415, "UnsupportedMediaType")
    assert "application/merge-patch+json" in message


async def test_watched(api: Api, widgets: Widgets) -> None:
    """Custom objects are watched like others, from a list's version on."""
    since = (await api.get(widgets.path)).ok()["metadata"]["resourceVersion"]
    async with api.watch(widgets.path, resourceVersion=since, timeoutSeconds=30) as events:
        (await api.post(widgets.path, widgets.widget("w", spec={"size": 1}))).ok()
        type_, added = await events.next()
        assert (type_, added["kind"], added["metadata"]["name"]) == ("ADDED", "Widget", "w")


async def test_gone_with_the_definition(api: Api, widgets: Widgets) -> None:
    """When its definition goes, the kind isn't served any more."""
    (await api.post(widgets.path, widgets.widget("w", spec={"size": 1}))).ok()
    (await api.delete(f"{DEFINITIONS}/widgets.{widgets.group}")).ok()
    await api.eventually(widgets.path, lambda reply: reply.code == 404)
    await api.eventually(f"{DEFINITIONS}/widgets.{widgets.group}", lambda reply: reply.code == 404)
