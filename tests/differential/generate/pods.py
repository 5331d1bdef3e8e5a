"""Generated pods: what they ask for, where they want to be, and whom they want near."""

from __future__ import annotations

from tests.differential.generate.dice import (
    HOST,
    NAMESPACES,
    NODE_LABELS,
    POD_LABELS,
    PREFERRED,
    REQUIRED,
    TOPOLOGIES,
    ZONE,
    Dice,
    Object,
    label_selector,
    node_term,
    requirement,
)
from tests.differential.generate.nodes import EXTENDED, IMAGES

PORTS = (80, 443, 8080)
CPU = ("0", "1m", "100m", "250m", "500m", "1", "1500m", "0.1", "3")
MEMORY = ("0", "64Mi", "500M", "1Gi", "2Gi", "1e9", "128974848")


def pod(dice: Dice, name: str, node: str = "", *, rich: bool = False, heavy: bool = False) -> Object:
    """A pod, placed when it has a node. `rich`: every way to ask for resources; `heavy`: whole cores."""
    containers = [_container(dice, f"c{i}", rich=rich, heavy=heavy) for i in range(dice.one(1, 1, 1, 2, 3))]
    spec: Object = {"containers": containers}
    if rich and dice.maybe(0.4):
        spec["initContainers"] = [_init_container(dice, f"i{i}") for i in range(dice.randint(1, 3))]
    if rich and dice.maybe(0.2):
        spec["overhead"] = {"cpu": dice.one("10m", "250m"), "memory": dice.one("32Mi", "120Mi")}
    if rich and dice.maybe(0.25):
        spec["resources"] = _pod_level(dice, spec)
    if dice.maybe(0.15):
        spec["hostNetwork"] = True
        for container in containers:
            for port in container.get("ports", ()):
                port["hostPort"] = port["containerPort"]
    namespace = dice.one("default", *NAMESPACES)
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    labels = dice.labels(POD_LABELS, 0.6)
    if labels:
        metadata["labels"] = labels
    made: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if node:
        spec["nodeName"] = node
        made["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:0{dice.randint(0, 9)}:00Z"}
        if dice.maybe(0.06):
            metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            metadata["deletionGracePeriodSeconds"] = 30
    return made


def node_affinity(dice: Dice, pod: Object, nodes: int) -> None:
    """Node selector, required and preferred node affinity."""
    if dice.maybe(0.3):
        pod["spec"]["nodeSelector"] = dice.labels(NODE_LABELS, 0.2)
    wanted: Object = {}
    if dice.maybe(0.6):
        terms = [node_term(dice, nodes) for _ in range(dice.randint(1, 3))]
        wanted[REQUIRED] = {"nodeSelectorTerms": terms}
    if dice.maybe(0.6):
        wanted[PREFERRED] = [
            {"weight": dice.one(1, 7, 50, 100), "preference": node_term(dice, nodes)} for _ in range(dice.randint(1, 3))
        ]
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = wanted


def pod_affinity(
    dice: Dice, pod: Object, chance: float = 0.5, *, required: bool = True, preferred: bool = True
) -> None:
    """Affinity and anti-affinity to pods."""
    affinity = pod["spec"].setdefault("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        wanted: Object = {}
        if required and dice.maybe(chance):
            wanted[REQUIRED] = [_pod_term(dice) for _ in range(dice.one(1, 1, 2))]
        if preferred and dice.maybe(chance):
            wanted[PREFERRED] = [
                {"weight": dice.one(1, 10, 100), "podAffinityTerm": _pod_term(dice)} for _ in range(dice.one(1, 2))
            ]
        if wanted:
            affinity[kind] = wanted


def spread(dice: Dice, pod: Object, *, hard: float = 0.5) -> None:
    """Topology spread constraints; `hard` is the share of DoNotSchedule."""
    found = {}
    for _ in range(dice.one(1, 1, 2, 3)):
        when = "DoNotSchedule" if dice.maybe(hard) else "ScheduleAnyway"
        key = dice.one(HOST, ZONE, ZONE, *TOPOLOGIES)
        one: Object = {"maxSkew": dice.one(1, 1, 2, 5), "topologyKey": key, "whenUnsatisfiable": when}
        selector = label_selector(dice)
        if selector is not None:
            one["labelSelector"] = selector
            used = {*selector.get("matchLabels", ()), *(e["key"] for e in selector.get("matchExpressions", ()))}
            free = [key for key in POD_LABELS if key not in used]
            if free and dice.maybe(0.2):
                one["matchLabelKeys"] = dice.some(free, 1)
        if when == "DoNotSchedule" and dice.maybe(0.25):
            one["minDomains"] = dice.one(1, 2, 3, 5)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if dice.maybe(0.3):
                one[policy] = dice.one("Honor", "Ignore")
        found[key, when] = one
    pod["spec"]["topologySpreadConstraints"] = list(found.values())


def resized(dice: Dice, pod: Object) -> None:
    """What a kubelet reports of a pod that is being resized in place."""
    status = pod.setdefault("status", {})
    reports = []
    for container in pod["spec"]["containers"]:
        if dice.maybe(0.8):
            one: Object = {"name": container["name"], "ready": True, "restartCount": 0, "image": "", "imageID": ""}
            if dice.maybe(0.7):
                one["allocatedResources"] = {"cpu": dice.one(*CPU), "memory": dice.one(*MEMORY)}
            if dice.maybe(0.7):
                one["resources"] = {"requests": {"cpu": dice.one(*CPU), "memory": dice.one(*MEMORY)}}
            reports.append(one)
    status["containerStatuses"] = reports
    if dice.maybe(0.4):
        reason = dice.one("Infeasible", "Deferred")
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if dice.maybe(0.15):
        status["allocatedResources"] = {"cpu": dice.one("250m", "2"), "memory": dice.one("1Gi", "3Gi")}
    if dice.maybe(0.15):
        status["resources"] = {"requests": {"cpu": dice.one("250m", "2"), "memory": dice.one("1Gi", "3Gi")}}


def priority(dice: Dice, pod: Object) -> None:
    """A priority, and perhaps the promise to preempt nobody."""
    if dice.maybe(0.8):
        pod["spec"]["priority"] = dice.one(-10, 0, 0, 10, 10, 100, 1000, 2000000000)
    if dice.maybe(0.05):
        pod["spec"]["preemptionPolicy"] = "Never"


def ports(dice: Dice, pod: Object) -> None:
    """Host ports, some with an address of the host."""
    taken = set()
    for container in pod["spec"]["containers"]:
        found = []
        for _ in range(dice.randint(0, 2)):
            number = dice.one(*PORTS)
            one: Object = {"containerPort": number, "protocol": dice.one("TCP", "TCP", "UDP", "SCTP")}
            if pod["spec"].get("hostNetwork") or dice.maybe(0.8):
                one["hostPort"] = number
            if dice.maybe(0.3):
                one["hostIP"] = dice.one("127.0.0.1", "10.0.0.1", "0.0.0.0")
            key = number, one["protocol"], one.get("hostIP")
            if key not in taken:
                taken.add(key)
                found.append(one)
        if found:
            container["ports"] = found


def unshare(placed: list[Object]) -> None:
    """Take host ports away until no two pods of a node have one: a state that only a hand-made Binding can bring.

    When one of such pods goes, kube-scheduler takes the port for free; Berth does not (docs/equal.md).
    """
    taken = set()
    for pod in placed:
        for container in pod["spec"]["containers"]:
            free = []
            for port in container.get("ports", ()):
                key = pod["spec"].get("nodeName"), port["protocol"], port.get("hostPort")
                if port.get("hostPort") and key in taken:
                    continue
                free.append(port)
            if "ports" in container:
                container["ports"] = free
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", ()):
                taken.add((pod["spec"].get("nodeName"), port["protocol"], port.get("hostPort")))


def _container(dice: Dice, name: str, *, rich: bool, heavy: bool) -> Object:
    made: Object = {"name": name, "image": dice.one(*IMAGES, "reg.test/web", "reg.test/none")}
    requests: Object = {}
    if dice.maybe(0.85):
        requests["cpu"] = dice.one("500m", "1", "2") if heavy else dice.one(*CPU)
    if dice.maybe(0.7):
        requests["memory"] = dice.one("500Mi", "1Gi") if heavy else dice.one(*MEMORY)
    limits: Object = {}
    if rich:
        if dice.maybe(0.15):
            requests["ephemeral-storage"] = dice.one("1Gi", "20Gi", "500M")
        for name_, amounts in ((EXTENDED, ("0", "1", "2")), ("example.com/foo", ("1", "4"))):
            if dice.maybe(0.15):
                requests[name_] = limits[name_] = dice.one(*amounts)
        if requests.get("memory") and dice.maybe(0.1):
            requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = dice.one("2Mi", "64Mi")
        if dice.maybe(0.1):
            limits["cpu"] = "4"  # a request by default, where there is none
    if requests:
        made["resources"] = {"requests": requests}
        if limits:
            made["resources"]["limits"] = limits
    return made


def _init_container(dice: Dice, name: str) -> Object:
    made: Object = {"name": name, "image": dice.one(*IMAGES)}
    if dice.maybe(0.9):
        made["resources"] = {"requests": {"cpu": dice.one(*CPU), "memory": dice.one(*MEMORY)}}
    if dice.maybe(0.5):
        made["restartPolicy"] = "Always"
    return made


def _pod_level(dice: Dice, spec: Object) -> Object:
    """Pod-level requests, at least what the containers ask for together, as the API server wants it."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        requests = container.get("resources", {}).get("requests", {})
        requests |= {name: amount for name, amount in (("cpu", "50m"), ("memory", "32Mi")) if name in requests}
        container.get("resources", {}).get("limits", {}).pop("cpu", None)
    return {"requests": {"cpu": dice.one("500m", "1", "2500m"), "memory": dice.one("512Mi", "1Gi", "3G")}}


def _pod_term(dice: Dice) -> Object:
    made: Object = {"topologyKey": dice.one(*TOPOLOGIES)}
    selector = label_selector(dice)
    if selector is not None:
        made["labelSelector"] = selector
    if dice.maybe(0.2):
        made["namespaces"] = dice.some(NAMESPACES, 1)
    if dice.maybe(0.25):
        made["namespaceSelector"] = dice.one(
            {},
            {"matchLabels": {"team": "a"}},
            {"matchExpressions": [requirement(dice, {"team": ("a", "b")})]},
        )
    return made
