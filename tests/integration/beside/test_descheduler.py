"""The descheduler evicts what Berth has placed, Berth places it anew, and its evictor does not evict it twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration import checks, evictor
from tests.integration.berth import Harbour
from tests.integration.beside.kubelet import kubelet
from tests.integration.evictor import BRISK, relabel, replicas, start
from tests.integration.objects import NODES, on, pods_path

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
PODS = 4
TAINT: Object = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}


def policy(namespace: str) -> Object:
    """Two strategies, for one namespace."""
    names = ("RemovePodsViolatingNodeAffinity", "RemovePodsViolatingNodeTaints")
    only = {"namespaces": {"include": [namespace]}}
    affinity = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "moves",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                    {"name": names[0], "args": {**only, **affinity}},
                    {"name": names[1], "args": only},
                ],
                "plugins": {"deschedule": {"enabled": list(names)}},
            }
        ],
    }


class Descheduler(Process):
    """A descheduler with its own policy, as administrator; `every`: seconds between two rounds, 0 for one round."""

    def __init__(self, command: Path, cluster: ControlPlane, home: Path, namespace: str, every: int) -> None:
        given = home / "policy.yaml"
        given.write_text(yaml.safe_dump(policy(namespace)))
        options = [
            f"--policy-config-file={given}",
            f"--kubeconfig={cluster.kubeconfig(home / 'descheduler.kubeconfig')}",
            f"--descheduling-interval={every}s",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={home / 'descheduler'}",
            "--v=4",
        ]
        super().__init__("descheduler", [command, *options], home / "descheduler.log")

    def once(self) -> None:
        """Let it look once."""
        self.start()
        wait_for("the descheduler to end", lambda: not self.running, checks.BOUND, 0.2)
        assert self.stop() == 0, self.tail()


def evictions(cluster: ControlPlane, namespace: str) -> Counter[tuple[str, str]]:
    """(User agent's first word, pod) → how many evictions were granted, by the audit."""
    return Counter(
        (entry["userAgent"].split("/")[0], entry["objectRef"]["name"])
        for entry in cluster.audit_events("/eviction", namespace)
        if entry["objectRef"].get("subresource") == "eviction" and entry["responseStatus"]["code"] == 201
    )


def budget(api: Api, namespace: str, allowed: int) -> None:
    """Do the disruption controller's work: all pods, and how many may go now."""
    path = BUDGETS.format(namespace)
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    made = api.create(path, {"metadata": {"name": "web"}, "spec": spec})
    counts = {"currentHealthy": PODS, "desiredHealthy": PODS - allowed, "expectedPods": PODS}
    status = {"observedGeneration": made["metadata"]["generation"], "disruptionsAllowed": allowed, **counts}
    api.patch(f"{path}/web/status", {"status": status})


def ready_node(name: str, disk: str) -> Object:
    """A node that the descheduler counts with."""
    made = evictor.node(name, disk)
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def web(scheduler: str, promise: str) -> list[Object]:
    """The pods of one ReplicaSet, which require an SSD by node affinity: the strategy looks at no nodeSelector."""
    made = [evictor.pod(f"web-{i}", None, scheduler, promise=promise) for i in range(PODS)]
    for one in made:
        one["spec"]["affinity"] = on("disk", ["ssd"])
    return made


def where(api: Api, namespace: str) -> Counter[str]:
    """Node → how many pods run there."""
    return Counter(
        checks.node_of(one)
        for one in api.list(pods_path(namespace))
        if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
    )


def test_what_it_evicts_is_placed_anew(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    descheduler: Path,
    tmp_path: Path,
) -> None:
    """A node loses its label: as many of its pods go as the budget allows. Then it gets a taint, and one more goes."""
    api, space = audited.api, audited_namespace
    old, new = f"{space}-old", f"{space}-new"
    add_nodes(audited, [ready_node(old, "ssd")])
    berth = harbour.berth(audited)
    looks = Descheduler(descheduler, audited, tmp_path, space, every=0)
    with kubelet(api, space), replicas(api, space):
        api.create_many(pods_path(space), web(berth.scheduler_name, "false"))
        wait_for("all pods to run", lambda: where(api, space) == {old: PODS}, checks.BOUND, 0.2)
        add_nodes(audited, [ready_node(new, "ssd")])
        relabel(api, old, "hdd")
        budget(api, space, allowed=2)
        looks.once()
        wait_for("two pods on the new node", lambda: where(api, space) == {old: 2, new: 2}, checks.BOUND, 0.2)
        relabel(api, old, "ssd")
        api.patch(f"{NODES}/{old}", {"spec": {"taints": [TAINT]}})
        api.patch(f"{BUDGETS.format(space)}/web/status", {"status": {"disruptionsAllowed": 1}})
        looks.once()
        wait_for("three pods on the new node", lambda: where(api, space) == {old: 1, new: 3}, checks.BOUND, 0.2)
    assert evictions(audited, space).total() == 3
    berth.end()


def test_two_evictors_evict_each_pod_once(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    descheduler: Path,
    tmp_path: Path,
) -> None:
    """Both look after the same promise every second: each pod goes once, and its successor stays."""
    api, space = audited.api, audited_namespace
    old, new = f"{space}-old", f"{space}-new"
    add_nodes(audited, [ready_node(old, "ssd")])
    berth = harbour.berth(audited)
    looks = Descheduler(descheduler, audited, tmp_path, space, every=1)
    harbour.started.append(looks)
    with kubelet(api, space), replicas(api, space):
        api.create_many(pods_path(space), web(berth.scheduler_name, "true"))
        wait_for("all pods to run", lambda: where(api, space) == {old: PODS}, checks.BOUND, 0.2)
        first = {one["metadata"]["name"] for one in api.list(pods_path(space))}
        own = start(harbour, audited, space, berth.scheduler_name, grace=1, max_changed=1, **BRISK)
        budget(api, space, allowed=1)
        looks.start()
        wait_for("the descheduler to have looked", lambda: looked(looks) >= 1, checks.BOUND, 0.2)
        add_nodes(audited, [ready_node(new, "ssd")])
        relabel(api, old, "hdd")
        for left in range(PODS - 1, -1, -1):
            wait_for(f"{left} pods on the old node", lambda: where(api, space)[old] <= left, checks.BOUND, 0.2)  # noqa: B023
            api.patch(f"{BUDGETS.format(space)}/web/status", {"status": {"disruptionsAllowed": 1}})
        wait_for("all pods on the new node", lambda: where(api, space) == {new: PODS}, checks.BOUND, 0.2)
        rounds = looked(looks)
        wait_for("the descheduler to look twice more", lambda: looked(looks) >= rounds + 2, checks.BOUND, 0.2)
    granted = evictions(audited, space)
    assert {name for _, name in granted} == first
    assert granted.total() == PODS, granted
    own.end()
    berth.end()


def looked(looks: Descheduler) -> int:
    """How many rounds it has made."""
    return looks.log.read_text(errors="replace").count("Number of evictions/requests")
