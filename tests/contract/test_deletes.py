"""Deletes: grace, preconditions, finalizers, collections."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import JSON_PATCH, MERGE_PATCH, Api, names, pod


async def test_an_unbound_pod_goes_at_once(api: Api, pods: str) -> None:
    """Nobody has to stop a pod that runs nowhere; the answer is its last state."""
    created = (await api.post(pods, pod("a"))).ok()
    gone = (await api.delete(f"{pods}/a")).ok()
    assert gone["kind"] == "Pod"
    assert gone["metadata"]["uid"] == created["metadata"]["uid"]
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{pods}/a")).refused(404, "NotFound") == 'pods "a" not found'
    (await api.delete(f"{pods}/a")).refused(404, "NotFound")


async def test_a_bound_pod_gets_its_grace(api: Api, pods: str) -> None:
    """A bound pod is marked and stays; the grace may shrink, not grow, and ends with 0."""
    (await api.post(pods, pod("a", nodeName="n1"))).ok()
    for asked, want in ((None, 30), (20, 20), (60, 20)):
        marked = (await api.delete(f"{pods}/a", {"gracePeriodSeconds": asked} if asked else None)).ok()
        assert marked["metadata"]["deletionGracePeriodSeconds"] == want
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["generation"] == 2
    (await api.get(f"{pods}/a")).ok()
    (await api.delete(f"{pods}/a", gracePeriodSeconds=0)).ok()
    (await api.get(f"{pods}/a")).refused(404, "NotFound")


async def test_a_finished_pod_goes_at_once(api: Api, pods: str) -> None:
    """A pod that has ended needs no grace."""
    (await api.post(pods, pod("a", nodeName="n1"))).ok()
    (await api.patch(f"{pods}/a/status", {"status": {"phase": "Succeeded"}}, MERGE_PATCH)).ok()
    (await api.delete(f"{pods}/a")).ok()
    (await api.get(f"{pods}/a")).refused(404, "NotFound")


@pytest.mark.parametrize(
    ("preconditions", "what", "might"),
    [
        ({"uid": "other"}, "UID", "deleted and then recreated"),
        ({"resourceVersion": "1"}, "ResourceVersion", "modified"),
    ],
)
async def test_preconditions(api: Api, pods: str, preconditions: dict[str, str], what: str, might: str) -> None:
    """A delete that means another object is refused; the kind stands in the place of the resource."""
    created = (await api.post(pods, pod("a"))).ok()["metadata"]
    reply = await api.delete(f"{pods}/a", {"preconditions": preconditions})
    found = created["uid"] if what == "UID" else created["resourceVersion"]
    asked = next(iter(preconditions.values()))
    assert reply.refused(409, "Conflict") == (
        f'Operation cannot be fulfilled on Pod "a": the {what} in the precondition ({asked}) does not match the {what} '
        f"in record ({found}). The object might have been {might}"
    )
    right = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
    (await api.delete(f"{pods}/a", {"preconditions": right})).ok()


async def test_dry_run(api: Api, pods: str) -> None:
    """A dry run deletes nothing, and shows what would be."""
    (await api.post(pods, pod("a"))).ok()
    assert (await api.delete(f"{pods}/a", dryRun="All")).ok()["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in (await api.get(f"{pods}/a")).ok()["metadata"]


async def test_finalizers(api: Api, pods: str) -> None:
    """A finalizer holds a deleted object until it is taken away; none can be added then."""
    created = (await api.post(pods, pod("a", finalizers=["example.com/hold"]))).ok()
    async with api.watch(pods, resourceVersion=created["metadata"]["resourceVersion"], timeoutSeconds=30) as events:
        (await api.delete(f"{pods}/a")).ok()
        assert (await events.next())[0] == "MODIFIED"
        more = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}]
        message = (await api.patch(f"{pods}/a", more, JSON_PATCH)).refused(422, "Invalid")
        assert message == (
            'Pod "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being '
            'deleted, found new finalizers []string{"example.com/more"}'
        )
        freed = (await api.patch(f"{pods}/a", {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()
        assert "finalizers" not in freed["metadata"]
        type_, gone = await events.next()
        # The update that freed it was never stored: the last state still has the finalizer.
        assert (type_, gone["metadata"]["finalizers"]) == ("DELETED", ["example.com/hold"])
    (await api.get(f"{pods}/a")).refused(404, "NotFound")


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_plain_kinds_answer_with_a_status(api: Api, namespace: str, plural: str) -> None:
    """Kinds without a last state worth showing are answered by a Status that names what went."""
    path = f"/api/v1/namespaces/{namespace}/{plural}"
    uid = (await api.post(path, {"metadata": {"name": "x"}})).ok()["metadata"]["uid"]
    answer = (await api.delete(f"{path}/x")).ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "x", "kind": plural, "uid": uid}


async def test_collections(api: Api, pods: str) -> None:
    """A collection is deleted as far as it is selected."""
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        (await api.post(pods, pod(name, labels={"app": app}))).ok()
    answer: dict[str, Any] = (await api.delete(pods, labelSelector="app=web")).ok()
    assert (answer["kind"], sorted(names(answer))) == ("PodList", ["a", "c"])
    assert names((await api.get(pods)).ok()) == ["b"]


async def test_a_leaving_namespace_takes_nothing_in(api: Api) -> None:
    """While a namespace terminates, creates in it are forbidden with a cause; some namespaces can't go."""
    body = {"metadata": {"generateName": "contract-"}, "spec": {"finalizers": ["kubernetes"]}}
    name = (await api.post("/api/v1/namespaces", body)).ok()["metadata"]["name"]
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    (await api.patch(f"/api/v1/namespaces/{name}", hold, MERGE_PATCH)).ok()
    leaving = (await api.delete(f"/api/v1/namespaces/{name}")).ok()
    assert leaving["status"]["phase"] == "Terminating"
    reply = await api.post(f"/api/v1/namespaces/{name}/pods", pod("a"))
    assert reply.refused(403, "Forbidden") == (
        f'pods "a" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )
    assert reply.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    message = (await api.delete("/api/v1/namespaces/kube-system")).refused(403, "Forbidden")
    assert message == 'namespaces "kube-system" is forbidden: this namespace may not be deleted'
    (await api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()
    final = (await api.get(f"/api/v1/namespaces/{name}")).ok()
    (await api.put(f"/api/v1/namespaces/{name}/finalize", {**final, "spec": {"finalizers": []}})).ok()
    (await api.get(f"/api/v1/namespaces/{name}")).refused(404, "NotFound")
