"""A pod of higher priority takes the place of a lower one, and says so as kube-scheduler does."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import NODES, node, pod, pods_path


def test_victim_makes_way(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], urgent: str
) -> None:
    """Each scheduler preempts on a node of its own: what it writes is the same, and the node is kept."""
    api, path = control_plane.api, pods_path(real_namespace)
    # Before the schedulers start: of nodes and pods that come later, they may hear in any order.
    add_nodes(control_plane, [node(f"{whose}-node", cpu="1", labels={"owner": whose}) for whose in ("ours", "theirs")])
    names = {"ours": harbour.berth(control_plane).scheduler_name, "theirs": harbour.kube_scheduler(control_plane)[1]}
    for whose in names:
        victim = pod(f"{whose}-victim", "nobody", cpu="800m", terminationGracePeriodSeconds=300)
        victim["spec"]["nodeName"] = f"{whose}-node"
        api.create(path, victim)
    for whose, name in names.items():
        how: Object = {"nodeSelector": {"owner": whose}, "priorityClassName": urgent}
        api.create(path, pod(f"{whose}-urgent", name, cpu="500m", **how))
    said = {whose: written(api, real_namespace, whose, name) for whose, name in names.items()}
    assert said["ours"] == said["theirs"]

    # A victim that is going still takes its room: the pod is not let in before.
    api.create(path, pod("after", names["ours"], cpu="9"))
    checks.wait_condition(api, real_namespace, "after")
    assert checks.node_of(api.get(f"{path}/ours-urgent")) == ""
    for whose in names:
        api.delete(f"{path}/{whose}-victim")
    checks.wait_bound(api, real_namespace, len(names))
    assert {checks.node_of(api.get(f"{path}/{whose}-urgent")) for whose in names} == {"ours-node", "theirs-node"}
    assert checks.overfull(api) == []


def test_nominated_node_goes(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], urgent: str
) -> None:
    """The node kept for a pod is deleted while its victim goes: the pod loses its nomination, and goes elsewhere."""
    api, path = control_plane.api, pods_path(real_namespace)
    berth = harbour.berth(control_plane)
    mine: Object = {"nodeSelector": {"owner": real_namespace}, "priorityClassName": urgent}
    add_nodes(control_plane, [node(f"goes-{real_namespace}", cpu="1", labels={"owner": real_namespace})])
    victim = pod("victim", "nobody", cpu="800m", terminationGracePeriodSeconds=300)
    victim["spec"]["nodeName"] = f"goes-{real_namespace}"
    api.create(path, victim)
    api.create(path, pod("urgent", berth.scheduler_name, cpu="500m", **mine))

    def nominated() -> str:
        name: str = api.get(f"{path}/urgent")["status"].get("nominatedNodeName", "")
        return name

    assert wait_for("the nomination", nominated, checks.BOUND) == f"goes-{real_namespace}"
    api.delete(f"{NODES}/goes-{real_namespace}")
    wait_for("the nomination to be cleared", lambda: not nominated(), checks.BOUND)
    assert checks.node_of(api.get(f"{path}/urgent")) == ""
    add_nodes(control_plane, [node(f"comes-{real_namespace}", cpu="1", labels={"owner": real_namespace})])
    wait_for("the pod to be bound", lambda: checks.node_of(api.get(f"{path}/urgent")), checks.BOUND)
    assert checks.node_of(api.get(f"{path}/urgent")) == f"comes-{real_namespace}"
    berth.end()


def written(api: Api, namespace: str, whose: str, scheduler: str) -> Object:
    """What a scheduler wrote of its preemption, without times, and with its own names replaced."""
    path = pods_path(namespace)

    def nominated() -> Object | None:
        found = api.get(f"{path}/{whose}-urgent")
        return found if found["status"].get("nominatedNodeName") else None

    def preempted() -> Object | None:
        found = checks.events(api, namespace, "Preempted")
        return next((event for event in found if event["regarding"]["name"] == f"{whose}-victim"), None)

    waiting = wait_for(f"the nomination of {whose}-urgent", nominated, checks.BOUND)
    event = wait_for(f"the event of {whose}-victim", preempted, checks.BOUND)
    victim = api.get(f"{path}/{whose}-victim")
    assert "deletionTimestamp" in victim["metadata"]
    all_of_it = json.dumps(
        {
            "nominated": waiting["status"]["nominatedNodeName"],
            "conditions": [checks.condition(waiting), checks.condition(victim, "DisruptionTarget")],
            "event": {word: event[word] for word in ("type", "reason", "action", "note", "reportingController")},
        }
    )
    for name, word in ((waiting["metadata"]["uid"], "UID"), (scheduler, "SCHEDULER"), (f"{whose}-", "")):
        all_of_it = all_of_it.replace(name, word)
    read: Object = json.loads(all_of_it)
    for condition in read["conditions"]:
        assert condition.pop("lastTransitionTime")
    return read
