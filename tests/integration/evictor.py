"""`berth evictor` as a process of its own, the pods that it looks after, and a ReplicaSet controller in ten lines."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from podberth.model.promise import ANNOTATION
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import objects
from tests.integration.berth import START, Berth, Harbour, configuration
from tests.integration.objects import NODES, pods_path
from tests.integration.rights import wait_granted

MANIFEST = Path(__file__).parents[2] / "manifests" / "evictor-rbac.yaml"
SSD = '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}'
BRISK: dict[str, Any] = {
    "node_rate": 100,
    "node_burst": 1000,
    "namespace_rate": 100,
    "namespace_burst": 1000,
    "cluster_rate": 100,
    "cluster_burst": 1000,
}
"""Tokens for everybody: for tests that are about something else."""


class Evictor(Berth):
    """One evictor for one test: looks after the pods of one schedulerName, leads by a Lease of its own."""

    def __init__(
        self, home: Path, scheduler_name: str, kubeconfig: Path, namespace: str, **options: float | str | bool
    ) -> None:
        name = f"evictor-{secrets.token_hex(4)}"
        self.lease = name
        super().__init__(home, scheduler_name, kubeconfig, configuration(scheduler_name))
        self.name, self.log = f"berth {name}", home / f"{name}.log"
        options = {"lease": name, **options}
        given = [
            f"--{key.replace('_', '-')}" if value is True else f"--{key.replace('_', '-')}={value}"
            for key, value in options.items()
        ]
        self.argv = [
            self.argv[0],
            "evictor",
            *(option for option in self.argv[2:] if not option.startswith(("--bind-address", "--secure-port"))),
            f"--namespace={namespace}",
            *given,
        ]

    def end(self) -> Object:
        """SIGTERM: it must end with 0, without a traceback."""
        code = self.stop(START)
        assert code == 0, f"{self.name} ended with {code}:\n{self.tail()}"
        assert "Traceback" not in self.log.read_text(errors="replace"), self.tail(60)
        (said,) = self.lines("term over")[-1:] or [{}]
        return said


def start(
    harbour: Harbour,
    cluster: Cluster,
    namespace: str,
    scheduler_name: str,
    *,
    token: str | None = None,
    **options: float | str | bool,
) -> Evictor:
    """Start an evictor and wait until it has seen everything."""
    kubeconfig = cluster.kubeconfig(harbour.home / f"evictor-{secrets.token_hex(4)}.kubeconfig", token)
    started = Evictor(harbour.home, scheduler_name, kubeconfig, namespace, **options)
    harbour.started.append(started)
    started.start()
    started.wait_synced()
    return started


def dry_run(own: Evictor) -> subprocess.CompletedProcess[str]:
    """`berth evictor --dry-run` with the account and configuration of an evictor."""
    settings = [option for option in own.argv[1:] if option.startswith(("--config", "--kubeconfig"))]
    command = [own.argv[0], "evictor", "--dry-run", "-o", "json", *settings]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def node(name: str, disk: str = "ssd") -> Object:
    """A node with this disk."""
    return objects.node(name, labels={"disk": disk})


def relabel(api: Api, name: str, disk: str) -> None:
    """Change the label that the promises read."""
    api.patch(f"{NODES}/{name}", {"metadata": {"labels": {"disk": disk}}})


def pod(name: str, on: str | None, scheduler: str, owner: str = "web", promise: str = SSD, **more: str) -> Object:
    """A pod of a ReplicaSet that asks for an SSD for as long as it runs."""
    made = objects.pod(name, scheduler, cpu="10m", memory="10Mi", labels={"app": owner, **more})
    made["metadata"]["annotations"] = {ANNOTATION: promise}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}
    ]
    if on is not None:
        made["spec"]["nodeName"] = on
    return made


def runs(api: Api, namespace: str, name: str) -> None:
    """Do a kubelet's work: the pod runs and is ready, so that its budget counts."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [ready]}
    api.patch(f"{pods_path(namespace)}/{name}/status", {"status": status}, kind="strategic")


def evictions(cluster: ControlPlane, namespace: str) -> Counter[tuple[str, int]]:
    """(UID in the precondition, answer) → how often it was asked for, by the audit."""
    found: Counter[tuple[str, int]] = Counter()
    for entry in cluster.audit_events("/eviction", namespace):
        reference = entry.get("objectRef", {})
        if reference.get("subresource") == "eviction" and reference["namespace"] == namespace:
            uid = entry["requestObject"]["deleteOptions"]["preconditions"]["uid"]
            found[uid, entry["responseStatus"]["code"]] += 1
    return found


def evicted(cluster: ControlPlane, namespace: str, wanted: Counter[tuple[str, int]]) -> None:
    """These evictions were asked for, and no others. A pod is gone a moment before its eviction is in the log."""
    what = f"the audit of {wanted.total()} evictions"
    found = wait_for(what, lambda: one if wanted <= (one := evictions(cluster, namespace)) else None, 120)
    assert found == wanted


def told(api: Api, reason: str, name: str, namespace: str = "") -> list[Object]:
    """The evictor's Events of this reason about objects of this name."""
    path = f"/apis/events.k8s.io/v1/{f'namespaces/{namespace}/' if namespace else ''}events"
    return api.list(path, fieldSelector=f"reason={reason},regarding.name={name}")


@contextlib.contextmanager
def rights(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A token for the account of manifests/evictor-rbac.yaml, in this namespace."""
    unique = f"berth-evictor-{secrets.token_hex(4)}"
    text = MANIFEST.read_text().replace("namespace: berth\n", f"namespace: {namespace}\n")
    text = text.replace("name: berth-evictor\n", f"name: {unique}\n")
    cluster.kubectl("apply", "-f", "-", stdin=text)
    try:
        token = cluster.service_account_token(namespace, unique)
        wait_granted(cluster, token, yaml.safe_load_all(text))
        yield token
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)


@contextlib.contextmanager
def replicas(api: Api, namespace: str) -> Iterator[None]:
    """While it runs, whoever leaves the namespace comes back under a name of its own, unbound."""
    path = pods_path(namespace)
    since = api.get(path, limit=1)["metadata"]["resourceVersion"]
    stopping = threading.Event()

    def follow() -> None:
        with contextlib.suppress(TimeoutError, OSError, ValueError):
            for event in api.watch(path, resourceVersion=since, idle=600):
                if stopping.is_set():
                    return
                if event["type"] == "DELETED":
                    with contextlib.suppress(ApiError):
                        api.create(path, successor(event["object"], f"new-{secrets.token_hex(6)}"))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()


def successor(old: Object, name: str) -> Object:
    """The pod that a controller makes in place of one that is gone."""
    spec = {key: value for key, value in old["spec"].items() if key not in ("nodeName", "tolerations")}
    kept = {key: old["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    return {"metadata": {"name": name, **kept}, "spec": spec}


def wait_gone(api: Api, namespace: str, name: str, uid: str) -> None:
    """Wait until this very pod is there no more."""

    def gone() -> bool:
        try:
            found: bool = api.get(f"{pods_path(namespace)}/{name}")["metadata"]["uid"] != uid
        except ApiError as error:
            return error.status == 404
        return found

    wait_for(f"{name} to be gone", gone, 120)
