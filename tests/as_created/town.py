"""The real cluster: API server, controllers, kwok for a kubelet, and Berth as its default scheduler."""

from __future__ import annotations

import re
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.as_created.generate import PRIORITIES, RUNTIMES
from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import NEEDS_CONTROLLERS, ControlPlane, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.e2e.cluster import controller_manager, kwok
from tests.integration.berth import Berth, configuration

SCHEDULER = "default-scheduler"
PATIENCE = 45.0
"""Seconds that anything may take on a busy machine."""
PATHS = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), "/apis/apps/v1"),
    **dict.fromkeys(("Job", "CronJob"), "/apis/batch/v1"),
    **dict.fromkeys(("Pod", "ReplicationController", "Service", "LimitRange", "ResourceQuota"), "/api/v1"),
}
_PROBED = "example.com/"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NOT_MIRRORED = ("PodTopologyLabels",)
"""It gives a pod that is bound its node's zone and region as labels: each Binding wakes those that wait for labels of
others, and they say anew why they wait."""
# What makes pods and counts them. Without the others a node need not be kept alive, and nobody taints or evicts.
_CONTROLLERS = (
    *("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "replicationcontroller"),
    *("garbage-collector", "namespace", "resourcequota"),
)


class Town:
    """A context manager; `home` gets Berth's log."""

    def __init__(self, home: Path) -> None:
        self.plane = ControlPlane(without_admission=(*NEEDS_CONTROLLERS, *_NOT_MIRRORED))
        self._home = home
        self._port = free_port()
        self._open: ssl.SSLContext = ssl._create_unverified_context()
        self.kubeconfig = self.plane.directory / "admin.kubeconfig"

    def __enter__(self) -> Self:
        self.plane.__enter__()
        try:
            plane, api = self.plane, self.plane.api
            enabled = ",".join(f"{name}-controller" for name in _CONTROLLERS)
            fast = ("--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-gc-syncs=5")
            self._start(controller_manager(plane, f"--controllers={enabled}", *fast))
            self._start(kwok(plane))
            api.create_many(_CLASSES, PRIORITIES)
            api.create_many("/apis/node.k8s.io/v1/runtimeclasses", RUNTIMES)
            kubeconfig = plane.kubeconfig(plane.directory / "berth.kubeconfig", plane.scheduler_token())
            self.berth = Berth(self._home, SCHEDULER, kubeconfig, configuration(SCHEDULER), port=self._port)
            self._start(self.berth)
            self.berth.wait_synced()
        except BaseException:
            plane.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.plane.stop()

    def _start(self, process: Process) -> None:
        process.start()
        self.plane.processes.append(process)

    def check(self) -> None:
        """Raise DiedError if a process has ended."""
        for process in self.plane.processes:
            process.check()

    # What a case has

    def build(
        self, namespaces: Sequence[Object], inside: Sequence[Object], nodes: Sequence[Object], usual: Object | None
    ) -> None:
        """Create all of it, and return when API server and Berth know it. `usual`: the PriorityClass by default."""
        api = self.plane.api
        if usual is not None:
            api.create(_CLASSES, usual)
        api.create_many("/api/v1/namespaces", namespaces)
        for made in inside:
            api.create(collection(made), made)
        api.create_many("/api/v1/nodes", nodes)
        quotas = [made for made in inside if made["kind"] == "ResourceQuota"]
        for made in quotas:
            wait_for("the quota to be counted", lambda made=made: self._is_counted(made), PATIENCE)
        if quotas:
            self._wait_for_quotas(quotas[0]["metadata"]["namespace"])
        self._wait_for_priority(0 if usual is None else usual["value"])
        self._wait_for_berth(nodes[-1]["metadata"]["name"])

    def _is_counted(self, quota: Object) -> bool:
        found = self.plane.api.get(f"{collection(quota)}/{quota['metadata']['name']}")
        return bool(found.get("status", {}).get("hard"))

    def _wait_for_quotas(self, name: str) -> None:
        """Return when admission knows all quotas that are counted by now: it hears of one that comes after them."""
        api, resource = self.plane.api, f"requests.{_PROBED}{name}"
        probe = {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}}
        probe |= {"spec": {"hard": {resource: "0"}}}
        api.create(collection(probe), probe)
        wait_for("the last quota to be counted", lambda: self._is_counted(probe), PATIENCE)
        asked = {"requests": {f"{_PROBED}{name}": "1"}, "limits": {f"{_PROBED}{name}": "1"}}
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": asked}]}}

        def refused() -> bool:
            try:
                api.create("/api/v1/namespaces/default/pods", pod, dryRun="All")
            except ApiError as error:
                return "exceeded quota" in error.message
            return False

        wait_for("admission to know the quotas", refused, PATIENCE)
        api.delete(f"{collection(probe)}/{name}", grace=None)

    def _wait_for_priority(self, value: int) -> None:
        """Return when admission gives pods this priority by default."""
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

        def given() -> bool:
            made = self.plane.api.create("/api/v1/namespaces/default/pods", pod, dryRun="All")
            return bool(made["spec"]["priority"] == value)

        wait_for("admission to know the usual priority", given, PATIENCE)

    def _wait_for_berth(self, node: str) -> None:
        """Return when Berth has bound a pod to the last node, so that it knows all of them; the pod goes again."""
        api, name, pods = self.plane.api, f"probe-{node}", "/api/v1/namespaces/default/pods"
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [selector]}}
        spec = {"containers": [{"name": "c", "image": "i"}], "affinity": {"nodeAffinity": required}}
        spec |= {"tolerations": [{"operator": "Exists"}]}
        api.create(pods, {"metadata": {"name": name}, "spec": spec})
        wait_for(f"Berth to know {node}", lambda: api.get(f"{pods}/{name}")["spec"].get("nodeName"), PATIENCE)
        api.delete(f"{pods}/{name}")

    def put(self, made: Object) -> None:
        """Create an object, or change the one that is there, as `kubectl apply` does. Raises ApiError."""
        api, metadata = self.plane.api, made["metadata"]
        if made["kind"] == "Pod":
            api.create(collection(made), made)
            return
        path = f"{collection(made)}/{metadata['name']}"
        there = api.patch(path, made, "apply", fieldManager="as-created", force="true")
        if made["kind"] == "CronJob":
            # As `kubectl create job --from` does, for nobody wants to wait for a full minute.
            owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": metadata["name"], "controller": True}
            owner["uid"] = there["metadata"]["uid"]
            job = {"kind": "Job", "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}}
            job["metadata"]["ownerReferences"] = [owner]
            api.create(collection(job), {**job, "spec": made["spec"]["jobTemplate"]["spec"]})

    def clear(self, namespaces: Sequence[str], usual: Object | None) -> None:
        """Remove what a case has made, and return when no pod of it is left."""
        api = self.plane.api
        for name in namespaces:
            for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "CronJob", "Job"):
                of_kind = f"{PATHS[kind]}/namespaces/{name}/{plural(kind)}"
                api.delete(of_kind, grace=None, propagationPolicy="Background")
            api.delete(f"/api/v1/namespaces/{name}", grace=None)

        def empty() -> bool:
            for name in namespaces:
                try:
                    api.delete(f"/api/v1/namespaces/{name}/pods")
                except ApiError as error:
                    if error.status != 404:  # the namespace is gone already
                        raise
            return not any(item["metadata"]["namespace"] in namespaces for item in api.list("/api/v1/pods"))

        wait_for("the pods to be gone", empty, PATIENCE)
        api.delete("/api/v1/nodes", grace=None)
        if usual is not None:
            api.delete(f"{_CLASSES}/{usual['metadata']['name']}", grace=None)

    # What became of it

    def pods(self, namespaces: Sequence[str]) -> list[Object]:
        """All pods there, but for those that are being deleted."""
        found = self.plane.api.list("/api/v1/pods")
        return [
            pod
            for pod in found
            if pod["metadata"]["namespace"] in namespaces and "deletionTimestamp" not in pod["metadata"]
        ]

    def still(self) -> bool:
        """Whether Berth has nothing to do: no pod is to be tried, and none waits for the end of its backoff."""
        self.check()
        request = urllib.request.Request(
            f"{self.berth.url}/metrics", headers={"Authorization": f"Bearer {self.plane.admin_token}"}
        )
        with urllib.request.urlopen(request, timeout=30, context=self._open) as answer:
            text = answer.read().decode()
        waiting = re.findall(r'^scheduler_pending_pods\{queue="(?:active|backoff)"\} (\S+)$', text, re.MULTILINE)
        assert len(waiting) == 2, text
        return not any(map(float, waiting))

    def nodes_of(self, daemon_set: Object) -> int:
        """On how many nodes its controller wants a pod."""
        found = self.plane.api.get(f"{collection(daemon_set)}/{daemon_set['metadata']['name']}")
        return int(found["status"]["desiredNumberScheduled"])

    def refusals(self, namespace: str) -> Iterator[tuple[str, str]]:
        """Who could not make a pod, as `Kind name`, and what the API server said to it."""
        for event in self.plane.api.list(f"/api/v1/namespaces/{namespace}/events"):
            if event["reason"] == "FailedCreate":
                of = event["involvedObject"]
                yield f"{of['kind']} {of['name']}", event["message"]


def plural(kind: str) -> str:
    """`replicasets`."""
    return f"{kind.lower()}s"


def collection(made: Object) -> str:
    """Where objects like this one are created."""
    return f"{PATHS[made['kind']]}/namespaces/{made['metadata']['namespace']}/{plural(made['kind'])}"
