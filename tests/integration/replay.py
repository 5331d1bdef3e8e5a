"""kube-scheduler's decisions on a real API server, one by one, put to Berth in the state that each was made in.

kube-scheduler decides one pod after another, and counts a pod as placed from its decision on, long before the API
server knows. So the order of its cycles is what matters, and its log has it (`Attempting to schedule pod`, at
verbosity 3): the state of a cycle is what was there at the start and the pods of all earlier cycles that succeeded.
Nobody may be preempted (`preemptionPolicy: Never`), and nothing else may change meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from podberth.explain.objects.world import World
from podberth.explain.rejections import given_away
from podberth.framework.decision import fit_error
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.differential.answers import framework_of
from tests.integration.classes import CLASSES as PRIORITY_CLASSES
from tests.integration.classes import make_class
from tests.integration.objects import HOSTNAME, ZONE, apart, near, node, on, pod, pods_path, rather_apart
from tests.integration.volumes import CLASSES, VOLUMES, Disks

CYCLE = re.compile(
    r'"Attempting to schedule pod" pod="([^"]+)"|"Unable to schedule pod; no fit; waiting" .*? err=(".*")'
)
TROUBLE = re.compile(r'"(?:Failed to bind pod|Error selecting node for pod|Error scheduling[^"]*)".*')
VERBOSITY = 3
PRIORITIES = (-5, 0, 10, 1000)
KINDS = {
    "/api/v1/nodes": "Node",
    "/api/v1/namespaces": "Namespace",
    "/api/v1/services": "Service",
    "/api/v1/pods": "Pod",
    VOLUMES: "PersistentVolume",
    "/api/v1/persistentvolumeclaims": "PersistentVolumeClaim",
    CLASSES: "StorageClass",
}


@dataclass(slots=True)
class Cycle:
    """One try of one pod, `namespace/name`; `message` is why it found no node."""

    key: str
    message: str | None = None


@dataclass(slots=True)
class Outcome:
    """What came of a replay."""

    bound: int = 0
    ties: int = 0
    """Bound pods for which more than one node was best."""
    refused: int = 0
    """Cycles that found no node; a pod can have several."""
    pending: int = 0
    """Pods that had none in the end."""
    differences: list[str] = field(default_factory=list)


def nodes(count: int, prefix: str) -> list[Object]:
    """Nodes of three sizes in five zones; every tenth is tainted."""
    made = []
    for i in range(count):
        one = node(f"{prefix}-{i}", f"zone-{i % 5}", cpu=("4", "8", "16")[i % 3], memory=("16Gi", "32Gi")[i % 2])
        one["metadata"]["labels"]["disk"] = ("ssd", "hdd")[i % 2]
        if i % 10 == 9:
            one["spec"] = {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}
        made.append(one)
    return made


def pods(count: int, scheduler: str, random: Random) -> list[Object]:
    """Pods of all sorts, of five priorities; some of them fit nowhere."""
    made = []
    for i in range(count):
        labels = {"app": f"app-{random.randrange(12)}", "tier": random.choice(("gold", "silver"))}
        size: Object = {"cpu": f"{random.randint(1, 12) * 50}m", "memory": f"{random.randint(1, 16) * 64}Mi"}
        spec: Object = {"priorityClassName": f"{scheduler}-{random.randrange(len(PRIORITIES))}"}
        match random.randrange(10):
            case 0:
                spec["affinity"] = near({"app": labels["app"]}, ZONE)
            case 1:
                labels["alone"] = f"set-{random.randrange(6)}"
                spec["affinity"] = apart({"alone": labels["alone"]}, HOSTNAME)
            case 2:
                spec["affinity"] = rather_apart({"app": labels["app"]}, HOSTNAME)
            case 3:
                spec["affinity"] = on(ZONE, random.sample([f"zone-{z}" for z in range(5)], 2))
            case 4 | 5:
                hard = random.random() < 0.5
                spec["topologySpreadConstraints"] = [
                    {
                        "maxSkew": random.randint(1, 3),
                        "topologyKey": random.choice((ZONE, HOSTNAME)),
                        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {"app": labels["app"]}},
                    }
                ]
            case 6:
                spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
            case 7:
                spec["nodeSelector"] = {"disk": "ssd"}
        if random.random() < 0.02:
            size["cpu"] = "64"
        made.append(pod(f"p-{i}", scheduler, labels=labels, **size, **spec))
    return made


def furnish(api: Api, namespace: str, scheduler: str) -> None:
    """Priority classes that preempt nobody, and Services, whose pods are spread by default."""
    for number, value in enumerate(PRIORITIES):
        make_class(api, f"{scheduler}-{number}", value, preemptionPolicy="Never")
    for number in range(4):
        spec = {"selector": {"app": f"app-{number}"}, "clusterIP": "None"}
        api.create(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": f"app-{number}"}, "spec": spec})


def tidy(api: Api, scheduler: str) -> None:
    """Remove what has no namespace to go with."""
    for number in range(len(PRIORITIES)):
        api.delete(f"{PRIORITY_CLASSES}/{scheduler}-{number}")


def with_volumes(disks: Disks, bodies: list[Object], where: list[str], random: Random) -> None:
    """Every tenth pod has a claim: bound to a volume on a node already, or one that waits for the pod."""
    for number, body in enumerate(bodies[::10]):
        name = f"data-{number}"
        claim = disks.make_claim(name, f"{number % 3 + 1}Gi")
        ref = {"kind": "PersistentVolumeClaim", "namespace": disks.namespace, "name": name}
        spec = {"claimRef": ref | {"uid": claim["metadata"]["uid"]}} if number % 2 else {}
        disks.make_volume(f"v{number}", random.choice(where), f"{number % 4 + 1}Gi", **spec)
        body["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]


def state(api: Api) -> list[Object]:
    """Everything of the cluster that a decision reads."""
    return [{"kind": kind, **one} for path, kind in KINDS.items() for one in api.list(path)]


def settled(api: Api, namespace: str) -> Callable[[], list[Object] | None]:
    """A probe that gives all pods once each is bound or was told why not."""

    def probe() -> list[Object] | None:
        found = api.list(pods_path(namespace))
        done = all(
            one["spec"].get("nodeName") or any(c["type"] == "PodScheduled" for c in one["status"].get("conditions", ()))
            for one in found
        )
        return found if done else None

    return probe


def cycles_of(log: Path) -> list[Cycle]:
    """All cycles in order. Raises AssertionError when one ended in trouble."""
    text = log.read_text(errors="replace")
    trouble = TROUBLE.search(text)
    assert trouble is None, trouble and trouble[0]
    found: list[Cycle] = []
    for key, said in CYCLE.findall(text):
        if key:
            found.append(Cycle(key))
        else:
            found[-1].message = json.loads(said)
    return found


def replay(before: list[Object], after: list[Object], cycles: list[Cycle]) -> Outcome:
    """Put each cycle to Berth: `before` is the state at the start, `after` that at the end."""
    world, outcome = World(), Outcome()
    world.add_all(before)
    end = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in after}
    for number, cycle in enumerate(cycles):
        namespace, name = cycle.key.split("/")
        final = end["Pod", namespace, name]
        node = final["spec"].get("nodeName", "")
        if not node and cycle.message is None:
            break  # decided when the run was ended, so that its node is not known
        difference = _judge(world, cycle, node, outcome)
        if difference:
            outcome.differences.append(f"cycle {number}, {cycle.key}: {difference}")
        if cycle.message is None:
            world.add_all(_taken(final, end))
    outcome.pending = len(world.waiting)
    return outcome


def _judge(world: World, cycle: Cycle, node: str, outcome: Outcome) -> str:
    """What Berth would have done otherwise; empty when nothing."""
    pod = world.waiting[cycle.key]
    cluster = world.cluster
    framework = framework_of(pod)
    decision = framework.decide(pod, cluster)
    best = {str(cluster.nodes.names[row]) for row in decision.best()}
    if cycle.message is None:
        outcome.bound += 1
        outcome.ties += len(best) > 1
        return (
            ""
            if given_away(decision, cluster.nodes.row_of(node)) == 0
            else f"kube-scheduler chose {node}, best are {sorted(best)}"
        )
    outcome.refused += 1
    preempting = "" if best else framework.post_filter_result(pod, cluster, decision).text
    ours = f"fits on {sorted(best)}" if best else fit_error(decision, preempting)
    return "" if ours == cycle.message else f"kube-scheduler said {cycle.message!r}, Berth {ours!r}"


def _taken(pod: Object, end: dict[tuple[str, str, str], Object]) -> Iterator[Any]:
    """The pod on its node, and its claims and their volumes as they are from then on."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            claim = end["PersistentVolumeClaim", namespace, volume["persistentVolumeClaim"]["claimName"]]
            yield end["PersistentVolume", "", claim["spec"]["volumeName"]]
            yield claim
    yield pod


def watch(cluster: Cluster, disks: Disks, bodies: list[Object], timeout: float) -> Outcome:
    """Let kube-scheduler place the pods on the nodes that are there, then put what it decided to Berth."""
    api, namespace = cluster.api, disks.namespace
    api.create_many(pods_path(namespace), bodies)
    bound = [body for body in disks.volumes() if "claimRef" in body["spec"]]
    disks.until("the claims of named volumes", lambda: all(_claim_is_bound(disks, volume) for volume in bound) or None)
    before = state(api)
    scheduler = cluster.start_kube_scheduler(
        {"percentageOfNodesToScore": 100},
        scheduler_name=bodies[0]["spec"]["schedulerName"],
        verbosity=VERBOSITY,
    )
    try:
        disks.until("all pods to be bound or refused", settled(api, namespace), timeout)
    finally:
        scheduler.kill()
    return replay(before, state(api), cycles_of(scheduler.log))


def _claim_is_bound(disks: Disks, volume: Object) -> bool:
    return bool(disks.claim(volume["spec"]["claimRef"]["name"])["status"].get("phase") == "Bound")
