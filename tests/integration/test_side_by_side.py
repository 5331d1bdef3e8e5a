"""kube-scheduler beside Berth on one cluster: each binds its own pods and leaves the other's alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.controlplane.cluster import ADMIN, KUBE_SCHEDULER, ControlPlane
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import nodes, pod, pods_path

PODS = 100


def test_two_schedulers(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """100 pods each, at once, on the same nodes: who bound what is as the pods asked, and no node is overfull."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, nodes(50, "shared", cpu="1"))  # room for 500 such pods, so that a race can't fill a node
    berth = harbour.berth(audited)
    kube, kube_name = harbour.kube_scheduler(audited)
    owners = {"ours": berth.scheduler_name, "theirs": kube_name}
    with ThreadPoolExecutor(len(owners)) as threads:
        made = [
            threads.submit(api.create_many, path, [pod(f"{whose}-{i}", name) for i in range(PODS)], 4)
            for whose, name in owners.items()
        ]
        assert [done.result() for done in made] == [PODS, PODS]
    pods = checks.wait_bound(api, audited_namespace, 2 * PODS)

    assert checks.overfull(api) == []
    events = checks.wait_events(api, audited_namespace, "Scheduled", 2 * PODS)
    wanted = {pod["metadata"]["uid"]: pod["spec"]["schedulerName"] for pod in pods}
    assert sorted((e["regarding"]["uid"], e["reportingController"]) for e in events) == sorted(wanted.items())
    asked = checks.bound_once_each(audited, audited_namespace, pods)
    who = Counter((entry["user"]["username"], entry["objectRef"]["name"].partition("-")[0]) for entry in asked)
    assert who == {(ADMIN, "ours"): PODS, (KUBE_SCHEDULER, "theirs"): PODS}
    berth.end()
    assert kube.running
