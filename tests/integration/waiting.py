"""Pods of many kinds that wait on a real cluster, each with the nodes, pods, volumes or devices that it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.integration.classes import CLASSES, make_class
from tests.integration.devices import Devices
from tests.integration.objects import ZONE, apart, near, node, on, pod, pods_path
from tests.integration.volumes import Disks

EVEN: Object = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
SICK: Object = {"key": "sick", "value": "ecc", "effect": "NoSchedule"}


class Place(NamedTuple):
    """Where one kind of pod waits: nodes of its own in a cluster that others use, too."""

    cluster: Cluster
    namespace: str
    scheduler: str
    mine: str
    kind: str
    add_nodes: Callable[..., None]
    disks: Disks
    devices: Devices
    left: list[str]
    """Paths of what is in no namespace, and may be there in the end."""

    @property
    def own(self) -> str:
        """The value of the label that only the kind's nodes have."""
        return f"{self.mine}-{self.kind}"

    def nodes(self, number: int = 2, spec: Object | None = None, **how: Any) -> None:
        """Nodes of the kind, in zones of their own."""
        labels = {"mine": self.own, **how.pop("labels", {})}
        made = [node(f"{self.own}-{i}", f"{self.own}-{i}", labels=labels, **how) for i in range(number)]
        self.add_nodes(self.cluster, [{**each, "spec": spec or {}} for each in made])

    def pod(self, name: str = "", port: int = 0, **how: Any) -> Object:
        """A pod that goes to the nodes of the kind only."""
        how["nodeSelector"] = {"mine": self.own, **how.get("nodeSelector", {})}
        made = pod(name or self.kind, self.scheduler, **how)
        if port:
            made["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        return made

    def there(self, number: int = 2, **how: Any) -> None:
        """Pods that are on the first nodes already, one on each."""
        for i in range(number):
            self.put(self.pod(f"there-{self.kind}-{i}", nodeName=f"{self.own}-{i}", **how))

    def put(self, made: Object) -> None:
        """Create a pod."""
        self.cluster.api.create(pods_path(self.namespace), made)

    def resource(self, plural: str, document: Object) -> None:
        """Create a claim or a template of claims in the namespace."""
        document["metadata"]["namespace"] = self.namespace
        document["metadata"].setdefault("uid", "")
        self.devices.make(plural, document, self.namespace)

    def slice(self, *found: Object) -> None:
        """A node with devices of the test's driver, and a class for them."""
        self.nodes(1)
        self.devices.make_slice(f"{self.own}-0", *found)


def _less(at: Place) -> Object:
    at.nodes()
    return at.pod(cpu="6")


def _less_memory(at: Place) -> Object:
    at.nodes()
    return at.pod(memory="40Gi")


def _less_extended(at: Place) -> Object:
    room: dict[str, Any] = {"example.com/gpu": "2"}
    at.nodes(**room)
    made = at.pod()
    for field in ("requests", "limits"):
        made["spec"]["containers"][0]["resources"].setdefault(field, {})["example.com/gpu"] = "3"
    return made


def _select(at: Place) -> Object:
    at.nodes()
    return at.pod(nodeSelector={"disk": "ssd"})


def _required(at: Place) -> Object:
    at.nodes()
    return at.pod(affinity=on(ZONE, ["zone-9"]))


def _taint(at: Place) -> Object:
    at.nodes(spec={"taints": [{"key": "team", "value": "blue", "effect": "NoSchedule"}]})
    return at.pod()


def _cordoned(at: Place) -> Object:
    at.nodes(spec={"unschedulable": True})
    return at.pod()


def _port(at: Place) -> Object:
    at.nodes()
    at.there(port=8080)
    return at.pod(port=8080)


def _spread(at: Place) -> Object:
    at.nodes()
    constraint = {**EVEN, "labelSelector": {"matchLabels": {"app": "even"}}}
    at.there(1, labels={"app": "even"})
    at.put(at.pod("filler", cpu="4", nodeName=f"{at.own}-1"))
    return at.pod(labels={"app": "even"}, topologySpreadConstraints=[constraint])


def _apart(at: Place) -> Object:
    at.nodes()
    at.there(labels={"app": at.kind})
    return at.pod(affinity=apart({"app": at.kind}, ZONE))


def _near(at: Place) -> Object:
    at.nodes()
    return at.pod(affinity=near({"app": "nobody"}, ZONE))


def _repelled(at: Place) -> Object:
    at.nodes(1)
    at.there(1, affinity=apart({"app": at.kind}, ZONE))
    return at.pod(labels={"app": at.kind})


def _full(at: Place) -> Object:
    at.nodes()
    at.there(cpu="1")
    return at.pod(cpu="3500m")


def _too_many(at: Place) -> Object:
    at.nodes(1, pods="1")
    at.there(1)
    return at.pod()


def _two(at: Place) -> Object:
    at.nodes()
    return at.pod(cpu="6", nodeSelector={"disk": "ssd"})


def _gated(at: Place) -> Object:
    at.nodes()
    return at.pod(schedulingGates=[{"name": "example.com/wait"}])


def _calm(at: Place) -> Object:
    at.nodes(1)
    name = f"{at.own}-calm"
    at.left.extend([f"{CLASSES}/{name}", f"{CLASSES}/{name}-preempting"])
    make_class(at.cluster.api, name, 5, preemptionPolicy="Never")
    at.there(1, cpu="4")
    return at.pod(cpu="4", priorityClassName=name)


WAITING: dict[str, tuple[Callable[[Place], Object], str]] = {
    "less": (_less, "ask for"),
    "less-memory": (_less_memory, "ask for"),
    "less-extended": (_less_extended, "ask for 2 example.com/gpu"),
    "select": (_select, "drop nodeSelector disk"),
    "label": (_select, "label "),
    "zone": (_required, "drop the required node affinity"),
    "tolerate": (_taint, "tolerate "),
    "cordoned": (_cordoned, "uncordon "),
    "port": (_port, "do without host port"),
    "port-moved": (_port, "move "),
    "spread": (_spread, "let the spread over"),
    "apart": (_apart, "prefer, not require, to be apart"),
    "near": (_near, "prefer, not require, to be near"),
    "repelled": (_repelled, "move "),
    "full": (_full, "move "),
    "too-many": (_too_many, "move "),
    "two": (_two, "ask for"),
    "gated": (_gated, "remove the scheduling gate"),
    "calm": (_calm, "drop preemptionPolicy Never"),
}
"""Kind → what makes it and gives the pod, and how the change begins that is carried out."""
