"""pods/eviction: budgets are spent, kept, and told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import MERGE_PATCH, Api, Reply, condition, pod


@pytest.fixture
def budgets(namespace: str) -> str:
    """The path of the test's budgets."""
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


async def budget(api: Api, budgets: str, name: str, **status: Any) -> None:
    """A budget for `app=web` in the state in which its controller would have left it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    (await api.post(budgets, {"metadata": {"name": name}, "spec": spec})).ok()
    counted = {"observedGeneration": 1, "expectedPods": 2, **status}
    (await api.patch(f"{budgets}/{name}/status", {"status": counted}, MERGE_PATCH)).ok()


async def running(api: Api, pods: str, name: str, ready: str = "True") -> str:
    """A running pod of `app=web`; its uid."""
    created = (await api.post(pods, pod(name, labels={"app": "web"}, nodeName="n1"))).ok()
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    (await api.patch(f"{pods}/{name}/status", {"status": status})).ok()
    uid: str = created["metadata"]["uid"]
    return uid


async def evict(api: Api, pods: str, name: str, options: Any = None, **query: Any) -> Reply:
    """Ask for an eviction."""
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options is not None:
        body["deleteOptions"] = options
    return await api.post(f"{pods}/{name}/eviction", body, **query)


async def test_without_a_budget(api: Api, pods: str) -> None:
    """A bound pod that no budget guards is marked like by a delete, with a condition that says by whom."""
    await running(api, pods, "a")
    reply = await evict(api, pods, "a")
    assert reply.code == 201
    assert reply.body["status"] == "Success"
    found = (await api.get(f"{pods}/a")).ok()
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    target = condition(found, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert target["message"] == "Eviction API: evicting"


async def test_a_budget_is_spent(api: Api, pods: str, budgets: str) -> None:
    """An eviction takes one disruption and enters the pod as disrupted."""
    await budget(api, budgets, "b", disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await running(api, pods, "a")
    await running(api, pods, "z")
    (await evict(api, pods, "a")).ok()
    status = (await api.get(f"{budgets}/b")).ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]
    assert condition({"status": status}, "DisruptionAllowed")["status"] == "False"
    (await evict(api, pods, "z")).refused(429, "TooManyRequests")


async def test_no_disruption_left(api: Api, pods: str, budgets: str) -> None:
    """A spent budget is a 429 whose cause says how many are needed."""
    await budget(api, budgets, "b", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await running(api, pods, "a")
    reply = await evict(api, pods, "a")
    assert reply.refused(429, "TooManyRequests") == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert reply.body["details"] == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
            }
        ]
    }
    assert "deletionTimestamp" not in (await api.get(f"{pods}/a")).ok()["metadata"]


async def test_a_budget_not_yet_counted(api: Api, pods: str, budgets: str) -> None:
    """A budget that its controller hasn't seen yet allows nothing and asks to come back in ten seconds."""
    await budget(api, budgets, "b", disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    (await api.patch(f"{budgets}/b", {"spec": {"minAvailable": 2}}, MERGE_PATCH)).ok()
    await running(api, pods, "a")
    reply = await evict(api, pods, "a")
    reply.refused(429, "TooManyRequests")
    assert reply.headers["Retry-After"] == "10"
    assert reply.body["details"]["retryAfterSeconds"] == 10
    assert reply.body["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b is still being processed by the server."}
    ]


async def test_two_budgets(api: Api, pods: str, budgets: str) -> None:
    """Two budgets for one pod are a 500, whatever they would allow."""
    for name in ("b", "c"):
        await budget(api, budgets, name, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await running(api, pods, "a")
    assert (await evict(api, pods, "a")).refused(500) == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


async def test_dry_run(api: Api, pods: str, budgets: str) -> None:
    """A dry run says whether it would work, and changes neither pod nor budget."""
    await budget(api, budgets, "b", disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await running(api, pods, "a")
    assert (await evict(api, pods, "a", dryRun="All")).code == 201
    assert (await evict(api, pods, "a", {"dryRun": ["All"]})).code == 201
    assert (await api.get(f"{budgets}/b")).ok()["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in (await api.get(f"{pods}/a")).ok()["metadata"]
    (await api.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 0}}, MERGE_PATCH)).ok()
    (await evict(api, pods, "a", dryRun="All")).refused(429, "TooManyRequests")


async def test_preconditions(api: Api, pods: str) -> None:
    """An eviction can insist on the pod's uid, so that a successor is left alone."""
    uid = await running(api, pods, "a")
    message = (await evict(api, pods, "a", {"preconditions": {"uid": "other"}})).refused(409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on Pod "a": the UID in the precondition (other) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    (await evict(api, pods, "a", {"preconditions": {"uid": uid}})).ok()


@pytest.mark.parametrize(("policy", "code"), [(None, 429), ("IfHealthyBudget", 429), ("AlwaysAllow", 201)])
async def test_unready_pods(api: Api, pods: str, budgets: str, policy: str | None, code: int) -> None:
    """An unready pod under an unhealthy budget goes only by policy."""
    await budget(api, budgets, "b", disruptionsAllowed=0, currentHealthy=0, desiredHealthy=1)
    if policy:
        (await api.patch(f"{budgets}/b", {"spec": {"unhealthyPodEvictionPolicy": policy}}, MERGE_PATCH)).ok()
        (await api.patch(f"{budgets}/b/status", {"status": {"observedGeneration": 2}}, MERGE_PATCH)).ok()
    await running(api, pods, "a", ready="False")
    assert (await evict(api, pods, "a")).code == code


async def test_unready_pods_under_a_healthy_budget(api: Api, pods: str, budgets: str) -> None:
    """An unready pod doesn't count, so it costs a healthy budget nothing."""
    await budget(api, budgets, "b", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await running(api, pods, "a", ready="False")
    assert (await evict(api, pods, "a")).code == 201
    assert (await api.get(f"{budgets}/b")).ok()["status"].get("disruptedPods") is None


async def test_pending_pods_go_without_asking(api: Api, pods: str, budgets: str) -> None:
    """A pending pod disrupts nothing."""
    await budget(api, budgets, "b", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    (await api.post(pods, pod("a", labels={"app": "web"}))).ok()
    assert (await evict(api, pods, "a")).code == 201
    (await api.get(f"{pods}/a")).refused(404, "NotFound")


async def test_what_is_not_there(api: Api, pods: str) -> None:
    """A pod that is gone is a 404, and the body has to name the pod of the path."""
    assert (await evict(api, pods, "gone")).refused(404, "NotFound") == 'pods "gone" not found'
    reply = await api.post(f"{pods}/a/eviction", {"metadata": {"name": "b"}})
    assert reply.refused(400, "BadRequest") == "name in URL does not match name in Eviction object"
