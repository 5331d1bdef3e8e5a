"""Who else acts in a cluster: kubelets, controllers that keep pods in being, garbage collection, a rival scheduler.

They act near the server, without a network: what is tested is Berth. Each takes its chances from a generator of its
own, so that leaving one out of a run leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from podberth.apiserver.rules.strategy import timestamp
from podberth.apiserver.storage import Change
from podberth.model.promise import ANNOTATION
from tests import builders
from tests.storm.loop import Loop
from tests.storm.policing import Webhook
from tests.storm.server import Server

JsonObject = dict[str, Any]
MERGE = "application/merge-patch+json"
ENDED = frozenset({"Failed", "Succeeded"})
GRACE_SECONDS = 3
REFUSED_SECONDS = 5.0
"""After a policy has refused a pod, its controller tries again."""
DISK = "disk"
PROMISE = '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}'
RIVAL = "rival"


def cpu_of(pod: JsonObject) -> int:
    """What a pod requests, in millicores."""
    return _millicores(pod["spec"]["containers"][0].get("resources", {}).get("requests", {}).get("cpu", "0"))


def room_of(node: JsonObject) -> tuple[int, int]:
    """What a node has for pods: millicores, and how many."""
    allocatable = node["status"]["allocatable"]
    return _millicores(allocatable["cpu"]), int(allocatable["pods"])


def _millicores(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


RESOURCE = "storm.test/gpu"
"""The extended resource that the devices serve."""


def node_of(pod: JsonObject) -> str:
    """Where a pod is bound; empty: nowhere."""
    return str(pod["spec"].get("nodeName", ""))


def ended(pod: JsonObject) -> bool:
    """Whether it uses nothing any more."""
    return (pod.get("status") or {}).get("phase") in ENDED


def promised(pod: JsonObject) -> bool:
    """Whether it wants its node's label to stay."""
    return ANNOTATION in pod["metadata"].get("annotations", {})


@dataclass(frozen=True)
class Size:
    """A node's room, as its kubelet reports it."""

    cpu: int
    pods: int
    zone: str


class Nodes:
    """The machines: their kubelets report them, admit pods, and let them go."""

    def __init__(self, server: Server, loop: Loop, rng: Random) -> None:
        self.sizes: dict[str, Size] = {}
        self.disks: dict[str, str] = {}
        """Node → its label `disk`, where it has one."""
        self._server = server
        self._loop = loop
        self._rng = rng
        self._admitted: dict[str, str] = {}
        """UID → the node whose kubelet has admitted the pod."""
        self.slow = 0.0
        """How many seconds longer kubelets take to start a pod."""
        pods = server.registry.built_in("pods")
        server.store.collection(pods.collection).listeners[self] = None

    def join(self, name: str, size: Size) -> None:
        """A machine comes, or comes again."""
        self.sizes[name] = size
        body = builders.node(name, f"{size.cpu}m", pods=str(size.pods), zone=size.zone)
        body["status"]["capacity"] = body["status"]["allocatable"]
        body["metadata"].pop("uid")
        if name in self.disks:
            body["metadata"]["labels"][DISK] = self.disks[name]
        self._server.call(f"kubelet-{name}", "POST", "/api/v1/nodes", body)
        self._readmit(name)

    def resize(self, name: str, size: Size) -> None:
        """It reports other figures."""
        if self._server.stored("nodes", name) is None:
            return
        self.sizes[name] = size
        figures = {"cpu": f"{size.cpu}m", "pods": str(size.pods), "memory": "16Gi"}
        body = {"status": {"allocatable": figures, "capacity": figures}}
        self._server.call(f"kubelet-{name}", "PATCH", f"/api/v1/nodes/{name}/status", body, MERGE)

    def leave(self, name: str) -> None:
        """It is deleted; its pods go later."""
        self._server.call("user", "DELETE", f"/api/v1/nodes/{name}")
        self._loop.call_later(8 + 10 * self._rng.random(), self._collect, name)

    def look_again(self) -> None:
        """After a restore: what kubelets and collectors would find by their own lists."""
        for name, size in self.sizes.items():
            if self._server.stored("nodes", name) is not None:
                self._loop.call_later(2.0, self.resize, name, size)
        for pod in self._server.objects("pods"):
            self._see(pod)
            if node_of(pod) and self._server.stored("nodes", node_of(pod)) is None:
                self._loop.call_later(10.0, self._collect, node_of(pod))

    def offer(self, change: Change) -> None:
        if change.type == "DELETED":
            self._admitted.pop(change.new.uid, None)
        else:
            self._see(change.new.obj)

    def _see(self, pod: JsonObject) -> None:
        if not node_of(pod):
            return
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            self._loop.call_later(
                GRACE_SECONDS * self._rng.random(), self._let_go, meta["namespace"], meta["name"], meta["uid"]
            )
        elif not ended(pod) and not self._is_started(pod):
            late = self.slow + 0.1 + 2 * self._rng.random()
            self._loop.call_later(late, self._admit, meta["namespace"], meta["name"], meta["uid"])

    def _is_started(self, pod: JsonObject) -> bool:
        """Whether its kubelet has admitted it, and the API server has stored that it runs."""
        return self._admitted.get(pod["metadata"]["uid"]) == node_of(pod) and pod["status"]["phase"] == "Running"

    def _admit(self, namespace: str, name: str, uid: str) -> None:
        pod = self._server.stored("pods", f"{namespace}/{name}")
        if pod is None or pod["metadata"]["uid"] != uid or self._is_started(pod) or ended(pod):
            return
        on = node_of(pod)
        node = self._server.stored("nodes", on)
        if node is None:
            return  # no kubelet there; the collector takes it
        if self._admitted.get(uid) != on and (reason := self._lacks(node, pod)):
            self._status(namespace, name, {"phase": "Failed", "reason": reason})
            return
        self._status(namespace, name, {"phase": "Running", "startTime": timestamp(), **self._readiness(pod)})
        self._admitted[uid] = on

    def _lacks(self, node: JsonObject, pod: JsonObject) -> str:
        """Why a kubelet refuses a pod; empty: it admits it."""
        on, admitted = node_of(pod), self._admitted
        others = [
            other
            for other in self._server.objects("pods")
            if other["spec"].get("nodeName") == on and admitted.get(other["metadata"]["uid"]) == on and not ended(other)
        ]
        cpu, most = room_of(node)
        if sum(map(cpu_of, others)) + cpu_of(pod) > cpu:
            return "OutOfcpu"
        return "OutOfpods" if len(others) + 1 > most else ""

    def _readiness(self, pod: JsonObject) -> JsonObject:
        """Its condition, where somebody counts ready pods."""
        if not self.disks:
            return {}
        others = [one for one in pod["status"].get("conditions", ()) if one.get("type") != "Ready"]
        return {"conditions": [*others, {"type": "Ready", "status": "True"}]}

    def _status(self, namespace: str, name: str, status: JsonObject) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        code, _ = self._server.call("kubelet", "PATCH", path, {"status": status}, MERGE)
        if code == 0:
            pod = self._server.stored("pods", f"{namespace}/{name}")
            if pod is not None:
                self._loop.call_later(2.0, self._see, pod)

    def _readmit(self, node: str) -> None:
        for pod in self._server.objects("pods"):
            if node_of(pod) == node:
                self._admitted.pop(pod["metadata"]["uid"], None)
                self._see(pod)

    def _let_go(self, namespace: str, name: str, uid: str) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        code, _ = self._server.call("kubelet", "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)
        if code == 0:
            self._loop.call_later(2.0, self._let_go, namespace, name, uid)

    def _collect(self, node: str) -> None:
        if self._server.stored("nodes", node) is not None:
            return
        for pod in self._server.objects("pods"):
            if node_of(pod) == node:
                meta = pod["metadata"]
                self._let_go(meta["namespace"], meta["name"], meta["uid"])
        self._loop.call_later(15.0, self._collect, node)


@dataclass
class Wanted:
    """So many pods of one kind."""

    namespace: str
    name: str
    replicas: int
    cpu: int
    zone: str = ""
    priority: str = ""
    scheduler: str = "berth"
    apart: bool = False
    gated: bool = False
    promise: bool = False
    """Whether its pods want a node with `disk=ssd` for as long as they run."""
    budget: int = 0
    """How many of its pods its PodDisruptionBudget wants healthy; 0: it has none."""
    claims: str = ""
    """`own`: each pod has a claim for a device; `shared`: all of them have one together; `group`: as their group's;
    `extended`: each asks for a resource that a device class serves."""
    gang: int = 0
    """So many of its pods start together, or none; 0: they are in no pod group."""
    groups: str = "scheduling.k8s.io"
    """The API of its pod group."""
    gives_up: int = 0
    """Seconds after which a group of scheduler-plugins gives back what it holds; 0: it does not say."""
    topology: str = ""
    """All pods of its gang are on nodes with the same value of this label."""
    prefers: str = ""
    """The label of which its pods have the same value if possible, as an annotation of its group asks."""
    lasts: int = 0
    """Seconds after which its pods end; 0: they run until they are deleted."""
    app: str = ""
    """The label of its pods, its name without it: pods of two schedulers may be of one app."""


class Controllers:
    """They keep pods in being, each under its own name, as a StatefulSet does; at once, or a little later."""

    def __init__(self, server: Server, loop: Loop, rng: Random) -> None:
        self.wanted: dict[tuple[str, str], Wanted] = {}
        self.webhook: Webhook | None = None
        self.claim: Callable[[str, str], None] = lambda namespace, name: None
        """Makes a claim for a device, where there are any."""
        self.join: Callable[[Wanted, JsonObject], bool] = lambda wanted, pod: True
        """Makes a pod one of a gang; whether the group is there to stay."""
        self.on_review: Callable[[JsonObject, bool, str], None] = lambda pod, allowed, who: None
        """Hears whether a pod may be created, and which replica said so."""
        self._in_review: set[tuple[str, str]] = set()
        self._server = server
        self._loop = loop
        self._rng = rng
        pods = server.registry.built_in("pods")
        server.store.collection(pods.collection).listeners[self] = None

    def want(self, wanted: Wanted) -> None:
        """From now on there are to be these."""
        key = wanted.namespace, wanted.name
        before = self.wanted.get(key)
        self.wanted[key] = wanted
        if wanted.budget:
            self._want_budget(wanted)
        for i in range(wanted.replicas):
            self._soon(0.3 * self._rng.random(), wanted.namespace, f"{wanted.name}-{i}")
        for i in range(wanted.replicas, before.replicas if before else 0):
            self._server.call("controller", "DELETE", f"/api/v1/namespaces/{wanted.namespace}/pods/{wanted.name}-{i}")

    def ungate(self) -> None:
        """Take the gates of all pods away."""
        for wanted in self.wanted.values():
            wanted.gated = False
        for pod in self._server.objects("pods"):
            if pod["spec"].get("schedulingGates"):
                meta = pod["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                code, _ = self._server.call("controller", "PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)
                if code == 0:
                    self._loop.call_later(2.0, self.ungate)
                    return

    def look_again(self) -> None:
        """Whether all that is wanted is there."""
        for pod in self._server.objects("pods"):
            if ended(pod):
                self._see_ended(pod)
        for wanted in self.wanted.values():
            for i in range(wanted.replicas):
                self._soon(0.5 * self._rng.random(), wanted.namespace, f"{wanted.name}-{i}")

    def offer(self, change: Change) -> None:
        meta = change.new.obj["metadata"]
        if change.type == "DELETED":
            late = 0.0 if self._rng.random() < 0.5 else self._rng.random()
            self._soon(late, meta["namespace"], meta["name"])
        elif ended(change.new.obj) and not meta.get("deletionTimestamp"):
            self._see_ended(change.new.obj)

    def _see_ended(self, pod: JsonObject) -> None:
        meta = pod["metadata"]
        self._loop.call_later(0.2 + self._rng.random(), self._replace, meta["namespace"], meta["name"], meta["uid"])

    def _replace(self, namespace: str, name: str, uid: str) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        code, _ = self._server.call("controller", "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)
        if code == 0:
            self._loop.call_later(2.0, self._replace, namespace, name, uid)

    def _soon(self, seconds: float, namespace: str, name: str) -> None:
        self._loop.call_later(seconds, self._make, namespace, name)

    def _make(self, namespace: str, name: str) -> None:
        kind, _, number = name.rpartition("-")
        wanted = self.wanted.get((namespace, kind))
        if wanted is None or int(number) >= wanted.replicas:
            return
        if self._server.stored("pods", f"{namespace}/{name}") is not None or (namespace, name) in self._in_review:
            return
        app = wanted.app or kind
        body = builders.pod(
            name,
            f"{wanted.cpu}m",
            namespace=namespace,
            labels={"app": app},
            select={"zone": wanted.zone} if wanted.zone else None,
            apart=[f"app={app}"] if wanted.apart else (),
            scheduler=wanted.scheduler,
            gates=["storm.test/gate"] if wanted.gated else (),
            others={RESOURCE: "1"} if wanted.claims == "extended" else None,
        )
        body["metadata"].pop("uid", None)
        body["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        if wanted.priority:
            body["spec"]["priorityClassName"] = wanted.priority
        if wanted.lasts:
            body["spec"] |= {"activeDeadlineSeconds": wanted.lasts, "restartPolicy": "Never"}
        if wanted.promise:
            body["metadata"]["annotations"] = {ANNOTATION: PROMISE}
            # A namespace that is made again has other controllers than before, of the same names.
            home = self._server.stored("namespaces", namespace)
            uid = f"owner/{'' if home is None else home['metadata']['uid']}/{kind}"
            owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": kind, "uid": uid}
            body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        if wanted.claims and wanted.claims != "extended":
            claim = name if wanted.claims == "own" else kind
            self.claim(namespace, claim)
            body["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": claim}]
        if wanted.gang and not self.join(wanted, body):
            self._soon(2.0, namespace, name)
            return
        if self.webhook is None:
            self._create(namespace, name, body)
            return

        def reviewed(allowed: JsonObject | None, who: str) -> None:
            self._in_review.discard((namespace, name))
            self.on_review(body, allowed is not None, who)
            if allowed is None:
                self._soon(REFUSED_SECONDS, namespace, name)
            else:
                self._create(namespace, name, allowed)

        self._in_review.add((namespace, name))
        self.webhook.review(body, reviewed)

    def _create(self, namespace: str, name: str, body: JsonObject) -> None:
        code, _ = self._server.call("controller", "POST", f"/api/v1/namespaces/{namespace}/pods", body)
        if code in (0, 403, 404):
            self._soon(2.0, namespace, name)  # the server is away, or the namespace is

    def _want_budget(self, wanted: Wanted) -> None:
        spec = {"minAvailable": wanted.budget, "selector": {"matchLabels": {"app": wanted.name}}}
        path = f"/apis/policy/v1/namespaces/{wanted.namespace}/poddisruptionbudgets"
        body = {"metadata": {"name": wanted.name}, "spec": spec}
        code, _ = self._server.call("user", "POST", path, body)
        if code in (0, 403, 404):
            self._loop.call_later(2.0, self._want_budget, wanted)


def periodically(loop: Loop, seconds: float, do: Callable[[], None]) -> None:
    """Do this again and again."""

    def again() -> None:
        do()
        loop.call_later(seconds, again)

    loop.call_later(seconds, again)
