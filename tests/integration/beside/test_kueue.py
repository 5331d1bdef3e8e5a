"""Kueue admits and Berth schedules: gates, node selectors, topologies, and what Kueue takes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.beside.kubelet import kubelet
from tests.integration.beside.manager import QUEUE, READY_WITHIN, Queued, make_queue, workload
from tests.integration.objects import HOSTNAME, node, pod, pods_path
from tests.integration.test_gangs import group, wait_said

ADMISSION, TOPOLOGY = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"
GROUP = "kueue.x-k8s.io/pod-group-name"
RACK, FLAVOR = "example.com/rack", "example.com/flavor"
PATIENCE = 60.0
RECORD = bool(os.environ.get("BERTH_RECORD_KUEUE"))
READY: Object = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def ready_node(name: str, **how: Any) -> Object:
    """A node that Kueue counts with."""
    made = node(name, **how)
    made["status"]["conditions"] = [READY]
    return made


def gates(found: Object) -> set[str]:
    """The scheduling gates that a pod has."""
    return {gate["name"] for gate in found["spec"].get("schedulingGates", ())}


def placed(api: Api, namespace: str) -> dict[str, str]:
    """Pod → its node, of bound pods that have not ended."""
    found = api.list(pods_path(namespace), fieldSelector="spec.nodeName!=")
    return {
        one["metadata"]["name"]: checks.node_of(one)
        for one in found
        if one["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in one["metadata"]
    }


def said(found: Object, kind: str) -> tuple[str, str]:
    """Status and reason of a workload's condition."""
    conditions = found.get("status", {}).get("conditions", ())
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))


def test_pods_wait_for_quota_and_go_where_their_flavor_is(
    queued: Queued, team: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Of three pods two are within the quota. The third is not looked at until one has ended, though it has room."""
    api, path = queued.cluster.api, pods_path(team)
    pools: list[Object] = [{"name": f"{team}-{pool}", "labels": {FLAVOR: f"{team}-{pool}"}} for pool in ("a", "b")]
    add_nodes(queued.cluster, [ready_node(**one) for one in pools])
    berth = harbour.berth(queued.cluster)
    make_queue(api, team, f"quota-{team}", "2", {FLAVOR: f"{team}-b"})
    labels = {QUEUE: f"quota-{team}"}
    with kubelet(api, team):
        for i in range(3):
            queued.writes.creates(api.create(path, pod(f"pod-{i}", berth.scheduler_name, cpu="1", labels=labels)))
        wait_for("two pods to run", lambda: len(placed(api, team)) == 2, PATIENCE, 0.2)
        assert set(placed(api, team).values()) == {f"{team}-b"}
        (waits,) = [one for one in api.list(path) if not checks.node_of(one)]
        assert ADMISSION in gates(waits)
        assert checks.condition(waits)["reason"] == "SchedulingGated"
        assert checks.events(api, team, "FailedScheduling") == []
        if RECORD:
            queued.writes.record("quota", team, pools)
        first = min(placed(api, team))
        api.patch(f"{path}/{first}/status", {"status": {"phase": "Succeeded"}})
        name = waits["metadata"]["name"]
        wait_for(f"{name} to run", lambda: placed(api, team).get(name) == f"{team}-b", PATIENCE, 0.2)
    checks.bound_once_each(queued.cluster, team, api.list(path))
    berth.end()


def test_a_group_goes_to_the_nodes_that_kueue_chose(
    queued: Queued, team: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Topology-aware: of two racks only one has room for all three pods, beside a pod that is not Kueue's."""
    api, path = queued.cluster.api, pods_path(team)
    racks: list[Object] = [
        {"name": f"{team}-{rack}-{i}", "cpu": "2", "labels": {FLAVOR: team, RACK: f"{team}-{rack}"}}
        for rack in ("r1", "r2")
        for i in (1, 2)
    ]
    add_nodes(queued.cluster, [ready_node(**one) for one in racks])
    berth = harbour.berth(queued.cluster)
    plain = pod("plain", berth.scheduler_name, cpu="1500m", nodeSelector={RACK: f"{team}-r1"})
    api.create(path, plain)
    checks.wait_bound(api, team, 1)
    make_queue(api, team, f"racks-{team}", "10", {FLAVOR: team}, (RACK, HOSTNAME))
    with kubelet(api, team):
        for i in range(3):
            one = pod(f"train-{i}", berth.scheduler_name, cpu="1", labels={QUEUE: f"racks-{team}", GROUP: "train"})
            one["metadata"]["annotations"] = {
                "kueue.x-k8s.io/pod-group-total-count": "3",
                "kueue.x-k8s.io/podset-required-topology": RACK,
            }
            created = api.create(path, one)
            assert gates(created) == {ADMISSION, TOPOLOGY}
            queued.writes.creates(created)
        wait_for("the group to run", lambda: len(placed(api, team)) == 4, PATIENCE, 0.2)
    if RECORD:
        queued.writes.record("topology", team, racks)
    train = [one for one in api.list(path) if one["metadata"]["name"] != "plain"]
    assert all(one["spec"]["nodeSelector"][HOSTNAME] == checks.node_of(one) for one in train)
    assert {checks.node_of(one) for one in train} == {f"{team}-r2-1", f"{team}-r2-2"}
    assert checks.overfull(api) == []
    berth.end()


def test_a_job_that_does_not_become_ready_is_taken_back(
    queued: Queued, team: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """The quota is larger than the room. Kueue suspends the Job after its time, Berth gives back what it used, and the
    Job starts whole once there is room."""
    api, path = queued.cluster.api, pods_path(team)
    add_nodes(queued.cluster, [ready_node(f"{team}-1", cpu="3", labels={FLAVOR: team})])
    berth = harbour.berth(queued.cluster)
    api.create(path, pod("plain", berth.scheduler_name, cpu="1500m", nodeSelector={FLAVOR: team}))
    checks.wait_bound(api, team, 1)
    make_queue(api, team, f"jobs-{team}", "10", {FLAVOR: team})
    with kubelet(api, team):
        assert api.create(*job(team, f"jobs-{team}", berth.scheduler_name, cpu="1"))["spec"]["suspend"]
        [(waits, condition)] = wait_for("one pod to find no node", lambda: refused(api, team), PATIENCE, 0.2)
        assert condition["reason"] == "Unschedulable"
        assert len(placed(api, team)) == 2, "the plain pod and one of the Job's"
        evicted = ("True", "PodsReadyTimeout")
        wait_for(
            f"Kueue to take the Job back after {READY_WITHIN} s",
            lambda: said(workload(api, team, "train"), "Evicted") == evicted,
            PATIENCE,
            0.2,
        )
        wait_for("the Job's pods to go", lambda: waits not in names(api, team), PATIENCE, 0.1)
        api.delete(f"{path}/plain")
        wait_for("the Job to run", lambda: len(placed(api, team)) == 2, PATIENCE, 0.2)
        ready = "PodsReady"
        wait_for("Kueue to see it", lambda: said(workload(api, team, "train"), ready)[0] == "True", PATIENCE, 0.2)
    assert checks.overfull(api) == []
    berth.end()


@pytest.mark.parametrize("kind", ["pods", "job"])
def test_what_is_a_gang_too_starts_together_or_not_at_all(
    queued: Queued, team: str, harbour: Harbour, add_nodes: Callable[..., None], kind: str
) -> None:
    """Kueue has let two pods go, and there is room for one: none starts before there is room for both."""
    api, path = queued.cluster.api, pods_path(team)
    add_nodes(queued.cluster, [ready_node(f"{team}-1", cpu="3", labels={FLAVOR: team})])
    berth = harbour.berth(queued.cluster)
    api.create(path, pod("plain", berth.scheduler_name, cpu="1500m", nodeSelector={FLAVOR: team}))
    checks.wait_bound(api, team, 1)
    make_queue(api, team, f"gang-{team}", "10", {FLAVOR: team})
    group(api, team, "train", 2)
    member: Object = {"cpu": "1", "schedulingGroup": {"podGroupName": "train"}}
    with kubelet(api, team):
        if kind == "pods":
            for i in range(2):
                one = pod(f"train-{i}", berth.scheduler_name, labels={QUEUE: f"gang-{team}", GROUP: "train"}, **member)
                one["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
                api.create(path, one)
        else:
            api.create(*job(team, f"gang-{team}", berth.scheduler_name, **member))
        _, reason, message = wait_said(api, team, "train", "False")
        assert (reason, message[:37]) == ("Unschedulable", "minCount (2) cannot be satisfied: 1 s")
        assert set(placed(api, team)) == {"plain"}
        api.delete(f"{path}/plain")
        wait_for("both to run", lambda: len(placed(api, team)) == 2, PATIENCE, 0.2)
    berth.end()


def job(namespace: str, queue: str, scheduler: str, **how: Any) -> tuple[str, Object]:
    """The path and body of a Job of two pods."""
    template = pod("", scheduler, **how)
    del template["metadata"]["name"]
    template["spec"]["restartPolicy"] = "Never"
    body: Object = {
        "metadata": {"name": "train", "labels": {QUEUE: queue}},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    return f"/apis/batch/v1/namespaces/{namespace}/jobs", body


def refused(api: Api, namespace: str) -> list[tuple[str, Object]]:
    """The pods that were told that no node takes them, with what they were told."""
    found = [(one["metadata"]["name"], checks.condition(one)) for one in api.list(pods_path(namespace))]
    return [(name, condition) for name, condition in found if condition.get("status") == "False"]


def names(api: Api, namespace: str) -> set[str]:
    """All pods."""
    return {one["metadata"]["name"] for one in api.list(pods_path(namespace))}
