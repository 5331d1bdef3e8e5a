"""Kueue on a control plane, installed by its own manifests, with its own rights, certificates and webhooks."""

from __future__ import annotations

import contextlib
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.beside.build import kueue_module
from tests.integration.beside.writes import Writes

QUEUE = "kueue.x-k8s.io/queue-name"
SYSTEM = "kueue-system"
ROOT = "/apis/kueue.x-k8s.io/v1beta2"
_WEBHOOKS = "kueue-webhook-service"
_LEFT_OUT = ("Deployment", "APIService", "Service")
"""The manager is a process here; nobody asks for its queue's order; the webhooks' Service is another one."""
START = 120.0
READY_WITHIN = 20
"""Seconds that Kueue gives a workload to be ready."""


class Queued(NamedTuple):
    """A control plane with Kueue, and what Kueue writes to its pods."""

    cluster: ControlPlane
    writes: Writes


@contextlib.contextmanager
def running(command: Path, cluster: ControlPlane, home: Path) -> Iterator[Queued]:
    """Run Kueue until the block ends.

    The kubelet's part is done here: the Secret that Kueue fills with its certificates becomes files. The API server
    finds the webhooks by the Service that the manifests name; it is one of type ExternalName, as there is no network of
    pods.
    """
    port, certificates = free_port(), home / "certificates"
    certificates.mkdir()
    _install(cluster, port)
    config = home / "kueue.yaml"
    config.write_text(yaml.safe_dump(_configuration(port, certificates)))
    token = cluster.service_account_token(SYSTEM, "kueue-controller-manager")
    with Writes(cluster, token) as writes:
        kubeconfig = writes.kubeconfig(home / "kueue.kubeconfig")
        manager = Process(
            "kueue",
            [command, f"--config={config}", "--zap-log-level=2"],
            home / "kueue.log",
            env={"KUBECONFIG": str(kubeconfig), "HOME": str(home)},
        )
        manager.start()
        cluster.processes.append(manager)
        _mount(cluster.api, manager, certificates)
        wait_for("Kueue's webhooks", lambda: _answers(cluster.api, manager), START)
        yield Queued(cluster, writes)
        assert manager.stop() == 0, manager.tail()


def _install(cluster: ControlPlane, port: int) -> None:
    told = cluster.kubectl("kustomize", str(kueue_module() / "config" / "default")).stdout
    documents = [one for one in yaml.safe_load_all(told) if one["kind"] not in _LEFT_OUT]
    for document in documents:
        for webhook in document.get("webhooks", ()):
            webhook["clientConfig"]["service"]["port"] = port
        conversion = document.get("spec", {}).get("conversion", {}).get("webhook")
        if conversion:
            conversion["clientConfig"]["service"]["port"] = port
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _WEBHOOKS, "namespace": SYSTEM},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    text = yaml.safe_dump_all([*documents, service])
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text, timeout=START)
    for name in ("clusterqueues", "localqueues", "workloads"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}.kueue.x-k8s.io")


def _configuration(port: int, certificates: Path) -> Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 200, "burst": 400},
        "featureGates": {"VisibilityOnDemand": False},
        "waitForPodsReady": {
            "timeout": f"{READY_WITHIN}s",
            "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 1, "backoffMaxSeconds": 1},
        },
        "integrations": {"frameworks": ["batch/job", "pod"]},
    }


def _mount(api: Api, manager: Process, certificates: Path) -> None:
    """Write the Secret's files once Kueue has filled it, as a kubelet does."""

    def filled() -> dict[str, str]:
        manager.check()
        data: dict[str, str] = api.get(f"/api/v1/namespaces/{SYSTEM}/secrets/kueue-webhook-server-cert").get("data", {})
        return data

    for name, value in sorted(wait_for("Kueue's certificates", filled, START).items()):
        (certificates / name).write_bytes(b64decode(value))


def _answers(api: Api, manager: Process) -> bool:
    """Whether an object that its webhooks are asked about is taken."""
    manager.check()
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    try:
        api.create(f"{ROOT}/resourceflavors", flavor, dryRun="All")
    except ApiError:
        return False
    return True


def make_queue(
    api: Api, namespace: str, name: str, cpu: str, labels: dict[str, str], levels: Sequence[str] = ()
) -> None:
    """Create a LocalQueue of this name, and all it needs: so much CPU on nodes with these labels, by these levels."""
    spec: dict[str, Any] = {"nodeLabels": labels}
    if levels:
        topology = {"levels": [{"nodeLabel": level} for level in levels]}
        api.create(f"{ROOT}/topologies", _kind("Topology", name, topology))
        spec["topologyName"] = name
    api.create(f"{ROOT}/resourceflavors", _kind("ResourceFlavor", name, spec))
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "100Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": quotas}]}
    api.create(
        f"{ROOT}/clusterqueues", _kind("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group]})
    )
    api.create(f"{ROOT}/namespaces/{namespace}/localqueues", _kind("LocalQueue", name, {"clusterQueue": name}))


def workload(api: Api, namespace: str, owner: str) -> Object:
    """Return the Workload of a Job, pod or pod group, {} while there is none."""
    for found in api.list(f"{ROOT}/namespaces/{namespace}/workloads"):
        names = [found["metadata"]["name"], *(one["name"] for one in found["metadata"].get("ownerReferences", ()))]
        if owner in names:
            return found
    return {}


def _kind(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
