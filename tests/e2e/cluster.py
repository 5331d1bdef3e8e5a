"""A whole cluster without containers: control plane, controllers, nodes whose kubelet is kwok, and one scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.e2e.build import COMMANDS, HERE, kwok_stages
from tests.e2e.suites import BERTH_GATES, GATES, VERSIONS
from tests.integration.berth import Berth, configuration

NODES = 4
SCHEDULERS = ("kube-scheduler", "berth")
_EVERYBODYS = "default-scheduler"


class WholeCluster:
    """One scheduler, kube-scheduler or Berth, is the default scheduler of a cluster with controllers and four nodes.

    A context manager; `home` gets Berth's log, which stays.
    """

    def __init__(self, scheduler: str, gated: bool, home: Path) -> None:
        self._scheduler = scheduler
        self._gates = GATES if gated else ()
        self._home = home
        versions = [f"--runtime-config={','.join(f'{version}=true' for version in VERSIONS)}"] if gated else []
        self._plane = ControlPlane(
            # Pods of these tests are privileged.
            apiserver_args=["--allow-privileged=true", *self._feature_gates(), *versions],
            without_admission=(),
        )
        self.kubeconfig = self._plane.directory / "admin.kubeconfig"
        self.kubectl = self._plane.tool("kubectl")

    def __enter__(self) -> WholeCluster:
        self._plane.__enter__()
        try:
            self._plane.kubeconfig(self.kubeconfig)
            more = ["--allocate-node-cidrs=true", "--cluster-cidr=10.64.0.0/14", *self._feature_gates()]
            self._start(controller_manager(self._plane, "--use-service-account-credentials=true", *more))
            self._plane.api.create_many("/api/v1/nodes", [_node(number) for number in range(1, NODES + 1)])
            self._start(kwok(self._plane))
            wait_for("the nodes to be ready", self._ready)
            self._start_scheduler()
        except BaseException:
            self._plane.stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._plane.stop()

    def check(self) -> None:
        """Raise DiedError if a process of the cluster has ended."""
        for process in self._plane.processes:
            process.check()

    def _start(self, process: Process) -> None:
        process.start()
        self._plane.processes.append(process)

    def _start_scheduler(self) -> None:
        """Start it with kube-scheduler's own rights, whichever it is."""
        if self._scheduler == "kube-scheduler":
            self._plane.start_kube_scheduler(scheduler_name=_EVERYBODYS, gates=self._gates)
            return
        kubeconfig = self._plane.kubeconfig(self._plane.directory / "berth.kubeconfig", self._plane.scheduler_token())
        profile = {"schedulerName": _EVERYBODYS, **(BERTH_GATES if self._gates else {})}
        berth = Berth(self._home, _EVERYBODYS, kubeconfig, configuration(_EVERYBODYS, profiles=[profile]))
        self._start(berth)
        berth.wait_synced()

    def _feature_gates(self) -> Sequence[str]:
        return [f"--feature-gates={','.join(f'{gate}=true' for gate in self._gates)}"] if self._gates else []

    def _ready(self) -> bool:
        self.check()
        return all(_is_ready(node) for node in self._plane.api.list("/api/v1/nodes"))


def controller_manager(plane: ControlPlane, *more: str) -> Process:
    """kube-controller-manager, to be started, as administrator. `more`: options."""
    place = plane.directory
    return Process(
        "kube-controller-manager",
        [
            COMMANDS.built() / "kube-controller-manager",
            f"--kubeconfig={plane.kubeconfig(place / 'admin.kubeconfig')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={place / 'controller-manager'}",
            f"--service-account-private-key-file={plane.service_account_key}",
            f"--root-ca-file={plane.ca}",
            *more,
        ],
        place / "controller-manager.log",
    )


def kwok(plane: ControlPlane) -> Process:
    """The kubelet of all nodes, to be started."""
    place = plane.directory
    stages = place / "stages.yaml"
    stages.write_text("\n---\n".join(file.read_text() for file in (*kwok_stages(), HERE / "kubelet.yaml")))
    return Process(
        "kwok",
        [
            COMMANDS.built() / "kwok",
            f"--kubeconfig={plane.kubeconfig(place / 'admin.kubeconfig')}",
            f"--config={stages}",
            "--manage-all-nodes=true",
            "--cidr=10.244.0.1/24",
            "--node-ip=10.99.0.1",
            "--node-lease-duration-seconds=40",
        ],
        place / "kwok.log",
    )


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", ())
    return not node["spec"].get("taints") and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _node(number: int) -> Object:
    name = f"node-{number}"
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "region",
                "topology.kubernetes.io/zone": f"zone-{number % 2}",
            },
        },
        "status": {"capacity": amounts, "allocatable": amounts, "nodeInfo": _SYSTEM},
    }


# Tests ask a node for its release, and the API server wants all of these.
_SYSTEM = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": "v1.37.0",
    "kubeProxyVersion": "v1.37.0",
    "containerRuntimeVersion": "containerd://2.0.0",
    "kernelVersion": "6.1.0",
    "osImage": "none",
    "bootID": "",
    "machineID": "",
    "systemUUID": "",
}
