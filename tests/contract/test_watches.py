"""Watches: where they begin, what selectors make of changes, bookmarks, how they end."""

from __future__ import annotations

import json

from tests.contract.client import MERGE_PATCH, Api, pod

NAME = ("metadata", "name")


async def version_of(api: Api, pods: str) -> str:
    """The resourceVersion of an up-to-date list."""
    version: str = (await api.get(pods)).ok()["metadata"]["resourceVersion"]
    return version


async def test_from_a_version(api: Api, pods: str) -> None:
    """A watch from a list's version shows all that came after it, in order, with growing versions."""
    since = await version_of(api, pods)
    (await api.post(pods, pod("a"))).ok()
    async with api.watch(pods, resourceVersion=since, timeoutSeconds=30) as events:
        assert (await events.next())[0] == "ADDED"
        (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "1"}}})).ok()
        type_, changed = await events.next()
        assert (type_, changed["metadata"]["labels"]) == ("MODIFIED", {"x": "1"})
        (await api.delete(f"{pods}/a")).ok()
        assert (await events.next())[0] == "MODIFIED"
        type_, gone = await events.next()
        assert (type_, gone["metadata"]["name"]) == ("DELETED", "a")
        assert int(gone["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
        assert (gone["kind"], gone["apiVersion"]) == ("Pod", "v1")


async def test_without_a_version(api: Api, pods: str) -> None:
    """A watch without a version begins with what is there, as ADDED."""
    for name in ("a", "b"):
        (await api.post(pods, pod(name))).ok()
    async with api.watch(pods, timeoutSeconds=30) as events:
        assert [(await events.next())[1]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
        (await api.post(pods, pod("c"))).ok()
        type_, added = await events.next()
        assert (type_, added["metadata"]["name"]) == ("ADDED", "c")


async def test_timeout_ends_the_stream(api: Api, pods: str) -> None:
    """timeoutSeconds ends a watch in an orderly way, for clients that allow it with a last bookmark or none."""
    (await api.post(pods, pod("a"))).ok()
    async with api.watch(pods, timeoutSeconds=3) as events:
        assert [type_ for type_, _ in await events.rest()] == ["ADDED"]


async def test_label_selector_translates(api: Api, pods: str) -> None:
    """An object that leaves the selection is DELETED as it last was in it; one that enters is ADDED."""
    since = await version_of(api, pods)
    async with api.watch(pods, resourceVersion=since, labelSelector="tier=web", timeoutSeconds=30) as events:
        (await api.post(pods, pod("other"))).ok()
        (await api.post(pods, pod("a", labels={"tier": "web"}))).ok()
        type_, added = await events.next()
        assert (type_, added["metadata"]["name"]) == ("ADDED", "a")
        left = (await api.patch(f"{pods}/a", {"metadata": {"labels": {"tier": "db"}}})).ok()
        type_, gone = await events.next()
        assert type_ == "DELETED"
        assert gone["metadata"]["labels"] == {"tier": "web"}
        assert gone["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        (await api.patch(f"{pods}/a", {"metadata": {"labels": {"tier": "web"}}})).ok()
        assert (await events.next())[0] == "ADDED"
        (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "1"}}})).ok()
        assert (await events.next())[0] == "MODIFIED"


async def test_field_selector_translates_a_binding(api: Api, pods: str) -> None:
    """A watch on unbound pods sees a binding as DELETED, one on bound pods as ADDED."""
    since = await version_of(api, pods)
    bound = {"resourceVersion": since, "fieldSelector": "spec.nodeName!=", "timeoutSeconds": 30}
    unbound = {**bound, "fieldSelector": "spec.nodeName="}
    async with api.watch(pods, **unbound) as waiting, api.watch(pods, **bound) as placed:
        (await api.post(pods, pod("a"))).ok()
        assert (await waiting.next())[0] == "ADDED"
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
        (await api.post(f"{pods}/a/binding", binding)).ok()
        type_, gone = await waiting.next()
        assert type_ == "DELETED"
        assert "nodeName" not in gone["spec"]
        type_, added = await placed.next()
        assert (type_, added["spec"]["nodeName"]) == ("ADDED", "n1")


async def test_one_object(api: Api, pods: str) -> None:
    """A watch can be about one name."""
    for name in ("a", "b"):
        (await api.post(pods, pod(name))).ok()
    async with api.watch(pods, fieldSelector="metadata.name=b", timeoutSeconds=30) as events:
        assert (await events.next())[1]["metadata"]["name"] == "b"
        (await api.delete(f"{pods}/a")).ok()
        (await api.delete(f"{pods}/b")).ok()
        assert [(await events.next())[0] for _ in range(2)] == ["MODIFIED", "DELETED"]


async def test_a_write_that_changes_nothing(api: Api, pods: str) -> None:
    """A patch without effect makes neither a version nor an event."""
    created = (await api.post(pods, pod("a", labels={"x": "1"}))).ok()
    version = created["metadata"]["resourceVersion"]
    async with api.watch(pods, resourceVersion=version, timeoutSeconds=30) as events:
        same = (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE_PATCH)).ok()
        assert same["metadata"]["resourceVersion"] == version
        (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE_PATCH)).ok()
        assert (await events.next())[1]["metadata"]["labels"] == {"x": "2"}


async def test_a_pod_that_goes_at_once_is_marked_first(api: Api, pods: str) -> None:
    """Also a pod without any grace is first MODIFIED, with its mark, and then DELETED."""
    created = (await api.post(pods, pod("a"))).ok()
    async with api.watch(pods, resourceVersion=created["metadata"]["resourceVersion"], timeoutSeconds=30) as events:
        answer = (await api.delete(f"{pods}/a")).ok()
        type_, marked = await events.next()
        assert type_ == "MODIFIED"
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert marked["metadata"]["generation"] == 2
        type_, gone = await events.next()
        assert type_ == "DELETED"
        assert gone["metadata"]["uid"] == created["metadata"]["uid"]
        assert gone["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]


async def test_a_bad_version(api: Api, pods: str) -> None:
    """A version that is no number is found out by storage, which has no Status for it but a plain 500."""
    message = (await api.get(pods, watch="true", resourceVersion="x")).refused(500)
    assert message == 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'


async def test_lines_are_json(api: Api, pods: str) -> None:
    """A watch is a stream of JSON lines with the media type that lists have."""
    (await api.post(pods, pod("a"))).ok()
    reply = await api.get(pods, watch="true", timeoutSeconds=3)
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.body["type"] == "ADDED"
    assert json.dumps(reply.body)
